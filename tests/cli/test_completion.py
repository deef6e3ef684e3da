"""What Tab offers: the shells' own question, answered by the real program, and a real bash."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys

import pytest

from shepherd.cli import completion
from shepherd.cli.main import COMMANDS, parser_of
from shepherd.commands.screen import Screen
from shepherd.config import SETTINGS


@pytest.fixture
def offered(home):
    """What is offered at the end of a line, as argcomplete's scripts ask for it."""

    def ask(line: str) -> list[str]:
        read, write = os.pipe()
        variables = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_SHELL": "bash",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "COMP_TYPE": "9",
        }
        script = f'exec 8>&{write}; exec "{sys.executable}" -m shepherd'
        done = subprocess.run(
            ["bash", "-c", script],
            env={**home.environment, **variables},
            pass_fds=[write],
            capture_output=True,
            check=False,
        )
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as answer:
            offers = answer.read().split("\n")
        assert done.stdout == b""
        return [offer.strip() for offer in offers if offer]

    return ask


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("shepherd me", {"memory"}),
        ("shepherd ", {"memory", "facts", "tui"}),
        ("shepherd --no", {"--nomemory", "--norag"}),
        ("shepherd memory se", {"search"}),
        ("shepherd memory list --", {"--limit", "--json", "--memory-db"}),
        ("shepherd config set temp", {"temperature"}),
        ("shepherd provider use ", {"local"}),
        ("shepherd completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_commands_options_and_names_are_offered(offered, line, among):
    assert among <= set(offered(line))


def test_a_command_that_is_not_complete_yet_is_no_other_one(offered):
    assert offered("shepherd model") == ["model"]


def test_facts_are_offered_by_their_keys(offered, shepherd):
    shepherd("facts", "set", "favourite_color", "blue")

    assert offered("shepherd facts get fav") == ["favourite_color"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_accepts(shepherd, shell, tmp_path):
    done = shepherd("completion", shell)

    assert done.returncode == 0
    assert "shepherd" in done.stdout
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.stdout, encoding="utf-8")
        assert subprocess.run([shell, "-n", script], capture_output=True, check=False).returncode == 0


def test_an_unknown_shell_is_a_mistake(shepherd):
    done = shepherd("completion", "tcsh")

    assert done.returncode == 2
    assert "tcsh" in done.stderr


NAMES = {
    "_models": {("chat", "setting_model"), ("context build", "setting_model"), ("doctor", "setting_model"),
                ("model rm", "name"), ("model show", "name"), ("serve", "setting_model"),
                ("tui", "setting_model")},
    "_providers": {("chat", "setting_provider"), ("provider remove", "name"), ("provider set", "name"),
                   ("provider show", "name"), ("provider test", "name"), ("provider use", "name"),
                   ("serve", "setting_provider"), ("tui", "setting_provider")},
    "_fragments": {("chat", "fragment")},
    "_saved_fragments": {("fragment edit", "name"), ("fragment show", "name")},
    "_templates": {("chat", "template"), ("template edit", "name"), ("template show", "name")},
    "_conversations": {("chat", "resume"), ("conversations delete", "names"),
                       ("conversations rename", "name"), ("conversations show", "name"), ("tui", "resume")},
    "_facts": {("facts clear", "key"), ("facts get", "key"), ("facts history", "key"), ("facts set", "key")},
    "_values": {("config set", "value")},
    "_settings": {("config get", "key"), ("config set", "key"), ("config unset", "key")},
}  # fmt: skip


def test_every_argument_that_is_a_name_has_the_names_that_there_are():
    found: dict[str, set[tuple[str, str]]] = {}

    def look(parser):
        for action in parser._actions:
            if isinstance(action.choices, dict):
                for child in action.choices.values():
                    look(child)
            elif names := completion._completer_of(parser.prog, action):
                place = (parser.prog.removeprefix("shepherd "), action.dest)
                found.setdefault(names.__name__, set()).add(place)

    for command in COMMANDS:
        look(parser_of(command))

    assert found == NAMES


def test_settings_are_offered_with_their_help():
    [key] = [action for action in parser_of("config")._actions if isinstance(action.choices, dict)]
    [name] = [one for one in key.choices["set"]._actions if one.dest == "key"]

    offers = completion._completer_of("shepherd config set", name)(prefix="")

    assert offers["temperature"] == SETTINGS["temperature"].help


@pytest.mark.parametrize(
    ("line", "point", "is_beyond"),
    [("shepherd model ", 15, True), ("shepherd model", 14, False), ("shepherd model x", 14, False)],
)
def test_a_command_is_complete_where_the_cursor_has_left_it(line, point, is_beyond, monkeypatch):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(point))

    assert completion._is_beyond("model") is is_beyond


def test_a_person_is_told_where_the_script_goes_and_a_file_gets_the_script_alone():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def told(*words: str, out: io.StringIO) -> tuple[str, str]:
        screen = Screen(out, io.StringIO())
        assert completion.execute(completion.build_parser().parse_args(list(words)), screen) == 0
        return out.getvalue(), screen.err.getvalue()

    script, note = told("bash", out=io.StringIO())
    assert "complete" in script
    assert note == ""
    assert told("bash", out=Terminal())[1] == f"{completion._WHERE['bash']}\n"
    assert json.loads(told("zsh", "--json", out=Terminal())[0]) == told("zsh", out=io.StringIO())[0][:-1]


def test_facts_are_those_of_the_user_and_the_memory_that_were_named(offered, shepherd, tmp_path):
    shepherd("facts", "set", "dog_name", "Rex")
    shepherd("facts", "set", "cat_name", "Tom", "--user", "anna")
    shepherd("facts", "set", "bird_name", "Pip", "--memory-db", tmp_path / "other.db")

    other = f"--memory-db {tmp_path}/other.db"
    assert offered("shepherd facts get --user anna cat") == ["cat_name"]
    assert offered(f"shepherd facts get {other} bird") == ["bird_name"]
    assert offered(f"shepherd facts get {other} dog") == []


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("shepherd config tempera", "temperature"),
        ("shepherd config c", "context_entities"),
        ("shepherd config se", "server_models"),
        ("shepherd config se", "set"),
        ("shepherd config role exe", "executor"),
        ("shepherd config set role exe", "executor"),
        ("shepherd config set archive_turns f", "false"),
    ],
)
def test_settings_are_completed_without_an_action_and_their_values_too(offered, line, among):
    assert among in [one.strip() for one in offered(line)]

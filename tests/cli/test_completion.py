"""What Tab offers: the shells' own question, answered by the real program, and a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest


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

"""What can be found out without a model: help, versions, mistakes on the command line."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from shepherd.cli.examples import _EXAMPLES, examples_of
from shepherd.cli.main import COMMANDS, main, parser_of
from shepherd.commands.screen import fitted
from shepherd.commands.slash import COMMANDS as SLASH_COMMANDS
from tests import programs
from tests.cli.conftest import NEEDS_DEV_FULL, Home


def leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parser itself and those of its actions, at any depth."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found += leaves(child)
    return found


ALL_PARSERS = [leaf for command in COMMANDS for leaf in leaves(parser_of(command))]


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shepherd", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False, **options)


def forked(*arguments: str, home: Home) -> subprocess.CompletedProcess[str]:
    """The same without a start of its own."""
    return programs.run(
        [sys.executable, "-m", "shepherd", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60, env=home.environment,
    )  # fmt: skip


def test_help_goes_to_stdout_and_names_every_command():
    done = run("--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n  {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("parser", ALL_PARSERS, ids=lambda parser: parser.prog.replace(" ", "-"))
def test_every_option_is_documented(parser):
    undocumented = [
        action.dest
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]

    assert undocumented == []
    assert all(name in parser.format_help() for action in parser._actions for name in action.option_strings)


@pytest.mark.parametrize("parser", ALL_PARSERS, ids=lambda parser: parser.prog.replace(" ", "-"))
def test_every_command_that_does_something_can_print_json(parser):
    has_actions = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)

    assert has_actions or "--json" in parser._option_string_actions


@pytest.mark.parametrize("parser", ALL_PARSERS, ids=lambda parser: parser.prog.replace(" ", "-"))
def test_help_has_examples_that_are_right(parser):
    help = parser.format_help()

    _, heading, examples = help.rpartition("example")
    assert heading
    for line in re.findall(r"(?m)(?:^  |\| )(shepherd .*)", examples):
        command = re.split(r"  +| [|>] ", line)[0]
        name, *arguments = shlex.split(re.sub(r"\$\([^)]*\)", "x", command), comments=True)[1:]
        if name not in COMMANDS:
            name, arguments = "chat", [name, *arguments]
        parser_of(name).parse_args(arguments)


@pytest.mark.parametrize("columns", [72, 80, 100, 140])
def test_help_fits_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    pages = {parser.prog: parser.format_help() for parser in ALL_PARSERS}
    pages["shepherd"] = run("--help", env={**os.environ, "COLUMNS": str(columns)}).stdout

    for name, page in pages.items():
        for line in page.splitlines():
            is_usage = line.startswith((" " * 7, "usage:"))  # argparse splits it between options alone
            is_command = re.fullmatch(r"  \S+( \S+)*", line)  # must be copied in one piece
            assert len(line) <= columns or is_usage or is_command, (name, line)


def test_a_help_text_is_fitted_by_paragraphs_and_columns():
    text = "one two three four five\nsix seven eight nine ten.\n\nlist:\n"
    text += "  name  explained in many words that go on\n"
    text += "  a command that is much longer  explained"

    assert fitted(text, 40).splitlines() == [
        "one two three four five six seven eight",
        "nine ten.",
        "",
        "list:",
        "  name  explained in many words that go",
        "        on",
        "  a command that is much longer",
        "      explained",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_on_stdout(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert f"usage: shepherd {command}" in capsys.readouterr().out


def test_every_slash_command_is_explained():
    for name, command in SLASH_COMMANDS.items():
        assert command.usage.split()[0] == f"/{name}"
        assert command.help


def test_help_loads_neither_model_nor_terminal_libraries():
    code = (
        "import sys; from shepherd.cli.main import main; main(['--help']);"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    loaded = set(done.stderr.split())

    assert not loaded & {"llama_cpp", "numpy", "jinja2", "prompt_toolkit", "rich", "pyroaring", "asyncio"}


def test_the_version_is_the_packages():
    import shepherd

    assert run("--version").stdout == f"shepherd {shepherd.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["memroy"], "there is no command 'memroy'", "did you mean memory"),
        (["frobnicate"], "there is no command 'frobnicate'", "commands: chat, tui"),
        (["memory", "serch", "x"], "there is no action 'serch'", "did you mean search?"),
        (["memory", "frobnicate"], "there is no action 'frobnicate'", "actions: list, search"),
        (["provider", "add", "x", "opnai"], "argument KIND: invalid choice: 'opnai'", "did you mean openai?"),
        (["-p", "openai", "-e", "x"], "there is no provider 'openai'", "shepherd provider add openai openai"),
        (["chat", "--tempreature", "1"], "unrecognized arguments: --tempreature 1", "shepherd chat --help"),
        (["chat", "--temp", "1"], "unrecognized arguments: --temp 1", "shepherd chat --help"),
        (["memory", "list", "--most"], "unrecognized arguments: --most", "shepherd memory list --help"),
        (["--top-k", "many"], "argument --top-k: expected a whole number from 0", "shepherd chat --help"),
        (["memory", "show", "first"], "argument ID: 'first' is not an id", "shepherd memory show --help"),
        (["mcp", "--http", "--port", "99999"], "argument --port: expected a whole number", "mcp --help"),
        (["config", "get", "top_kk"], 'there is no setting "top_kk"', "did you mean top_k"),
        (["config", "set", "top_k", "-1"], 'top_k is "-1"; expected a whole number', "config set"),
        (["-m", "nowhere.gguf", "-e", "hello"], "nowhere.gguf: there is no such file", "-m or the setting"),
        (["-m", "x.gguf", "-e", " "], "nothing was asked", "-e"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_on_stderr_with_its_remedy_and_exit_code_2(arguments, message, hint, home):
    done = forked(*arguments, home=home)

    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert lines[0].startswith(f"shepherd: error: {message}")
    assert hint in lines[1]
    assert len(lines) == 2


@pytest.mark.parametrize("options", [[], ["--json"], ["--user", "anna"]])
@pytest.mark.parametrize("command", ["memory", "knowledge", "trace"])
def test_a_command_without_its_action_lists_the_actions_that_it_has(command, options, home):
    done = forked(*options, command, home=home)

    first, *lines, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert first == f"shepherd: error: shepherd {command} needs an action"
    assert [line.split()[0] for line in lines] == list(parser_of(command).actions.choices)
    assert all(len(line.split()) > 2 for line in lines)
    assert last == f"  shepherd {command} ACTION --help explains one"


def test_text_on_stdin_that_is_not_utf8_is_refused_with_its_place(home):
    done = subprocess.run(
        [sys.executable, "-m", "shepherd", "-m", "x.gguf"],
        input=b"caf\xe9", capture_output=True, env=home.environment, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert b"stdin: byte 3 of 4 bytes is not UTF-8" in done.stderr
    assert b"iconv" in done.stderr


def test_an_argument_that_is_not_utf8_is_refused(home):
    done = subprocess.run(
        [sys.executable, "-m", "shepherd", "-m", "x.gguf", "-e", b"caf\xe9"],
        stdin=subprocess.DEVNULL, capture_output=True, env=home.environment, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert b"-e: character 3 is not valid text" in done.stderr


def test_a_reader_that_has_had_enough_is_no_error(home):
    done = subprocess.run(
        f"{sys.executable} -m shepherd config show --explain | head -1",
        shell=True, capture_output=True, encoding="utf-8", env=home.environment, check=False,
    )  # fmt: skip

    assert done.stdout.startswith("model\t")
    assert done.stderr == ""


def test_a_closed_stdout_is_no_crash(home):
    done = subprocess.run(
        f"{sys.executable} -m shepherd config path >&-",
        shell=True, capture_output=True, encoding="utf-8", env=home.environment, check=False,
    )  # fmt: skip

    assert "Traceback" not in done.stderr


@NEEDS_DEV_FULL
def test_a_full_device_behind_stdout_is_a_failure_and_no_crash(home):
    done = subprocess.run(
        f"{sys.executable} -m shepherd config show --explain > /dev/full",
        shell=True, capture_output=True, encoding="utf-8", env=home.environment, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def test_notes_of_examples_stand_in_one_column_behind_the_longest_command():
    for prog, rows in _EXAMPLES.items():
        noted = [row for row in rows if not isinstance(row, str) and row[1]]
        width = max((len(line) for line, _ in noted), default=0)
        shown = examples_of(prog).splitlines()
        assert {f"  {line:{width}}  {note}" for line, note in noted} <= set(shown)


def test_a_result_names_a_command_that_runs_where_path_does_not_have_the_program(shepherd, home):
    path = "/usr/bin:/bin"
    own = re.compile(r"([^\s(]+/bin/shepherd) encrypt")
    shepherd("facts", "set", "colour", "blue")

    stats = shepherd("memory", "stats", PATH=path).stdout
    [row] = [line for line in stats.splitlines() if line.startswith("encryption")]
    assert own.search(row), row
    assert os.access(own.search(row)[1], os.X_OK)


def examples_in(page: str) -> list[str]:
    """Commands of a help text below `examples:`, without what explains them."""
    _, heading, rest = page.rpartition("\nexamples:\n")
    lines = rest.split("\n\n")[0].splitlines() if heading else []
    return [re.split(r"  +", line.strip())[0] for line in lines if re.match(r"  \S", line)]


@pytest.mark.parametrize("columns", [80, 140])
def test_examples_of_every_help_begin_with_a_program_that_path_need_not_have(columns, monkeypatch, tmp_path):
    own = f"{sys.prefix}/bin/shepherd"
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    named = {parser.prog: parser.format_help() for parser in ALL_PARSERS}
    named["shepherd"] = run("--help").stdout

    for prog, page in named.items():
        commands = examples_in(page)
        assert commands or prog == "shepherd completion", prog
        for command in commands:
            assert own in command or command.startswith("OPENAI_BASE_URL="), (prog, command)
            assert not re.search(r"(?:^|\s|[(;|])shepherd(?:\s|$)", command), (prog, command)
        # What explains them is not lost, and stands in one column, or below each.
        shown = page.rpartition("\nexamples:\n")[2]
        columns_of_notes = re.findall(r"(?m)^(  .*bin/shepherd .*\S  +)\S", shown)
        assert len(set(map(len, columns_of_notes))) <= 1, (prog, page)
        # Nor does any other line name a command that only PATH would find.
        below = page.split("\n\n", 1)[1] if page.startswith("usage:") else page
        assert not re.search(rf"(?<![\w./-])shepherd (?:-|(?:{'|'.join(COMMANDS)})\b)", below), (prog, below)
    assert "chat in the browser" in named["shepherd"]
    assert "  shepherd   another Shepherd" in named["shepherd provider"]


def test_an_example_of_a_help_runs_where_path_does_not_have_the_program(shepherd, home):
    path = "/usr/bin:/bin"
    [command] = examples_in(shepherd("config", "show", "--help", PATH=path).stdout)
    environment = {**home.environment, "PATH": path}

    done = subprocess.run(
        command, shell=True, env=environment, capture_output=True, encoding="utf-8", check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "temperature" in done.stdout


def test_an_assistant_is_told_to_start_a_program_that_it_finds(shepherd):
    page = shepherd("mcp", "--help", PATH="/usr/bin:/bin").stdout
    [line] = [line for line in page.splitlines() if "mcpServers" in line]

    command = json.loads(line)["mcpServers"]["shepherd"]["command"]
    assert os.path.isabs(command)
    assert subprocess.run([command, "--version"], capture_output=True, check=False).returncode == 0


def test_a_hint_names_a_command_that_runs_where_path_does_not_have_the_program(shepherd, home):
    path = "/usr/bin:/bin"

    done = shepherd("facts", "list", PATH=path)
    hint = re.fullmatch(r"no facts yet; (.+) facts set KEY VALUE sets one\n", done.stderr)
    assert hint
    environment = {**home.environment, "PATH": path}
    command = f"{hint[1]} facts set colour blue"
    subprocess.run(command, shell=True, env=environment, check=True, capture_output=True)

    assert shepherd("facts", "list").stdout.startswith("colour\tblue")
    wrong = shepherd("provider", "use", "nobody", PATH=path)
    assert f"{hint[1]} provider list" in wrong.stderr

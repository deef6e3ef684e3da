"""Every command of the documents is run: real programs, a home of its own for each document, top to bottom.

What stands outside is on loopback: the hub, the provider, PostgreSQL. tables.py says what is run for which;
what installs or compiles is run by installation.py.
"""

from __future__ import annotations

import re
import sys
from argparse import _SubParsersAction
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.cli.main import COMMANDS, parser_of
from shepherd.cli.parsing import Parser
from tests.docs.commands import (
    DOCUMENTS,
    ROOT,
    commands_of,
    inline_commands,
    inline_extras,
    inline_programs,
)
from tests.docs.reader import Reader
from tests.docs.tables import INSTALLING, INSTEAD, NEEDS, PREPARED, THE_GATE, steps_of

ALL = {document: commands_of(document) for document in DOCUMENTS}
WITH_COMMANDS = [document for document, commands in ALL.items() if commands]


@pytest.fixture
def reader(tmp_path, files, hub) -> Iterator[Callable[..., Reader]]:
    readers = []

    def new(**given: str) -> Reader:
        binaries = Path(sys.executable).parent
        readers.append(Reader(tmp_path, files, binaries, {"HF_ENDPOINT": hub.endpoint, **given}))
        return readers[-1]

    yield new
    for one in readers:
        one.close()


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_document_work_from_top_to_bottom(document, reader, addressed):
    follower = reader()
    for line in steps_of(ALL[document], installing=False):
        follower.follow(addressed(line))
    follower.close()


def test_tables_have_no_command_that_no_document_has():
    shown = {command.text for commands in ALL.values() for command in commands}

    assert {*INSTALLING, *INSTEAD, *NEEDS, *THE_GATE} - shown == set()
    assert set(PREPARED) - {command.document for commands in ALL.values() for command in commands} == set()


def test_each_command_has_one_place_where_it_is_run():
    tables = [set(INSTALLING), set(INSTEAD), set(THE_GATE)]

    assert set.intersection(*tables[:2]) == tables[2] & tables[0] == tables[2] & tables[1] == set()
    assert all(INSTALLING.values())
    assert all(INSTEAD.values())


def test_what_few_machines_can_do_is_run_as_it_stands():
    assert {command for command in NEEDS if command not in INSTALLING.get(command, ())} == set()


def test_the_gate_runs_the_tests_and_what_installs():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert re.search(r'^python3 tools/test "\$\{environment\[@\]\}" </dev/null >', script, re.MULTILINE)
    assert re.search(r"^ +python3 tools/test .*tests/docs/installation\.py$", script, re.MULTILINE)
    assert (ROOT / "tests" / "docs" / "installation.py").exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_extras_in_the_text_are_those_of_the_package(document):
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    extras = set(re.findall(r"^(\w+) = \[", metadata, re.MULTILINE))

    assert inline_extras(document) <= extras


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_the_text_are_there_with_their_options(document):
    found = {text: unknown_of(text.split()) for text in inline_commands(document)}

    assert {text: unknown for text, unknown in found.items() if unknown} == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tools_in_the_text_are_there(document):
    recipes = re.findall(r"^(\w+).*:", (ROOT / "justfile").read_text(encoding="utf-8"), re.MULTILINE)
    missing = []
    for text in inline_programs(document):
        words = [word for word in text.split() if "=" not in word and word != "python"]
        is_there = words[1] in recipes if words[0] == "just" else (ROOT / words[0]).exists()
        missing += [] if is_there else [text]

    assert missing == []


def unknown_of(words: list[str]) -> list[str]:
    """Subcommands and options of a `shepherd` command that there are not."""
    words = [word.strip(",;") for word in words[1:]]
    if words and words[0] in COMMANDS:
        parser = parser_of(words.pop(0))
    elif words and re.fullmatch(r"[a-z]+", words[0]):
        return words[:1]
    else:
        parser = parser_of("chat")
    while words and (subcommands := _subcommands(parser)) and re.fullmatch(r"[a-z]+", words[0]):
        if words[0] not in subcommands:
            return words[:1]
        parser = subcommands[words.pop(0)]
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [
        one for one in options if one not in parser._option_string_actions and one not in ("--version", "-V")
    ]


def _subcommands(parser: Parser) -> dict[str, Parser]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            return action.choices
    return {}

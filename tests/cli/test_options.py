"""Every command's arguments and options, with their defaults, choices and ranges, are those in options.txt.

They are an interface: scripts break where one is gone or means something else. After a change that is meant:

    .venv/bin/python -m tests.cli.test_options > tests/cli/options.txt
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

# These imports tell tools/mutants whose options are tested here.
from shepherd.cli import (  # noqa: F401
    apikey,
    bench,
    chat,
    completion,
    config,
    context,
    conversations,
    decrypt,
    demo,
    doctor,
    encrypt,
    eval,
    facts,
    fragment,
    knowledge,
    mcp,
    memory,
    model,
    parsing,
    provider,
    serve,
    sync,
    template,
    tools,
    trace,
    tui,
)  # fmt: skip
from shepherd.cli.main import COMMANDS, parser_of
from shepherd.cli.parsing import COUNT, ID, whole_number

LISTED = Path(__file__).with_name("options.txt")


def described(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a line for each argument of a command and of its actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield f"{parser.prog} ACTION required={action.required}"
            for child in action.choices.values():
                yield from described(child)
        elif not isinstance(action, argparse._HelpAction):
            yield f"{parser.prog} {' '.join(action.option_strings) or action.dest}{_of(action)}"
    for group in parser._mutually_exclusive_groups:
        names = " | ".join(action.option_strings[0] for action in group._group_actions)
        yield f"{parser.prog} one of: {names} required={group.required}"


def _of(action: argparse.Action) -> str:
    kind = type(action).__name__.strip("_").removesuffix("Action")
    parts = ["" if kind == "Store" else kind, f"metavar={action.metavar}" if action.metavar else ""]
    parts += [f"nargs={action.nargs}"] if action.nargs is not None else []
    parts += [f"default={action.default!r}"] if action.default is not None else []
    parts += [f"const={action.const!r}"] if action.const is not None and kind == "Store" else []
    parts += [f"choices={','.join(map(str, action.choices))}"] if action.choices is not None else []
    parts += ["required"] if action.option_strings and action.required else []
    if action.type in (int, float, str):
        parts.append(action.type.__name__)
    elif callable(action.type):
        parts.append(f"({_expected(action.type)})")
    return "".join(f" {part}" for part in parts if part)


def _expected(read: object) -> str:
    """Return what the reader of a value says about one that nobody could mean."""
    try:
        value = read("\0")  # type: ignore[operator]
    except Exception as error:  # its words are all that is known of it
        return str(error)
    return type(value).__name__


def every() -> list[str]:
    return [line for command in COMMANDS for line in described(parser_of(command))]


def test_options_are_those_that_are_listed(monkeypatch):
    monkeypatch.setenv("HOME", "/home/steve")

    assert every() == LISTED.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("read", "least", "most", "message"),
    [
        (COUNT, 1, 10**9, "expected a whole number from 1 to 1,000,000,000"),
        (ID, 1, 2**63 - 1, "is not an id; ids are whole numbers, such as 12"),
        (whole_number(-3, 4), -3, 4, "expected a whole number from -3 to 4"),
    ],
)
def test_a_whole_number_is_within_its_limits(read, least, most, message):
    assert (read(str(least)), read(f" {most}")) == (least, most)
    for wrong in (str(least - 1), str(most + 1), "x", "1.0", ""):
        with pytest.raises(argparse.ArgumentTypeError) as caught:
            read(wrong)
        assert str(caught.value).endswith(message)


if __name__ == "__main__":
    print("\n".join(every()))

"""Parsers of the command line: one error style, options shared by several commands, settings as options."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from io import BufferedReader
from typing import Any, NoReturn, cast

from shepherd.config import SETTINGS
from shepherd.config.file import Loaded, load
from shepherd.errors import UsageError

__all__ = [
    "LARGEST_ID",
    "MOST_ROWS",
    "Parser",
    "add_action",
    "add_common_options",
    "add_memory_options",
    "add_setting_option",
    "given_settings",
    "loaded_settings",
    "stdin_bytes",
    "whole_number",
]

# What a database holds of a number, and more than anybody asks for at once.
LARGEST_ID = (1 << 63) - 1
MOST_ROWS = 1_000_000_000
_SETTING_PREFIX = "setting_"


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """argparse's own, with room for long options and a width that stays readable on wide screens."""

    def __init__(self, prog: str) -> None:
        width = min(100, shutil.get_terminal_size().columns - 2)
        super().__init__(prog, max_help_position=30, width=width)


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are UsageErrors, so that there is one style and one exit."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("formatter_class", _HelpFormatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **options)
        if self._optionals.title != "options":  # Python 3.9's word, kept by some distributions
            self._optionals.title = "options"

    def format_help(self) -> str:
        """argparse's own, with the examples of this command."""
        from shepherd.cli.examples import examples_of

        shown = examples_of(self.prog)
        return f"{super().format_help()}\n{shown}\n" if shown else super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as UsageError."""
        raise UsageError(message, hint=f"{self.prog} --help")


def add_common_options(parser: Parser, *, json_help: str = "print JSON") -> None:
    """--json and -v, which every command has."""
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log what happens, and show tracebacks, on stderr"
    )


def add_action(actions: Any, name: str, help: str) -> Parser:
    """A parser for one action of a command; its one line of help is its description, too."""
    parser: Parser = actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    return parser


def add_memory_options(parser: Any) -> None:
    """Which database, and whose memory in it."""
    add_setting_option(parser, "--memory-db", "memory_database", "PATH")
    add_setting_option(parser, "--user", "user_id", "ID")


def add_setting_option(parser: Any, option: str, key: str, metavar: str, *, short: str = "") -> None:
    """An option that overrides a setting for this run; its help and its range are the setting's own."""
    setting = SETTINGS[key]
    shown = f" ({setting.default})" if isinstance(setting.default, (int, float)) else ""
    parser.add_argument(
        *([short] if short else []),
        option,
        dest=_SETTING_PREFIX + key,
        metavar=metavar,
        type=_reader(key),
        help=f"{setting.help}{shown}".replace("%", "%%"),
    )


def loaded_settings(arguments: argparse.Namespace) -> Loaded:
    """The settings in force for these arguments."""
    return load(options=given_settings(arguments))


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that these arguments name."""
    return {
        name[len(_SETTING_PREFIX) :]: value
        for name, value in vars(arguments).items()
        if name.startswith(_SETTING_PREFIX) and value is not None
    }


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """For `type` of an option: a whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least:,} to {most:,}")
        return number

    return read


def stdin_bytes() -> BufferedReader:
    """What is piped in; UsageError when stdin is closed."""
    if sys.stdin is None:
        raise UsageError("stdin is closed", hint="name a file, or pipe something in")
    return cast(BufferedReader, sys.stdin.buffer)


def _reader(key: str) -> Callable[[str], Any]:
    setting = SETTINGS[key]

    def read(text: str) -> Any:
        try:
            return setting.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {setting.expected}") from None

    return read

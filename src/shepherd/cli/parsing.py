"""Parsers of the command line: one error style, shared options, settings as options."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, NoReturn, cast

from shepherd.cli.runnable import runnable_help
from shepherd.commands.action_names import action_meant
from shepherd.commands.screen import Screen, fitted, near_miss
from shepherd.config import SETTINGS
from shepherd.config.file import Loaded, load, load_valid
from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.installation import install_extra
from shepherd.paths import from_any_folder

__all__ = [
    "COUNT",
    "ID",
    "Parser",
    "add_action",
    "add_actions",
    "add_common_options",
    "add_engine_options",
    "add_limit",
    "add_memory_options",
    "add_model_option",
    "add_model_options",
    "add_search",
    "add_setting_option",
    "agreed",
    "finish_actions",
    "given_settings",
    "help_columns",
    "loaded_settings",
    "optional_packages",
    "stdin_bytes",
    "whole_number",
    "with_action",
]

_SETTING_PREFIX = "setting_"


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter with space for long options and a width that stays readable on wide screens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=help_columns())

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        # Without a line for their placeholder.
        return "".join(self._format_action(one) for one in action._get_subactions())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return _fitted(text, width)

    def _expand_help(self, action: argparse.Action) -> str:
        return runnable_help(super()._expand_help(action), self._width)


def _fitted(text: str, columns: int) -> str:
    """Return a help text that fits, with commands that can be run here."""
    return fitted(runnable_help(text, columns), columns)


def help_columns() -> int:
    """Return the width of help texts."""
    return min(100, shutil.get_terminal_size().columns) - 2


class Parser(argparse.ArgumentParser):
    """Parser that raises UsageError for mistakes, so that errors have one style and one exit."""

    actions: Any = None  # set by add_actions
    default_action = ""  # what the command does without one

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("formatter_class", _HelpFormatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **options)

    def format_help(self) -> str:
        """Return the help with the examples of this command."""
        from shepherd.cli.examples import examples_of

        shown = examples_of(self.prog)
        own = f"\n{_fitted(shown, help_columns())}\n" if shown else ""
        return f"{super().format_help()}{own}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise UsageError with the likely one for a mistyped action or choice."""
        if action.choices is not None and value not in action.choices:
            meant = action_meant(str(value), [str(choice) for choice in action.choices])
            near = f"did you mean {meant}?" if meant else near_miss(str(value), map(str, action.choices))
            if isinstance(action, argparse._SubParsersAction):
                hint = near or f"actions: {', '.join(action.choices)}; {self.prog} --help explains them"
                raise UsageError(f"there is no action {value!a}", hint=hint)
            if near:
                name = "/".join(action.option_strings) or action.metavar or action.dest
                raise UsageError(f"argument {name}: invalid choice: {value!a}", hint=near)
        super()._check_value(action, value)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; an unknown one is reported by the action that was named."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            actions = {} if self.actions is None else self.actions.choices
            reporter = actions.get(getattr(parsed, "action", ""), self)
            reporter.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, hint=f"{self.prog} --help")


def add_common_options(parser: Parser, *, json_help: str = "print JSON") -> None:
    """Add --json and -v, which every command has."""
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("-v", "--verbose", action="store_true", help="log to stderr, and show tracebacks")


def add_actions(parser: Parser, *, default: str = "") -> Any:
    """Give the command actions, and return the object to pass to add_action.

    `default` is the action that runs when none is named; without a default that is an error.
    """
    parser.default_action = default
    parser.actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    return parser.actions


def with_action(parser: Parser, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the default action, if the command has actions and only options were given.

    Raises UsageError with a list of the actions if none of them is the default.
    """
    is_named = bool(arguments) and not arguments[0].startswith("-")
    if parser.actions is None or is_named or {"-h", "--help", *parser.actions.choices} & set(arguments):
        return list(arguments)
    if parser.default_action:
        return [parser.default_action, *arguments]
    lines = {action.dest: action.help for action in parser.actions._choices_actions}
    width = max(map(len, lines))
    listed = "\n".join(f"  {name:{width}}  {line}" for name, line in lines.items())
    raise UsageError(
        f"{parser.prog} needs an action",
        hint=f"{listed.lstrip()}\n  {parser.prog} ACTION --help explains one",
    )


def add_action(actions: Any, name: str, help: str, *, description: str = "") -> Parser:
    """Add an action; its line of help is its description, too, unless another is given."""
    parser: Parser = actions.add_parser(
        name, help=help, description=description or f"{help[0].upper()}{help[1:]}."
    )
    return parser


def finish_actions(actions: Any, *, with_memory: bool = False) -> None:
    """Add the options that all actions of a command have."""
    for action in actions.choices.values():
        if with_memory:
            add_memory_options(action)
        add_common_options(action)


def add_limit(parser: Parser, default: int, *, with_offset: bool = False) -> None:
    """Add --limit, and --offset for lists that can be paged through."""
    parser.add_argument(
        "--limit",
        type=COUNT,
        default=default,
        metavar="N",
        help=f"maximum number of rows (default: {default})",
    )
    if with_offset:
        parser.add_argument(
            "--offset",
            type=whole_number(0, _LARGEST_ID),
            default=0,
            metavar="N",
            help="number of rows to skip (default: 0)",
        )


# What is only near a memory with the words has a relevance of nearly 0, and no word of the search.
_LEAST_LISTED = 0.1


def add_search(actions: Any, help: str) -> None:
    """Add the action `search`, with words, --limit and --threshold."""
    search = add_action(actions, "search", help)
    search.add_argument("query", type=storable, nargs="+", metavar="WORDS", help="words to search for")
    add_limit(search, 10)
    search.add_argument(
        "--threshold",
        type=float,
        default=_LEAST_LISTED,
        metavar="N",
        help=f"minimum relevance, from 0 to 1 (default: {_LEAST_LISTED})",
    )


def add_memory_options(parser: Any) -> None:
    """Add --memory-db and --user."""
    add_setting_option(parser, "--memory-db", "memory_database", "PATH")
    add_setting_option(parser, "--user", "user_id", "ID")


def add_model_option(parser: Parser, purpose: str) -> None:
    """Add --model, whose help begins with what the command needs the model for."""
    names = SETTINGS["model"].help.partition(": ")[2]
    add_setting_option(parser, "--model", "model", "NAME", short="-m", help=f"{purpose}: {names}")


def add_model_options(parser: Parser, purpose: str = "model to chat with") -> None:
    """Add --model and --provider."""
    add_model_option(parser, purpose)
    add_setting_option(parser, "--provider", "provider", "NAME", short="-p")


def add_engine_options(parser: Parser) -> None:
    """Add the options of the local engine, as a group."""
    engine = parser.add_argument_group("the engine")
    add_setting_option(engine, "--mmproj", "mmproj", "FILE")
    for option, key in (("--ctx", "n_ctx"), ("--gpu-layers", "gpu_layers"), ("--threads", "threads")):
        add_setting_option(engine, option, key, "N")


def add_setting_option(
    parser: Any, option: str, key: str, metavar: str, *, short: str = "", help: str = ""
) -> None:
    """Add an option that overrides a setting for this run, with its range and, by default, its help."""
    setting = SETTINGS[key]
    shown = f" (default: {setting.default})" if isinstance(setting.default, (int, float)) else ""
    parser.add_argument(
        *([short] if short else []),
        option,
        dest=_SETTING_PREFIX + key,
        metavar=metavar,
        type=_reader(key),
        help=f"{help or setting.help}{shown}".replace("%", "%%"),
    )


def loaded_settings(arguments: argparse.Namespace) -> Loaded:
    """Return the effective settings for these arguments."""
    return load(options=given_settings(arguments))


def valid_settings(arguments: argparse.Namespace) -> Loaded:
    """Return the settings for these arguments as far as they are valid; `problems` has the others."""
    return load_valid(options=given_settings(arguments))


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that these arguments override."""
    return {
        name[len(_SETTING_PREFIX) :]: value
        for name, value in vars(arguments).items()
        if name.startswith(_SETTING_PREFIX) and value is not None
    }


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a `type` for an option that is a whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least:,} to {most:,}")
        return number

    return read


_LARGEST_ID = (1 << 63) - 1  # the largest integer of a database
_id_number = whole_number(1, _LARGEST_ID)


def ID(text: str) -> int:  # noqa: N802 (a `type` for arguments, like COUNT)
    """Read the id of something stored: a whole number from 1 to the largest that a database holds."""
    try:
        return _id_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!a} is not an id; ids are whole numbers, such as 12"
        ) from None


COUNT = whole_number(1, 1_000_000_000)


@contextmanager
def optional_packages(extra: str, what: str) -> Iterator[None]:
    """Raise UsageError with the command to install the extra where an import of the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "shepherd":
            raise
        raise UsageError(f"{what} needs {error.name}", hint=install_extra(extra)) from error


def agreed(question: str, screen: Screen, *, yes: bool) -> bool:
    """Ask the user, unless --yes was given; raises UsageError where nobody can be asked."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"this needs confirmation, and there is no terminal to ask at: {question}",
            hint="add --yes to confirm",
        )
    return screen.agrees(question)


def stdin_bytes() -> BufferedReader:
    """Return stdin as bytes; raises UsageError when it is closed."""
    if sys.stdin is None:
        raise UsageError("stdin is closed", hint="name a file, or pipe something in")
    return cast(BufferedReader, sys.stdin.buffer)


def _reader(key: str) -> Callable[[str], Any]:
    setting = SETTINGS[key]

    def read(text: str) -> Any:
        try:
            value = setting.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {setting.expected}") from None
        is_file = key == "memory_database" and "://" not in value
        return from_any_folder(value) if is_file else value

    return read

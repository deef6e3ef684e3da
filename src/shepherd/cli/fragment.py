"""`shepherd fragment`: texts that are attached to messages by their names."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from shepherd.cli.parsing import Parser, add_action, add_actions, finish_actions
from shepherd.cli.template import edited, fragment_path, saved_names
from shepherd.commands.screen import Screen, counted, near_miss, shortened
from shepherd.errors import UsageError

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
A fragment is a text that you attach often: shepherd -f NAME "…" sends it with your message. It is a file in
fragments/ beside the configuration, which edit creates."""
_SHOWN_CHARS = 60


def build_parser() -> Parser:
    """Build the parser of `shepherd fragment`."""
    parser = Parser(prog="shepherd fragment", description=_DESCRIPTION)
    actions = add_actions(parser)
    add_action(actions, "list", "list fragments, with their lengths and beginnings")
    for action in (
        add_action(actions, "show", "print a fragment"),
        add_action(actions, "edit", "edit a fragment, or make a new one, in $VISUAL or $EDITOR"),
    ):
        action.add_argument("name", metavar="NAME", help="name of the fragment")
    finish_actions(actions)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    if arguments.action == "list":
        _list(screen)
        return 0
    name, path = arguments.name, fragment_path(arguments.name)
    if arguments.action == "show":
        text = _text_of(name, path)
        screen.result({"name": name, "file": str(path), "text": text}, text.rstrip("\n"))
        return 0
    is_saved = edited(path, "")
    note = (
        f"saved; shepherd -f {name} attaches it" if is_saved else "nothing was written; no fragment was made"
    )
    screen.result({"file": str(path), "saved": is_saved}, note=note)
    return 0


def _list(screen: Screen) -> None:
    found = []
    for name in saved_names("fragments"):
        try:
            found.append((name, _text_of(name, fragment_path(name))))
        except UsageError as error:
            screen.warn(str(error), error.hint)
    screen.listing(
        [{"name": name, "chars": len(text), "text": text} for name, text in found],
        ("name", "length", "text"),
        [(name, counted(len(text), "character"), shortened(text, _SHOWN_CHARS)) for name, text in found],
        empty="no fragments yet; shepherd fragment edit NAME makes one",
    )


def _text_of(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = near_miss(name, saved_names("fragments"))
        hint = near or f"shepherd fragment list names them; shepherd fragment edit {name} makes one"
        raise UsageError(f"there is no fragment {name!a}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"{path}: {reason}", hint="a fragment is a text file") from None

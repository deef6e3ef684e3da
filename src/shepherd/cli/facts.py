"""`shepherd facts`: facts about a user, as key = value."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from shepherd.cli.parsing import Parser, add_action, add_actions, finish_actions, loaded_settings
from shepherd.cli.receipts import (
    add_receipt,
    forget_typed,
    print_receipt,
    receipt_value,
    warn_of_left,
)
from shepherd.commands.facts import found_fact, set_fact, show_facts_at, show_history
from shepherd.commands.screen import Screen, counted, day, shortened
from shepherd.errors import ShepherdError, UsageError
from shepherd.wording import mentions

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["build_parser", "execute"]

_EVERY = (1 << 63) - 1
_LISTED = 20
_NO_FACTS = "no facts yet; shepherd facts set KEY VALUE sets one"
_KEY_HELP = "name of the fact; favorite_color and favoriteColor are the same"


def build_parser() -> Parser:
    """Build the parser of `shepherd facts`."""
    parser = Parser(
        prog="shepherd facts",
        description="List and change facts about you: one value per key. Without an action, list all facts.",
    )
    actions = add_actions(parser, default="list")
    add_action(actions, "list", "list all facts")
    get = add_action(actions, "get", "print the value of a fact")
    put = add_action(actions, "set", "set a fact; its history keeps the previous value")
    clear = add_action(actions, "clear", "forget a fact")
    at = add_action(actions, "at", "show the facts as they were on a date")
    at.add_argument(
        "date",
        nargs="+",
        metavar="DATE",
        help="date, such as 2026-03-01 (end of that day) or 2026-03-01 14:30",
    )
    history = add_action(
        actions, "history", "show the values of facts, when each held, and where it came from"
    )
    for action in (get, put, clear):
        action.add_argument("key", metavar="KEY", help=_KEY_HELP)
    history.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        help=f"{_KEY_HELP} (default: all facts, with those that were forgotten)",
    )
    put.add_argument("value", metavar="VALUE", help="value of the fact")
    clear.add_argument("--history", action="store_true", help="also forget its earlier values, everywhere")
    add_receipt(clear)
    finish_actions(actions, with_memory=True)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    from shepherd.memory_factory import open_memory, open_memory_to_read

    opened = open_memory if arguments.action in ("set", "clear") else open_memory_to_read
    with opened(loaded_settings(arguments).config) as memory:
        _ACTIONS[arguments.action](memory, arguments, screen)
    return 0


def _list(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    facts = memory.get_all_facts()
    screen.listing(
        {fact.key: fact.value for fact in facts},
        ["fact", "value", "since"],
        [(fact.key, fact.value, day(fact.updated_at)) for fact in facts],
        empty=_NO_FACTS,
    )


def _get(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    value = memory.get_fact(arguments.key)
    if value is None:
        raise _missing(arguments.key)
    screen.result({"key": arguments.key, "value": value}, value)


def _set(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    if not (arguments.key.strip() and arguments.value.strip()):
        raise UsageError("a fact needs a key and a value", hint="shepherd facts clear KEY forgets one")
    note = set_fact(memory, arguments.key, arguments.value)
    screen.result({"key": arguments.key, "value": arguments.value}, note=note)


def _clear(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.commands.conversations import how_to_forget_history
    from shepherd.memory import Receipt

    if arguments.receipt and not arguments.history:
        raise UsageError("--receipt needs --history", hint="without it, the history keeps the values")
    before, receipt = found_fact(memory, arguments.key), Receipt()
    values = _values(memory, arguments.key) if arguments.history else set()
    if not memory.clear_fact(arguments.key, with_history=arguments.history, receipt=receipt):
        raise _missing(arguments.key)
    if values:
        forget_typed((), receipt, arguments, mentions(values))
    key = arguments.key if before is None else before.key
    if arguments.history:  # perhaps a secret, which must not get into a log
        note = f"{key} is forgotten, with all values that it had"
    else:
        former = "" if before is None else f"; it was {shortened(before.value)}"
        note = f"{key} is forgotten{former}\n{how_to_forget_history(key)}"
    value: dict[str, object] = {"cleared": arguments.key}
    if arguments.receipt:
        value["receipt"] = receipt_value(receipt, arguments)
    screen.result(value, note=note)
    if arguments.receipt and not screen.as_json:
        print_receipt(receipt, arguments, screen)
    warn_of_left(receipt, arguments, screen)
    if values and not screen.as_json:
        _note_left(memory, values, screen)


def _values(memory: Memory, key: str) -> set[str]:
    return {period.value for period in memory.fact_periods(key, corrected=True)}


def _note_left(memory: Memory, values: set[str], screen: Screen) -> None:
    """Name memories and conversations that still have a value; by their ids, since it may be a secret."""
    from shepherd.commands.conversations import still_said
    from shepherd.sequences import sequence_of

    has_value = mentions(values)
    ids = [
        str(sequence_of(one.id))
        for one in memory.list_memories(limit=_EVERY)
        if has_value is not None and has_value(f"{one.question}\n{one.answer}")
    ]
    if ids:
        n = counted(len(ids), "memory still contains", "memories still contain")
        those = "that memory" if len(ids) == 1 else "these memories"
        screen.note(
            f"{n} a value of it. To delete {those}, run\n  shepherd memory forget {' '.join(ids[:_LISTED])}"
        )
    if note := still_said(memory, values):
        screen.note(note)


def _at(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    show_facts_at(memory, " ".join(arguments.date), screen)


def _history(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    if not show_history(memory, arguments.key, screen, empty=_NO_FACTS):
        raise _missing(arguments.key)


_ACTIONS = {"list": _list, "get": _get, "set": _set, "clear": _clear, "at": _at, "history": _history}


def _missing(key: str) -> ShepherdError:
    return ShepherdError(f"there is no fact {key!a}", hint="shepherd facts list shows all facts")

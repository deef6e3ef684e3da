"""`shepherd facts`: what is known about a user, as key = value."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import TYPE_CHECKING

from shepherd.cli.parsing import Parser, add_action, add_common_options, add_memory_options, loaded_settings
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["build_parser", "execute"]


def build_parser() -> Parser:
    """The options of `shepherd facts`."""
    parser = Parser(prog="shepherd facts", description="Facts about a user: durable, one value per key.")
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    listing = add_action(actions, "list", "all facts")
    get = add_action(actions, "get", "the value of one fact")
    get.add_argument("key", metavar="KEY", help="name of the fact; favorite_color finds favoriteColor too")
    put = add_action(actions, "set", "set a fact; an older value goes to its history")
    put.add_argument("key", metavar="KEY", help="name of the fact")
    put.add_argument("value", metavar="VALUE", help="its value")
    clear = add_action(actions, "clear", "forget a fact")
    clear.add_argument("key", metavar="KEY", help="name of the fact")
    clear.add_argument("--history", action="store_true", help="and the values that it had before")
    history = add_action(actions, "history", "the values that a fact had")
    history.add_argument("key", metavar="KEY", help="name of the fact")
    for action in (listing, get, put, clear, history):
        add_memory_options(action)
        add_common_options(action)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    from shepherd.factory import open_memory, open_memory_to_read

    opened = open_memory if arguments.action in ("set", "clear") else open_memory_to_read
    with opened(loaded_settings(arguments).config) as memory:
        _ACTIONS[arguments.action](memory, arguments, screen)
    return 0


def _list(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    facts = memory.get_all_facts()
    if arguments.json:
        screen.json({fact.key: fact.value for fact in facts})
    else:
        screen.table(["fact", "value", "since"], [(f.key, f.value, _day(f.updated_at)) for f in facts])
        if not facts:
            screen.note("no facts yet; shepherd facts set KEY VALUE sets one")


def _get(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    value = memory.get_fact(arguments.key)
    if value is None:
        raise _missing(arguments.key)
    if arguments.json:
        screen.json({"key": arguments.key, "value": value})
    else:
        screen.print(value)


def _set(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    memory.set_fact(arguments.key, arguments.value)
    if arguments.json:
        screen.json({"key": arguments.key, "value": arguments.value})


def _clear(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    if not memory.clear_fact(arguments.key, with_history=arguments.history):
        raise _missing(arguments.key)
    if arguments.json:
        screen.json({"cleared": arguments.key})


def _history(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    history = memory.fact_history(arguments.key)
    if not history:
        raise _missing(arguments.key)
    if arguments.json:
        screen.json(history)
    else:
        rows = [
            (_minute(c.changed_at), "(cleared)" if c.value is None else c.value, c.source) for c in history
        ]
        screen.table(["when", "value", "from"], rows)


_ACTIONS = {"list": _list, "get": _get, "set": _set, "clear": _clear, "history": _history}


def _missing(key: str) -> ShepherdError:
    return ShepherdError(f"there is no fact {key!a}", hint="shepherd facts list shows all of them")


def _day(timestamp: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(timestamp))


def _minute(timestamp: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp))

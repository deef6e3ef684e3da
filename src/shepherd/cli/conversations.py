"""`shepherd conversations`: stored conversations, those of the chat as well as those of the page."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import (
    Parser,
    add_action,
    add_actions,
    add_limit,
    finish_actions,
    loaded_settings,
)
from shepherd.cli.receipts import (
    add_receipt,
    forget_typed,
    print_receipt,
    receipt_value,
    warn_of_left,
)
from shepherd.commands.screen import Screen, counted, day, printable

if TYPE_CHECKING:
    from shepherd.memory import Memory, SessionSummary

__all__ = ["build_parser", "execute"]

_EVERY = (1 << 63) - 1
# More conversations than these are counted, where their titles would be asked about.
_MOST_TITLES = 3


def build_parser() -> Parser:
    """Build the parser of `shepherd conversations`."""
    parser = Parser(
        prog="shepherd conversations",
        description="List, read and change your stored conversations, from the terminal and the browser."
        " `shepherd --continue NAME` continues one.",
    )
    actions = add_actions(parser)
    listing = add_action(actions, "list", "list conversations, the latest first")
    listing.add_argument("--all", action="store_true", help='also list single questions (shepherd "…" or -e)')
    add_limit(listing, 50, with_offset=True)
    show = add_action(actions, "show", "print what was said in a conversation, as Markdown")
    search = add_action(actions, "search", "list the conversations in which something was said")
    search.add_argument(
        "text", nargs="+", metavar="TEXT", help="text of a message or a title; case and accents are ignored"
    )
    add_limit(search, 50)
    rename = add_action(actions, "rename", "give a conversation a title")
    delete = add_action(
        actions,
        "delete",
        "delete conversations for good; what was learned from them stays",
        description="Delete conversations for good. What was learned from them stays: shepherd memory forget"
        " and shepherd facts clear delete that.",
    )
    for action in (show, rename):
        action.add_argument(
            "name", metavar="NAME", help="id of the conversation, as list shows it, or words of its title"
        )
    rename.add_argument(
        "title", nargs="+", metavar="TITLE", help='the title; "" for the beginning of the first message'
    )
    delete.add_argument(
        "names", nargs="+", metavar="NAME", help="ids of the conversations, or their whole titles"
    )
    delete.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation at a terminal")
    add_receipt(delete)
    finish_actions(actions, with_memory=True)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.memory_factory import open_memory, open_memory_to_read

    opened = open_memory if arguments.action in ("rename", "delete") else open_memory_to_read
    with opened(loaded_settings(arguments).config) as memory:
        return _ACTIONS[arguments.action](memory, arguments, screen) or 0


def _list(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.commands.conversations import not_listed

    found = memory.list_sessions(limit=arguments.limit, offset=arguments.offset, one_offs=arguments.all)
    total = memory.count_sessions(one_offs=arguments.all)
    n_more = memory.count_sessions() - total
    _print(found, screen, empty="" if arguments.offset or n_more else "no conversation is stored yet")
    if screen.as_json:
        return
    if arguments.offset + len(found) < total:
        screen.note(f"{len(found)} of {counted(total, 'conversation')}; --offset shows older ones")
    elif n_more and not arguments.offset:
        screen.note(not_listed(n_more, "--all lists", is_all=not found))


def _search(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    every = memory.list_sessions(limit=_EVERY, words=" ".join(arguments.text))
    _print(every[: arguments.limit], screen, empty="no conversation contains this text")
    if len(every) > arguments.limit and not screen.as_json:
        screen.note(f"{arguments.limit} of {counted(len(every), 'conversation')}; --limit shows more")


def _show(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.commands.conversations import as_markdown, conversation_named, short_id, title_in_words

    one = conversation_named(memory, arguments.name)
    messages = memory.load_session(one.id)
    if screen.as_json:
        said = [
            {"role": message.role, "content": message.raw, "created_at": message.created_at}
            for message in messages
            if message.role in ("user", "assistant")
        ]
        screen.json({"id": one.id, "title": one.title, "messages": said})
        return
    when = day(one.updated_at, with_time=True)
    screen.note(f"conversation {short_id(one.id)}, {when}, {one.model}: {title_in_words(one)}")
    screen.print(as_markdown(messages).removesuffix("\n"))


def _rename(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.commands.conversations import conversation_named, short_id

    one = conversation_named(memory, arguments.name)
    memory.rename_session(one.id, " ".join(arguments.title))
    title = memory.title_of_session(one.id)
    screen.result({"id": one.id, "title": title}, note=f"{short_id(one.id)} is now: {title}")


def _delete(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    """Delete those that are named; none if one of the names is wrong."""
    from shepherd.commands.conversations import conversation_named, short_id, title_in_words
    from shepherd.memory import Receipt

    receipt = Receipt()
    named = list(dict.fromkeys(conversation_named(memory, name, in_title=False) for name in arguments.names))
    if not _is_wanted(named, arguments, screen):
        screen.note("nothing was deleted")
        return 1
    for one in named:
        texts = [message.raw for message in memory.load_session(one.id) if message.role == "user"]
        memory.clear_session(one.id, receipt=receipt)
        forget_typed(texts, receipt, arguments)
        if not screen.as_json:
            screen.note(f"deleted {short_id(one.id)}: {title_in_words(one)}")
    if screen.as_json:
        value: dict[str, object] = {"deleted": [one.id for one in named]}
        screen.json({**value, "receipt": receipt_value(receipt, arguments)} if arguments.receipt else value)
    elif arguments.receipt:
        print_receipt(receipt, arguments, screen)
    warn_of_left(receipt, arguments, screen)
    return 0


def _is_wanted(named: list[SessionSummary], arguments: Namespace, screen: Screen) -> bool:
    """Ask at a terminal; a script has said what it means."""
    from shepherd.commands.conversations import title_in_words

    if arguments.yes or sys.stdin is None or not (sys.stdin.isatty() and screen.err_is_terminal):
        return True
    titles = ", ".join(f'"{title_in_words(one)}"' for one in named)
    what = titles if len(named) <= _MOST_TITLES else counted(len(named), "conversation")
    return screen.agrees(printable(f"Delete {what}? This can't be undone."))


def _print(found: list[SessionSummary], screen: Screen, *, empty: str) -> None:
    from shepherd.commands.conversations import short_id, title_in_words

    rows: list[tuple[Any, ...]] = [
        (short_id(one.id), day(one.updated_at, with_time=True), one.n_messages, title_in_words(one))
        for one in found
    ]
    screen.listing(found, ["id", "last message", "messages", "title"], rows, empty=empty)


_ACTIONS: dict[str, Callable[[Memory, Namespace, Screen], int | None]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "rename": _rename,
    "delete": _delete,
}

"""Stored conversations as people choose them: by a number of a list, by id or by title."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from shepherd._native.text import folded
from shepherd.commands.screen import Screen, age_in_words, counted, day, shortened
from shepherd.errors import ShepherdError, UsageError
from shepherd.paths import new_file

if TYPE_CHECKING:
    from shepherd.commands.slash import Chat
    from shepherd.memory import Memory, SessionSummary
    from shepherd.types import Message

__all__ = [
    "as_markdown",
    "continue_conversation",
    "conversation_named",
    "how_to_forget_history",
    "is_in_a_title",
    "list_conversations",
    "not_listed",
    "rename_conversation",
    "save_conversation",
    "short_id",
    "still_said",
    "title_in_words",
]

_LISTED = 10
_TITLE_CHARS = 100
_CHOICE_CHARS = 50  # of a title, where a line has to fit
# Characters of an id that are shown; two conversations of a user share them once in a billion.
_SHOWN_ID_CHARS = 8
# Shorter beginnings of ids are words, such as "bad" and "add".
_LEAST_ID_CHARS = 4
_EVERY = (1 << 63) - 1
_SPEAKERS = {"user": "You", "assistant": "Assistant"}


def short_id(session_id: str) -> str:
    """Return the beginning of an id, by which `conversation_named` finds the conversation."""
    return session_id[:_SHOWN_ID_CHARS]


def title_in_words(conversation: SessionSummary) -> str:
    """Return the title on one line, or the day of a conversation whose first message has no text."""
    title = shortened(conversation.title, _TITLE_CHARS)
    return title or f"conversation of {day(conversation.created_at, with_time=True)}"


def conversation_named(
    memory: Memory,
    name: str,
    user_id: str | None = None,
    *,
    in_title: bool = True,
    hint: str = "shepherd conversations list --all shows all conversations",
) -> SessionSummary:
    """Return the conversation of this user that a name means.

    A name is an id or its beginning, the name that a program gave it, its title, or, with `in_title`, words
    of its title, whatever their case and accents; the first of these that any conversation has decides.
    Raises ShepherdError if none has it, or several do.
    """
    known = memory.list_sessions(user_id, limit=_EVERY)
    talks = memory.list_sessions(user_id, limit=_EVERY, one_offs=False)
    words = " ".join(name.split())
    id_ = memory.find_session(words, user_id)
    beginning = words.lower() if len(words) >= _LEAST_ID_CHARS else None
    wanted = folded(words)
    for matches in (
        (one for one in known if one.id == id_),
        (one for one in known if beginning and one.id.startswith(beginning)),
        (one for one in known if wanted and folded(one.title) == wanted),
        # A conversation is meant rather than one of the single questions about the same.
        (one for one in talks if wanted and in_title and wanted in folded(one.title)),
        (one for one in known if wanted and in_title and wanted in folded(one.title)),
    ):
        found = list(matches)
        if len(found) == 1:
            return found[0]
        if found:
            raise ShepherdError(
                f"{counted(len(found), 'conversation')} match {name!a}",
                hint=f"choose one by its id:\n{_choices(found)}",
            )
    if said := memory.list_sessions(user_id, limit=_LISTED, words=words) if wanted else []:
        hint = (
            "no title has these words, but these conversations contain them; use the id of one:\n"
            f"{_choices(said)}"
        )
    raise ShepherdError(f"there is no conversation {name!a}", hint=hint)


def _choices(found: Sequence[SessionSummary]) -> str:
    """Return a line for each of the first conversations: id, time of the last message, size and title."""
    lines = [
        f"  {short_id(one.id)}  {day(one.updated_at, with_time=True)}"
        f"  {counted(one.n_messages, 'message')}  {shortened(title_in_words(one), _CHOICE_CHARS)}"
        for one in found[:_LISTED]
    ]
    more = len(found) - len(lines)
    return "\n".join([*lines, f"  and {more:,} more"] if more else lines)


def is_in_a_title(memory: Memory, words: str, user_id: str | None = None) -> bool:
    """Return whether words stand in the title of a conversation, other than of one question and answer."""
    wanted = folded(" ".join(words.split()))
    known = memory.list_sessions(user_id, limit=_EVERY, one_offs=False)
    return bool(wanted) and any(wanted in folded(one.title) for one in known)


def still_said(
    memory: Memory, texts: Iterable[str], user_id: str | None = None, *, current: str | None = None
) -> str:
    """Return a note about the stored conversations that contain one of the texts; "" if there are none.

    What is forgotten stays in the conversation in which it was said. `current` is the id of this one.
    """
    found = {
        one.id: one
        for text in dict.fromkeys(text.strip() for text in texts)
        if text
        for one in memory.list_sessions(user_id, limit=_LISTED + 1, words=text)
    }
    if not found:
        return ""
    more = len(found) > _LISTED
    ids = " ".join(short_id(id_) for id_ in list(found)[:_LISTED])
    command = f"  shepherd conversations delete {ids}"  # on a line of its own, to be copied
    if list(found) == [current]:
        return f"this conversation still contains these words. To delete it, use /clear, and run\n{command}"
    which = f"more than {_LISTED} conversations" if more else counted(len(found), "conversation")
    verb, what = ("contains", "it") if len(found) == 1 else ("contain", "them")
    first = "use /clear, and " if current in found else ""
    what = "the latest" if more else what
    return f"{which} still {verb} these words. To delete {what}, {first}run\n{command}"


def how_to_forget_history(key: str) -> str:
    """Return a note about a forgotten fact: its history keeps the values until that is deleted, too."""
    return f"its history still has it. To delete that too: shepherd facts clear {shlex.quote(key)} --history"


def as_markdown(messages: Iterable[Message]) -> str:
    """Return what was said, without what memory added; a heading for each message."""
    return "\n".join(
        f"## {_SPEAKERS[message.role]}\n\n{message.raw.strip()}\n"
        for message in messages
        if message.role in _SPEAKERS
    )


# ---- slash commands


def list_conversations(chat: Chat, words: str) -> None:
    """Run /conversations: list the latest, or those in which something was said."""
    if words:
        every = chat.memory.list_sessions(chat.user, limit=_EVERY, words=words)
        found, total = every[:_LISTED], len(every)
    else:
        found, total = _latest(chat), chat.memory.count_sessions(chat.user, one_offs=False)
    chat.conversations = [one.id for one in found]
    _print(chat.screen, found, chat.assistant.session_id)
    if found:
        older = f"the latest {len(found)} of {total:,}; " if total > len(found) else ""
        chat.screen.note(f"{older}/continue NUMBER continues one, /conversations WORDS searches")
    elif words:
        chat.screen.note("no conversation contains these words")
    n_more = 0 if words else chat.memory.count_sessions(chat.user) - total
    if n_more:
        chat.screen.note(not_listed(n_more, "/conversations WORDS finds", is_all=not found))
    elif not found and not words:
        chat.screen.note("no conversation is stored yet")


def not_listed(n_one_offs: int, way: str, *, is_all: bool) -> str:
    """Return a note about single questions that a list leaves out, and the way to see them: "--all lists".

    `is_all`: nothing else is stored.
    """
    questions = counted(n_one_offs, "single question")
    is_, it = ("is", "it") if n_one_offs == 1 else ("are", "them")
    if is_all:
        return f"no conversations except {questions}; {way} {it}"
    return f"{questions} {is_} not listed; {way} {it}, too"


def _latest(chat: Chat) -> list[SessionSummary]:
    return chat.memory.list_sessions(chat.user, limit=_LISTED, one_offs=False)


def continue_conversation(chat: Chat, name: str) -> None:
    """Run /continue: put another conversation in the place of this one."""
    if not name:
        raise UsageError("usage: /continue NUMBER|ID|TITLE", hint="/conversations shows the numbers")
    numbered = chat.conversations or [one.id for one in _latest(chat)]
    if name.isdecimal() and len(name) < _LEAST_ID_CHARS and 1 <= int(name) <= len(numbered):
        name = numbered[int(name) - 1]
    one = conversation_named(chat.memory, name, chat.user, hint="/conversations lists them")
    n_exchanges = chat.assistant.resume(one.id)
    chat.listed = []
    chat.screen.note(f"continued after {counted(n_exchanges, 'exchange')}: {title_in_words(one)}")


def rename_conversation(chat: Chat, title: str) -> None:
    """Run /rename: give this conversation a title, or take it away."""
    session_id = chat.assistant.session_id
    if session_id is None:
        raise UsageError("nothing of this conversation is stored yet", hint="rename it after an answer")
    chat.memory.rename_session(session_id, title, chat.user)
    chat.screen.note(
        f"renamed: {shortened(title)}" if title else "the title is the beginning of the first message again"
    )


def save_conversation(chat: Chat, argument: str) -> None:
    """Run /save: write the messages, without tails, as Markdown, or as JSON to a file *.json."""
    messages = [message for message in chat.assistant.history if message.role in _SPEAKERS]
    if not messages:
        chat.screen.note("nothing has been said yet")
        return
    path = os.path.expanduser(argument) or time.strftime("shepherd-%Y%m%d-%H%M%S.md")
    with new_file(path) as file:
        file.write(_as_json(messages) if path.endswith(".json") else as_markdown(messages))
    chat.screen.note(f"{counted(len(messages), 'message')} saved in {path}")


def _as_json(messages: Sequence[Message]) -> str:
    said = [{"role": message.role, "content": message.raw} for message in messages]
    return json.dumps({"messages": said}, ensure_ascii=False, indent=2) + "\n"


def _print(screen: Screen, conversations: Sequence[SessionSummary], current: str | None) -> None:
    """Print a numbered list: title, id, age and size; the present one is marked."""
    for number, one in enumerate(conversations, 1):
        parts = [
            short_id(one.id),
            age_in_words((time.time() - one.updated_at) / 86_400),
            counted(one.n_messages, "message"),
        ]
        parts += ["this conversation"] if one.id == current else []
        screen.print(f"{number:3}  {title_in_words(one)}")
        screen.print("     " + " \N{MIDDLE DOT} ".join(parts), "dim")

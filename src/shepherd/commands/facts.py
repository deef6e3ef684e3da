"""Facts as `shepherd facts` and `/facts` show and change them: the same actions, in the same words."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from shepherd.commands.action_names import action_meant
from shepherd.commands.conversations import how_to_forget_history, still_said
from shepherd.commands.explain import list_facts
from shepherd.commands.screen import Screen, day, shortened
from shepherd.errors import ShepherdError, UsageError

if TYPE_CHECKING:
    from shepherd.commands.slash import Chat
    from shepherd.memory import Memory
    from shepherd.types import Fact

__all__ = [
    "FACTS_USAGE",
    "clear_fact_in_chat",
    "found_fact",
    "run_facts",
    "set_fact",
    "show_facts_at",
    "show_history",
]

FACTS_USAGE = "/facts [KEY [VALUE] | ACTION]"


# ---- for both


def found_fact(memory: Memory, key: str, user_id: str | None = None) -> Fact | None:
    """Return a fact as `get_fact` finds it."""
    from shepherd.escaping import storable
    from shepherd.memory.facts import find

    user = storable(memory.user_id if user_id is None else user_id)
    return memory.transactions.read(lambda connection: find(connection, user, storable(key.strip())))


def set_fact(memory: Memory, key: str, value: str, user_id: str | None = None) -> str:
    """Set a fact, and return a note about what it is now and was before."""
    before = found_fact(memory, key, user_id)
    memory.set_fact(key, value, user_id)
    after = found_fact(memory, key, user_id)
    if after is None:
        raise UsageError("nothing is kept for this user", hint="--user or the setting 'user_id' names a user")
    note = f"{after.key} = {shortened(after.value)}"
    if before is None:
        return note
    if before.value == after.value:
        return f"{note}, as before"
    return f"{note}; it was {shortened(before.value)}"


def show_facts_at(memory: Memory, date: str, screen: Screen, user_id: str | None = None) -> None:
    """Show the facts as they were on a date; UsageError if it is none."""
    from shepherd.memory.periods import moment_of

    when = moment_of(date, time.time())
    facts = memory.facts_at(when, user_id)
    screen.listing(
        {fact.key: fact.value for fact in facts},
        ["fact", "value"],
        [(fact.key, fact.value) for fact in facts],
        empty=f"no fact is known for {day(int(when), with_time=True)}",
    )


def show_history(
    memory: Memory, key: str | None, screen: Screen, user_id: str | None = None, *, empty: str
) -> bool:
    """Show the values of a fact, or of all; return False, and show nothing, if there is none of this key."""
    periods = memory.fact_periods(key, user_id, corrected=True)
    if key is None:  # of many facts, those of one key together
        periods.sort(key=lambda period: period.key)
    elif not periods:
        return False
    rows = [
        (
            *(() if key else (period.key,)),
            day(period.since),
            period.value,
            "now" if period.until is None else day(period.until),
            period.source,
            period.statement,
        )
        for period in periods
    ]
    columns = ["from", "value", "until", "source", "you said"]
    screen.listing(periods, columns if key else ["fact", *columns], rows, empty=empty)
    return True


# ---- /facts


def run_facts(chat: Chat, argument: str) -> None:
    """Run /facts: an action of `shepherd facts`, or without one list facts, show one, or set one."""
    first, _, rest = argument.partition(" ")
    name, rest = first.casefold(), rest.strip()
    if action := _ACTIONS.get(name):
        action(chat, rest)
    elif meant := action_meant(name, _ACTIONS):
        raise UsageError(
            f"there is no action {first!a}",
            hint=f"did you mean /facts {meant}? /facts set {first} VALUE sets a fact of that name",
        )
    elif not first:
        _list(chat, "")
    elif rest:
        chat.screen.note(set_fact(chat.memory, first, rest, chat.user))
    else:
        _get(chat, first)


def _list(chat: Chat, rest: str) -> None:
    if rest:
        raise UsageError("usage: /facts list", hint="/facts get KEY shows one fact")
    facts = chat.memory.get_all_facts(chat.user)
    list_facts(chat.screen, facts)
    if not facts:
        chat.screen.note(_NO_FACTS)


def _get(chat: Chat, key: str) -> None:
    value = chat.memory.get_fact(_given(key, "/facts get KEY"), chat.user)
    if value is None:
        raise _missing(key)
    chat.screen.print(f"{key} = {value}")


def _set(chat: Chat, rest: str) -> None:
    key, _, value = rest.partition(" ")
    _given(value.strip(), "/facts set KEY VALUE")
    chat.screen.note(set_fact(chat.memory, key, value.strip(), chat.user))


def _at(chat: Chat, date: str) -> None:
    _given(date, "/facts at DATE", "a date is 2026-03-01 (end of the day) or 2026-03-01 14:30")
    show_facts_at(chat.memory, date, chat.screen, chat.user)


def _history(chat: Chat, key: str) -> None:
    if not show_history(chat.memory, key or None, chat.screen, chat.user, empty=_NO_FACTS):
        raise _missing(key)


def _clear(chat: Chat, key: str) -> None:
    _given(key, "/facts clear KEY")
    if "--history" in key.split():
        named = " ".join(word for word in key.split() if word != "--history") or "KEY"
        raise UsageError(
            "/facts clear keeps the history of the fact",
            hint=f"shepherd facts clear {shlex.quote(named)} --history deletes it, with its copies",
        )
    if not clear_fact_in_chat(chat, key):
        raise _missing(key)


def clear_fact_in_chat(chat: Chat, key: str) -> bool:
    """Forget a fact, and say how to get it back and what still has it; return whether there was one."""
    value = chat.memory.get_fact(key, chat.user)
    if value is None:
        return False
    said = [period.statement for period in chat.memory.fact_periods(key, chat.user, corrected=True)]
    chat.memory.clear_fact(key, chat.user)
    chat.forget_lines([*_lines_that_set(key, value), *said])
    chat.screen.note(
        f"the fact {key} is forgotten; it was {shortened(value)}\n"
        f"{_how_to_restore(key, value)}\n{how_to_forget_history(key)}"
    )
    note = still_said(chat.memory, said, chat.user, current=chat.assistant.session_id)
    if note:
        chat.screen.note(note)
    elif any(value in one.sent for one in chat.assistant.history):
        chat.screen.note("this conversation still contains it; /clear begins a new one")
    return True


def _lines_that_set(key: str, value: str) -> list[str]:
    return [f"/facts {key} {value}", f"/facts set {key} {value}"]


def _how_to_restore(key: str, value: str) -> str:
    """Return a note with the command that sets the fact again. A long value is left to the history."""
    if shortened(value) != value:
        return f"To restore it, set the value that it had: /facts history {key} shows it"
    if len(key.split()) > 1:
        return f"To restore it: shepherd facts set {shlex.quote(key)} {shlex.quote(value)}"
    return f"To restore it: /facts set {key} {value}"


def _given(text: str, usage: str, hint: str = "/facts lists the facts") -> str:
    """Return the text; raises UsageError when there is none."""
    if not text:
        raise UsageError(f"usage: {usage}", hint=hint)
    return text


def _missing(key: str) -> ShepherdError:
    return UsageError(f"there is no fact {key!a}", hint="/facts lists them")


_NO_FACTS = "no facts yet; /facts KEY VALUE sets one"
# As `shepherd facts` has them. As a first word, none of these names is a key.
_ACTIONS: dict[str, Callable[[Chat, str], None]] = {
    "list": _list,
    "get": _get,
    "set": _set,
    "clear": _clear,
    "at": _at,
    "history": _history,
}

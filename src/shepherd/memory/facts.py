"""Facts: keys and values of a user, with a history of changes. Inside the caller's transaction.

A change has two times: when it was recorded, and from when on its value holds. The history of a fact follows
from its changes, in the order in which they were recorded: each one says which value holds from its beginning
on, and replaces anything recorded earlier about that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from shepherd.claims.endings import KNOWN, ends_value, items_left, may_end
from shepherd.claims.judge import concerns
from shepherd.claims.keys import (
    LISTS,
    canonical_key,
    joined_items,
    joined_values,
    words_of,
)
from shepherd.claims.moves import is_certain_move
from shepherd.lru_cache import FIFODict
from shepherd.memory.growing_lists import (
    ListChange,
    has_only_grown,
    has_same_items,
    joined_late,
)
from shepherd.memory.precision import is_less_precise
from shepherd.memory.records import Claim, EndedValue, Evidence, FactChange, FactPeriod
from shepherd.transactions import Connection
from shepherd.types import Fact

__all__ = [
    "NO_EVIDENCE",
    "ROWS_OF_USER",
    "Change",
    "Contradiction",
    "FactCache",
    "at",
    "clear",
    "end",
    "find",
    "fold_key",
    "forget_statements",
    "forget_values",
    "history",
    "is_alike",
    "learn",
    "merge",
    "move",
    "of_user",
    "periods",
    "restore",
    "rows_of_user",
    "set_value",
    "values_of",
]

_SEPARATORS = str.maketrans("", "", "_-. \t")
_COLUMNS = "key, value, created_at, updated_at, valid_from"
_HISTORY = "key, value, source, changed_at, valid_from, statement, session_id"
# The order of the primary key, which needs no sort.
ROWS_OF_USER = f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? ORDER BY key"
# Changes of one key, the last first.
_CHANGES = "FROM fact_history WHERE user_id = ? AND key = ? ORDER BY changed_at DESC, id DESC"

FactRow = tuple[str, str, int, int, int]
NO_EVIDENCE = Evidence()
# Source of what was learned from the user's words.
_LEARNED = "extraction"

# Endings of something that one has, not of a visit or of a moment: "I left Berlin" may mean either.
_GIVEN_UP = re.compile(
    r"\b(?:quit|resigned|sold|gave up|given up|no longer|any ?more|divorced|broke up|got rid)\b"
)

# What ended, or began, longer before a fact was told is another thing, or another time of it.
_LONG_AGO_S = 365 * 86_400
# People set a fact, and tell later of the change by which it was true no more: by about a month.
_LATE_S = 35 * 86_400
_STILL = re.compile(r"\b(?:now|still|these days|nowadays)\b", re.IGNORECASE)

# Number of users whose facts are cached as records.
_MOST_CACHED_USERS = 1024


class Change(NamedTuple):
    """A change that was recorded under a number.

    `imported`: the number under which the value before was recorded with it, 0 if that was recorded already.
    """

    number: int
    key: str
    before: Fact | None
    after: Fact | None
    imported: int = 0


class Contradiction(NamedTuple):
    """A fact that the user set, and the value that was said to hold instead ("": it holds no longer)."""

    fact: Fact
    value: str


class FactCache:
    """Returns the same tuple of records for the same rows, so that callers can cache by identity."""

    # Facts seldom change between two messages: comparing rows costs a tenth of making records of them,
    # and unlike a version number it needs nothing from other processes.
    def __init__(self) -> None:
        self._records: FIFODict[str, tuple[list[FactRow], tuple[Fact, ...]]] = FIFODict(_MOST_CACHED_USERS)

    def records(self, user_id: str, rows: list[FactRow]) -> tuple[Fact, ...]:
        """Return the user's facts from their rows in the table."""
        known = self._records.get(user_id)
        if known is not None and known[0] == rows:
            return known[1]
        records = tuple(Fact(*row) for row in rows)
        self._records[user_id] = (rows, records)
        return records


def fold_key(key: str) -> str:
    """Return a key as keys are compared: `favoriteColor` and `favorite_color` are one."""
    return key.casefold().translate(_SEPARATORS)


def rows_of_user(connection: Connection, user_id: str) -> list[FactRow]:
    """Return the rows of all facts, in key order."""
    rows: list[FactRow] = connection.execute(ROWS_OF_USER, (user_id,))
    return rows


def of_user(connection: Connection, user_id: str) -> tuple[Fact, ...]:
    """Return all facts in key order."""
    return tuple(Fact(*row) for row in rows_of_user(connection, user_id))


def set_by_user(connection: Connection, user_id: str, source: str) -> tuple[Fact, ...]:
    """Return the facts, in key order, whose current value was not learned: it doesn't come from `source`."""
    every = of_user(connection, user_id)
    return tuple(fact for fact in every if _source(connection, user_id, fact.key) != source)


def contradicts(known: str, value: str) -> bool:
    """Return whether a value contradicts a known one: "Steve" is a part of "Steve Miller", and does not."""
    return not set(_folded(value).split()) <= set(_folded(known).replace(",", " ").split())


def find(connection: Connection, user_id: str, key: str) -> Fact | None:
    """Return the fact of that key, else the latest changed one whose key folds to the same."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? AND key = ?", (user_id, key))
    if rows:
        return Fact(*rows[0])
    is_alike = _like(key)
    alike = [fact for fact in of_user(connection, user_id) if is_alike(fact.key)]
    return max(alike, key=lambda fact: fact.updated_at, default=None)


def set_value(
    connection: Connection,
    user_id: str,
    key: str,
    value: str,
    *,
    source: str,
    now: int,
    since: int = 0,
    evidence: Evidence = NO_EVIDENCE,
) -> Change | None:
    """Set a fact that holds from `since` on (0: now); return the change, None if it has that value already.

    A fact whose key folds to the same is replaced and keeps its spelling: nobody has two colours.
    """
    known = find(connection, user_id, key)
    if known is not None and known.value == value:
        return None
    return _change(connection, user_id, known, key, value, source, now, since, evidence)


def _change(
    connection: Connection,
    user_id: str,
    known: Fact | None,
    key: str,
    value: str | None,
    source: str,
    now: int,
    since: int,
    evidence: Evidence,
) -> Change:
    """Give the fact another value or None, and record that."""
    imported = 0
    if known is not None:
        key = known.key
        if not _is_recorded(connection, user_id, known):
            imported = _remember_import(connection, user_id, known)
    since = since or now
    if value is None:
        after = None
        _delete(connection, user_id, key)
    else:
        after = Fact(key, value, known.created_at if known else now, now, since)
        _write(connection, user_id, after)
    change = FactChange(key, value, source, now, since, evidence.statement, evidence.session)
    number = _remember(connection, user_id, change, evidence.message_id)
    return Change(number, key, known, after, imported)


def learn(
    connection: Connection,
    user_id: str,
    claim: Claim,
    *,
    source: str,
    since: int,
    told_at: int,
    starts: int = 0,
    evidence: Evidence = NO_EVIDENCE,
) -> Change | Contradiction | None:
    """Learn a fact that was stated between `since` and `told_at`, and holds from `starts` on (0: not said).

    None if nothing changes: it has that value, or was set or cleared after `told_at`; what users set or
    cleared themselves stays from `since` on, since it may have corrected what is learned. A fact that was not
    learned is only replaced if the statement says that it changed; else the two contradict each other. An
    item of a list, such as an allergy, joins the others, also if those were told later. Of a value that is
    known already, an earlier beginning is learned. A less precise value, such as "a Volvo" for "red Volvo
    V70", changes nothing.
    """
    key, value = claim.key, claim.value
    known = find(connection, user_id, key) or _find_spelling(connection, user_id, key)
    common = canonical_key(key)
    is_list = common is not None and common.name in LISTS
    changes = _changes_of(connection, user_id, key if known is None else known.key)
    is_late = False
    if known is not None:
        key = known.key
        if common is not None and is_list:
            is_late = has_only_grown(common.name, changes, known, told_at, by=source)
            join = joined_late if is_late else joined_values
            value = join(common.name, known.value, value)
        is_known = common is not None and is_list and has_same_items(common.name, known.value, value)
        if is_known or _folded(known.value) == _folded(value):
            value = known.value
            if not starts or starts >= (known.valid_from or known.updated_at):
                return None
            source = _source(connection, user_id, key) or "import"
    if known is not None and is_late:
        # The change that is recorded last must be the last one.
        told_at = max(told_at, known.updated_at)
    if known is not None and known.updated_at > (told_at if changes else since):
        return None
    by_models = (_LEARNED, "tool")
    if any(at > (told_at if by in by_models else since) for _, by, at in changes):
        return None
    changes_now = claim.changes and _is_certain(claim, known)
    if known is not None and claim.changes and starts and not is_list and not _STILL.search(claim.statement):
        # "I moved to Oslo in 2005" is no change of what is known since then.
        learned_at = known.valid_from or known.updated_at
        if starts < learned_at - _LONG_AGO_S and _source(connection, user_id, key) == source:
            return None
        changes_now = changes_now and starts >= learned_at - _LATE_S
    if known is not None and known.value != value and not changes_now:
        if not is_list and is_less_precise(key, value, known.value):
            return None
        is_set = _source(connection, user_id, key) != source
        if is_set and not is_list:
            return Contradiction(known, value) if contradicts(known.value, value) else None
    return _change(connection, user_id, known, key, value, source, told_at, starts or told_at, evidence)


def _is_certain(claim: Claim, known: Fact | None) -> bool:
    """Return whether a claim says for certain that a fact changed: "I moved to Tidal" may be about an app."""
    common = canonical_key(claim.key)
    is_move = known is not None and common is not None and common.name == "location"
    return not is_move or is_certain_move(claim.statement, claim.value, known.value if known else "")


def _changes_of(connection: Connection, user_id: str, key: str) -> list[ListChange]:
    """Return value, source and time of all changes of a fact under any spelling of its key, oldest first."""
    rows = connection.execute(
        "SELECT key, value, source, changed_at FROM fact_history WHERE user_id = ? ORDER BY changed_at, id",
        (user_id,),
    )
    is_alike = _like(key)
    return [(value, source, changed_at) for other, value, source, changed_at in rows if is_alike(other)]


def end(
    connection: Connection,
    user_id: str,
    ended: EndedValue,
    *,
    source: str,
    told_at: int,
    starts: int,
    evidence: Evidence = NO_EVIDENCE,
    is_refused: Callable[[Fact, str], bool] = lambda fact, left: False,
) -> list[Change | Contradiction]:
    """Clear the facts whose value holds no longer, or take it out of a list; return the changes.

    A fact that the user set is only contradicted where the statement does not say which relation has ended.
    Facts for which `is_refused` (fact, what is left of it) returns True stay.
    """
    statement = ended.statement.casefold()
    changes: list[Change | Contradiction] = []
    for fact in of_user(connection, user_id):
        common = canonical_key(fact.key)
        if (
            (ended.key and ended.key != fact.key)
            or not may_end(ended.kind, fact.key)
            or not concerns(statement, fact.key)
            or fact.updated_at > told_at
        ):
            continue
        # "I lived in Oslo until 2019" is about another time than "I live in Oslo" of today.
        if ended.kind == KNOWN and 0 < starts < fact.updated_at - _LONG_AGO_S:
            continue
        left = ""
        if common is not None and common.name in LISTS and _folded(fact.value) != _folded(ended.value):
            others = items_left(ended.kind, ended.value, common.name, fact.value)
            if others is None:
                continue
            left = joined_items(common.name, others)
        elif not ends_value(ended.kind, ended.value, fact.key, fact.value):
            continue
        if is_refused(fact, left):
            continue
        is_vague = ended.kind == "any" and not left and not _names_relation(fact.key, statement)
        if (is_vague or ended.kind == KNOWN) and _source(connection, user_id, fact.key) != source:
            changes.append(Contradiction(fact, left))
            continue
        begins = starts or told_at
        # A value whose beginning was not stated may have ended before it was told.
        if fact.valid_from and fact.valid_from < fact.updated_at:
            begins = max(begins, fact.valid_from)
        changes.append(
            _change(connection, user_id, fact, fact.key, left or None, source, told_at, begins, evidence)
        )
    return changes


def _names_relation(key: str, statement: str) -> bool:
    """Return whether a sentence about an end says which fact it is about: "I quit my job", "my dog died"."""
    if _GIVEN_UP.search(statement):
        return True
    words = words_of(key)
    return bool(words) and all(re.search(rf"\b{re.escape(word)}s?\b", statement) for word in words)


def _find_spelling(connection: Connection, user_id: str, key: str) -> Fact | None:
    """Return the latest changed fact under another spelling of a common key: `city` for `location`."""
    common = canonical_key(key)
    if common is None:
        return None
    alike = [fact for fact in of_user(connection, user_id) if canonical_key(fact.key) == common]
    return max(alike, key=lambda fact: fact.updated_at, default=None)


def _folded(value: str) -> str:
    return " ".join(value.casefold().split())


def restore(
    connection: Connection, user_id: str, number: int, key: str, before: Fact | None, imported: int
) -> bool:
    """Undo a change: the fact and its history are as before. Return False if the fact was changed again."""
    if _last_change(connection, user_id, key) != number:
        return False
    [change] = connection.execute(
        "SELECT value, changed_at FROM fact_history WHERE user_id = ? AND id = ?", (user_id, number)
    )
    now = connection.execute(
        "SELECT value, updated_at FROM facts WHERE user_id = ? AND key = ?", (user_id, key)
    )
    # An import can change a fact without its history.
    if now != ([] if change[0] is None else [change]):
        return False
    for one in (number, imported):
        connection.execute("DELETE FROM fact_history WHERE id = ? AND user_id = ?", (one, user_id))
    _delete(connection, user_id, key)
    if before is not None:
        _write(connection, user_id, before)
    return True


def _source(connection: Connection, user_id: str, key: str) -> str:
    """Return the source of the last change of a fact, "" if it was imported without its history."""
    rows = connection.execute(f"SELECT source {_CHANGES} LIMIT 1", (user_id, key))
    return rows[0][0] if rows else ""


def _last_change(connection: Connection, user_id: str, key: str) -> int | None:
    rows = connection.execute(f"SELECT id {_CHANGES} LIMIT 1", (user_id, key))
    return rows[0][0] if rows else None


def _is_recorded(connection: Connection, user_id: str, fact: Fact) -> bool:
    """Return whether the history has the value of a fact: not if that was imported without its history."""
    rows = connection.execute(f"SELECT value, changed_at {_CHANGES} LIMIT 1", (user_id, fact.key))
    return bool(rows) and (rows[0][0] == fact.value or rows[0][1] > fact.updated_at)


def _remember_import(connection: Connection, user_id: str, fact: Fact) -> int:
    change = FactChange(fact.key, fact.value, "import", fact.updated_at, fact.valid_from)
    return _remember(connection, user_id, change)


def clear(
    connection: Connection,
    user_id: str,
    key: str,
    *,
    source: str,
    now: int,
    since: int = 0,
    evidence: Evidence = NO_EVIDENCE,
) -> Change | None:
    """Remove a fact, found as `find` finds it; return the change, None if there is no such fact.

    The history records that it was cleared, and when, so that an earlier message does not bring it back.
    """
    known = find(connection, user_id, key)
    if known is None:
        return None
    return _change(connection, user_id, known, known.key, None, source, now, since, evidence)


def values_of(connection: Connection, user_id: str, key: str) -> set[str]:
    """Return all values that a fact has or had, under any spelling of its key."""
    is_alike = _like(key)
    rows = connection.execute(
        "SELECT key, value FROM fact_history WHERE user_id = ?1"
        " UNION SELECT key, value FROM facts WHERE user_id = ?1",
        (user_id,),
    )
    return {value for other, value in rows if value is not None and is_alike(other)}


def forget_values(connection: Connection, user_id: str, key: str) -> tuple[list[str], list[str]]:
    """Remove the former values of a fact, and the sentences about it; return its spellings and the values."""
    rows = connection.execute("SELECT id, key, value FROM fact_history WHERE user_id = ?", (user_id,))
    is_alike = _like(key)
    had = [row for row in rows if is_alike(row[1])]
    for number, _, value in had:
        if value is not None:
            connection.execute("DELETE FROM fact_history WHERE user_id = ? AND id = ?", (user_id, number))
        else:
            _forget_evidence(connection, user_id, number)
    return sorted({row[1] for row in had}), sorted({row[2] for row in had if row[2] is not None})


def forget_statements(
    connection: Connection, user_id: str, is_meant: Callable[[str, str, int], bool]
) -> None:
    """Remove the evidence of changes for which `is_meant` (statement, session, message id) returns True."""
    rows = connection.execute(
        "SELECT id, statement, session_id, message_id FROM fact_history"
        " WHERE user_id = ? AND statement <> ''",
        (user_id,),
    )
    for number, *evidence in rows:
        if is_meant(*evidence):
            _forget_evidence(connection, user_id, number)


def _forget_evidence(connection: Connection, user_id: str, number: int) -> None:
    connection.execute(
        "UPDATE fact_history SET statement = '' WHERE user_id = ? AND id = ?", (user_id, number)
    )


def is_alike(key: str, other: str) -> bool:
    """Return whether two keys are one, however they are spelled."""
    return _like(key)(other)


def _like(key: str) -> Callable[[str], bool]:
    """Return a function that compares another key with this one, folded."""
    folded = fold_key(key)
    # A key of separators alone folds to nothing, and would be every other such key.
    return lambda other: other == key or (folded != "" and fold_key(other) == folded)


def history(connection: Connection, user_id: str, key: str | None) -> list[FactChange]:
    """Return every change of the facts whose key folds to that of `key`, or of all, oldest first."""
    rows = connection.execute(
        f"SELECT {_HISTORY} FROM fact_history WHERE user_id = ? ORDER BY changed_at, id",
        (user_id,),
    )
    changes = (FactChange(*row) for row in rows)
    if key is None:
        return list(changes)
    is_alike = _like(key)
    return [change for change in changes if is_alike(change.key)]


def periods(
    connection: Connection,
    user_id: str,
    key: str | None,
    *,
    corrected: bool = False,
    forgotten: bool = True,
) -> list[FactPeriod]:
    """Return the values of a fact, or of all, with the times in which they held, oldest first.

    With `corrected` also values that, as is known now, held at no time; their `until` is their `since`.
    Without `forgotten`, values from before the user cleared the fact are left out, unless he told their end.
    """
    by_key: dict[str, list[FactChange]] = {}
    for change in history(connection, user_id, key):
        by_key.setdefault(fold_key(change.key) or change.key, []).append(change)
    if not forgotten:
        by_key = {folded: _since_forgotten(changes) for folded, changes in by_key.items()}
    is_meant = _like(key) if key is not None else lambda other: True
    now = {fold_key(f.key) or f.key: f for f in of_user(connection, user_id) if is_meant(f.key)}
    found = [
        period
        for folded in {**by_key, **now}
        for period in _timeline(by_key.get(folded, ()), now.get(folded))
        if corrected or period.until is None or period.since < period.until
    ]
    return sorted(
        found,
        key=lambda period: (
            (
                period.until is None,
                period.since if period.until is None else period.until,
                period.recorded_at,
                period.key,
            )
            if corrected
            else (period.since, period.recorded_at, period.key)
        ),
    )


def _since_forgotten(changes: list[FactChange]) -> list[FactChange]:
    """Return the changes behind the last one by which the user cleared the fact."""
    cleared = (
        i
        for i, change in enumerate(changes, 1)
        if change.value is None and change.source != _LEARNED and change.valid_from in (0, change.changed_at)
    )
    return changes[max(cleared, default=0) :]


def _timeline(changes: Iterable[FactChange], fact: Fact | None) -> list[FactPeriod]:
    """Return the periods of one fact from its changes in the order of recording, and from what it is now."""
    found: list[FactPeriod] = []
    for change in changes:
        begins = change.valid_from or change.changed_at
        if change.value is None and found and found[-1].until is None and begins < found[-1].since:
            # It had ended before it was told; since when it had held is not known.
            found[-1] = replace(found[-1], since=begins)
        found = _until(found, begins)
        if change.value is not None:
            found.append(
                FactPeriod(
                    change.key, change.value, begins, None, change.source, change.statement, change.changed_at
                )
            )
    is_open = bool(found) and found[-1].until is None
    if fact is None and is_open:
        # A merge clears a fact without a change of its own.
        found[-1] = replace(found[-1], until=found[-1].recorded_at)
    elif fact is not None and not (is_open and found[-1].value == fact.value):
        begins = fact.valid_from or fact.updated_at
        found = _until(found, begins)
        found.append(FactPeriod(fact.key, fact.value, begins, None, "import", "", fact.updated_at))
    return found


def _until(periods: Iterable[FactPeriod], end: int) -> list[FactPeriod]:
    """Return the periods up to a moment; those that begin later have no length."""
    return [
        period
        if period.until is not None and period.until <= end
        else replace(period, until=max(end, period.since))
        for period in periods
    ]


def at(connection: Connection, user_id: str, when: float) -> tuple[Fact, ...]:
    """Return the facts that held at a moment, as known now, in key order."""
    held = [
        Fact(period.key, period.value, period.recorded_at, period.recorded_at, period.since)
        for period in periods(connection, user_id, None)
        if period.since <= when and (period.until is None or when < period.until)
    ]
    return tuple(sorted(held, key=lambda fact: fact.key))


def merge(connection: Connection, user_id: str, facts: Sequence[Fact], changes: Sequence[FactChange]) -> int:
    """Take facts that are newer than those here, and changes that are unknown here; return how many values.

    A value that is here already is not counted, though it is told again. A fact that was cleared later on
    either side is cleared.
    """
    recorded = history(connection, user_id, None)
    told = {(fold_key(change.key) or change.key, change.value) for change in changes}
    last_here = {fold_key(change.key) or change.key: change for change in recorded}
    n_taken = 0
    for fact in facts:
        here = find(connection, user_id, fact.key)
        if here is not None and (here.updated_at >= fact.updated_at or here == fact):
            continue
        last = last_here.get(fold_key(fact.key) or fact.key)
        if here is None and last is not None and last.value is None and last.changed_at >= fact.updated_at:
            continue
        if (
            here is not None
            and here.value != fact.value
            and (fold_key(here.key) or here.key, here.value) not in told
            and not _is_recorded(connection, user_id, here)
        ):
            _remember_import(connection, user_id, here)
        key = here.key if here else fact.key
        since = fact.valid_from or fact.updated_at
        _write(connection, user_id, Fact(key, fact.value, fact.created_at, fact.updated_at, since))
        n_taken += here is None or here.value != fact.value
    known = set(recorded)
    for change in changes:
        if change in known:
            continue
        _remember(connection, user_id, change)
        _clear_if_older(connection, user_id, change)
    return n_taken


def move(connection: Connection, from_user: str, user_id: str) -> int:
    """Give a user's facts and changes to another, as `merge` does; changes keep their numbers."""
    changes = history(connection, from_user, None)
    known = set(history(connection, user_id, None))
    n_taken = merge(connection, user_id, of_user(connection, from_user), ())
    rows = connection.execute(
        "SELECT id, key, value, source, changed_at FROM fact_history WHERE user_id = ?", (from_user,)
    )
    for number, *columns in rows:
        if FactChange(*columns) in known:
            connection.execute("DELETE FROM fact_history WHERE user_id = ? AND id = ?", (from_user, number))
        else:
            connection.execute(
                "UPDATE fact_history SET user_id = ? WHERE user_id = ? AND id = ?",
                (user_id, from_user, number),
            )
    for change in changes:
        _clear_if_older(connection, user_id, change)
    connection.execute("DELETE FROM facts WHERE user_id = ?", (from_user,))
    return n_taken


def _clear_if_older(connection: Connection, user_id: str, change: FactChange) -> None:
    """Remove the fact that a change has cleared, unless it is newer."""
    here = find(connection, user_id, change.key) if change.value is None else None
    if here is not None and here.updated_at < change.changed_at:
        _delete(connection, user_id, here.key)


def _write(connection: Connection, user_id: str, fact: Fact) -> None:
    connection.execute(
        "INSERT INTO facts(user_id, key, value, created_at, updated_at, valid_from) VALUES(?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(user_id, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at,"
        " valid_from = excluded.valid_from",
        (user_id, fact.key, fact.value, fact.created_at, fact.updated_at, fact.valid_from),
    )


def _delete(connection: Connection, user_id: str, key: str) -> None:
    connection.execute("DELETE FROM facts WHERE user_id = ? AND key = ?", (user_id, key))


def _remember(connection: Connection, user_id: str, change: FactChange, message_id: int = 0) -> int:
    rows = connection.execute(
        "INSERT INTO fact_history(user_id, key, value, source, changed_at, valid_from, statement, session_id,"
        " message_id) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            user_id,
            change.key,
            change.value,
            change.source,
            change.changed_at,
            change.valid_from or change.changed_at,
            change.statement,
            change.session,
            message_id,
        ),
    )
    return int(rows[0][0])

"""Facts: keys and values of a user, with a history of changes. Inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shepherd.claims.keys import LISTS, canonical_key, joined_values
from shepherd.lru_cache import FIFODict
from shepherd.memory.records import EndedValue, FactChange
from shepherd.transactions import Connection
from shepherd.types import Fact

__all__ = [
    "ROWS_OF_USER",
    "FactCache",
    "clear",
    "end",
    "find",
    "fold_key",
    "history",
    "learn",
    "merge",
    "of_user",
    "rows_of_user",
    "set_value",
    "take_back",
]

_SEPARATORS = str.maketrans("", "", "_-. \t")
_COLUMNS = "key, value, created_at, updated_at"
# The order of the primary key, which needs no sort.
ROWS_OF_USER = f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? ORDER BY key"
# Changes of one key, the last first.
_CHANGES = "FROM fact_history WHERE user_id = ? AND key = ? ORDER BY changed_at DESC, id DESC"

FactRow = tuple[str, str, int, int]

# Number of users whose facts are cached as records.
_MOST_CACHED_USERS = 1024


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


def find(connection: Connection, user_id: str, key: str) -> Fact | None:
    """Return the fact of that key, else the latest changed one whose key folds to the same."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? AND key = ?", (user_id, key))
    if rows:
        return Fact(*rows[0])
    is_alike = _like(key)
    alike = [fact for fact in of_user(connection, user_id) if is_alike(fact.key)]
    return max(alike, key=lambda fact: fact.updated_at, default=None)


def set_value(
    connection: Connection, user_id: str, key: str, value: str, *, source: str, now: int
) -> int | None:
    """Set a fact and return the number of the change; None if it has that value already.

    A fact whose key folds to the same is replaced and keeps its spelling: nobody has two colours.
    """
    known = find(connection, user_id, key)
    if known is not None and known.value == value:
        return None
    if known is not None and _last_change(connection, user_id, known.key) is None:
        # It was imported without its history.
        _remember(connection, user_id, FactChange(known.key, known.value, "import", known.updated_at))
    key = known.key if known else key
    _write(connection, user_id, Fact(key, value, now, now))
    return _remember(connection, user_id, FactChange(key, value, source, now))


def learn(
    connection: Connection,
    user_id: str,
    key: str,
    value: str,
    *,
    source: str,
    since: int,
    told_at: int,
    is_change: bool = False,
) -> int | None:
    """Learn a fact that was stated between `since` and `told_at`; return the number of the change.

    None if nothing changes: it has that value, or was set or cleared after `told_at`; what users set or
    cleared themselves stays from `since` on, since it may have corrected what is learned. A fact that was not
    learned is only replaced if the statement says that it changed. An item of a list, such as an allergy,
    joins the others.
    """
    known = find(connection, user_id, key) or _find_spelling(connection, user_id, key)
    common = canonical_key(key)
    if known is not None:
        key = known.key
        if common is not None and common.name in LISTS:
            value = joined_values(known.value, value)
        if known.value == value or not (is_change or _is_learned(connection, user_id, key, source)):
            return None
    changes = history(connection, user_id, key)
    if known is not None and known.updated_at > (told_at if changes else since):
        return None
    by_models = (source, "tool")
    if any(change.changed_at > (told_at if change.source in by_models else since) for change in changes):
        return None
    return set_value(connection, user_id, key, value, source=source, now=told_at)


def end(connection: Connection, user_id: str, ended: EndedValue, *, source: str, told_at: int) -> list[int]:
    """Clear the facts whose value holds no longer; return the numbers of the changes."""
    wanted = ended.value.casefold()
    changes = []
    for fact in of_user(connection, user_id):
        common = canonical_key(fact.key)
        is_meant = ended.kind == "any" or (common is not None and ended.kind in common.kinds)
        if fact.value.casefold() != wanted or not is_meant or fact.updated_at > told_at:
            continue
        connection.execute("DELETE FROM facts WHERE user_id = ? AND key = ?", (user_id, fact.key))
        changes.append(_remember(connection, user_id, FactChange(fact.key, None, source, told_at)))
    return changes


def _find_spelling(connection: Connection, user_id: str, key: str) -> Fact | None:
    """Return the latest changed fact under another spelling of a common key: `city` for `location`."""
    common = canonical_key(key)
    if common is None:
        return None
    alike = [fact for fact in of_user(connection, user_id) if canonical_key(fact.key) == common]
    return max(alike, key=lambda fact: fact.updated_at, default=None)


def _is_learned(connection: Connection, user_id: str, key: str, source: str) -> bool:
    rows = connection.execute(f"SELECT source {_CHANGES} LIMIT 1", (user_id, key))
    return bool(rows) and rows[0][0] == source


def take_back(connection: Connection, user_id: str, changes: Sequence[int]) -> None:
    """Undo changes, except those after which the fact was changed again."""
    for change in reversed(changes):
        rows = connection.execute(
            "SELECT key FROM fact_history WHERE id = ? AND user_id = ?", (change, user_id)
        )
        if not rows or _last_change(connection, user_id, key := rows[0][0]) != change:
            continue
        connection.execute("DELETE FROM fact_history WHERE id = ?", (change,))
        before = connection.execute(f"SELECT value, changed_at {_CHANGES} LIMIT 1", (user_id, key))
        if before and before[0][0] is not None:
            value, changed_at = before[0]
            _write(connection, user_id, Fact(key, value, changed_at, changed_at))
        else:
            connection.execute("DELETE FROM facts WHERE user_id = ? AND key = ?", (user_id, key))


def _last_change(connection: Connection, user_id: str, key: str) -> int | None:
    rows = connection.execute(f"SELECT id {_CHANGES} LIMIT 1", (user_id, key))
    return rows[0][0] if rows else None


def clear(
    connection: Connection, user_id: str, key: str, *, source: str, now: int, with_history: bool = False
) -> bool:
    """Remove a fact, found as `find` finds it, and with `with_history` its former values too.

    Return whether there was anything to remove. The history records in any case that it was cleared, and
    when, so that an earlier message does not bring it back.
    """
    known = find(connection, user_id, key)
    if known is not None:
        connection.execute("DELETE FROM facts WHERE user_id = ? AND key = ?", (user_id, known.key))
        _remember(connection, user_id, FactChange(known.key, None, source, now))
    return (with_history and _forget_values(connection, user_id, key)) or known is not None


def _forget_values(connection: Connection, user_id: str, key: str) -> bool:
    rows = connection.execute(
        "SELECT id, key FROM fact_history WHERE user_id = ? AND value IS NOT NULL", (user_id,)
    )
    is_alike = _like(key)
    had = [number for number, other in rows if is_alike(other)]
    for number in had:
        connection.execute("DELETE FROM fact_history WHERE id = ?", (number,))
    return bool(had)


def _like(key: str) -> Callable[[str], bool]:
    """Return a function that compares another key with this one, folded."""
    folded = fold_key(key)
    # A key of separators alone folds to nothing, and would be every other such key.
    return lambda other: other == key or (folded != "" and fold_key(other) == folded)


def history(connection: Connection, user_id: str, key: str | None) -> list[FactChange]:
    """Return every change of the facts whose key folds to that of `key`, or of all, oldest first."""
    rows = connection.execute(
        "SELECT key, value, source, changed_at FROM fact_history WHERE user_id = ? ORDER BY changed_at, id",
        (user_id,),
    )
    changes = (FactChange(*row) for row in rows)
    if key is None:
        return list(changes)
    is_alike = _like(key)
    return [change for change in changes if is_alike(change.key)]


def merge(connection: Connection, user_id: str, facts: Sequence[Fact], changes: Sequence[FactChange]) -> int:
    """Take facts that are newer than those here, and changes that are unknown here; return how many facts.

    A fact that was cleared later on either side is cleared.
    """
    recorded = history(connection, user_id, None)
    last_here = {fold_key(change.key) or change.key: change for change in recorded}
    n_taken = 0
    for fact in facts:
        here = find(connection, user_id, fact.key)
        if here is not None and (here.updated_at >= fact.updated_at or here == fact):
            continue
        last = last_here.get(fold_key(fact.key) or fact.key)
        if here is None and last is not None and last.value is None and last.changed_at >= fact.updated_at:
            continue
        key = here.key if here else fact.key
        _write(connection, user_id, Fact(key, fact.value, fact.created_at, fact.updated_at))
        n_taken += 1
    known = set(recorded)
    for change in changes:
        if change in known:
            continue
        _remember(connection, user_id, change)
        here = find(connection, user_id, change.key) if change.value is None else None
        if here is not None and here.updated_at < change.changed_at:
            connection.execute("DELETE FROM facts WHERE user_id = ? AND key = ?", (user_id, here.key))
    return n_taken


def _write(connection: Connection, user_id: str, fact: Fact) -> None:
    connection.execute(
        "INSERT INTO facts(user_id, key, value, created_at, updated_at) VALUES(?, ?, ?, ?, ?)"
        " ON CONFLICT(user_id, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        (user_id, fact.key, fact.value, fact.created_at, fact.updated_at),
    )


def _remember(connection: Connection, user_id: str, change: FactChange) -> int:
    rows = connection.execute(
        "INSERT INTO fact_history(user_id, key, value, source, changed_at) VALUES(?, ?, ?, ?, ?)"
        " RETURNING id",
        (user_id, change.key, change.value, change.source, change.changed_at),
    )
    return int(rows[0][0])

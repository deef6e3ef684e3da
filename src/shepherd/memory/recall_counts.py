"""Counts how often memories were put into messages, without a write on the path of recall.

A write per recall would cost many times the recall. So counts wait in main memory and are written with the
next transaction that writes anyway: a turn recalls, and then stores the exchange. Counts that still wait are
written at close; a process that is killed loses them, and a memory may wrongly be called "never recalled".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shepherd.memory.schema import memory_range
from shepherd.transactions import Connection

__all__ = ["COUNT", "RecallCounts", "Waiting", "never_recalled", "of", "rows", "write"]

# Memory id: number of recalls, and unix seconds of the last one.
Waiting = dict[int, tuple[int, int]]

COUNT = (
    "INSERT INTO recalls(id, n, last) SELECT id, CAST(? AS BIGINT), CAST(? AS BIGINT) FROM context"
    " WHERE id = ? ON CONFLICT(id) DO UPDATE SET n = recalls.n + excluded.n, last = excluded.last"
)
# Number of memories whose counts may wait; later ones are not counted. 16,384 take two megabytes.
_MOST_WAITING = 1 << 14
# A statement takes 64 parameters.
_IDS_AT_ONCE = 60


class RecallCounts:
    """Counts that wait to be written.

    Two threads may lose a count of the same memory, never an entry of another one.
    """

    def __init__(self) -> None:
        self._waiting: Waiting = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, memory_id: int) -> bool:
        return memory_id in self._waiting

    def note(self, memory_ids: Iterable[int], now: float) -> None:
        """Count one recall of each memory."""
        waiting = self._waiting
        for memory_id in memory_ids:
            if memory_id in waiting or len(waiting) < _MOST_WAITING:
                waiting[memory_id] = (waiting.get(memory_id, (0, 0))[0] + 1, int(now))

    def take(self) -> Waiting:
        """Return the waiting counts, for the caller to write, and forget them."""
        waiting, self._waiting = self._waiting, {}
        return waiting


# ---- inside the caller's transaction


def write(connection: Connection, waiting: Waiting) -> None:
    """Add counts to the table, except those of memories that have been deleted."""
    if waiting:
        connection.execute_many(COUNT, rows(waiting))


def rows(waiting: Waiting) -> list[tuple[int, int, int]]:
    """Return the parameters of COUNT for each memory."""
    # In order of id: two transactions that hold each other's rows would wait for ever.
    return [(n, last, memory_id) for memory_id, (n, last) in sorted(waiting.items())]


def of(connection: Connection, tenant: int, ids: Sequence[int]) -> dict[int, int]:
    """Return the number of recalls of those memories of the tenant that have been recalled."""
    first, last = memory_range(tenant)
    mine = [memory_id for memory_id in ids if first <= memory_id <= last]
    counts: dict[int, int] = {}
    for start in range(0, len(mine), _IDS_AT_ONCE):
        some = mine[start : start + _IDS_AT_ONCE]
        holes = ", ".join("?" * len(some))
        counts.update(connection.execute(f"SELECT id, n FROM recalls WHERE id IN ({holes})", some))
    return counts


def never_recalled(connection: Connection, tenant: int, before: int) -> list[int]:
    """Return the unpinned memories from before that time which were never put into a message."""
    # None while it has not been counted for so long: nobody could have recalled them.
    found = connection.execute(
        "SELECT id FROM context WHERE id BETWEEN ? AND ? AND timestamp < ? AND pinned = 0"
        " AND NOT EXISTS (SELECT 1 FROM recalls r WHERE r.id = context.id)"
        " AND (SELECT value FROM meta WHERE key = 'recalls_counted_since') < ?",
        (*memory_range(tenant), before, before),
    )
    return [memory_id for (memory_id,) in found]

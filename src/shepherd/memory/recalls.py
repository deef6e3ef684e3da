"""Counts what recall puts into messages, without a write in its path.

A write per recall would cost many times the recall. So counts wait in memory, and go along with the next
transaction that writes anyway: a turn recalls, and then stores what was said. What is still waiting at the
end is written then; a process that is killed loses it, and a memory may be called "never recalled" wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable

from shepherd.memory.connection import Connection
from shepherd.memory.schema import memory_range

__all__ = ["COUNT", "RecallCounts", "Waiting", "never_recalled", "rows", "write"]

# Memory id: how often, and when last.
Waiting = dict[int, tuple[int, int]]

COUNT = (
    "INSERT INTO recalls(id, n, last) SELECT id, CAST(? AS BIGINT), CAST(? AS BIGINT) FROM context"
    " WHERE id = ? ON CONFLICT(id) DO UPDATE SET n = recalls.n + excluded.n, last = excluded.last"
)
# Memories that may wait; of more, those that come later are not counted. 16,384 take two megabytes.
_MOST_WAITING = 1 << 14


class RecallCounts:
    """What waits to be written. Threads may lose a count to each other, never an entry of another memory."""

    def __init__(self) -> None:
        self._waiting: Waiting = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, memory_id: int) -> bool:
        return memory_id in self._waiting

    def note(self, memory_ids: Iterable[int], now: float) -> None:
        """These were put into a message."""
        waiting = self._waiting
        for memory_id in memory_ids:
            if memory_id in waiting or len(waiting) < _MOST_WAITING:
                waiting[memory_id] = (waiting.get(memory_id, (0, 0))[0] + 1, int(now))

    def take(self) -> Waiting:
        """What waits, which is the caller's to write now."""
        waiting, self._waiting = self._waiting, {}
        return waiting


def write(connection: Connection, waiting: Waiting) -> None:
    """Adds to the table, inside the caller's transaction. Memories that are deleted by now are left out."""
    if waiting:
        connection.execute_many(COUNT, rows(waiting))


def rows(waiting: Waiting) -> list[tuple[int, int, int]]:
    """The parameters of COUNT, once for each memory."""
    # In order of id: two transactions that hold each other's rows would wait for ever.
    return [(n, last, memory_id) for memory_id, (n, last) in sorted(waiting.items())]


def never_recalled(connection: Connection, tenant: int, before: int) -> list[int]:
    """Unpinned memories from before then that were never put into a message."""
    # None while it has not been counted for so long: nobody could have recalled them.
    found = connection.execute(
        "SELECT id FROM context WHERE id BETWEEN ? AND ? AND timestamp < ? AND pinned = 0"
        " AND id NOT IN (SELECT id FROM recalls)"
        " AND (SELECT value FROM meta WHERE key = 'recalls_counted_since') < ?",
        (*memory_range(tenant), before, before),
    )
    return [memory_id for (memory_id,) in found]

"""Keeps the database under max_db_size by removing what is oldest, from those who hold most.

What counts is pages in use, not the file: a reader keeps the file from shrinking, and pruning that waits for
that removes everything. Nothing is compacted here: a VACUUM needs the whole size again and stops writers.

The user who holds most gives first, so that nobody's rows push out those of somebody who holds less: the
ledger first, then old conversations before memories, since what mattered in them has been stored as memories;
never the latest conversation, never pinned memories, never facts.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from shepherd._native import store as native
from shepherd.memory import ledger, memories, sessions, traces
from shepherd.memory.connection import Connection
from shepherd.memory.database import PAGE_COUNTS, Database, pages_in_use
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["Holder", "holders", "is_in_vain", "prune", "remove_some", "used_bytes"]

_log = logging.getLogger(__name__)

# Rows per transaction: a writer beside us waits a few milliseconds at most.
_MOST_ROWS = 128
# Pages of the full-text index to merge per transaction: its entries only free their pages when merged.
_MERGED_PAGES = 64


def used_bytes(connection: native.Connection) -> int:
    """Bytes of the pages in use, as this connection's transaction sees them."""
    return pages_in_use(connection.execute_together(PAGE_COUNTS))


def prune(database: Database, limit: int) -> int:
    """Removes what is oldest, in small transactions, until the rest fits; how many memories that were."""
    n_removed = 0
    exhausted: set[int] = set()
    while True:
        with database.write() as connection:
            excess = used_bytes(connection) - limit
            if excess <= 0:
                return n_removed
            largest = holders(connection, exhausted)
            if not largest or is_in_vain(connection, excess):
                _log.warning("%s: over max_db_size by what may not be removed", database.path)
                return n_removed
            n_here = remove_some(connection, largest, excess)
            if n_here is None:
                exhausted.add(largest[0].tenant)
                continue
            n_removed += n_here
            if used_bytes(connection) > limit:
                connection.execute(
                    "INSERT INTO context_fts(context_fts, rank) VALUES('merge', ?)", (_MERGED_PAGES,)
                )


class Holder(NamedTuple):
    """A user, and what that user's rows take."""

    tenant: int
    user_id: str
    n: int
    memory_bytes: int
    all_bytes: int


def holders(connection: Connection, exhausted: set[int]) -> list[Holder]:
    """The two users who hold most and have something to give, the larger first."""
    rows = connection.execute(
        "SELECT number, user_id, n, bytes, bytes + message_bytes AS held FROM tenants"
        " ORDER BY held DESC, number LIMIT ?",
        (len(exhausted) + 2,),
    )
    return [holder for holder in map(Holder._make, rows) if holder.tenant not in exhausted][:2]


def is_in_vain(connection: Connection, excess: int) -> bool:
    """Whether all that may be removed would not be enough."""
    # One huge message can exceed the limit by itself. Text takes at most about its size again in the index;
    # what all of that cannot cure must not cost every memory.
    [(old_sessions, memory_bytes)] = connection.execute(
        "SELECT (SELECT count(*) FROM sessions) - (SELECT count(DISTINCT user_id) FROM sessions), sum(bytes)"
        " FROM tenants"
    )
    return bool(old_sessions == 0 and excess > 2 * memory_bytes) and not traces.are_any(connection)


def remove_some(
    connection: Connection,
    largest: list[Holder],
    excess: int,
    terms: memories.TermIndex = memories.FULL_TEXT,
) -> int | None:
    """Takes a little from the first holder; how many memories, None when there is nothing to take."""
    first = largest[0]
    if ledger.clear(connection, first.user_id) or traces.clear_some(connection, first.user_id):
        return 0
    if sessions.drop_oldest(connection, first.user_id):
        return 0
    lead = first.all_bytes - largest[1].all_bytes if len(largest) > 1 else first.all_bytes
    # Half of what seems to be needed: what a row frees shows only afterwards, and too much would be lost.
    wanted = min(excess, lead) * first.n // (2 * max(first.memory_bytes, 1))
    oldest = connection.execute(
        f"SELECT id FROM context WHERE id >> {SEQUENCE_BITS} = ? AND pinned = 0"
        " ORDER BY timestamp, id LIMIT ?",
        (first.tenant, min(max(wanted, 1), _MOST_ROWS)),
    )
    return memories.delete(connection, first.tenant, [memory_id for (memory_id,) in oldest], terms) or None

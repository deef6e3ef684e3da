"""Looks after a schema: counts, sizes, max_db_size.

The pages of a deleted row come back when the server's autovacuum has passed, so the size of the tables says
nothing about what is kept. What max_db_size limits is computed from the rows: their text, and as much again
for the terms and indexes of memories.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace

from shepherd.errors import StoreReadOnlyError
from shepherd.memory import pruning, tenants
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.schema import TABLES
from shepherd.memory.postgres.terms import TERMS
from shepherd.memory.records import MemoryStats

__all__ = ["Limit", "settle", "stats"]

_log = logging.getLogger(__name__)

_USED = "SELECT coalesce(sum(2 * bytes + message_bytes), 0)::bigint FROM tenants"


class Limit:
    """max_db_size, looked at often enough: adding up all users costs more than a write."""

    # Other processes write too; after so long their writes are counted.
    _STALE_S = 10.0
    _MOST_SPARE_BYTES = 256 * 1024

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = limit_bytes
        self._room = 0
        self._looked_at = 0.0

    def keep(self, database: Database, written_bytes: int) -> None:
        """Removes what is oldest when the database is over the limit, as it may be after such a write."""
        self._room -= written_bytes
        if self._room > 0 and time.monotonic() - self._looked_at < self._STALE_S:
            return
        room = self.bytes - database.read(_used_bytes)
        if room < 0:
            # A little more than asked, or every write from now on would have to look again.
            room = min(self.bytes // 64, self._MOST_SPARE_BYTES)
            _prune(database, self.bytes - room)
        # Eight processes that all write as much stay within it.
        self._room = room // 8
        self._looked_at = time.monotonic()


def _used_bytes(connection: Connection) -> int:
    return int(connection.execute(_USED)[0][0])


def _prune(database: Database, limit: int) -> None:
    """Removes what is oldest, from those who hold most, in small transactions, until the rest fits."""
    exhausted: set[int] = set()

    def step(connection: Connection) -> bool:
        excess = _used_bytes(connection) - limit
        if excess <= 0:
            return False
        largest = pruning.holders(connection, exhausted)
        if not largest or pruning.is_in_vain(connection, excess):
            _log.warning("%s: over max_db_size by what may not be removed", database.shown)
            return False
        # Nobody waits for the lock that this step holds already, so waiting here cannot be for ever.
        number = database.lock_number(f"user {largest[0].user_id}")
        connection.execute("SELECT pg_advisory_xact_lock(?)", (number,))
        if pruning.remove_some(connection, largest, excess, TERMS) is None:
            exhausted.add(largest[0].tenant)
        return True

    while database.write_locked("pruning", step):
        pass


def stats(database: Database, user_id: str, limit_bytes: int) -> MemoryStats:
    """Counts of one user, and sizes of the whole schema."""

    def count(connection: Connection) -> MemoryStats:
        [(file_bytes,)] = connection.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(?::text[]) AS name",
            (list(TABLES),),
        )
        return replace(
            tenants.counts(connection, user_id),
            used_bytes=_used_bytes(connection),
            file_bytes=file_bytes,
            limit_bytes=limit_bytes,
            path=database.shown,
        )

    return database.read(count)


def settle(database: Database) -> None:
    """Sorts what the index has only collected, and counts what the planner goes by."""

    def tidy(connection: Connection) -> None:
        for index in ("context_terms_gin", "chunk_terms_gin"):
            connection.execute("SELECT gin_clean_pending_list(?::text::regclass)", (index,))
        connection.run("ANALYZE context, context_terms, chunks, chunk_terms, nodes, edges")

    # Only the tables' owner may; autovacuum comes by itself, later.
    with contextlib.suppress(StoreReadOnlyError):
        database.write_locked("settle", tidy)

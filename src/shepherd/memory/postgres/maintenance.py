"""Looks after a schema: counts, sizes, max_db_size.

The pages of a deleted row come back when the server's autovacuum has passed, so the size of the tables says
nothing about what is kept. What max_db_size limits is computed from the rows: see shares.py.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from shepherd.errors import StoreReadOnlyError
from shepherd.memory import pruning, tenants
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.schema import TABLES
from shepherd.memory.postgres.terms import TERMS
from shepherd.memory.records import MemoryStats
from shepherd.memory.shares import OWN_BYTES_SQL, KnowledgeBytes, knowledge_bytes

__all__ = ["Limit", "settle", "stats"]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

_OWN_BYTES = f"SELECT coalesce(sum({OWN_BYTES_SQL}), 0)::bigint FROM tenants"


class _Engine:
    """pruning.Engine for a server: lengths of rows, and the turns of its users' writers."""

    terms = TERMS

    def __init__(self, database: Database) -> None:
        self._database = database
        self.where = database.shown

    def used(self, connection: Connection, knowledge: Mapping[str, int] | None = None) -> int:
        """Bytes that max_db_size limits."""
        knowledge = knowledge_bytes(connection) if knowledge is None else knowledge
        return int(connection.execute(_OWN_BYTES)[0][0]) + sum(knowledge.values())

    def lock(self, connection: Connection, user_id: str) -> None:
        """Waits for the user's turn."""
        connection.execute(
            "SELECT pg_advisory_xact_lock(?)", (self._database.lock_number(f"user {user_id}"),)
        )

    def settle(self, connection: Connection) -> None:
        """The server's autovacuum does, in time."""


class Limit:
    """max_db_size, looked at often enough: adding up all users costs more than a write."""

    # Other processes write too; after so long their writes are counted.
    _STALE_S = 10.0
    _MOST_SPARE_BYTES = 256 * 1024

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = limit_bytes
        self._room = 0
        self._looked_at = 0.0
        self._knowledge = KnowledgeBytes()

    def write(
        self,
        database: Database,
        connection: Connection,
        user_id: str,
        work: Callable[[Connection], _Result],
        written_bytes: int,
    ) -> _Result:
        """What `work` returns, which writes so much knowledge; StoreFullError where there is no room."""
        if self._room > written_bytes:
            return work(connection)
        return pruning.write_within(connection, _Engine(database), self.bytes, user_id, work)

    def keep(self, database: Database, user_id: str, written_bytes: int) -> None:
        """Removes what is oldest when the database is over the limit, as it may be after such a write."""
        self._room -= written_bytes
        if self._room > 0 and time.monotonic() - self._looked_at < self._STALE_S:
            return
        room = self.bytes - self.used(database)
        if room < 0:
            # A little more than asked, or every write from now on would have to look again.
            room = min(self.bytes // 64, self._MOST_SPARE_BYTES)
            self._prune(database, user_id, self.bytes - room)
        # Eight processes that all write as much stay within it.
        self._room = room // 8
        self._looked_at = time.monotonic()

    def used(self, database: Database) -> int:
        """Bytes of all rows."""

        def read(connection: Connection) -> int:
            return _Engine(database).used(connection, self._knowledge.of(connection))

        return database.read(read)

    def _prune(self, database: Database, user_id: str, limit: int) -> None:
        """Removes what is oldest, from those who hold most, in small transactions, until the rest fits."""
        engine = _Engine(database)
        exhausted: set[int] = set()

        def step(connection: Connection) -> bool:
            knowledge = self._knowledge.of(connection)
            excess = engine.used(connection, knowledge) - limit
            if excess <= 0:
                return False
            # Nobody waits for the lock that this step holds already, so waiting here cannot be for ever.
            if pruning.take_some(connection, engine, excess, knowledge, exhausted, user_id) is None:
                _log.warning("%s: over max_db_size by what may not be removed", database.shown)
                return False
            return True

        while database.write_locked("pruning", step):
            pass


def stats(database: Database, user_id: str, limit: Limit) -> MemoryStats:
    """Counts of one user, and sizes of the whole schema."""
    used = limit.used(database)

    def count(connection: Connection) -> MemoryStats:
        [(file_bytes,)] = connection.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(?::text[]) AS name",
            (list(TABLES),),
        )
        return replace(
            tenants.counts(connection, user_id),
            used_bytes=used,
            file_bytes=file_bytes,
            limit_bytes=limit.bytes,
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

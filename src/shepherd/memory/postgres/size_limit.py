"""max_db_size on a server: measured from the lengths of rows, see memory/pruning.py.

The pages of a deleted row are free only after the server's autovacuum, so the size of the tables says nothing
about the rows in them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from shepherd.memory import pruning
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.terms import TERMS
from shepherd.memory.pruning import OWN_BYTES_SQL, KnowledgeBytes, knowledge_bytes

__all__ = ["Limit"]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

_OWN_BYTES = f"SELECT coalesce(sum({OWN_BYTES_SQL}), 0)::bigint FROM tenants"


class _Engine:
    """pruning.Engine for a server: lengths of rows, and locks of users."""

    terms = TERMS

    def __init__(self, database: Database) -> None:
        self._database = database
        self.where = database.shown

    def used(self, connection: Connection, knowledge: Mapping[str, int] | None = None) -> int:
        """Return the bytes that max_db_size limits."""
        knowledge = knowledge_bytes(connection) if knowledge is None else knowledge
        return int(connection.execute(_OWN_BYTES)[0][0]) + sum(knowledge.values())

    def lock(self, connection: Connection, user_id: str) -> None:
        """Wait until nobody else writes for this user."""
        connection.execute(
            "SELECT pg_advisory_xact_lock(?)", (self._database.lock_number(f"user {user_id}"),)
        )

    def note_pruned(self, connection: Connection, memory_ids: Sequence[int]) -> None:
        """Do nothing: a memory on a server is not synced."""

    def settle(self, connection: Connection) -> None:
        """Do nothing: the server's autovacuum frees pages."""


class Limit:
    """max_db_size, measured only now and then: adding up all users costs more than a write."""

    # Seconds after which writes of other processes are counted.
    _STALE_S = 10.0
    _MOST_SPARE_BYTES = 256 * 1024

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = limit_bytes
        self._spare = 0
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
        """Return the result of `work`, which writes knowledge; raise StoreFullError if it does not fit."""
        if self._spare > written_bytes:
            return work(connection)
        return pruning.write_within(connection, _Engine(database), self.bytes, user_id, work)

    def keep(self, database: Database, user_id: str, written_bytes: int) -> None:
        """Prune if the database may be over the limit after a write of that many bytes."""
        self._spare -= written_bytes
        if self._spare > 0 and time.monotonic() - self._looked_at < self._STALE_S:
            return
        spare = self.bytes - self.used(database)
        if spare < 0:
            # A little more than needed, or every write from now on would have to measure again.
            spare = min(self.bytes // 64, self._MOST_SPARE_BYTES)
            self._prune(database, user_id, self.bytes - spare)
        # Eight processes that all write as much stay within the limit.
        self._spare = spare // 8
        self._looked_at = time.monotonic()

    def used(self, database: Database) -> int:
        """Return the bytes of all rows."""

        def read(connection: Connection) -> int:
            return _Engine(database).used(connection, self._knowledge.of(connection))

        return database.read(read)

    def _prune(self, database: Database, user_id: str, limit: int) -> None:
        """Delete the oldest rows of the users who hold most, in small transactions, until the rest fits."""
        engine = _Engine(database)
        exhausted: set[int] = set()

        def step(connection: Connection) -> bool:
            knowledge = self._knowledge.of(connection)
            excess = engine.used(connection, knowledge) - limit
            if excess <= 0:
                return False
            # Nobody waits for the lock that this step holds already, so there is no deadlock.
            if pruning.take_some(connection, engine, excess, knowledge, exhausted, user_id) is None:
                _log.warning("%s: still over max_db_size: what is left is never removed", database.shown)
                return False
            return True

        while database.write_locked("pruning", step):
            pass

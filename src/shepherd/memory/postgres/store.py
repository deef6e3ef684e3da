"""The memory in a schema of PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from shepherd.config.schema import parse_limit
from shepherd.errors import StoreError, StoreFullError, StoreLockedError, UsageError
from shepherd.memory import facts, ownership, recall_counts
from shepherd.memory.corpora import Corpus
from shepherd.memory.facts import FactRow
from shepherd.memory.postgres import maintenance, schema, search
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.size_limit import Limit
from shepherd.memory.postgres.terms import TERMS, ServerChunks
from shepherd.memory.queries import RecallQuery
from shepherd.memory.records import CheckReport, ClaimCounts, MemoryStats, NewMemory
from shepherd.memory.store import MemoryStore
from shepherd.types import Fact, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["PostgresStore"]

_Result = TypeVar("_Result")


class _Engine:
    """claim.Engine for PostgreSQL, which locks both users, always in the same order."""

    terms = TERMS

    def __init__(self, database: Database, *users: str) -> None:
        self._database = database
        self._first, self._second = sorted(users)

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        def locked(connection: Connection) -> _Result:
            number = self._database.lock_number(f"user {self._second}")
            connection.execute("SELECT pg_advisory_xact_lock(?)", (number,))
            return work(connection)

        return self._database.write(self._first, locked)

    def add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return self.terms.add(connection, user_id, new)


class PostgresStore(MemoryStore):
    """MemoryStore in the schema that `url` names; created when missing, refused when not ours.

    Writers of one user take turns, over all processes; readers never wait. `busy_timeout_s` limits the wait
    of a writer for its turn, and of everything for a server that restarts.
    """

    terms = TERMS
    is_in_file = False

    def __init__(
        self, url: str, *, read_only: bool = False, max_db_size: str = "10G", busy_timeout_s: float = 5.0
    ) -> None:
        super().__init__()
        self.chunks = ServerChunks()
        self._limit = Limit(parse_limit(max_db_size))
        self._database = Database(url, read_only=read_only, patience_s=busy_timeout_s)
        try:
            schema.prepare(self._database)
            if not read_only:
                maintenance.refresh_index(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def path(self) -> str:
        """Address without the password."""
        return self._database.shown

    # ---- transactions

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work`; everything in it sees the same moment. May run it again."""
        return self._database.read(work)

    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """Return the result of `work` once it is committed; may run it again. Prunes afterwards."""
        if not size:
            return self._database.write(user_id, work)
        waiting = self.recall_counts.take()

        def write(connection: Connection) -> _Result:
            if stays:
                done = self._limit.write(self._database, connection, user_id, work, size)
            else:
                done = work(connection)
            recall_counts.write(connection, waiting)
            return done

        result = self._database.write(user_id, write)
        # The write itself is stored; an obstacle to pruning now is not its failure.
        with contextlib.suppress(StoreLockedError, StoreFullError):
            self._limit.keep(self._database, user_id, size)
        return result

    def follow(self, user_id: str) -> None:
        """Do nothing: memories of a server are not held in main memory."""

    # ---- searches

    def recall(self, user_id: str, query: RecallQuery) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Return the facts in key order and the best memories, both of one moment; counts the recall."""

        def read(connection: Connection) -> tuple[list[FactRow], list[SearchResult]]:
            rows = facts.rows_of_user(connection, user_id)
            wants_memories = query.keywords and query.limit > 0
            return rows, search.best(connection, user_id, query) if wants_memories else []

        rows, results = self._database.read(read)
        self.recall_counts.note((result.id for result in results), query.now)
        return self._facts.records(user_id, rows), results

    def search(self, user_id: str, query: RecallQuery) -> list[SearchResult]:
        """Return the best memories, best first, ties to the one stored last."""
        if not query.keywords or query.limit <= 0:
            return []
        return self._database.read(lambda connection: search.best(connection, user_id, query))

    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""
        from shepherd.memory.postgres.vectors import ServerVectors  # numpy is loaded only with vectors

        return ServerVectors(self._database, corpus)

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Return counts of a user and sizes of the schema."""
        return maintenance.stats(self._database, user_id, self._limit)

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Move everything of one user to another; each row belongs to one of them at every moment."""
        return ownership.claim(_Engine(self._database, from_user, user_id), from_user, user_id)

    def check(self, repair: bool) -> CheckReport:
        """Look for damage, and with `repair` mend what can be made again."""
        return maintenance.check(self._database, repair=repair)

    def settle(self) -> None:
        """Sort the indexes of terms after an import; others may write meanwhile."""
        maintenance.settle(self._database)

    def backup(self, path: str) -> None:
        """Raise UsageError: PostgreSQL's own tools know users, rights and the point in time."""
        name = self._database.schema
        raise UsageError(
            f"{self.path}: a PostgreSQL database is copied by its own tools",
            hint=f"pg_dump --format=custom --schema='\"{name}\"' --file={path} DATABASE;"
            " or shepherd memory export",
        )

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        if self.recall_counts and not (self._database.is_closed or self._database.read_only):
            waiting = self.recall_counts.take()
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError):
                self._database.write_locked(
                    "recalls", lambda connection: recall_counts.write(connection, waiting)
                )
        self._database.close()

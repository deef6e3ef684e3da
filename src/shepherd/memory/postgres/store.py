"""The memory in PostgreSQL: each method is one transaction over the functions that both engines share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from shepherd.config.schema import parse_limit
from shepherd.errors import StoreError, StoreFullError, StoreLockedError, UsageError
from shepherd.memory import claim, facts, recalls
from shepherd.memory.corpora import Corpus
from shepherd.memory.facts import FactRow
from shepherd.memory.postgres import check, maintenance, schema, search
from shepherd.memory.postgres.chunk_index import ServerChunks
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.terms import TERMS, add_all
from shepherd.memory.records import CheckReport, ClaimCounts, MemoryStats, NewMemory, Periods
from shepherd.memory.store import MemoryStore
from shepherd.types import Fact, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["PostgresStore"]

_Result = TypeVar("_Result")


class _Engine:
    """What claim.py needs of PostgreSQL: both users' turns, taken in one order by everybody."""

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
        return add_all(connection, user_id, new)


class PostgresStore(MemoryStore):
    """MemoryStore in the schema that `url` names; made when missing, refused when not ours.

    Each user's writers take turns, over all processes; readers never wait. `busy_timeout_s` is how long a
    writer waits for its turn, and how long everything waits for a server that restarts.
    """

    terms = TERMS
    is_in_file = False

    def __init__(
        self, url: str, *, read_only: bool = False, max_db_size: str = "10G", busy_timeout_s: float = 5.0
    ) -> None:
        super().__init__()
        self.chunks = ServerChunks()
        self._limit = maintenance.Limit(parse_limit(max_db_size))
        self._database = Database(url, read_only=read_only, patience_s=busy_timeout_s)
        try:
            schema.prepare(self._database)
            if not read_only:
                check.refresh_index(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def path(self) -> str:
        """The address, without its password."""
        return self._database.shown

    # ---- reading for a message

    def recall(
        self,
        user_id: str,
        keywords: Sequence[str],
        *,
        limit: int,
        now: float,
        recency_floor: float,
        min_relevance: float,
        except_session: str,
        except_since: int = 0,
        periods: Periods = (),
    ) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Facts in key order and the best memories that are not of `except_session`, both of one moment."""

        def read(connection: Connection) -> tuple[list[FactRow], list[SearchResult]]:
            rows = facts.rows_of_user(connection, user_id)
            if not keywords or limit <= 0:
                return rows, []
            return rows, search.best(
                connection,
                user_id,
                keywords,
                limit=limit,
                now=now,
                recency_floor=recency_floor,
                min_relevance=min_relevance,
                except_session=except_session,
                except_since=except_since,
                periods=periods,
            )

        rows, results = self._database.read(read)
        self._recalls.note((result.id for result in results), now)
        return self._facts.records(user_id, rows), results

    def search(
        self,
        user_id: str,
        keywords: Sequence[str],
        *,
        limit: int,
        now: float,
        recency_floor: float,
        min_relevance: float,
        periods: Periods = (),
    ) -> list[SearchResult]:
        """The best memories, best first, ties to the one stored last."""

        def read(connection: Connection) -> list[SearchResult]:
            return search.best(
                connection,
                user_id,
                keywords,
                limit=limit,
                now=now,
                recency_floor=recency_floor,
                min_relevance=min_relevance,
                periods=periods,
            )

        return self._database.read(read) if keywords and limit > 0 else []

    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""
        from shepherd.memory.postgres.vectors import ServerVectors  # arrays, for those who have vectors

        return ServerVectors(self._database, corpus)

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Counts and sizes."""
        return maintenance.stats(self._database, user_id, self._limit)

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Moves everything of one user to another; each row belongs to one of them at every moment."""
        return claim.claim(_Engine(self._database, from_user, user_id), from_user, user_id)

    def check(self, repair: bool) -> CheckReport:
        """Looks for damage, and mends what can be mended."""
        return check.check(self._database, repair=repair)

    def settle(self) -> None:
        """Puts what an import wrote into the form that is searched fastest; others may go on writing."""
        maintenance.settle(self._database)

    def backup(self, path: str) -> None:
        """UsageError: PostgreSQL's own tools know users, rights and the point in time."""
        name = self._database.schema
        raise UsageError(
            f"{self.path}: a PostgreSQL database is copied by its own tools",
            hint=f"pg_dump --format=custom --schema='\"{name}\"' --file={path} DATABASE;"
            " or shepherd memory export",
        )

    def close(self) -> None:
        """Lets go of the database; twice is fine."""
        if self._recalls and not (self._database.is_closed or self._database.read_only):
            waiting = self._recalls.take()
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError):
                self._database.write_locked("recalls", lambda connection: recalls.write(connection, waiting))
        self._database.close()

    # ---- transactions

    def _read(self, work: Callable[[Connection], _Result]) -> _Result:
        return self._database.read(work)

    def _write(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        return self._database.write(user_id, work)

    def _grow(
        self, user_id: str, work: Callable[[Connection], _Result], size: int, *, stays: bool = False
    ) -> _Result:
        waiting = self._recalls.take()

        def write(connection: Connection) -> _Result:
            if stays:
                done = self._limit.write(self._database, connection, user_id, work, size)
            else:
                done = work(connection)
            recalls.write(connection, waiting)
            return done

        result = self._database.write(user_id, write)
        # The write itself is stored; what is in the way of pruning now is not its failure.
        with contextlib.suppress(StoreLockedError, StoreFullError):
            self._limit.keep(self._database, user_id, size)
        return result

    def _add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return add_all(connection, user_id, new)

    def _follow(self, user_id: str) -> None:
        pass  # nobody keeps a server's memories in main memory

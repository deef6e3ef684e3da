"""The memory in one SQLite file: each method is one transaction over the functions beside this module."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from shepherd._native.store import Connection, Recall
from shepherd.config.schema import parse_limit
from shepherd.errors import StoreError, StoreFullError, StoreLockedError
from shepherd.memory import (
    adding,
    check,
    claim,
    facts,
    maintenance,
    memories,
    pruning,
    recalls,
    search,
    tenants,
)
from shepherd.memory.chunk_index import FileChunks
from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.database import Database
from shepherd.memory.hot import HotRecall
from shepherd.memory.records import CheckReport, ClaimCounts, MemoryStats, NewMemory, Periods
from shepherd.memory.shares import KnowledgeBytes
from shepherd.memory.store import MemoryStore
from shepherd.types import Fact, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["SQLiteStore"]

_Result = TypeVar("_Result")

# Counts of recalls that go with the commit itself; more are written in one stretch of their own.
_MOST_DEFERRED = 48


class _Engine:
    """What claim.py needs of SQLite: its one writer locks all users."""

    terms = memories.FULL_TEXT

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        with self._database.write() as connection:
            return work(connection)

    def add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return adding.add_all(connection, user_id, new)


class SQLiteStore(MemoryStore):
    """MemoryStore on the file at `path`; created when missing, refused when not ours."""

    terms = memories.FULL_TEXT
    is_in_file = True

    def __init__(
        self,
        path: str,
        *,
        read_only: bool = False,
        max_db_size: str = "10G",
        recall_cache_mb: int = 256,
        busy_timeout_s: float = 5.0,
    ) -> None:
        super().__init__()
        self._limit_bytes = parse_limit(max_db_size)
        self._database = Database(path, read_only=read_only, busy_timeout_s=busy_timeout_s)
        self._recall = HotRecall(self._database, limit_bytes=recall_cache_mb << 20)
        self._chunk_recall = HotRecall(
            self._database,
            limit_bytes=recall_cache_mb << 20,
            corpus=CHUNKS,
            recall=Recall(corpus="chunks"),
        )
        self.chunks = FileChunks(self._chunk_recall)
        self._tenants: dict[str, int] = {}
        self._knowledge_bytes = KnowledgeBytes()
        if not read_only:
            self._refresh_index()

    @property
    def path(self) -> str:
        """The database file, absolute."""
        return self._database.path

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
        with self._database.look() as connection:
            tenant = self._tenants.get(user_id) or tenants.find(connection, user_id)
            rows, versions = connection.execute_together(
                [(facts.ROWS_OF_USER, (user_id,)), (MEMORIES.version, (tenant,))]
            )
            results = []
            if keywords and limit > 0 and tenant is not None:
                results = search.best(
                    connection,
                    self._recall,
                    tenant,
                    keywords,
                    limit=limit,
                    now=now,
                    recency_floor=recency_floor,
                    min_relevance=min_relevance,
                    except_session=except_session,
                    except_since=except_since,
                    periods=periods,
                    version=versions[0][0] if versions else None,
                )
        if tenant is not None:
            self._tenants[user_id] = tenant
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
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None or not keywords or limit <= 0:
                return []
            self._tenants[user_id] = tenant
            return search.best(
                connection,
                self._recall,
                tenant,
                keywords,
                limit=limit,
                now=now,
                recency_floor=recency_floor,
                min_relevance=min_relevance,
                periods=periods,
            )

    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""
        from shepherd.memory.vectors.in_file import FileVectors  # arrays, for those who have vectors

        return FileVectors(self._database, corpus)

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Counts and sizes."""
        counts = maintenance.stats(self._database, user_id, self._limit_bytes)
        return replace(
            counts,
            hot_users=self._recall.n_users,
            hot_bytes=self._recall.n_bytes,
            hot_saved_bytes=self._recall.n_saved_bytes,
        )

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Moves everything of one user to another; each row belongs to one of them at every moment."""
        return claim.claim(_Engine(self._database), from_user, user_id)

    def check(self, repair: bool) -> CheckReport:
        """Looks for damage, and mends what can be mended."""
        report = check.check(self._database, repair=repair)
        dropped = (*self._recall.check(), *self._chunk_recall.check())
        return CheckReport((*report.problems, *dropped), (*report.repaired, *dropped)) if dropped else report

    def settle(self) -> None:
        """Puts what an import wrote into the form that is searched fastest; others may go on writing."""
        maintenance.merge_index(self._database)

    def backup(self, path: str) -> None:
        """Copies the database to a new file while it is in use."""
        maintenance.backup(self._database, path)

    def close(self) -> None:
        """Lets go of the database; twice is fine."""
        if self._recalls and not (self._database.is_closed or self._database.read_only):
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError), self._database.write() as connection:
                recalls.write(connection, self._recalls.take())
        self._recall.close()
        self._chunk_recall.close()
        self._database.close()

    # ---- transactions

    def _read(self, work: Callable[[Connection], _Result]) -> _Result:
        with self._database.read() as connection:
            return work(connection)

    def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """As `read`, for a few rows by an index: it lets no other thread in."""
        with self._database.look() as connection:
            return work(connection)

    def _write(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        with self._database.write() as connection:
            return work(connection)

    def _grow(
        self, user_id: str, work: Callable[[Connection], _Result], size: int, *, stays: bool = False
    ) -> _Result:
        writing = self._database.write()
        with writing as connection:
            if stays:
                engine = pruning.FileEngine(self.path)
                result = pruning.write_within(connection, engine, self._limit_bytes, user_id, work)
            else:
                result = work(connection)
            self._count_recalls(connection)
        if writing.used_bytes > self._limit_bytes:
            # The write itself is stored; what is in the way of pruning now is not its failure.
            with contextlib.suppress(StoreLockedError, StoreFullError):
                pruning.prune(self._database, self._limit_bytes, self._knowledge_bytes, user_id)
        return result

    def _count_recalls(self, connection: Connection) -> None:
        waiting = self._recalls.take()
        if len(waiting) > _MOST_DEFERRED:
            recalls.write(connection, waiting)
            return
        for row in recalls.rows(waiting):
            connection.defer(recalls.COUNT, row)

    def _add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return adding.add_all(connection, user_id, new)

    def _follow(self, user_id: str) -> None:
        # Who was never searched has no index in memory.
        tenant = self._tenants.get(user_id)
        if tenant is not None:
            self._recall.follow(tenant)

    def _refresh_index(self) -> None:
        with self._database.read() as connection:
            is_outdated = maintenance.is_index_outdated(connection)
        if is_outdated:
            with self._database.write() as connection:
                maintenance.reindex(connection)

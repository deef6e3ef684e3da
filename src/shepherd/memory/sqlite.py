"""The memory in one SQLite file, and the choice between it and a server."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shepherd import kept_files, paths
from shepherd._native import store as native
from shepherd.config.schema import parse_limit
from shepherd.errors import StoreError, StoreFullError, StoreLockedError, UsageError
from shepherd.installation import install_extra
from shepherd.memory import (
    backup_keys,
    blind_file,
    facts,
    forgetting,
    maintenance,
    ownership,
    pruning,
    recall_counts,
    tenants,
    word_rows,
)
from shepherd.memory.corpora import CHUNKS, Corpus
from shepherd.memory.database import Database
from shepherd.memory.full_text import FULL_TEXT, FileChunks
from shepherd.memory.hot import HotRecall
from shepherd.memory.queries import COLUMNS, Hit, RecallQuery, Row, best_results
from shepherd.memory.records import CheckReport, ClaimCounts, MemoryStats, NewMemory
from shepherd.memory.store import MemoryStore
from shepherd.transactions import Connection
from shepherd.types import Fact, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["FileTables", "SQLiteStore", "open_store"]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

# Number of waiting counts of recalls that are written with the commit itself; more take a statement each.
_MOST_DEFERRED = 48
_USER_VERSION = "SELECT number, version FROM tenants WHERE user_id = ?"
# Parameters of one statement; more rows are fetched in several.
_MOST_IDS = 32
_ROWS = [f"SELECT {COLUMNS} FROM context WHERE id IN ({', '.join('?' * n)})" for n in range(_MOST_IDS + 1)]


# What a deletion leaves of keys.
_OLDER_KEYS = (
    "the keys file of your backups, until the next backup with --keys replaces it, and copies of that file"
)


class _Engine:
    """claim.Engine for SQLite, whose one writer locks all users."""

    terms = FULL_TEXT

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, work: Callable[[native.Connection], _Result]) -> _Result:
        with self._database.write() as connection:
            return work(connection)

    def add(
        self, connection: native.Connection, user_id: str, new: Sequence[NewMemory]
    ) -> list[tuple[int, bool]]:
        return self.terms.add(connection, user_id, new)


class FileTables:
    """hot_rows.Tables of a file; `recall` is FTS5's of the same corpus."""

    copy = ""
    has_marks = False
    # A commit adds as many new rows in about 1 ms; the tables answer in a few.
    most_at_once = 64
    patience_s = 0.0

    def __init__(self, database: Database, recall: native.Recall) -> None:
        self.name = database.path
        self.read_only = database.read_only
        self.folder = Path(database.path + "-hot")
        self.sealer = database.sealer
        self.read, self.write = database.read, database.write
        self.search = recall.search

    def ids(self, connection: native.Connection, corpus: Corpus, first: int, last: int) -> list[tuple[int]]:
        """Return the ids of the rows in a range."""
        # The index has narrow rows, the table has the texts.
        table = corpus.rows
        return connection.execute(
            f"SELECT id FROM {table} INDEXED BY {table}_docs WHERE id BETWEEN ? AND ?", (first, last)
        )


class SQLiteStore(MemoryStore):
    """MemoryStore on the file at `path`; created when missing, refused when not ours."""

    terms = FULL_TEXT
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
        self.sealer = self._database.sealer
        limit_bytes = recall_cache_mb << 20
        self._recall = HotRecall(FileTables(self._database, self._database.recall), limit_bytes=limit_bytes)
        self._chunk_recall = HotRecall(
            FileTables(self._database, native.Recall(corpus="chunks")), limit_bytes=limit_bytes, corpus=CHUNKS
        )
        self.chunks = FileChunks(self._chunk_recall)
        self._tenants: dict[str, int] = {}
        self._knowledge_bytes = pruning.KnowledgeBytes()
        if not read_only:
            maintenance.refresh_index(self._database)
            self._finish_forgetting()

    @property
    def path(self) -> str:
        """Absolute path of the database file."""
        return self._database.path

    @property
    def limit_bytes(self) -> int:
        """max_db_size."""
        return self._limit_bytes

    # ---- transactions

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work`; everything in it sees the same moment."""
        with self._database.read() as connection:
            return work(connection)

    def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`, for a few rows by an index: no other thread of Python runs meanwhile."""
        with self._database.look() as connection:
            return work(connection)

    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """Return the result of `work` once it is committed; what is over the limit then is pruned."""
        writing = self._database.write()
        with writing as connection:
            if stays and size:
                engine = pruning.FileEngine(self.path)
                result = pruning.write_within(connection, engine, self._limit_bytes, user_id, work)
            else:
                result = work(connection)
            if size:
                self._count_recalls(connection)
        if stays and size:
            self._finish_forgetting()
        if size and writing.used_bytes > self._limit_bytes:
            # The write itself is stored; an obstacle to pruning now is not its failure.
            with contextlib.suppress(StoreError):
                pruning.prune(self._database, self._limit_bytes, self._knowledge_bytes, user_id)
            with contextlib.suppress(StoreError):
                self._finish_forgetting()
        return result

    def follow(self, user_id: str) -> None:
        """Update the user's hot index after a commit that changed memories."""
        # A user who was never searched has none.
        tenant = self._tenants.get(user_id)
        if tenant is not None:
            self._recall.follow(tenant)

    def _count_recalls(self, connection: native.Connection) -> None:
        waiting = self.recall_counts.take()
        if len(waiting) > _MOST_DEFERRED:
            recall_counts.write(connection, waiting)
            return
        for row in recall_counts.rows(waiting):
            connection.defer(recall_counts.COUNT, row)

    # ---- searches

    def recall(self, user_id: str, query: RecallQuery) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Return the facts in key order and the best memories, both of one moment; counts the recall."""
        with self._database.look() as connection:
            # The number each time: another process may have removed the user, who then began anew.
            rows, users = connection.execute_together(
                [(facts.ROWS_OF_USER, (user_id,)), (_USER_VERSION, (user_id,))]
            )
            tenant, version = users[0] if users else (None, None)
            results = []
            if query.keywords and query.limit > 0 and tenant is not None:
                results = self._best(connection, tenant, query, version)
        if tenant is not None:
            self._tenants[user_id] = tenant
        self.recall_counts.note((result.id for result in results), query.now)
        return self._facts.records(user_id, rows), results

    def search(self, user_id: str, query: RecallQuery) -> list[SearchResult]:
        """Return the best memories, best first, ties to the one stored last."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None or not query.keywords or query.limit <= 0:
                return []
            self._tenants[user_id] = tenant
            return self._best(connection, tenant, query)

    def _best(
        self, connection: native.Connection, tenant: int, query: RecallQuery, version: int | None = None
    ) -> list[SearchResult]:
        """`version`: the tenant's in this transaction, if it has been read already."""

        def find(n: int) -> list[Hit]:
            return self._recall.search(
                connection,
                tenant,
                query.keywords,
                n,
                query.now,
                version,
                recency_floor=query.recency_floor,
                min_relevance=query.min_relevance,
                periods=query.periods,
                is_request=query.is_request,
            )

        return best_results(query, find, lambda ids: _fetch_rows(connection, ids))

    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""
        from shepherd.memory.vectors.in_file import FileVectors  # numpy is loaded only with vectors

        return FileVectors(self._database, corpus)

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Return counts of a user and sizes of the file and of the hot indexes."""
        counts = maintenance.stats(self._database, user_id, self._limit_bytes)
        return replace(
            counts,
            hot_users=self._recall.n_users,
            hot_bytes=self._recall.n_bytes,
            hot_saved_bytes=self._recall.n_saved_bytes,
            is_encrypted=self.sealer is not None,
        )

    def clean(self, user_id: str) -> tuple[list[str], list[str]]:
        """Delete saved indexes, and overwrite what is left in the log and in old free pages."""
        with self._database.read() as connection:
            tenant, number = tenants.find(connection, user_id), forgetting.count(connection)
        files = [] if tenant is None else self._forget_saved(tenant)
        left = self._clean(number)
        return files, left

    def _forget_saved(self, tenant: int) -> list[str]:
        return self._recall.forget_saved(tenant) + self._chunk_recall.forget_saved(tenant)

    def _finish_forgetting(self) -> None:
        """Do what a process that was killed while it forgot has not done, for all users."""
        with self._database.read() as connection:
            if forgetting.is_finished(connection):
                return
            number = forgetting.count(connection)
        try:
            self._recall.forget_all_saved()
            self._chunk_recall.forget_all_saved()
            for owner in kept_files.owners(kept_files.folder()):
                kept_files.forget(owner)
            # Whoever opens or writes does not wait for a program that reads.
            self._clean(number, waits=False)
        except StoreError as error:  # no reason not to open it; the next forgetting says what is wrong
            _log.warning("%s", error)

    def _clean(self, number: int, *, waits: bool = True) -> list[str]:
        """Clean file and log after the forgetting of that number; return what could not be reached."""
        left = []
        if not self._overwrites():
            try:
                self._database.rewrite()
            except (StoreLockedError, StoreFullError) as error:
                left.append(f"free pages of {self.path}, from before deletions were overwritten: {error}")
            else:
                with self._database.write() as connection:
                    connection.execute("INSERT INTO meta VALUES('overwrites', 1)")
        if not self._database.empty_log(waits=waits):
            left.append(
                f"{self.path} and its log {self.path}-wal: another program reads the memory as it was before;"
                " when that has ended, the next forgetting overwrites it"
            )
        if not left:
            with self._database.write() as connection:
                forgetting.mark_finished(connection, number)
        return left

    def _overwrites(self) -> bool:
        with self._database.read() as connection:
            return bool(connection.execute("SELECT 1 FROM meta WHERE key = 'overwrites'"))

    def tables_with(self, forms: Sequence[str]) -> dict[str, int]:
        """Return how many rows of each table have one of the forms of a word."""
        with self._database.read() as connection:
            return word_rows.tables_with(connection, forms)

    def schema_texts(self) -> list[bytes]:
        """Return the texts that the file of an empty database has: those of its schema."""
        with self._database.read() as connection:
            return word_rows.schema_texts(connection)

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Move everything of one user to another; each row belongs to one of them at every moment."""
        claimed = ownership.claim(_Engine(self._database), from_user, user_id)
        # Not before: until all rows are moved, the other user needs a key of its own for the next backup.
        with self._database.write() as connection:
            backup_keys.give(connection, from_user, user_id)
        return claimed

    def destroy_key(self, connection: Connection, user_id: str) -> None:
        """Destroy the user's key, without which nobody can read the user in older backups."""
        backup_keys.destroy(connection, user_id)  # type: ignore[arg-type]  # of the one engine

    def older_keys(self) -> list[str]:
        """Return in words where the keys of removed users can still be."""
        with self._database.read() as connection:
            return [_OLDER_KEYS] if backup_keys.rows_of(connection) else []

    def check(self, repair: bool) -> CheckReport:
        """Look for damage, and with `repair` mend what can be made again."""
        report = maintenance.check(self._database, repair=repair)
        return report.with_dropped((*self._recall.check(), *self._chunk_recall.check()))

    def settle(self) -> None:
        """Merge the full-text indexes; others may write meanwhile."""
        maintenance.merge_index(self._database)

    def backup(self, path: str, keys: str = "") -> None:
        """Copy the database to a new file while it is in use."""
        if keys:
            # Few backups are made so.
            from shepherd.memory.backup_by_user import back_up

            back_up(self._database, path, keys)
        else:
            self._database.backup(path)

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        if self.recall_counts and not (self._database.is_closed or self._database.read_only):
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError), self._database.write() as connection:
                recall_counts.write(connection, self.recall_counts.take())
        self._recall.close()
        self._chunk_recall.close()
        self._database.close()


def _fetch_rows(connection: native.Connection, ids: list[int]) -> dict[int, Row]:
    if len(ids) <= _MOST_IDS:
        return {row[0]: row for row in connection.execute(_ROWS[len(ids)], ids)}
    rows: dict[int, Row] = {}
    for start in range(0, len(ids), _MOST_IDS):
        rows |= _fetch_rows(connection, ids[start : start + _MOST_IDS])
    return rows


# ---- the choice of the engine


def open_store(
    database: str,
    *,
    read_only: bool,
    max_db_size: str,
    recall_cache_mb: int,
    busy_timeout_s: float,
    blind: bool = False,
) -> MemoryStore:
    """Open the store of a path, or of postgresql://…; empty is the default path.

    `blind`: its server, or others who can read its file, must not learn what it says. Raises UsageError for
    another scheme; StoreError if it cannot be opened.
    """
    if database.startswith(("postgresql://", "postgres://")):
        return _open_postgres(
            database,
            read_only=read_only,
            max_db_size=max_db_size,
            recall_cache_mb=recall_cache_mb,
            busy_timeout_s=busy_timeout_s,
            blind=blind,
        )
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", database):  # the rest may hold a password
        raise UsageError(
            f"memory_database: there is no engine for {scheme[0]}",
            hint="write postgresql://… for PostgreSQL, or the path of a file",
        )
    if database.startswith(":memory:"):
        raise UsageError("memory_database: a database needs a file", hint="give a path, or leave it empty")
    path = database or str(paths.default_database())
    if blind:
        blind_file.prepare(path, read_only=read_only)
    return SQLiteStore(
        path,
        read_only=read_only,
        max_db_size=max_db_size,
        recall_cache_mb=recall_cache_mb,
        busy_timeout_s=busy_timeout_s,
    )


def _open_postgres(url: str, **options: Any) -> MemoryStore:
    # Not at the top: a memory in a file does not need psycopg, which takes 50 ms.
    try:
        from shepherd.memory.postgres import PostgresStore
    except ImportError as error:
        raise StoreError(
            f"memory_database: PostgreSQL needs psycopg 3, which cannot be loaded ({error})",
            hint=install_extra("postgres")
            + " compiles it, which needs libpq-dev or libpq-devel; 'psycopg[binary]' needs neither",
        ) from None
    return PostgresStore(url, **options)

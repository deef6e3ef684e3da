"""Hot indexes: an index in main memory for each active user, which answers in microseconds. For both engines.

A query is answered by the index only if that has the mark (see hot_rows) of the version of `tenants` which
the query's transaction sees; otherwise, and while an index is being built or changed, the tables answer. Both
give the same results, bit for bit. To the native code, the mark is the version. A background thread builds
indexes, from a saved file if there is one. Changes of this process are applied after their commit, those of
other processes when the next query notices them. The least recently used indexes are dropped when all
together exceed the limit.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any

from shepherd import transactions
from shepherd._native.hot import HotIndexes, HotSlot
from shepherd._native.store import SQLiteError
from shepherd.errors import ShepherdError, StoreReadOnlyError
from shepherd.memory import hot_rows
from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.hot_files import HotFiles
from shepherd.memory.hot_rows import Ahead, Connection, Followed, Tables
from shepherd.transactions import ChunkHit

__all__ = ["HotChunks", "HotRecall"]

_log = logging.getLogger(__name__)

# Number of memories from which on an index is saved: 1,000 are built in 10 ms.
_LEAST_SAVED = 5_000
# Rows that contradict each other, or more than an index can hold: then the tables answer.
_DOUBTS = (ValueError, OverflowError, MemoryError)


class _Slot(HotSlot):
    """The index of one user with its state."""

    __slots__ = ("failed", "followed", "lock", "n_bytes", "saved_version")

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while the index is changed
        self.followed: Followed | None = None
        self.failed = False  # does not fit, or its rows contradict each other: the tables always answer
        self.saved_version = -1
        self.n_bytes = 0


class HotRecall(HotIndexes):
    """Searches of one database, by the user's hot index if possible, else by the tables. Thread-safe."""

    def __init__(self, tables: Tables, *, limit_bytes: int, corpus: Corpus = MEMORIES) -> None:
        self._tables = tables
        self._limit_bytes = limit_bytes
        self._corpus = corpus
        self._mark = hot_rows.mark_query(corpus, has_marks=tables.has_marks)
        self._files = HotFiles(tables, corpus)
        self._lock = threading.Lock()
        self._waiting: set[int] = set()
        self._queue: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    # ---- queries

    def _read_version(self, connection: Connection, tenant: int) -> int:
        return next((row[0] for row in connection.execute(self._mark, (tenant,))), -2)

    def _search_tables(
        self, connection: Connection, tenant: int, *query: Any, **options: Any
    ) -> list[tuple[int, float, float, float]]:
        """Search by the tables, without an index of the right version, which the background then builds."""
        slot = self._slots.get(tenant)
        if slot is None or not slot.failed:
            self._want(tenant)
        return self._tables.search(connection, tenant, *query, **options)

    def held_mark(self, tenant: int) -> int | None:
        """Return the mark of a tenant's index, None without an index."""
        slot = self._slots.get(tenant)
        followed = None if slot is None or slot.index is None else slot.followed
        return None if followed is None else followed.mark

    def is_hot(self, connection: Connection, tenant: int) -> bool:
        """Return whether the index answers the queries of this transaction."""
        slot = self._slots.get(tenant)
        counts = slot.index.counts() if slot is not None and slot.index is not None else None
        return counts is not None and counts["version"] == self._read_version(connection, tenant)

    # ---- changes

    def follow(self, tenant: int) -> None:
        """Bring a tenant's index to what this thread has just committed; outside of transactions."""
        slot = self._slots.get(tenant)
        if slot is None or slot.index is None or slot.failed:
            return
        if not self.bring(tenant):
            self._want(tenant)

    def follow_later(self, tenant: int) -> None:
        """Let the background bring a tenant's index to what was committed, if there is one."""
        slot = self._slots.get(tenant)
        if slot is not None and slot.index is not None and not slot.failed:
            self._want(tenant)

    def bring(
        self, tenant: int, read: Callable[[], AbstractContextManager[Connection]] | None = None
    ) -> bool:
        """Bring a tenant's index to what is committed if that is little work; return whether it is there now.

        Outside of transactions. Waits a moment for another thread that does the same. `read` is where the
        changes are read, by default the tables.
        """
        slot = self._slots.get(tenant)
        if slot is None or slot.failed or not slot.lock.acquire(timeout=self._tables.patience_s):
            return False
        try:
            followed = slot.followed
            if followed is None or slot.index is None:
                return False
            with (read or self._tables.read)() as connection:
                ahead = hot_rows.look_ahead(connection, self._tables, followed, self._tables.most_at_once)
                is_little = ahead.work(followed) <= self._tables.most_at_once
                return is_little and self._catch_up(connection, slot, ahead)
        except (ShepherdError, *_DOUBTS):
            return False  # the write is stored; the background finds the fault of the index
        finally:
            slot.lock.release()

    def forget_saved(self, tenant: int) -> list[str]:
        """Delete the saved index of a tenant, which has words that are gone; return the files.

        Outside of transactions. The index in memory follows the deletion, and may be saved again.
        """
        slot = self._slots.get(tenant)
        if slot is not None:
            slot.saved_version = -1
        return self._files.remove(tenant)

    def forget_all_saved(self) -> None:
        """Delete all saved indexes."""
        self._files.remove_all()

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Wait until the background has nothing to do; return False after the timeout."""
        done = threading.Event()
        deadline = threading.Timer(timeout_s, done.set)
        deadline.daemon = True
        deadline.start()
        while not done.wait(0.001):
            with self._lock:
                if not self._waiting:
                    deadline.cancel()
                    return True
        return False

    def check(self) -> list[str]:
        """Return the faults of indexes in memory; those are dropped, and built again when needed."""
        problems = []
        for tenant, slot in list(self._slots.items()):
            with slot.lock, self._tables.read() as connection:
                if slot.followed is None or not self.is_hot(connection, tenant):
                    continue
                surplus, missing = hot_rows.differences(connection, self._tables, slot.followed)
                if surplus or missing:
                    slot.index = slot.followed = None
                    counted = f"{len(surplus)} {self._corpus.noun} too many, {len(missing)} too few"
                    problems.append(f"hot index of tenant {tenant}: {counted}")
        return problems

    @property
    def n_users(self) -> int:
        """Number of users whose index is in memory."""
        return sum(slot.index is not None for slot in list(self._slots.values()))

    @property
    def n_bytes(self) -> int:
        """Bytes of the indexes in memory."""
        return sum(slot.n_bytes for slot in list(self._slots.values()))

    @property
    def n_saved_bytes(self) -> int:
        """Bytes of the saved indexes."""
        return self._files.n_bytes

    def close(self) -> None:
        """End the background and save large indexes; a second call does nothing."""
        with self._lock:
            self._is_closing = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()
        for slot in list(self._slots.values()):
            with slot.lock:
                self._save(slot)
        self._slots.clear()

    # ---- the background

    def _want(self, tenant: int) -> None:
        if self._limit_bytes <= 0 or tenant in self._waiting:
            return
        with self._lock:
            if self._is_closing or tenant in self._waiting:
                return
            self._waiting.add(tenant)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_work, args=(weakref.ref(self), self._queue), name="hot indexes", daemon=True
                )
                # A database that is never closed must not keep a thread waiting for ever.
                weakref.finalize(self, self._queue.put, None).atexit = False
                self._thread.start()
        self._queue.put(tenant)

    def serve(self, tenant: int) -> None:
        """Build a tenant's index, or update it; called by the background thread."""
        slot = self._slots.setdefault(tenant, _Slot())
        try:
            with slot.lock:
                self._bring(tenant, slot)
            self._evict(slot)
        except (ShepherdError, SQLiteError) as error:
            # A role without the right to read a table will not get it by asking again for each question.
            slot.failed = isinstance(error, StoreReadOnlyError)
            if not self._is_closing:
                _log.info("%s: no hot index of tenant %d: %s", self._tables.name, tenant, error)
        except _DOUBTS as error:
            slot.index = slot.followed = None
            slot.failed, slot.n_bytes = True, 0
            _log.warning("%s: no hot index of tenant %d: %s", self._tables.name, tenant, error)
        finally:
            with self._lock:
                self._waiting.discard(tenant)

    def _bring(self, tenant: int, slot: _Slot) -> None:
        if slot.followed is None:
            if not self._fits(tenant):
                slot.failed = True
                return
            slot.followed = self._files.load(tenant)
            slot.saved_version = -1 if slot.followed is None else slot.followed.version
        is_new = False
        for _ in range(3):  # at worst, the list of changes was cut meanwhile
            if slot.followed is not None:
                try:
                    with self._tables.read() as connection:
                        if self._catch_up(
                            connection, slot, hot_rows.look_ahead(connection, self._tables, slot.followed)
                        ):
                            return
                except _DOUBTS:
                    # An index that was followed for long may have missed what another program changed.
                    if is_new:
                        raise
            slot.index, slot.saved_version = None, -1
            slot.followed = self._build(tenant)
            if slot.followed is None:
                return
            is_new = True

    def _build(self, tenant: int) -> Followed | None:
        for built in hot_rows.build(self._tables, self._corpus, tenant):
            if self._is_closing or built is not None:
                return built
        return None

    def _catch_up(self, connection: Connection, slot: _Slot, ahead: Ahead) -> bool:
        """Update the index under the slot's lock; drop it if that fails halfway."""
        followed, slot.followed = slot.followed, None
        assert followed is not None
        try:
            is_caught_up = hot_rows.catch_up(connection, followed, ahead)
        except BaseException:
            slot.index, slot.n_bytes = None, 0
            raise
        slot.followed = followed
        if not is_caught_up:
            return False
        slot.index = followed.index
        counts = followed.index.counts()
        slot.n_bytes = slot.n_bytes if counts is None else counts["n_bytes"]
        return True

    def _fits(self, tenant: int) -> bool:
        with self._tables.read() as connection:
            rows = connection.execute(f"SELECT n FROM {self._corpus.sums} WHERE number = ?", (tenant,))
        return not rows or rows[0][0] * self._corpus.bytes_per_row <= self._limit_bytes

    def _evict(self, newest: _Slot) -> None:
        while self.n_bytes > self._limit_bytes:
            slots = [(tenant, slot) for tenant, slot in list(self._slots.items()) if slot is not newest]
            held = [(slot.used, tenant) for tenant, slot in slots if slot.n_bytes]
            if not held:
                newest.failed, newest.index, newest.followed, newest.n_bytes = True, None, None, 0
                return
            oldest = self._slots.pop(min(held)[1])
            with oldest.lock:
                self._save(oldest)

    def _save(self, slot: _Slot) -> None:
        """Save an index under the slot's lock, if it is worth a file."""
        followed = slot.followed
        if followed is None or slot.index is None:
            return
        counts = followed.index.counts()
        if counts is None or counts["n_memories"] < _LEAST_SAVED:
            return
        # A file that is a little behind is caught up faster than it is written.
        n_behind = followed.version - slot.saved_version
        is_near = slot.saved_version >= 0 and n_behind <= 500 + counts["n_memories"] // 50
        if is_near and self._files.has(followed.tenant):
            return
        if self._is_current(slot) and self._files.save(followed):
            slot.saved_version = followed.version

    def _is_current(self, slot: _Slot) -> bool:
        """Bring an index to what is committed: words that another process has deleted must not be saved."""
        try:
            with self._tables.read() as connection:
                assert slot.followed is not None
                return self._catch_up(
                    connection, slot, hot_rows.look_ahead(connection, self._tables, slot.followed)
                )
        except (ShepherdError, SQLiteError, *_DOUBTS):
            return False


class HotChunks:
    """The part of a transactions.ChunkIndex that searches; only `search` needs `recall`."""

    def __init__(self, recall: HotRecall | None = None) -> None:
        self._recall = recall

    def note_removed(
        self, connection: transactions.Connection, tenant: int, version: int, chunk_ids: Sequence[int]
    ) -> None:
        """Record for hot indexes which chunks `version` removed."""
        hot_rows.note_changes(connection, CHUNKS, tenant, version, chunk_ids)

    def search(
        self,
        connection: transactions.Connection,
        tenant: int,
        keywords: Sequence[str],
        *,
        limit: int,
        min_relevance: float,
    ) -> list[ChunkHit]:
        """Return the best chunks of a tenant, best first, ties to the larger id."""
        assert self._recall is not None
        return self._recall.search(
            connection,
            tenant,
            keywords,
            limit,
            0.0,
            recency_floor=1.0,
            min_relevance=min_relevance,
            weights=CHUNKS.weights,
        )


def _work(owner: weakref.ref[HotRecall], queue: SimpleQueue[int | None]) -> None:
    while (tenant := queue.get()) is not None:
        recall = owner()
        if recall is None:
            return
        recall.serve(tenant)
        del recall

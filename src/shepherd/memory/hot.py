"""Hot indexes: an index in main memory for each active user, which answers in microseconds.

A query is answered by the index only if that has the version of `tenants` which the query's transaction sees;
otherwise, and while an index is being built or changed, FTS5 answers. Both give the same results, bit for
bit. A background thread builds indexes, from a saved file if there is one. Changes of this process are
applied with their commit, those of other processes when the next query notices them. The least recently used
indexes are dropped when all together exceed the limit.
"""

from __future__ import annotations

import logging
import threading
import weakref
from queue import SimpleQueue
from typing import Any

from shepherd._native.hot import HotIndexes, HotSlot
from shepherd._native.store import Connection, Recall, SQLiteError
from shepherd.errors import ShepherdError
from shepherd.memory import hot_rows
from shepherd.memory.corpora import MEMORIES, Corpus
from shepherd.memory.database import Database
from shepherd.memory.hot_files import HotFiles
from shepherd.memory.hot_rows import Ahead, Followed

__all__ = ["HotRecall"]

_log = logging.getLogger(__name__)

# Number of memories from which on an index is saved: 1,000 are built in 10 ms.
_LEAST_SAVED = 5_000
# Number of new rows that a commit adds to the index itself, in about 1 ms; more are left to the background.
_MOST_AT_ONCE = 64

# Rows that contradict each other, or more than an index can hold: then FTS5 answers.
_DOUBTS = (ValueError, OverflowError, MemoryError)


class _Slot(HotSlot):
    """The index of one user with its state."""

    __slots__ = ("failed", "followed", "lock", "n_bytes", "saved_version")

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while the index is changed
        self.followed: Followed | None = None
        self.failed = False  # does not fit, or its rows contradict each other: FTS5 always answers
        self.saved_version = -1
        self.n_bytes = 0


class HotRecall(HotIndexes):
    """Searches of one database, by the user's hot index if possible, else by FTS5. Thread-safe."""

    def __init__(
        self,
        database: Database,
        *,
        limit_bytes: int,
        corpus: Corpus = MEMORIES,
        recall: Recall | None = None,
    ) -> None:
        self._database = database
        self._limit_bytes = limit_bytes
        self._corpus = corpus
        self._recall = recall or database.recall  # by FTS5, over the same tables
        self._version = corpus.version
        self._files = HotFiles(database, corpus)
        self._lock = threading.Lock()
        self._waiting: set[int] = set()
        self._queue: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    # ---- queries

    def _read_version(self, connection: Connection, tenant: int) -> int:
        return next((row[0] for row in connection.execute(self._version, (tenant,))), -1)

    def _search_tables(
        self, connection: Connection, tenant: int, *query: Any, **options: Any
    ) -> list[tuple[int, float, float, float]]:
        """Search by FTS5, without an index of the right version, which the background then builds."""
        slot = self._slots.get(tenant)
        if slot is None or not slot.failed:
            self._want(tenant)
        return self._recall.search(connection, tenant, *query, **options)

    def is_hot(self, connection: Connection, tenant: int) -> bool:
        """Return whether the index answers the queries of this transaction."""
        slot = self._slots.get(tenant)
        counts = slot.index.counts() if slot is not None and slot.index is not None else None
        rows = connection.execute(self._version, (tenant,))
        return counts is not None and bool(rows) and counts["version"] == rows[0][0]

    # ---- changes

    def follow(self, tenant: int) -> None:
        """Bring a tenant's index to what this thread has just committed; outside of transactions."""
        slot = self._slots.get(tenant)
        if slot is None or slot.index is None or slot.failed:
            return
        if not slot.lock.acquire(blocking=False):
            self._want(tenant)
            return
        try:
            with self._database.read() as connection:
                followed = slot.followed
                ahead = None if followed is None else hot_rows.look_ahead(connection, followed, _MOST_AT_ONCE)
                if followed is not None and ahead is not None and ahead.work(followed) <= _MOST_AT_ONCE:
                    self._catch_up(connection, slot, ahead)
                    return
        except (ShepherdError, *_DOUBTS):
            return  # the write is stored; the background finds the fault of the index
        finally:
            slot.lock.release()
        self._want(tenant)

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
            with slot.lock, self._database.read() as connection:
                if slot.followed is None or not self.is_hot(connection, tenant):
                    continue
                surplus, missing = hot_rows.differences(connection, slot.followed)
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
            if not self._is_closing:
                _log.info("%s: no hot index of tenant %d: %s", self._database.path, tenant, error)
        except _DOUBTS as error:
            slot.index = slot.followed = None
            slot.failed, slot.n_bytes = True, 0
            _log.warning("%s: no hot index of tenant %d: %s", self._database.path, tenant, error)
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
        for _ in range(3):  # at worst, the list of changes was cut meanwhile
            if slot.followed is not None:
                with self._database.read() as connection:
                    if self._catch_up(connection, slot, hot_rows.look_ahead(connection, slot.followed)):
                        return
            slot.index, slot.saved_version = None, -1
            slot.followed = self._build(tenant)
            if slot.followed is None:
                return

    def _build(self, tenant: int) -> Followed | None:
        for built in hot_rows.build(self._database.read, self._corpus, tenant):
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
        with self._database.read() as connection:
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
        followed = slot.followed
        if followed is None or slot.index is None:
            return
        counts = followed.index.counts()
        if counts is None or counts["n_memories"] < _LEAST_SAVED:
            return
        # A file that is a little behind is caught up faster than it is written.
        n_behind = followed.version - slot.saved_version
        if slot.saved_version >= 0 and n_behind <= 500 + counts["n_memories"] // 50:
            return
        if self._files.save(followed):
            slot.saved_version = followed.version


def _work(owner: weakref.ref[HotRecall], queue: SimpleQueue[int | None]) -> None:
    while (tenant := queue.get()) is not None:
        recall = owner()
        if recall is None:
            return
        recall.serve(tenant)
        del recall

"""Vectors at work: a question's nearest memories beside what words find, and a thread that makes vectors.

The embedder is opened when it is first needed, by whoever needs it first. One that fails costs its part of an
answer, never the answer: words are searched as ever, and the log says why.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from shepherd.errors import ShepherdError
from shepherd.fusion import CANDIDATES
from shepherd.lru_cache import LRUCache
from shepherd.memory.connection import Connection
from shepherd.memory.corpora import CHUNKS, MEMORIES
from shepherd.memory.records import Periods
from shepherd.memory.store import MemoryStore
from shepherd.memory.vectors.embedding import BackOff, embed_all, embed_question
from shepherd.memory.vectors.fusion import candidates, fuse
from shepherd.memory.vectors.meaning import ChunkMeaning
from shepherd.memory.vectors.table import NOTHING, Floats, Nearest, TextEmbedder, VectorTable, counts
from shepherd.types import SearchResult

__all__ = ["VectorRecall", "VectorSettings"]

_log = logging.getLogger(__name__)

# Texts of one step: what another thread's question waits for at worst, and what a crash loses.
_BATCH = 16
_IDLE_S = 30.0  # another process may have stored something
_SAME_QUESTION = 32


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """How vectors are made, and how much they weigh beside words: 0 not at all, 1 alone."""

    open_embedder: Callable[[], TextEmbedder]
    weight: float = 0.2


class VectorRecall:
    """The vectors of one memory. Thread-safe."""

    def __init__(self, store: MemoryStore, settings: VectorSettings, *, read_only: bool) -> None:
        self._store = store
        self._table: VectorTable = store.vector_table(MEMORIES)
        self._chunks: VectorTable = store.vector_table(CHUNKS)
        self._settings = settings
        self._read_only = read_only
        self._embedder: TextEmbedder | None = None
        self._opening = threading.Lock()
        # Apart: what is wrong with texts in the background must not take their vectors from questions.
        self._questions = BackOff()
        self._background = BackOff()
        self._failure: ShepherdError | None = None
        self._queries: LRUCache[str, Floats] = LRUCache(_SAME_QUESTION)
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    # ---- questions

    def search(
        self,
        user_id: str,
        query: str,
        keywords: list[str],
        *,
        limit: int,
        now: float,
        recency_floor: float,
        min_relevance: float,
        except_session: str = "",
        except_since: int = 0,
        periods: Periods = (),
    ) -> list[SearchResult] | None:
        """The best memories by words and vectors; None: there are no vectors to be had, ask for words."""
        vector = self._vector(query)
        if vector is None:
            return None
        n = asked = max(limit, CANDIDATES)
        while True:
            words = self._store.search(
                user_id,
                keywords,
                limit=asked,
                now=now,
                recency_floor=recency_floor,
                min_relevance=0.0,
                periods=periods,
            )
            try:
                near = self._nearest(user_id, vector, [hit.id for hit in words], asked)
            except ShepherdError as error:
                _log.warning("searching by words alone: %s", error)
                return None
            found = candidates(
                words, near, n, asked, except_session=except_session, except_since=except_since
            )
            if found is not None:
                words, near = found
                break
            # What is withheld is what this session told: seldom more than one more round.
            asked *= 4
        if not any(one.cosine is not None for one in near.rows):
            return None
        return fuse(
            words,
            near,
            weight=self._settings.weight,
            limit=limit,
            now=now,
            recency_floor=recency_floor,
            min_relevance=min_relevance,
        )

    def counts(self, user_id: str) -> tuple[int, int]:
        """Return how many of the user's memories have a vector, and how many there are."""

        def read(connection: Connection) -> tuple[int, int]:
            tenant = self._store.find_number(connection, user_id)
            return (0, 0) if tenant is None else counts(connection, tenant)

        return self._store.read(read)

    def _nearest(self, user_id: str, vector: Floats, ids: list[int], n: int) -> Nearest:
        def read(connection: Connection) -> Nearest:
            tenant = self._store.find_number(connection, user_id)
            return NOTHING if tenant is None else self._table.nearest(connection, tenant, vector, ids, n)

        return self._store.read(read)

    def _vector(self, query: str) -> Floats | None:
        known = self._queries.get(query)
        if known is not None:
            return known
        if not query.strip():
            return None
        try:
            embedder = self._opened(self._questions)
            if embedder is None:
                return None
            vector = embed_question(embedder, query)
        except ShepherdError as error:
            self._questions.failed(error)
            return None
        self._questions.reset()
        if not vector.any():
            return None
        self._queries.put(query, vector)
        return vector

    def meaning(self) -> ChunkMeaning:
        """The same for chunks of knowledge, by the same embedder."""
        return ChunkMeaning(
            self._chunks,
            self._settings.weight,
            opened=lambda: self._opened(self._background),
            of_query=self._vector,
            failed=self._failed,
            wake=self.wake,
        )

    # ---- the embedder

    def _opened(self, back_off: BackOff) -> TextEmbedder | None:
        """The embedder; None while it is not to be tried again, or when all is over."""
        if back_off.wait_s > 0:
            return None
        with self._opening:
            if self._embedder is None and not self._closing:
                embedder = self._settings.open_embedder()
                try:
                    self._table.open(embedder.name, to_write=not self._read_only)
                    self._chunks.open(embedder.name, to_write=not self._read_only)
                except BaseException:
                    embedder.close()
                    raise
                self._embedder = embedder
        return self._embedder

    def _failed(self, error: ShepherdError) -> None:
        self._failure = error
        self._background.failed(error)

    # ---- the background

    def wake(self) -> None:
        """Something was stored, here or elsewhere: the thread looks what has no vector."""
        if self._read_only or self._closing:
            return
        self._idle.clear()
        self._wake.set()
        if self._thread is None:
            with self._opening:
                if self._thread is None and not self._closing:
                    self._thread = threading.Thread(
                        target=_work, args=(weakref.ref(self), self._wake), name="vectors", daemon=True
                    )
                    # Who forgets to close must not keep a thread waiting for ever.
                    weakref.finalize(self, self._wake.set).atexit = False
                    self._thread.start()

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Makes all that is missing; whether it came to that in time. Raises what the embedder raises."""
        self._failure = None
        self._background.reset()  # who waits for it does not wait for another attempt
        self.wake()
        deadline = time.monotonic() + timeout_s
        while not self._idle.wait(0.02):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline or self._read_only or self._closing:
                return False
        return True

    def step(self) -> float:
        """One batch; after how many seconds there may be another. Called by the thread."""
        self._wake.clear()
        if self._closing:
            return 0.0
        try:
            embedder = self._opened(self._background)
            if embedder is None:
                return max(self._background.wait_s, 0.1)
            has_more = self._embed_batch(self._table, embedder) or self._embed_batch(self._chunks, embedder)
        except ShepherdError as error:
            if not self._closing:
                self._failed(error)
            return max(self._background.wait_s, 0.1)
        self._background.reset()
        if has_more:
            self._questions.reset()
            return 0.0
        if not self._wake.is_set():
            self._idle.set()
        return _IDLE_S

    def _embed_batch(self, table: VectorTable, embedder: TextEmbedder) -> bool:
        """Make the vectors of a few rows without one, and return whether there were any."""
        batch = self._store.read(lambda connection: table.pending(connection, _BATCH))
        if not batch:
            return False
        vectors = embed_all(embedder, [row.text for row in batch])
        made = [(row.id, row.content_hash, vector) for row, vector in zip(batch, vectors, strict=True)]
        # In turn with the user's writers: a row that is removed now would leave its vector behind.
        self._store.write(batch[0].user_id, lambda connection: table.put(connection, made))
        return True

    def close(self) -> None:
        """Ends the thread after the batch it is at, then the embedder; twice is fine."""
        self._closing = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._opening:
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()

    @property
    def is_closing(self) -> bool:
        """Whether the thread is to end."""
        return self._closing


def _work(owner: weakref.ref[VectorRecall], wake: threading.Event) -> None:
    while True:
        recall = owner()
        if recall is None or recall.is_closing:
            return
        wait_s = recall.step()
        del recall
        wake.wait(wait_s)

"""Hybrid search of memories by words and vectors, and a thread that makes vectors.

The embedder is opened when it is first needed. If it fails, words alone rank the answer, and the log says
why.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shepherd import fusion
from shepherd._native.rank import recency
from shepherd.errors import ShepherdError
from shepherd.fusion import CANDIDATES, Candidate
from shepherd.lru_cache import LRUCache
from shepherd.memory.corpora import CHUNKS, MEMORIES
from shepherd.memory.queries import RecallQuery, result_of, taking_turns, with_distinct_questions
from shepherd.memory.store import MemoryStore
from shepherd.memory.vectors.embedding import BackOff, embed_all, embed_question
from shepherd.memory.vectors.table import NOTHING, Floats, Nearest, TextEmbedder, VectorTable, counts
from shepherd.transactions import Connection
from shepherd.types import SECONDS_PER_DAY, SearchResult

__all__ = ["ChunkMeaning", "VectorRecall", "VectorSettings", "candidates", "fuse"]

_log = logging.getLogger(__name__)

# Texts of one step, for which another thread's question waits at worst, and which a crash loses.
_BATCH = 16
_IDLE_S = 30.0  # another process may have stored something
_CACHED_QUERIES = 32


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """The embedder, and the weight of vectors beside words: 0 ignores them, 1 ignores words."""

    open_embedder: Callable[[], TextEmbedder]
    weight: float = 0.2


class VectorRecall:
    """The vectors of one memory. Thread-safe."""

    def __init__(self, store: MemoryStore, settings: VectorSettings, *, read_only: bool) -> None:
        self._store = store
        self._table: VectorTable = store.vector_table(MEMORIES)
        self.chunk_table: VectorTable = store.vector_table(CHUNKS)
        self.settings = settings
        self._read_only = read_only
        self._embedder: TextEmbedder | None = None
        self._opening = threading.Lock()
        # Apart: a text that fails in the background must not keep questions from their vectors.
        self._questions = BackOff()
        self._background = BackOff()
        self._failure: ShepherdError | None = None
        self._queries: LRUCache[str, Floats] = LRUCache(_CACHED_QUERIES)
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.chunks = ChunkMeaning(self)

    # ---- questions

    def search(self, user_id: str, text: str, query: RecallQuery) -> list[SearchResult] | None:
        """Return the best memories by words and vectors; None without vectors, then search by words."""
        vector = self.embed_query(text)
        if vector is None:
            return None
        n = asked = max(query.limit, CANDIDATES)
        while True:
            by_words = query._replace(
                limit=asked,
                min_relevance=0.0,
                except_session="",
                distinct_questions=False,
                is_about_several=False,
            )
            words = self._store.search(user_id, by_words)
            try:
                near = self._nearest(user_id, vector, [hit.id for hit in words], asked)
            except ShepherdError as error:
                _log.warning("searching by words alone: %s", error)
                return None
            found = candidates(words, near, n, asked, query)
            if found is not None:
                words, near = found
                break
            # Only the few memories of one session are excluded, so this is seldom more than one more round.
            asked *= 4
        if not any(one.cosine is not None for one in near.rows):
            return None
        return fuse(words, near, query, weight=self.settings.weight)

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

    def embed_query(self, text: str) -> Floats | None:
        """Return the vector of a question, None if the embedder is unavailable."""
        known = self._queries.get(text)
        if known is not None:
            return known
        if not text.strip():
            return None
        try:
            embedder = self._opened(self._questions)
            if embedder is None:
                return None
            vector = embed_question(embedder, text)
        except ShepherdError as error:
            self._questions.failed(error)
            return None
        self._questions.reset()
        if not vector.any():
            return None
        self._queries.put(text, vector)
        return vector

    def embed_documents(self, texts: Sequence[str]) -> dict[str, Floats]:
        """Return the vectors by text; the background makes those that are missing."""
        found: dict[str, Floats] = {}
        try:
            embedder = self._opened(self._background)
            if embedder is not None:
                wanted = list(dict.fromkeys(texts))
                for start in range(0, len(wanted), _BATCH):
                    batch = wanted[start : start + _BATCH]
                    found |= zip(batch, embed_all(embedder, batch), strict=True)
        except ShepherdError as error:
            self._failed(error)
        if len(found) < len(set(texts)):
            self.wake()
        return found

    # ---- the embedder

    def _opened(self, back_off: BackOff) -> TextEmbedder | None:
        """Return the embedder; None during a pause after a failure, or after close."""
        if back_off.wait_s > 0:
            return None
        with self._opening:
            if self._embedder is None and not self._closing:
                embedder = self.settings.open_embedder()
                try:
                    self._table.open(embedder.name, to_write=not self._read_only)
                    self.chunk_table.open(embedder.name, to_write=not self._read_only)
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
        """Make the thread look for rows without a vector, after a write here or elsewhere."""
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
                    # A memory that is never closed must not keep a thread waiting for ever.
                    weakref.finalize(self, self._wake.set).atexit = False
                    self._thread.start()

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Make all missing vectors; return False after the timeout. Raises what the embedder raises."""
        self._failure = None
        self._background.reset()  # a caller that waits does not wait for the next attempt
        self.wake()
        deadline = time.monotonic() + timeout_s
        while not self._idle.wait(0.02):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline or self._read_only or self._closing:
                return False
        return True

    def step(self) -> float:
        """Make one batch; return the seconds until the next one. Called by the thread."""
        self._wake.clear()
        if self._closing:
            return 0.0
        try:
            embedder = self._opened(self._background)
            if embedder is None:
                return max(self._background.wait_s, 0.1)
            has_more = self._embed_batch(self._table, embedder) or self._embed_batch(
                self.chunk_table, embedder
            )
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
        """End the thread after its batch, then the embedder; a second call does nothing."""
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
        """True once the thread is to end."""
        return self._closing


def _work(owner: weakref.ref[VectorRecall], wake: threading.Event) -> None:
    while True:
        recall = owner()
        if recall is None or recall.is_closing:
            return
        wait_s = recall.step()
        del recall
        wake.wait(wait_s)


class ChunkMeaning:
    """transactions.Meaning: vectors of knowledge by the memory's embedder. Thread-safe."""

    def __init__(self, recall: VectorRecall) -> None:
        self._table = recall.chunk_table
        self.weight = recall.settings.weight
        self.embed_query = recall.embed_query
        self.embed_documents = recall.embed_documents

    def nearest(
        self, connection: Connection, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Return ids and cosines of the `n` nearest chunks and of those of `ids`, and the mean of all."""
        nearest = self._table.nearest(connection, tenant, query, ids, n)
        return [(near.id, near.cosine) for near in nearest.rows if near.cosine is not None], nearest.mean

    def put(self, connection: Connection, vectors: Sequence[tuple[int, Floats]]) -> None:
        """Store vectors of chunks, in the caller's transaction."""
        self._table.put(connection, [(chunk_id, "", vector) for chunk_id, vector in vectors])


# ---- ranking


def candidates(
    words: Sequence[SearchResult], vectors: Nearest, n: int, asked: int, query: RecallQuery
) -> tuple[list[SearchResult], Nearest] | None:
    """Return the `n` best by words, and the `n` nearest with those, without rows that the query excludes.

    `words` and `vectors` are the best `asked` of each. None if too many of those are excluded: ask for more.
    """
    rows = [near for near in vectors.rows if not query.excludes(near.row)]
    allowed = {near.id for near in rows}
    kept = [hit for hit in words if hit.id in allowed]
    nearest = [near for near in rows if near.cosine is not None]
    n_seen = sum(near.cosine is not None for near in vectors.rows)
    if (len(kept) < n and len(words) >= asked) or (len(nearest) < n and n_seen >= asked):
        return None
    nearest.sort(key=lambda near: (-(near.cosine or 0.0), -near.id))
    wanted = {near.id for near in nearest[:n]}.union(hit.id for hit in kept[:n])
    return kept[:n], Nearest([near for near in rows if near.id in wanted], vectors.mean)


def fuse(
    words: Sequence[SearchResult], vectors: Nearest, query: RecallQuery, *, weight: float
) -> list[SearchResult]:
    """Return the best memories by words and cosines, best first, ties to the one stored last."""
    by_words = {hit.id: (hit.score, hit.relevance) for hit in words}
    rows = {near.id: near.row for near in vectors.rows}
    found: list[Candidate] = [
        (
            near.id,
            *by_words.get(near.id, (0.0, 0.0)),
            near.cosine,
            recency(max((query.now - near.row[3]) / SECONDS_PER_DAY, 0.0), query.recency_floor),
            True,
        )
        for near in vectors.rows
    ]
    best = fusion.fuse(
        found, vectors.mean, weight=weight, limit=len(found), min_relevance=query.min_relevance
    )
    results = [result_of(rows[one], score, relevance, query.now) for one, score, relevance in best]
    if query.distinct_questions:
        results = with_distinct_questions(results)
    if query.is_about_several:
        results = taking_turns(results, {memory_id: row[6] for memory_id, row in rows.items()})
    return results[: query.limit]

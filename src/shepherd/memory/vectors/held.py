"""Vectors of users in main memory, compared with a question by one matrix product."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from shepherd.memory.corpora import Corpus
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.memory.vectors.table import Floats
from shepherd.transactions import Connection

__all__ = ["HeldVectors", "Ids", "best_places"]

Ids = npt.NDArray[np.int64]

# Rows per statement while a user's vectors are read.
_PAGE = 4096
# The list of changes has at least the last so many versions.
_KEPT_VERSIONS = 4000


class HeldVectors:
    """Vectors of the users who searched last, up to `limit_bytes`; len() counts users. Thread-safe."""

    def __init__(self, corpus: Corpus, limit_bytes: int) -> None:
        self._corpus = corpus
        self.limit_bytes = limit_bytes
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def compare(self, connection: Connection, tenant: int, query: Floats) -> tuple[Ids, Floats]:
        """Return the user's ids with a vector, and their cosines."""
        with self._lock:
            held = self._held.pop(tenant, None)
            if held is None or held.dimension != len(query):
                held = self._new_held(connection, tenant, len(query))
            if held is not None:
                held.follow(connection)
                self._held[tenant] = held
                self._evict()
                return held.compare(query)
        ids, cosines = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for page_ids, vectors, _ in _pages(connection, self._corpus.vectors, tenant, 0, len(query)):
            ids.append(page_ids)
            cosines.append(_cosines(vectors, query))
        return np.concatenate(ids), np.concatenate(cosines)

    def forget(self) -> None:
        """Drop all vectors, since the file has those of another embedder now."""
        with self._lock:
            self._held.clear()

    def _new_held(self, connection: Connection, tenant: int, dimension: int) -> _Held | None:
        rows = connection.execute(f"SELECT n FROM {self._corpus.sums} WHERE number = ?", (tenant,))
        # A user without such rows has no vectors.
        too_large = not rows or 4 * rows[0][0] * dimension > self.limit_bytes
        return None if too_large else _Held(self._corpus, tenant, dimension)

    def _evict(self) -> None:
        while len(self._held) > 1 and sum(one.n_bytes for one in self._held.values()) > self.limit_bytes:
            self._held.popitem(last=False)


class _Held:
    """Vectors of one user, as of one version of the rows and one change of the table."""

    def __init__(self, corpus: Corpus, tenant: int, dimension: int) -> None:
        self._corpus = corpus
        self._tenant = tenant
        self._version = self._change = 0
        self._n = 0
        self._ids = np.zeros(64, np.int64)
        self._vectors = np.zeros((64, dimension), np.float32)
        self._place: dict[int, int] = {}

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return int(self._vectors.shape[1])

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix."""
        return self._vectors.nbytes

    def follow(self, connection: Connection) -> None:
        """Bring the vectors to what this transaction sees."""
        [(version,)] = connection.execute(
            f"SELECT version FROM {self._corpus.sums} WHERE number = ?", (self._tenant,)
        )
        if version < self._version or version - self._version > _KEPT_VERSIONS:
            self._n = self._change = 0
            self._place.clear()
        elif version != self._version:
            for (memory_id,) in connection.execute(
                f"SELECT id FROM {self._corpus.changes} WHERE tenant = ? AND version > ?",
                (self._tenant, self._version),
            ):
                self._drop(memory_id)
        self._version = version
        change = self._change
        for ids, vectors, newest in _pages(
            connection, self._corpus.vectors, self._tenant, change, self.dimension
        ):
            self._put(ids, vectors)
            self._change = max(self._change, newest)

    def compare(self, query: Floats) -> tuple[Ids, Floats]:
        """Return all ids, and their cosines to a question."""
        return self._ids[: self._n].copy(), _cosines(self._vectors[: self._n], query)

    def _put(self, ids: Ids, vectors: Floats) -> None:
        while self._n + len(ids) > len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
        for memory_id, vector in zip(ids.tolist(), vectors, strict=True):
            place = self._place.setdefault(memory_id, self._n)
            self._n += place == self._n
            self._ids[place], self._vectors[place] = memory_id, vector

    def _drop(self, memory_id: int) -> None:
        place = self._place.pop(memory_id, None)
        if place is None:
            return
        self._n -= 1
        if place != self._n:  # the last one takes its place
            moved = int(self._ids[self._n])
            self._ids[place], self._vectors[place] = moved, self._vectors[self._n]
            self._place[moved] = place


def _pages(
    connection: Connection, table: str, tenant: int, change: int, dimension: int
) -> Iterator[tuple[Ids, Floats, int]]:
    """Yield ids, vectors and the newest change of the rows above `change`."""
    after = (change, 1 << 62)
    while True:
        rows = connection.execute(
            f"SELECT id, vector, change FROM {table}"
            f" WHERE id >> {SEQUENCE_BITS} = ?1 AND (change, id) > (?2, ?3)"
            f" ORDER BY change, id LIMIT {_PAGE}",
            (tenant, *after),
        )
        good = [row for row in rows if row[1] is not None and len(row[1]) == 2 * dimension]
        if good:
            vectors = np.frombuffer(b"".join(row[1] for row in good), "<f2").reshape(-1, dimension)
            # Zeros stand for a text that the embedder does not take.
            real = vectors.any(axis=1)
            yield np.array([row[0] for row in good])[real], vectors[real].astype(np.float32), rows[-1][2]
        if len(rows) < _PAGE:
            return
        after = (rows[-1][2], rows[-1][0])


def _cosines(vectors: Floats, query: Floats) -> Floats:
    # Not `@`: BLAS starts its threads for it, which on a busy machine meet 60 ms later; alone it is as fast.
    return np.asarray(np.einsum("ij,j->i", vectors, query), np.float32)


def best_places(ids: Ids, cosines: Floats, n: int) -> list[int]:
    """Return the places of the `n` greatest cosines, ties to the one stored last."""
    if len(ids) > n:
        least = np.partition(cosines, len(ids) - n)[len(ids) - n]
        places = np.flatnonzero(cosines >= least)
    else:
        places = np.arange(len(ids))
    return sorted(places.tolist(), key=lambda i: (-float(cosines[i]), -int(ids[i])))[:n]

"""Vectors in SQLite: half-precision blobs, compared with the question one by one.

Not sqlite-vec: our SQLite is compiled without extension loading (SQLITE_OMIT_LOAD_EXTENSION), because a
library that SQL can name is a way into the process; and its search is the same exhaustive one. So the vectors
of users who ask are held in memory as single precision, up to a limit, and one matrix product compares all of
them; above the limit they are read from the file for each question.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from shepherd.memory import tenants
from shepherd.memory.connection import Connection
from shepherd.memory.database import Database
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.memory.vectors.table import (
    NOTHING,
    UNITS,
    Floats,
    Near,
    Nearest,
    Unembedded,
    belongs_to,
    claim_table,
    counts,
    fingerprint,
    mean,
    pending,
    put,
)

__all__ = ["FileVectors"]

_Ids = npt.NDArray[np.int64]

_STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS context_vectors(
        id INTEGER PRIMARY KEY, vector BLOB, change INTEGER NOT NULL)""",
    f"""CREATE INDEX IF NOT EXISTS context_vectors_change
        ON context_vectors(id >> {SEQUENCE_BITS}, change)""",
    "CREATE INDEX IF NOT EXISTS context_vectors_stale ON context_vectors(id) WHERE vector IS NULL",
    """CREATE TRIGGER IF NOT EXISTS context_vectors_deleted AFTER DELETE ON context
        BEGIN DELETE FROM context_vectors WHERE id = old.id; END""",
    """CREATE TRIGGER IF NOT EXISTS context_vectors_edited
        AFTER UPDATE OF user_message, assistant_response ON context
        BEGIN UPDATE context_vectors SET vector = NULL WHERE id = old.id; END""",
)
# Rows of one statement, while a user's vectors are read.
_PAGE = 4096
# Of context_changes (see memories.py) the last so many versions are there.
_KEPT_VERSIONS = 4000
_MOST_PARAMETERS = 500


class FileVectors:
    """The vectors of a memory in a file. Thread-safe. `limit_bytes`: of those held in memory."""

    def __init__(self, database: Database, *, limit_bytes: int = 256 << 20) -> None:
        self._database = database
        self._limit_bytes = limit_bytes
        self._owner = -1
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Makes the table, or empties it of another embedder's vectors; to read, it only takes note."""
        self._owner = fingerprint(embedder_name)
        if not to_write:
            return
        with self._database.read() as connection:
            if belongs_to(connection, self._owner):
                return
        with self._database.write() as connection:
            for statement in _STATEMENTS:
                connection.execute(statement)
            if not belongs_to(connection, self._owner):
                claim_table(connection, self._owner)

    def nearest(self, user_id: str, query: Floats, ids: Sequence[int], n: int) -> Nearest:
        """The user's `n` nearest memories and those of `ids` that are his; nothing while another owns it."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None or not belongs_to(connection, self._owner):
                return NOTHING
            known, cosines = self._compare(connection, tenant, query)
            best = _best(known, cosines, n)
            first, last = memory_range(tenant)
            wanted = {*(int(known[i]) for i in best), *(id for id in ids if first <= id <= last)}
            places = np.flatnonzero(np.isin(known, sorted(wanted)))
            found = {int(known[i]): float(cosines[i]) for i in places}
            rows = [
                Near(memory_id, question, answer, told_at, pinned != 0, source, session, found.get(memory_id))
                for memory_id, question, answer, told_at, pinned, source, session in _rows(
                    connection, sorted(wanted)
                )
            ]
        in_units = np.rint(cosines.astype(np.float64) * UNITS).astype(np.int64)
        return Nearest(rows, mean(int(in_units.sum()), len(cosines)))

    def pending(self, n: int) -> list[Unembedded]:
        """A few memories without a vector, all of one user; none: there is nothing to do."""
        with self._database.read() as connection:
            return pending(connection, n) if belongs_to(connection, self._owner) else []

    def put(self, batch: Sequence[Unembedded], vectors: Floats) -> None:
        """Stores vectors; of a memory that has changed meanwhile none, and it is pending again."""
        blobs = [vector.astype("<f2").tobytes() for vector in vectors]
        with self._database.write() as connection:
            if belongs_to(connection, self._owner):
                put(connection, batch, blobs, "?")

    def counts(self, user_id: str) -> tuple[int, int]:
        """How many of the user's memories have a vector, whoever made it, and how many there are."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None:
                return 0, 0
            return counts(connection, tenant)

    # ---- comparing

    def _compare(self, connection: Connection, tenant: int, query: Floats) -> tuple[_Ids, Floats]:
        """All the user's ids with a vector, and their cosines."""
        with self._lock:
            held = self._held.pop(tenant, None) or self._new_held(connection, tenant, len(query))
            if held is not None:
                held.follow(connection)
                self._held[tenant] = held
                self._evict()
                return held.compare(query)
        ids, cosines = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for page_ids, vectors, _ in _pages(connection, tenant, 0, len(query)):
            ids.append(page_ids)
            cosines.append(_cosines(vectors, query))
        return np.concatenate(ids), np.concatenate(cosines)

    def _new_held(self, connection: Connection, tenant: int, dimension: int) -> _Held | None:
        [(n,)] = connection.execute("SELECT n FROM tenants WHERE number = ?", (tenant,))
        return None if 4 * n * dimension > self._limit_bytes else _Held(tenant, dimension)

    def _evict(self) -> None:
        while len(self._held) > 1 and sum(one.n_bytes for one in self._held.values()) > self._limit_bytes:
            self._held.popitem(last=False)


class _Held:
    """One user's vectors in memory, as of one version of `tenants` and one change of the table."""

    def __init__(self, tenant: int, dimension: int) -> None:
        self._tenant = tenant
        self._version = self._change = 0
        self._n = 0
        self._ids = np.zeros(64, np.int64)
        self._vectors = np.zeros((64, dimension), np.float32)
        self._place: dict[int, int] = {}

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix."""
        return self._vectors.nbytes

    def follow(self, connection: Connection) -> None:
        """Brings it to what this transaction sees."""
        [(version,)] = connection.execute("SELECT version FROM tenants WHERE number = ?", (self._tenant,))
        if version < self._version or version - self._version > _KEPT_VERSIONS:
            self._n = self._change = 0
            self._place.clear()
        elif version != self._version:
            for (memory_id,) in connection.execute(
                "SELECT id FROM context_changes WHERE tenant = ? AND version > ?",
                (self._tenant, self._version),
            ):
                self._drop(memory_id)
        self._version = version
        change = self._change
        for ids, vectors, newest in _pages(connection, self._tenant, change, self._vectors.shape[1]):
            self._put(ids, vectors)
            self._change = max(self._change, newest)

    def compare(self, query: Floats) -> tuple[_Ids, Floats]:
        """All ids, and their cosines to a question."""
        return self._ids[: self._n].copy(), _cosines(self._vectors[: self._n], query)

    def _put(self, ids: _Ids, vectors: Floats) -> None:
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
    connection: Connection, tenant: int, change: int, dimension: int
) -> Iterator[tuple[_Ids, Floats, int]]:
    """Ids, vectors and the newest change of the rows above `change`."""
    after = (change, 1 << 62)
    while True:
        rows = connection.execute(
            "SELECT id, vector, change FROM context_vectors"
            f" WHERE id >> {SEQUENCE_BITS} = ?1 AND (change, id) > (?2, ?3)"
            f" ORDER BY change, id LIMIT {_PAGE}",
            (tenant, *after),
        )
        good = [row for row in rows if row[1] is not None and len(row[1]) == 2 * dimension]
        if good:
            vectors = np.frombuffer(b"".join(row[1] for row in good), "<f2").reshape(-1, dimension)
            yield np.array([row[0] for row in good]), vectors.astype(np.float32), rows[-1][2]
        if len(rows) < _PAGE:
            return
        after = (rows[-1][2], rows[-1][0])


def _cosines(vectors: Floats, query: Floats) -> Floats:
    # Not `@`: BLAS starts its threads for it, which on a busy machine meet 60 ms later; alone it is as fast.
    return np.asarray(np.einsum("ij,j->i", vectors, query), np.float32)


def _best(ids: _Ids, cosines: Floats, n: int) -> list[int]:
    """Places of the `n` greatest cosines; ties to the one stored last."""
    if len(ids) > n:
        least = np.partition(cosines, len(ids) - n)[len(ids) - n]
        places = np.flatnonzero(cosines >= least)
    else:
        places = np.arange(len(ids))
    return sorted(places.tolist(), key=lambda i: (-float(cosines[i]), -int(ids[i])))[:n]


def _rows(connection: Connection, ids: list[int]) -> list[tuple[int, str, str, int, int, str, str]]:
    rows: list[tuple[int, str, str, int, int, str, str]] = []
    for start in range(0, len(ids), _MOST_PARAMETERS):
        part = ids[start : start + _MOST_PARAMETERS]
        rows += connection.execute(
            "SELECT id, user_message, assistant_response, timestamp, pinned, source, session FROM context"
            f" WHERE id IN ({', '.join('?' * len(part))})",
            part,
        )
    return rows

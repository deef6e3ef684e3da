"""Vectors of chunks in SQLite: half-precision blobs, held in memory for who asks, as those of memories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shepherd.memory.connection import Connection
from shepherd.memory.corpora import CHUNKS
from shepherd.memory.database import Database
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.memory.vectors import chunk_table
from shepherd.memory.vectors.chunk_table import PENDING_INDEX, UnembeddedChunk
from shepherd.memory.vectors.held import HeldVectors, best_places
from shepherd.memory.vectors.table import UNITS, Floats, fingerprint, mean

__all__ = ["FileChunkVectors"]

_STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS chunk_vectors(
        id INTEGER PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
        vector BLOB NOT NULL, change INTEGER NOT NULL)""",
    f"""CREATE INDEX IF NOT EXISTS chunk_vectors_change
        ON chunk_vectors(id >> {SEQUENCE_BITS}, change)""",
    PENDING_INDEX,
)


class FileChunkVectors:
    """ChunkTable in a file. Thread-safe. `limit_bytes`: of the vectors held in memory."""

    def __init__(self, database: Database, *, limit_bytes: int = 256 << 20) -> None:
        self._database = database
        self._owner = -1
        self._name = ""
        self._held = HeldVectors(CHUNKS, limit_bytes)

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Makes the table, or empties it of another embedder's vectors; to read, it only takes note."""
        self._owner, self._name = fingerprint(embedder_name), embedder_name
        self._held.forget()
        if not to_write:
            return
        with self._database.read() as connection:
            if chunk_table.belongs_to(connection, self._owner):
                return
        with self._database.write() as connection:
            for statement in _STATEMENTS:
                connection.execute(statement)
            if not chunk_table.belongs_to(connection, self._owner):
                chunk_table.claim_table(connection, self._owner)

    def nearest(
        self, connection: Connection, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Ids and cosines of a tenant's `n` nearest chunks and of those of `ids`, and the mean of all."""
        if not chunk_table.belongs_to(connection, self._owner):
            return [], 0.0
        known, cosines = self._held.compare(connection, tenant, query)
        wanted = {*(int(known[i]) for i in best_places(known, cosines, n)), *ids}
        places = np.flatnonzero(np.isin(known, sorted(wanted)))
        in_units = np.rint(cosines.astype(np.float64) * UNITS).astype(np.int64)
        found = [(int(known[i]), float(cosines[i])) for i in places]
        return found, mean(int(in_units.sum()), len(cosines))

    def put(self, connection: Connection, vectors: Sequence[tuple[int, Floats]]) -> None:
        """Stores vectors of chunks that are there; none while the table is another embedder's."""
        if chunk_table.belongs_to(connection, self._owner):
            blobs = [(chunk_id, vector.astype("<f2").tobytes()) for chunk_id, vector in vectors]
            chunk_table.put(connection, blobs, "?", self._name)

    def pending(self, connection: Connection, n: int) -> list[UnembeddedChunk]:
        """A few chunks without a vector, all of one user; none: there is nothing to do."""
        if not chunk_table.belongs_to(connection, self._owner):
            return []
        return chunk_table.pending(connection, n)

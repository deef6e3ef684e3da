"""Vectors in SQLite: half-precision blobs, compared with the question one by one.

sqlite-vec is not used: our SQLite is compiled without extension loading (SQLITE_OMIT_LOAD_EXTENSION), because
a library that SQL can name is a way into the process, and its search is exhaustive as well. The vectors of
users who search are held in memory in single precision, up to a limit, and one matrix product compares all of
them; above the limit they are read from the file for each question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.database import Database
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.memory.vectors import table
from shepherd.memory.vectors.held import HeldVectors, best_places
from shepherd.memory.vectors.table import NOTHING, UNITS, Embedded, Floats, Near, Nearest, Unembedded
from shepherd.transactions import Connection

__all__ = ["FileVectors"]

_STATEMENTS = {
    MEMORIES: (
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
    ),
    CHUNKS: (
        """CREATE TABLE IF NOT EXISTS chunk_vectors(
        id INTEGER PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
        vector BLOB NOT NULL, change INTEGER NOT NULL)""",
        f"""CREATE INDEX IF NOT EXISTS chunk_vectors_change
        ON chunk_vectors(id >> {SEQUENCE_BITS}, change)""",
        table.CHUNKS_PENDING,
    ),
}
_MOST_PARAMETERS = 60  # a statement has 64 at most


class FileVectors:
    """VectorTable in a file. Thread-safe. `limit_bytes` limits the vectors held in memory."""

    def __init__(self, database: Database, corpus: Corpus, *, limit_bytes: int = 256 << 20) -> None:
        self._database = database
        self._corpus = corpus
        self._owner = -1
        self._name = ""
        self._held = HeldVectors(corpus, limit_bytes)

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Make the table, or empty it of another embedder's vectors; to read, only note the embedder."""
        self._owner, self._name = table.fingerprint(embedder_name), embedder_name
        self._held.forget()
        if not to_write:
            return
        with self._database.read() as connection:
            if self._is_ours(connection):
                return
        with self._database.write() as connection:
            for statement in _STATEMENTS[self._corpus]:
                connection.execute(statement)
            if not self._is_ours(connection):
                table.claim_table(connection, self._corpus, self._owner)

    def nearest(
        self, connection: Connection, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> Nearest:
        """Return the tenant's `n` nearest rows and those of `ids`; nothing while another embedder owns it."""
        if not self._is_ours(connection):
            return NOTHING
        known, cosines = self._held.compare(connection, tenant, query)
        first, last = memory_range(tenant)
        best = {int(known[i]) for i in best_places(known, cosines, n)}
        wanted = sorted(best.union(row_id for row_id in ids if first <= row_id <= last))
        found = {int(known[i]): float(cosines[i]) for i in np.flatnonzero(np.isin(known, wanted))}
        if self._corpus.result_columns:
            rows = [Near(row[0], found.get(row[0]), row) for row in self._rows(connection, wanted)]
        else:
            rows = [Near(row_id, cosine) for row_id, cosine in found.items()]
        in_units = np.rint(cosines.astype(np.float64) * UNITS).astype(np.int64)
        return Nearest(rows, table.mean(int(in_units.sum()), len(cosines)))

    def pending(self, connection: Connection, n: int) -> list[Unembedded]:
        """Return a few rows without a vector, all of one user; none if there is nothing to do."""
        return table.pending(connection, self._corpus, n) if self._is_ours(connection) else []

    def put(self, connection: Connection, vectors: Sequence[Embedded]) -> None:
        """Store vectors of rows that are still there. A memory whose hash has changed stays pending."""
        if self._is_ours(connection):
            blobs = [(row_id, digest, vector.astype("<f2").tobytes()) for row_id, digest, vector in vectors]
            table.put(connection, self._corpus, blobs, "?", self._name)

    def _is_ours(self, connection: Connection) -> bool:
        return table.belongs_to(connection, self._corpus, self._owner)

    def _rows(self, connection: Connection, ids: list[int]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(ids), _MOST_PARAMETERS):
            part = ids[start : start + _MOST_PARAMETERS]
            rows += connection.execute(
                f"SELECT {self._corpus.result_columns} FROM {self._corpus.rows}"
                f" WHERE id IN ({', '.join('?' * len(part))})",
                part,
            )
        return rows

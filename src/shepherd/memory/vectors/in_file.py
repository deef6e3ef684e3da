"""Vectors in SQLite: half-precision blobs, compared with the question one by one.

Not sqlite-vec: our SQLite is compiled without extension loading (SQLITE_OMIT_LOAD_EXTENSION), because a
library that SQL can name is a way into the process; and its search is the same exhaustive one. So the vectors
of users who ask are held in memory as single precision, up to a limit, and one matrix product compares all of
them; above the limit they are read from the file for each question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shepherd.memory import tenants
from shepherd.memory.connection import Connection
from shepherd.memory.corpora import MEMORIES
from shepherd.memory.database import Database
from shepherd.memory.results import COLUMNS, Row
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.memory.vectors.held import HeldVectors, best_places
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
_MOST_PARAMETERS = 60  # a statement has 64 at most


class FileVectors:
    """The vectors of a memory in a file. Thread-safe. `limit_bytes`: of those held in memory."""

    def __init__(self, database: Database, *, limit_bytes: int = 256 << 20) -> None:
        self._database = database
        self._owner = -1
        self._held = HeldVectors(MEMORIES, limit_bytes)

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
            known, cosines = self._held.compare(connection, tenant, query)
            best = best_places(known, cosines, n)
            first, last = memory_range(tenant)
            wanted = {*(int(known[i]) for i in best), *(id for id in ids if first <= id <= last)}
            places = np.flatnonzero(np.isin(known, sorted(wanted)))
            found = {int(known[i]): float(cosines[i]) for i in places}
            rows = [Near(row[0], found.get(row[0]), row) for row in _rows(connection, sorted(wanted))]
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


def _rows(connection: Connection, ids: list[int]) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(ids), _MOST_PARAMETERS):
        part = ids[start : start + _MOST_PARAMETERS]
        rows += connection.execute(
            f"SELECT {COLUMNS} FROM context WHERE id IN ({', '.join('?' * len(part))})", part
        )
    return rows

"""Vectors of chunks in PostgreSQL: pgvector's type, compared by the server one by one, as of memories."""

from __future__ import annotations

from collections.abc import Sequence

from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.vectors import installed_type, vector_literal
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.memory.vectors import chunk_table
from shepherd.memory.vectors.chunk_table import PENDING_INDEX, UnembeddedChunk
from shepherd.memory.vectors.table import UNITS, Floats, fingerprint, mean

__all__ = ["ServerChunkVectors"]


class ServerChunkVectors:
    """ChunkTable on a server. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = -1
        self._name = ""
        self._type = ""

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Makes the table, or empties it of another embedder's vectors; to read, it only takes note.

        StoreError where there is no pgvector and it may not be installed.
        """
        self._owner, self._name = fingerprint(embedder_name), embedder_name
        schema = installed_type(self._database, to_install=to_write)
        self._type = f"{schema}.vector" if schema else ""
        if not to_write:
            return
        if not self._database.read(lambda connection: chunk_table.belongs_to(connection, self._owner)):
            self._database.write_locked("schema", self._make)

    def nearest(
        self, connection: Connection, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Ids and cosines of a tenant's `n` nearest chunks and of those of `ids`, and the mean of all."""
        if not self._type or not chunk_table.belongs_to(connection, self._owner):
            return [], 0.0
        operator = f"OPERATOR({self._type.removesuffix('.vector')}.<#>)"
        rows = connection.execute(
            # Vectors have length 1: the inner product, which pgvector gives negated, is the cosine.
            "WITH v AS MATERIALIZED (SELECT id, cosine FROM"
            f" (SELECT id, vector, -(vector {operator} CAST(?1 AS {self._type})) AS cosine"
            " FROM chunk_vectors WHERE id BETWEEN ?2 AND ?3 OFFSET 0) AS rated"
            # Zeros stand for a text that the embedder does not take; few others are at right angles.
            f" WHERE cosine <> 0 OR vector {operator} vector < 0),"
            " best AS (SELECT id FROM v ORDER BY cosine DESC, id DESC LIMIT ?4)"
            " SELECT v.id, v.cosine, (SELECT count(*) FROM v),"
            f" (SELECT CAST(sum(CAST(round(cosine * {UNITS}) AS bigint)) AS bigint) FROM v)"
            " FROM v WHERE v.id IN (SELECT id FROM best) OR v.id = ANY(?5::bigint[])",
            (vector_literal(query), *memory_range(tenant), n, list(ids)),
        )
        found = [(chunk_id, cosine) for chunk_id, cosine, *_ in rows]
        return found, mean(rows[0][3] or 0, rows[0][2]) if rows else 0.0

    def put(self, connection: Connection, vectors: Sequence[tuple[int, Floats]]) -> None:
        """Stores vectors of chunks that are there; none while the table is another embedder's."""
        if self._type and chunk_table.belongs_to(connection, self._owner):
            literals = [(chunk_id, vector_literal(vector)) for chunk_id, vector in vectors]
            chunk_table.put(connection, literals, f"CAST(? AS {self._type})", self._name)

    def pending(self, connection: Connection, n: int) -> list[UnembeddedChunk]:
        """A few chunks without a vector, all of one user; none: there is nothing to do."""
        if not chunk_table.belongs_to(connection, self._owner):
            return []
        return chunk_table.pending(connection, n)

    def _make(self, connection: Connection) -> None:
        for statement in (
            f"""CREATE TABLE IF NOT EXISTS chunk_vectors(
                id BIGINT PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
                vector {self._type} NOT NULL, change BIGINT NOT NULL)""",
            f"""CREATE INDEX IF NOT EXISTS chunk_vectors_change
                ON chunk_vectors((id >> {SEQUENCE_BITS}), change)""",
            PENDING_INDEX,
        ):
            connection.run(statement)
        if not chunk_table.belongs_to(connection, self._owner):
            chunk_table.claim_table(connection, self._owner)

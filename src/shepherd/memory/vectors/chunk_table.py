"""The table of chunks' vectors, as both engines have it, and what an engine must offer beside it.

    chunk_vectors(id, vector, change)   goes with its chunk; chunks.embedding_model says who made it
    meta: chunk_vectors_by              whose vectors they are, as of memories
    meta: chunk_vectors_change          the last `change` that was given

A chunk's text never changes: a document's new text has new chunks. There is no table until vectors are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shepherd.memory.connection import Connection, Value
from shepherd.memory.vectors.table import Floats

__all__ = [
    "PENDING_INDEX",
    "ChunkTable",
    "UnembeddedChunk",
    "belongs_to",
    "claim_table",
    "pending",
    "put",
]

_OWNER = "chunk_vectors_by"
_CHANGE = "chunk_vectors_change"
PENDING_INDEX = "CREATE INDEX IF NOT EXISTS chunks_without_vector ON chunks(id) WHERE embedding_model = ''"


@dataclass(frozen=True, slots=True)
class UnembeddedChunk:
    """A chunk without a vector."""

    id: int
    user_id: str
    text: str


class ChunkTable(Protocol):
    """The vectors of one database's chunks. All but `open` inside the caller's transaction."""

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Makes the table, or empties it of another embedder's vectors; to read, it only takes note."""

    def nearest(
        self, connection: Any, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Ids and cosines of a tenant's `n` nearest chunks and of those of `ids`, and the mean of all."""

    def put(self, connection: Any, vectors: Sequence[tuple[int, Floats]]) -> None:
        """Stores vectors of chunks that are there; none while the table is another embedder's."""

    def pending(self, connection: Any, n: int) -> list[UnembeddedChunk]:
        """A few chunks without a vector, all of one user; none: there is nothing to do."""


def belongs_to(connection: Connection, owner: int) -> bool:
    """Whether there is a table, with this embedder's vectors."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_OWNER,))
    return bool(rows) and rows[0][0] == owner


def claim_table(connection: Connection, owner: int) -> None:
    """Makes the table this embedder's; vectors of another are gone, and their chunks wait for new ones."""
    connection.execute("DELETE FROM chunk_vectors")
    connection.execute("UPDATE chunks SET embedding_model = '' WHERE embedding_model <> ''")
    connection.execute("UPDATE nodes SET index_state = 'chunked' WHERE index_state = 'embedded'")
    connection.execute("DELETE FROM meta WHERE key = ?", (_OWNER,))
    connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (_OWNER, owner))
    connection.execute(
        "INSERT INTO meta(key, value) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = ?1)",
        (_CHANGE,),
    )


def pending(connection: Connection, n: int) -> list[UnembeddedChunk]:
    """See ChunkTable.pending."""
    rows = connection.execute(
        "SELECT id, user_id, text FROM chunks WHERE embedding_model = '' ORDER BY id LIMIT ?", (n,)
    )
    found = [UnembeddedChunk(*row) for row in rows]
    return [chunk for chunk in found if chunk.user_id == found[0].user_id]


def put(
    connection: Connection, vectors: Sequence[tuple[int, Value]], parameter: str, embedder_name: str
) -> None:
    """See ChunkTable.put. `parameter` is how this engine writes a vector in SQL."""
    if not vectors:
        return
    [(change,)] = connection.execute(
        "UPDATE meta SET value = value + 1 WHERE key = ? RETURNING value", (_CHANGE,)
    )
    nodes: set[tuple[str, int]] = set()
    for chunk_id, vector in vectors:
        nodes.update(
            connection.execute(
                "UPDATE chunks SET embedding_model = ? WHERE id = ? RETURNING user_id, node_id",
                (embedder_name, chunk_id),
            )
        )
        connection.execute(
            "INSERT INTO chunk_vectors(id, vector, change)"
            f" SELECT id, {parameter}, CAST(? AS BIGINT) FROM chunks WHERE id = ?"
            " ON CONFLICT(id) DO NOTHING",
            (vector, change, chunk_id),
        )
    for user_id, node_id in sorted(nodes):
        connection.execute(
            "UPDATE nodes SET index_state = 'embedded', index_error = ''"
            " WHERE user_id = ?1 AND id = ?2 AND index_state = 'chunked'"
            " AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.user_id = ?1 AND c.node_id = ?2"
            " AND c.part = 'text' AND c.embedding_model = '')",
            (user_id, node_id),
        )

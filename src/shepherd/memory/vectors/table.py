"""Tables of vectors, one for each corpus: the part that both engines share, and an engine's interface.

    context_vectors(id, vector, change)   vectors of memories; NULL: the text has changed since
    chunk_vectors(id, vector, change)     vectors of chunks; chunks.embedding_model names their embedder
    meta: vectors_by, chunk_vectors_by            fingerprint of their embedder's name
    meta: vectors_change, chunk_vectors_change    the last `change` that was given

Vectors of memories are made in the order of a user's ids, so the memories above the greatest id in the table
have none, and nothing has to be stored for a restart. Triggers remove a vector with its
memory and empty it when the text changes. The text of a chunk never changes: a document's new text has new
chunks. `change` rises with every batch and is never given again, for copies of vectors in main memory. The
tables do not exist until vectors are on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.transactions import Connection, Value

__all__ = [
    "CHUNKS_PENDING",
    "NOTHING",
    "UNITS",
    "Embedded",
    "Floats",
    "Near",
    "Nearest",
    "TextEmbedder",
    "Unembedded",
    "VectorTable",
    "belongs_to",
    "claim_table",
    "counts",
    "fingerprint",
    "mean",
    "pending",
    "put",
]

Floats = npt.NDArray[np.float32]

# Cosines are added up in whole numbers of 1/UNITS: the last bits of a sum of floats depend on the order of
# the rows, and that on other users' rows in memory or in the table.
UNITS = 1 << 40
CHUNKS_PENDING = "CREATE INDEX IF NOT EXISTS chunks_without_vector ON chunks(id) WHERE embedding_model = ''"
# A model reads some hundred words, so the rest of a long memory is not sent to it.
_MOST_CHARS = 8192
_FIRST = f"(t.number << {SEQUENCE_BITS})"
_LAST = f"(((t.number + 1) << {SEQUENCE_BITS}) - 1)"


class TextEmbedder(Protocol):
    """A model that makes vectors of length 1; vectors of embedders with different names are not compared."""

    name: str

    def embed_query(self, text: str) -> Floats:
        """Return the vector (dimension,) of a question."""

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return the vectors (n_texts, dimension) of texts to be found."""

    def close(self) -> None:
        """Close the model; a second call does nothing."""


class Near(NamedTuple):
    """A row with its cosine to the question, None if it has no vector yet. `row`: its `result_columns`."""

    id: int
    cosine: float | None
    row: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Nearest:
    """Rows near a question, and the mean cosine of all rows of the user."""

    rows: list[Near]
    mean: float


NOTHING = Nearest([], 0.0)


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A row without a vector. A memory has a hash, to tell whether its text is still the same."""

    id: int
    user_id: str
    content_hash: str
    text: str


# Id, hash of the embedded text ("" of a chunk), vector.
Embedded = tuple[int, str, Floats]


class VectorTable(Protocol):
    """The vectors of one corpus in a database; all but `open` inside the caller's transaction.

    Errors are those of shepherd.errors.
    """

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Make the table, or empty it of another embedder's vectors; to read, only note the embedder."""

    def nearest(self, connection: Any, tenant: int, query: Floats, ids: Sequence[int], n: int) -> Nearest:
        """Return the tenant's `n` nearest rows and those of `ids`; nothing while another embedder owns it."""

    def pending(self, connection: Any, n: int) -> list[Unembedded]:
        """Return a few rows without a vector, all of one user; none if there is nothing to do."""

    def put(self, connection: Any, vectors: Sequence[Embedded]) -> None:
        """Store vectors of rows that are still there. A memory whose hash has changed stays pending."""


def fingerprint(embedder_name: str) -> int:
    """Return a number of 62 bits for a name: PostgreSQL's `meta` holds numbers."""
    return int.from_bytes(hashlib.sha256(embedder_name.encode()).digest()[:8], "big") >> 2


def mean(sum_of_units: int, n: int) -> float:
    """Return the mean of `n` cosines from their sum in UNITS."""
    return sum_of_units / (n * UNITS) if n else 0.0


# ---- inside the caller's transaction, on both engines


def belongs_to(connection: Connection, corpus: Corpus, owner: int) -> bool:
    """Return whether there is a table, with this embedder's vectors."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_owner(corpus),))
    return bool(rows) and rows[0][0] == owner


def claim_table(connection: Connection, corpus: Corpus, owner: int) -> None:
    """Make the table this embedder's, without vectors of another."""
    connection.execute(f"DELETE FROM {corpus.vectors}")
    if corpus is CHUNKS:
        connection.execute("UPDATE chunks SET embedding_model = '' WHERE embedding_model <> ''")
        connection.execute("UPDATE nodes SET index_state = 'chunked' WHERE index_state = 'embedded'")
    connection.execute("DELETE FROM meta WHERE key = ?", (_owner(corpus),))
    connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (_owner(corpus), owner))
    connection.execute(
        "INSERT INTO meta(key, value) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = ?1)",
        (_change(corpus),),
    )


def pending(connection: Connection, corpus: Corpus, n: int) -> list[Unembedded]:
    """Return the rows for VectorTable.pending."""
    return _pending_chunks(connection, n) if corpus is CHUNKS else _pending_memories(connection, n)


def _pending_chunks(connection: Connection, n: int) -> list[Unembedded]:
    rows = connection.execute(
        "SELECT id, user_id, '', text FROM chunks WHERE embedding_model = '' ORDER BY id LIMIT ?", (n,)
    )
    found = [Unembedded(*row) for row in rows]
    return [chunk for chunk in found if chunk.user_id == found[0].user_id]


def _pending_memories(connection: Connection, n: int) -> list[Unembedded]:
    rows = connection.execute(
        "SELECT t.number, t.user_id FROM tenants t WHERE EXISTS (SELECT 1 FROM context_vectors v"
        f" WHERE v.vector IS NULL AND v.id BETWEEN {_FIRST} AND {_LAST})"
        f" OR EXISTS (SELECT 1 FROM context c WHERE c.id <= {_LAST} AND c.id >= {_FIRST} AND c.id >"
        f" coalesce((SELECT max(v.id) FROM context_vectors v WHERE v.id BETWEEN {_FIRST} AND {_LAST}), 0))"
        " LIMIT 1"
    )
    if not rows:
        return []
    tenant, user_id = rows[0]
    columns = "c.id, c.content_hash, c.user_message, c.assistant_response"
    found = connection.execute(
        f"SELECT {columns} FROM context_vectors v JOIN context c ON c.id = v.id"
        " WHERE v.vector IS NULL AND v.id BETWEEN ? AND ? ORDER BY v.id LIMIT ?",
        (*memory_range(tenant), n),
    ) or connection.execute(
        f"SELECT {columns} FROM context c WHERE c.id <= ?2 AND c.id > coalesce((SELECT max(v.id)"
        " FROM context_vectors v WHERE v.id BETWEEN ?1 AND ?2), ?1 - 1) ORDER BY c.id LIMIT ?3",
        (*memory_range(tenant), n),
    )
    return [
        Unembedded(memory_id, user_id, digest, f"{question}\n{answer}"[:_MOST_CHARS])
        for memory_id, digest, question, answer in found
    ]


def put(
    connection: Connection,
    corpus: Corpus,
    vectors: Sequence[tuple[int, str, Value]],
    parameter: str,
    embedder_name: str,
) -> None:
    """Store vectors for VectorTable.put; `parameter` is the SQL of a vector on this engine."""
    if not vectors:
        return
    [(change,)] = connection.execute(
        "UPDATE meta SET value = value + 1 WHERE key = ? RETURNING value", (_change(corpus),)
    )
    if corpus is CHUNKS:
        _put_chunks(connection, vectors, change, parameter, embedder_name)
        return
    for memory_id, content_hash, vector in vectors:
        connection.execute(
            "INSERT INTO context_vectors(id, vector, change)"
            f" SELECT id, CASE WHEN content_hash = ? THEN {parameter} ELSE NULL END, CAST(? AS BIGINT)"
            " FROM context WHERE id = ?"
            # A vector that is late must not replace the one that another process made of the new text.
            " ON CONFLICT(id) DO UPDATE SET vector = excluded.vector, change = excluded.change"
            " WHERE excluded.vector IS NOT NULL",
            (content_hash, vector, change, memory_id),
        )


def _put_chunks(
    connection: Connection,
    vectors: Sequence[tuple[int, str, Value]],
    change: int,
    parameter: str,
    embedder_name: str,
) -> None:
    nodes: set[tuple[str, int]] = set()
    for chunk_id, _, vector in vectors:
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


def counts(connection: Connection, tenant: int) -> tuple[int, int]:
    """Return how many of the tenant's memories have a vector, whoever made it, and how many there are."""
    [(n_all,)] = connection.execute("SELECT n FROM tenants WHERE number = ?", (tenant,))
    if not connection.execute("SELECT 1 FROM meta WHERE key = ?", (_owner(MEMORIES),)):
        return 0, n_all
    [(n_made,)] = connection.execute(
        "SELECT count(*) FROM context_vectors WHERE id BETWEEN ? AND ? AND vector IS NOT NULL",
        memory_range(tenant),
    )
    return n_made, n_all


def _owner(corpus: Corpus) -> str:
    return f"{corpus.meta_prefix}vectors_by"


def _change(corpus: Corpus) -> str:
    return f"{corpus.meta_prefix}vectors_change"

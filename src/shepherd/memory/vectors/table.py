"""The table of vectors, as both engines have it, and what an engine must offer beside it.

    context_vectors(id, vector, change)   one row per memory whose vector was made; NULL: its text has changed
    meta: vectors_by                      whose vectors they are: a number made of the embedder's name
    meta: vectors_change                  the last `change` that was given

Rows are made in the order of a user's ids, so the memories above the greatest id here are those without one:
nothing has to be remembered over a restart. `change` rises with every batch and is never given again, for who
holds vectors in memory. Triggers take a vector out with its memory, and empty it when the text changes. There
is no such table until vectors are on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shepherd.memory.connection import Connection, Value
from shepherd.memory.results import Row
from shepherd.memory.schema import SEQUENCE_BITS, memory_range

__all__ = [
    "NOTHING",
    "UNITS",
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

# Cosines are added up in whole numbers, so many to 1: a sum of floats depends in its last bits on the order
# of the rows, and that on what other users' rows have pushed out of memory or moved in a table.
UNITS = 1 << 40
_OWNER, _CHANGE = "vectors_by", "vectors_change"
# A model reads some hundred words; what comes after this is not even sent to it.
_MOST_CHARS = 8192
_FIRST = f"(t.number << {SEQUENCE_BITS})"
_LAST = f"(((t.number + 1) << {SEQUENCE_BITS}) - 1)"


class TextEmbedder(Protocol):
    """What makes vectors of length 1. Vectors of embedders with different names are not compared."""

    name: str

    def embed_query(self, text: str) -> Floats:
        """The vector (dimension,) of a question."""

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """The vectors (n_texts, dimension) of memories."""

    def close(self) -> None:
        """Lets go of the model; twice is fine."""


@dataclass(frozen=True, slots=True)
class Near:
    """A memory with its cosine to the question, None if it has no vector yet. `row`: see results.COLUMNS."""

    id: int
    cosine: float | None
    row: Row


@dataclass(frozen=True, slots=True)
class Nearest:
    """Memories around a question, and the mean cosine of all of the user's."""

    rows: list[Near]
    mean: float


NOTHING = Nearest([], 0.0)


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A memory without a vector: what it says, and the hash that tells whether it still says so."""

    id: int
    user_id: str
    content_hash: str
    text: str


class VectorTable(Protocol):
    """The vectors of one database. Errors are those of shepherd.errors."""

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Makes the table, or empties it of another embedder's vectors; to read, it only takes note."""

    def nearest(self, user_id: str, query: Floats, ids: Sequence[int], n: int) -> Nearest:
        """The user's `n` nearest memories and those of `ids` that are his; nothing while another owns it."""

    def pending(self, n: int) -> list[Unembedded]:
        """A few memories without a vector, all of one user; none: there is nothing to do."""

    def put(self, batch: Sequence[Unembedded], vectors: Floats) -> None:
        """Stores vectors; of a memory that has changed meanwhile none, and it is pending again."""

    def counts(self, user_id: str) -> tuple[int, int]:
        """How many of the user's memories have a vector, whoever made it, and how many there are."""


def fingerprint(embedder_name: str) -> int:
    """A number of 62 bits for a name: PostgreSQL's `meta` holds numbers."""
    return int.from_bytes(hashlib.sha256(embedder_name.encode()).digest()[:8], "big") >> 2


def mean(sum_of_units: int, n: int) -> float:
    """The mean of `n` cosines from their sum in UNITS."""
    return sum_of_units / (n * UNITS) if n else 0.0


# ---- inside the caller's transaction, on both engines


def belongs_to(connection: Connection, owner: int) -> bool:
    """Whether there is a table, with this embedder's vectors."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_OWNER,))
    return bool(rows) and rows[0][0] == owner


def claim_table(connection: Connection, owner: int) -> None:
    """Makes the table this embedder's; vectors of another are gone."""
    connection.execute("DELETE FROM context_vectors")
    connection.execute("DELETE FROM meta WHERE key = ?", (_OWNER,))
    connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (_OWNER, owner))
    connection.execute(
        "INSERT INTO meta(key, value) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = ?1)",
        (_CHANGE,),
    )


def pending(connection: Connection, n: int) -> list[Unembedded]:
    """See VectorTable.pending."""
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
    connection: Connection, batch: Sequence[Unembedded], vectors: Sequence[Value], parameter: str
) -> None:
    """See VectorTable.put. `parameter` is how this engine writes a vector in SQL."""
    if not batch:
        return
    [(change,)] = connection.execute(
        "UPDATE meta SET value = value + 1 WHERE key = ? RETURNING value", (_CHANGE,)
    )
    for memory, vector in zip(batch, vectors, strict=True):
        connection.execute(
            "INSERT INTO context_vectors(id, vector, change)"
            f" SELECT id, CASE WHEN content_hash = ? THEN {parameter} ELSE NULL END, CAST(? AS BIGINT)"
            " FROM context WHERE id = ?"
            # What came too late must not take away the vector that another process made of the new text.
            " ON CONFLICT(id) DO UPDATE SET vector = excluded.vector, change = excluded.change"
            " WHERE excluded.vector IS NOT NULL",
            (memory.content_hash, vector, change, memory.id),
        )


def counts(connection: Connection, tenant: int) -> tuple[int, int]:
    """See VectorTable.counts."""
    [(n_all,)] = connection.execute("SELECT n FROM tenants WHERE number = ?", (tenant,))
    if not connection.execute("SELECT 1 FROM meta WHERE key = ?", (_OWNER,)):
        return 0, n_all
    [(n_made,)] = connection.execute(
        "SELECT count(*) FROM context_vectors WHERE id BETWEEN ? AND ? AND vector IS NOT NULL",
        memory_range(tenant),
    )
    return n_made, n_all

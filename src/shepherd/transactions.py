"""Protocols of the database for the packages that keep rows in it: transactions, and an index of chunks.

The memory owns the database; knowledge, traces and entities only know these protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["ChunkHit", "ChunkIndex", "Connection", "Meaning", "Reranker", "Transactions", "Value", "is_blind"]

_Result = TypeVar("_Result")

Value = int | float | str | bytes | None
# Id, BM25, score, relevance.
ChunkHit = tuple[int, float, float, float]


class Connection(Protocol):
    """A connection inside a transaction, of either engine.

    The SQL is common to SQLite and PostgreSQL, with `?` for a parameter or `?1` for a repeated one.
    """

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of the result."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> object:
        """Run the statement with the parameters of each row; the result is dropped."""


def is_blind(connection: Connection) -> bool:
    """Return whether the server behind a connection cannot read texts, and only finds equal ones."""
    # A file has no server; its connection knows nothing of this.
    return bool(getattr(connection, "is_blind", False))


class ChunkIndex(Protocol):
    """Index of the words of chunks; ids are tenant << 40 | sequence. Inside the caller's transaction."""

    def add(self, connection: Connection, tenant: int, chunks: Sequence[tuple[int, str]]) -> list[int]:
        """Add the words of each (id, text); return how many words each has, with repeats."""

    def remove(self, connection: Connection, chunks: Sequence[tuple[int, str]]) -> None:
        """Remove the words of each (id, text); the texts are those that were added."""

    def note_removed(
        self, connection: Connection, tenant: int, version: int, chunk_ids: Sequence[int]
    ) -> None:
        """Record for indexes in main memory which chunks `version` of the tenant's chunks removed."""

    def search(
        self,
        connection: Connection,
        tenant: int,
        keywords: Sequence[str],
        *,
        limit: int,
        min_relevance: float,
    ) -> list[ChunkHit]:
        """Return the best chunks of a tenant, best first, ties to the larger id; the same on both engines."""


class Meaning(Protocol):
    """Vectors of texts by the configured embedder, and the stored vectors of chunks. Thread-safe.

    If the embedder is unavailable, that is logged, and nothing is raised.
    """

    weight: float
    """Weight of vectors beside words: 0 ignores them, 1 ignores words."""

    def embed_query(self, text: str) -> Any | None:
        """Return the vector of a question, None if the embedder is unavailable."""

    def embed_documents(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Return vectors by text; the background makes missing ones. Outside of a transaction."""

    def nearest(
        self, connection: Connection, tenant: int, query: Any, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Return ids and cosines of the `n` nearest chunks and of those of `ids`, and the mean of all."""

    def put(self, connection: Connection, vectors: Sequence[tuple[int, Any]]) -> None:
        """Store vectors of chunks, in the caller's transaction; they are deleted with their chunks."""


class Reranker(Protocol):
    """Model of the relevance of documents to a question; scores compare within one question only."""

    def scores(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return a score per document, in their order; higher is more relevant."""

    def close(self) -> None:
        """Close the model; a second call does nothing."""


class Transactions(Protocol):
    """A database of many users. Thread-safe. Errors are those of shepherd.errors.

    `meaning` and `reranker` are None if no embedder or no reranker is configured. With `keeps_secrets`,
    passwords, keys and the like are stored as any other text. `is_blind`: the database's server cannot read
    texts and words, and there are no knowledge and no traces.
    """

    chunks: ChunkIndex
    meaning: Meaning | None
    reranker: Reranker | None
    keeps_secrets: bool
    is_blind: bool

    @property
    def path(self) -> str:
        """Path or address of the database, without a password."""

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work`; everything in it sees the same moment. May run it again."""

    def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`, for a few rows by an index, which takes less time than switching threads."""

    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """Return the result of `work` once it is committed. Writers of one user take turns. May run it again.

        `size`: about how many bytes the database grows by. `stays`: the rows are never pruned; StoreFullError
        is raised if they do not fit.
        """

    def forget(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `write` for a deletion; if the result is true, remove what it left in other files as well."""

    def forget_chunks(
        self, connection: Connection, user_id: str, chunk_ids: Sequence[int], titles: Sequence[str]
    ) -> None:
        """Remove copies of deleted nodes, given by their chunks and titles, from conversations and traces."""

    def find_number(self, connection: Connection, user_id: str) -> int | None:
        """Return the number of a user, None if the user has stored nothing yet."""

    def ensure_number(self, connection: Connection, user_id: str) -> int:
        """Return the number of a user; a new user gets one, which never changes and is never given again."""

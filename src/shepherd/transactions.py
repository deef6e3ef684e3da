"""What rooms that keep something in the user's database need of it: transactions, and an index of chunks.

The memory owns the database; knowledge lives in it too and knows these protocols alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["ChunkHit", "ChunkIndex", "Connection", "Meaning", "Reranker", "Transactions", "Value"]

_Result = TypeVar("_Result")

Value = int | float | str | bytes | None
# Id, BM25, score, relevance.
ChunkHit = tuple[int, float, float, float]


class Connection(Protocol):
    """A connection inside a transaction, of either engine.

    The SQL is what SQLite and PostgreSQL have in common, with `?` for a parameter or `?1` for a repeated one.
    """

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """All rows of the result."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> object:
        """Runs the statement with the parameters of each row; what it returns is dropped."""


class ChunkIndex(Protocol):
    """The words of chunks, under ids of the form tenant << 40 | sequence. Inside the caller's transaction."""

    def add(self, connection: Connection, tenant: int, chunks: Sequence[tuple[int, str]]) -> list[int]:
        """Puts the words of each (id, text) in; how many words each has, with repeats."""

    def remove(self, connection: Connection, chunk_ids: Sequence[int]) -> None:
        """Takes the words of chunks out."""

    def note_removed(
        self, connection: Connection, tenant: int, version: int, chunk_ids: Sequence[int]
    ) -> None:
        """These chunks are gone as of `version` of the tenant's chunks, for who holds them in main memory."""

    def search(
        self,
        connection: Connection,
        tenant: int,
        keywords: Sequence[str],
        *,
        limit: int,
        min_relevance: float,
    ) -> list[ChunkHit]:
        """The best chunks of a tenant, best first, ties to the larger id; the same bits on both engines."""


class Meaning(Protocol):
    """Vectors of texts by the configured embedder, and those of chunks. From any thread.

    An embedder that is away costs its part of an answer: it is logged, and nothing is raised.
    """

    weight: float
    """Of vectors beside words: 0 not at all, 1 alone."""

    def embed_query(self, text: str) -> Any | None:
        """The vector of a question; None: there is none to be had."""

    def embed_documents(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """The vector of each text; what is missing is made in the background. Outside of a transaction."""

    def nearest(
        self, connection: Connection, tenant: int, query: Any, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Ids and cosines of a tenant's `n` nearest chunks and of those of `ids`, and the mean of all."""

    def put(self, connection: Connection, vectors: Sequence[tuple[int, Any]]) -> None:
        """Stores vectors of chunks, in the caller's transaction; they go with their chunks."""


class Reranker(Protocol):
    """How relevant documents are to a question; higher is more, comparable within one question only."""

    def scores(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """One score per document, in their order."""

    def close(self) -> None:
        """Lets go of the model; twice is fine."""


class Transactions(Protocol):
    """A database of many users. Errors are those of shepherd.errors. From any thread.

    `meaning`, `reranker`: None where no embedder, no reranker is configured.
    """

    chunks: ChunkIndex
    meaning: Meaning | None
    reranker: Reranker | None

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` returns; everything in it sees the same moment. May run it again."""

    def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """As `read`, for a few rows by an index, which take less time than to let another thread in."""

    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """What `work` returns, once it is committed. Writers of one user take turns. May run it again.

        `size` is about how many bytes the database grows by. `stays`: it is never removed to make room for
        something else; StoreFullError where there is none for it.
        """

    def find_number(self, connection: Connection, user_id: str) -> int | None:
        """The number of a user who has stored something."""

    def ensure_number(self, connection: Connection, user_id: str) -> int:
        """The number of a user, from now on; it never changes and is never given again."""

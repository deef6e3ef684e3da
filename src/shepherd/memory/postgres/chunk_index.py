"""The words of knowledge's chunks on a server: the table chunk_terms, ranked as a file's are, bit for bit.

Inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd.memory.postgres import search
from shepherd.memory.postgres.terms import terms_of
from shepherd.transactions import ChunkHit, Connection

__all__ = ["ServerChunks"]

_INSERT = (
    "INSERT INTO chunk_terms(id, doc_len, terms, repeated, counts)"
    " VALUES(?, ?, ?::text[], ?::text[], ?::int[])"
)


class ServerChunks:
    """ChunkIndex over chunk_terms."""

    unindexed = "FROM chunks WHERE id NOT IN (SELECT id FROM chunk_terms)"
    orphaned = "FROM chunk_terms WHERE id NOT IN (SELECT id FROM chunks)"

    def add(self, connection: Connection, tenant: int, chunks: Sequence[tuple[int, str]]) -> list[int]:
        """Puts the words of each (id, text) in; how many words each has, with repeats."""
        found = [(chunk_id, terms_of(tenant, text, "")) for chunk_id, text in chunks]
        connection.execute_together(  # type: ignore[attr-defined]  # of the one engine that this serves
            [
                (_INSERT, (chunk_id, terms.length, terms.terms, terms.repeated, terms.counts))
                for chunk_id, terms in found
            ]
        )
        return [terms.length for _, terms in found]

    def remove(self, connection: Connection, chunk_ids: Sequence[int]) -> None:
        """Takes the words of chunks out."""
        connection.execute("DELETE FROM chunk_terms WHERE id = ANY(?::bigint[])", (list(chunk_ids),))  # type: ignore[arg-type]

    def note_removed(
        self, connection: Connection, tenant: int, version: int, chunk_ids: Sequence[int]
    ) -> None:
        """Nobody keeps a server's chunks in main memory."""

    def clear(self, connection: Connection) -> None:
        """Takes the words of all chunks out."""
        connection.execute("DELETE FROM chunk_terms")

    def search(
        self,
        connection: Connection,
        tenant: int,
        keywords: Sequence[str],
        *,
        limit: int,
        min_relevance: float,
    ) -> list[ChunkHit]:
        """The best chunks of a tenant, best first, ties to the larger id."""
        return search.best_chunks(
            connection,  # type: ignore[arg-type]  # as above
            tenant,
            keywords,
            limit=limit,
            min_relevance=min_relevance,
        )

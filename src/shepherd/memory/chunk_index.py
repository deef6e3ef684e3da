"""The words of knowledge's chunks in a file of SQLite: chunks_fts, ranked by the native code of memories.

Inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd._native.text import scoped
from shepherd.memory.corpora import CHUNKS
from shepherd.memory.hot import HotRecall
from shepherd.transactions import ChunkHit, Connection

__all__ = ["FileChunks"]

# Of chunk_changes: who is further behind reads everything again.
_KEPT_VERSIONS = 4096


class FileChunks:
    """ChunkIndex over chunks_fts; searching needs the hot indexes of the database."""

    # The contentless index keeps a row of sizes for each row it holds.
    unindexed = "FROM chunks WHERE id NOT IN (SELECT id FROM chunks_fts_docsize)"
    orphaned = "FROM chunks_fts_docsize WHERE id NOT IN (SELECT id FROM chunks)"

    def __init__(self, recall: HotRecall | None = None) -> None:
        self._recall = recall

    def add(self, connection: Connection, tenant: int, chunks: Sequence[tuple[int, str]]) -> list[int]:
        """Puts the words of each (id, text) in; how many words each has, with repeats."""
        lengths = []
        for chunk_id, text in chunks:
            tokens, length = scoped(text, tenant)
            connection.execute("INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)", (chunk_id, tokens))
            lengths.append(length)
        return lengths

    def remove(self, connection: Connection, chunk_ids: Sequence[int]) -> None:
        """Takes the words of chunks out."""
        for chunk_id in chunk_ids:
            connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (chunk_id,))

    def note_removed(
        self, connection: Connection, tenant: int, version: int, chunk_ids: Sequence[int]
    ) -> None:
        """Tells hot indexes which chunks they have no more at `version`."""
        for chunk_id in chunk_ids:
            connection.execute(
                "INSERT OR IGNORE INTO chunk_changes VALUES(?, ?, ?)", (tenant, version, chunk_id)
            )
        connection.execute(
            "DELETE FROM chunk_changes WHERE tenant = ? AND version <= ?", (tenant, version - _KEPT_VERSIONS)
        )

    def clear(self, connection: Connection) -> None:
        """Takes the words of all chunks out."""
        connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('delete-all')")

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
        assert self._recall is not None
        return self._recall.search(
            connection,  # type: ignore[arg-type]  # of the one engine that this serves
            tenant,
            keywords,
            limit,
            0.0,
            recency_floor=1.0,
            min_relevance=min_relevance,
            weights=CHUNKS.weights,
        )

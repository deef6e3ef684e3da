"""What knowledge gets of vectors: those of its texts, and where they are kept. See transactions.Meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shepherd.errors import ShepherdError
from shepherd.memory.vectors.embedding import embed_all
from shepherd.memory.vectors.table import Floats, TextEmbedder, VectorTable

__all__ = ["ChunkMeaning"]

# Texts of one call: what another thread's question waits for at worst.
_BATCH = 16


class ChunkMeaning:
    """Meaning by the memory's embedder. Thread-safe; `failed` is told of an embedder that is away."""

    def __init__(
        self,
        table: VectorTable,
        weight: float,
        *,
        opened: Callable[[], TextEmbedder | None],
        of_query: Callable[[str], Floats | None],
        failed: Callable[[ShepherdError], None],
        wake: Callable[[], None],
    ) -> None:
        self.weight = weight
        self._table = table
        self._opened = opened
        self._of_query = of_query
        self._failed = failed
        self._wake = wake

    def embed_query(self, text: str) -> Floats | None:
        """The vector of a question; None: there is none to be had."""
        return self._of_query(text)

    def embed_documents(self, texts: Sequence[str]) -> dict[str, Floats]:
        """The vector of each text; of those that are missing the background takes care."""
        found: dict[str, Floats] = {}
        try:
            embedder = self._opened()
            if embedder is not None:
                wanted = list(dict.fromkeys(texts))
                for start in range(0, len(wanted), _BATCH):
                    batch = wanted[start : start + _BATCH]
                    found |= zip(batch, embed_all(embedder, batch), strict=True)
        except ShepherdError as error:
            self._failed(error)
        if len(found) < len(set(texts)):
            self._wake()
        return found

    def nearest(
        self, connection: Any, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Ids and cosines of a tenant's `n` nearest chunks and of those of `ids`, and the mean of all."""
        nearest = self._table.nearest(connection, tenant, query, ids, n)
        return [(near.id, near.cosine) for near in nearest.rows if near.cosine is not None], nearest.mean

    def put(self, connection: Any, vectors: Sequence[tuple[int, Floats]]) -> None:
        """Stores vectors of chunks, in the caller's transaction."""
        self._table.put(connection, [(chunk_id, "", vector) for chunk_id, vector in vectors])

"""What words found and what vectors found among chunks, as one ranking; and a cross-encoder's opinion of it.

A convex combination of normalised scores, (1 - w) words + w vectors, as for memories: words are divided by
their best score, cosines go from the least to the best of the candidates. A chunk that has no vector yet is
ranked by its words alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shepherd.errors import ShepherdError
from shepherd.knowledge.chunking import spans
from shepherd.knowledge.records import ChunkResult
from shepherd.transactions import ChunkHit, Reranker

__all__ = ["CANDIDATES", "MOST_RERANKED", "fused", "pieces", "reranked"]

_log = logging.getLogger(__name__)

# Of either side at least so many; the other side's opinion of them counts.
CANDIDATES = 32
# A cross-encoder reads each with the question, some ten milliseconds on a CPU.
MOST_RERANKED = 32


def pieces(texts: Iterable[str]) -> list[str]:
    """The chunks that texts will be cut into, each once."""
    return list(dict.fromkeys(text[start:end] for text in texts for start, end in spans(text)))


def fused(
    words: Sequence[ChunkHit],
    cosines: Mapping[int, float],
    mean: float,
    *,
    weight: float,
    limit: int,
    min_relevance: float,
) -> list[ChunkHit]:
    """The best of both, best first, ties to the larger id; scores are 0..1.

    `mean` is of all the user's cosines. Relevance is what the words say, or how far the cosine lies between
    the mean and 1, whichever is more.
    """
    best = max((score for _, _, score, _ in words), default=0.0)
    by_words = {hit[0]: hit for hit in words}
    least = min(cosines.values(), default=0.0)
    span = max(cosines.values(), default=0.0) - least
    hits = []
    for chunk_id in by_words.keys() | cosines.keys():
        _, bm25, score, relevance = by_words.get(chunk_id, (chunk_id, 0.0, 0.0, 0.0))
        told = score / best if best > 0.0 else 0.0
        cosine = cosines.get(chunk_id)
        if cosine is None:
            both, meant = told, 0.0
        else:
            close = (cosine - least) / span if span > 0.0 else 1.0
            both = (1.0 - weight) * told + weight * close
            meant = max((cosine - mean) / (1.0 - mean), 0.0) if mean < 1.0 else 0.0
        relevance = min(max(relevance, meant), 1.0)
        # Without a word of its own, and no nearer than any other: the rest of a node that has them elsewhere.
        if relevance >= min_relevance and (bm25 > 0.0 or meant > 0.0):
            hits.append((chunk_id, bm25, both, relevance))
    hits.sort(key=lambda hit: (-hit[2], -hit[0]))
    return hits[:limit]


def reranked(reranker: Reranker, query: str, results: Sequence[ChunkResult]) -> list[ChunkResult]:
    """The same chunks, the best of them by the reranker's scores, brought to 0..1; ties as they came.

    Should it fail, all as they came.
    """
    first, rest = results[:MOST_RERANKED], results[MOST_RERANKED:]
    if len(first) < 2:
        return list(results)
    try:
        scores = reranker.scores(query, [result.text for result in first])
    except ShepherdError as error:
        _log.warning("not reranked: %s", error)
        return list(results)
    least, span = min(scores), max(scores) - min(scores)
    told = [
        replace(result, score=(score - least) / span if span > 0.0 else 1.0)
        for result, score in zip(first, scores, strict=True)
    ]
    told.sort(key=lambda result: -result.score)
    return [*told, *(replace(result, score=0.0) for result in rest)]

"""Hybrid ranking of chunks, by words and vectors, and the reranking of the best by a cross-encoder."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shepherd.errors import ShepherdError
from shepherd.fusion import Candidate, fuse
from shepherd.knowledge.chunking import spans
from shepherd.knowledge.records import ChunkResult
from shepherd.transactions import ChunkHit, Reranker

__all__ = ["MOST_RERANKED", "fused", "pieces", "reranked"]

_log = logging.getLogger(__name__)

# A cross-encoder reads each chunk with the question, which takes some ten milliseconds on a CPU.
MOST_RERANKED = 32


def pieces(texts: Iterable[str]) -> list[str]:
    """Return the chunks that texts will be cut into, each once."""
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
    """Return the best chunks by words and cosines, best first, ties to the larger id; scores are 0..1."""
    hits = {hit[0]: hit for hit in words}
    candidates: list[Candidate] = [
        (chunk_id, score, relevance, cosines.get(chunk_id), 1.0, bm25 > 0.0)
        for chunk_id, bm25, score, relevance in words
    ]
    candidates += [
        (chunk_id, 0.0, 0.0, cosine, 1.0, False)
        for chunk_id, cosine in cosines.items()
        if chunk_id not in hits
    ]
    best = fuse(candidates, mean, weight=weight, limit=limit, min_relevance=min_relevance)
    return [(one, hits[one][1] if one in hits else 0.0, score, relevance) for one, score, relevance in best]


def reranked(reranker: Reranker, query: str, results: Sequence[ChunkResult]) -> list[ChunkResult]:
    """Return the chunks with the first of them reordered by the reranker, its scores scaled to 0..1.

    Ties keep their order; if the reranker fails, all chunks do.
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

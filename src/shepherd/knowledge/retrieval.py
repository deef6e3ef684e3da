"""Hybrid ranking of chunks, by words and vectors, and the reranking of the best by a cross-encoder."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from shepherd.errors import ShepherdError
from shepherd.fusion import Candidate, fuse
from shepherd.knowledge.chunks import spans
from shepherd.knowledge.records import ChunkResult
from shepherd.transactions import ChunkHit, Reranker
from shepherd.types import SECONDS_PER_DAY

__all__ = ["MOST_RERANKED", "boosted", "fused", "pieces", "reranked", "without_bare_titles"]


_log = logging.getLogger(__name__)

# A cross-encoder takes some ten milliseconds a chunk on a CPU.
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


def without_bare_titles(results: Sequence[ChunkResult]) -> list[ChunkResult]:
    """Return the chunks with each card that only repeats a title replaced by the best text of its node.

    Such a card stays where no text of its node was found.
    """
    texts: dict[int, ChunkResult] = {}
    for result in results:
        if result.part == "text":
            texts.setdefault(result.node_id, result)
    found: dict[int, ChunkResult] = {}
    for result in results:
        text = texts.get(result.node_id) if result.part == "card" and result.text == result.title else None
        if text is None:
            found.setdefault(result.id, result)
        else:
            found.setdefault(text.id, replace(text, score=result.score, relevance=result.relevance))
    return list(found.values())


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


_YEAR_DAYS = 365.0
# Largest boosts of a score of 0..1.
_RECENCY_SHARE, _ENTITY_SHARE = 0.2, 0.3


def boosted(
    results: Sequence[ChunkResult],
    *,
    now: float,
    entities: Sequence[str] = (),
    recency_weight: float = 0.0,
    entity_weight: float = 0.0,
) -> list[ChunkResult]:
    """Return the chunks ranked by score and boosts, which become their `score`; ties keep their order.

    score: as a share of the best one's, 0..1.
    recency: w · e^(-days / 365) · 0.2, for a node with an event date that is not in the future.
    entities: w · matched / entities · 0.3, by whole words of the chunk.
    """
    patterns = [
        re.compile(rf"(?<!\w){re.escape(name.casefold())}(?!\w)") for name in entities if name.strip()
    ]

    best = max((result.score for result in results), default=0.0)

    def score(result: ChunkResult) -> float:
        value = result.score / best if best > 0.0 else 0.0
        days = _age_days(result.date, now)
        if days is not None and recency_weight:
            value += recency_weight * math.exp(-days / _YEAR_DAYS) * _RECENCY_SHARE
        if patterns and entity_weight:
            text = result.text.casefold()
            matched = sum(pattern.search(text) is not None for pattern in patterns)
            value += entity_weight * matched / len(patterns) * _ENTITY_SHARE
        return value

    scored = [replace(result, score=score(result)) for result in results]
    return sorted(scored, key=lambda result: -result.score)


def _age_days(written: str, now: float) -> float | None:
    try:
        day = date.fromisoformat(written[:10])
    except ValueError:
        return None
    days = now / SECONDS_PER_DAY - (day - date(1970, 1, 1)).days
    return days if days >= 0 else None

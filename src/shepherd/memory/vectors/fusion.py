"""What words found and what vectors found, as one ranking.

A convex combination of normalised scores, (1 - w) words + w vectors. Source: Bruch, Gai, Ingber, An Analysis
of Fusion Functions for Hybrid Retrieval, ACM TOIS 42(1), 2023: better than reciprocal ranks in and out of
domain, and little moved by how scores are normalised. Here words are divided by their best score, as their
least one is 0; cosines go from the least to the best of the candidates. A memory that has no vector yet is
ranked by its words alone, and is not put behind for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd._native.rank import recency
from shepherd.memory.vectors.table import Near, Nearest
from shepherd.types import SECONDS_PER_DAY, SearchResult

__all__ = ["CANDIDATES", "candidates", "fuse"]

# Of either side; the other side's opinion of them counts, those that neither has among them do not come.
CANDIDATES = 32


def candidates(
    words: Sequence[SearchResult],
    vectors: Nearest,
    n: int,
    asked: int,
    *,
    except_session: str,
    except_since: int,
) -> tuple[list[SearchResult], Nearest] | None:
    """The `n` best by words, and the `n` nearest with those, that are not of `except_session` from then on.

    `words` and `vectors` are the best `asked` of each. None: too many of those are withheld, ask for more.
    """
    rows = [
        near
        for near in vectors.rows
        if not (except_session and near.session == except_session and near.timestamp >= except_since)
    ]
    allowed = {near.id for near in rows}
    told = [hit for hit in words if hit.id in allowed]
    nearest = [near for near in rows if near.cosine is not None]
    n_seen = sum(near.cosine is not None for near in vectors.rows)
    if (len(told) < n and len(words) >= asked) or (len(nearest) < n and n_seen >= asked):
        return None
    nearest.sort(key=lambda near: (-(near.cosine or 0.0), -near.id))
    wanted = {near.id for near in nearest[:n]}.union(hit.id for hit in told[:n])
    return told[:n], Nearest([near for near in rows if near.id in wanted], vectors.mean)


def fuse(
    words: Sequence[SearchResult],
    vectors: Nearest,
    *,
    weight: float,
    limit: int,
    now: float,
    recency_floor: float,
    min_relevance: float,
) -> list[SearchResult]:
    """The best of both, best first, ties to the one stored last. Scores are 0..1.

    `relevance` of a memory is what its words say, or how far its cosine lies between the user's mean one and
    1, whichever is more: what a cosine means differs from model to model, its place above the usual less so.
    """
    best = max((hit.score for hit in words), default=0.0)
    by_words = {hit.id: hit for hit in words}
    cosines = [near.cosine for near in vectors.rows if near.cosine is not None]
    least, span = min(cosines, default=0.0), max(cosines, default=0.0) - min(cosines, default=0.0)
    results = []
    for near in vectors.rows:
        hit = by_words.get(near.id)
        told = hit.score / best if hit is not None and best > 0.0 else 0.0
        age_days = max((now - near.timestamp) / SECONDS_PER_DAY, 0.0)
        if near.cosine is None:
            score, meant = told, 0.0
        else:
            close = (near.cosine - least) / span if span > 0.0 else 1.0
            score = (1.0 - weight) * told + weight * close * recency(age_days, recency_floor)
            meant = (
                max((near.cosine - vectors.mean) / (1.0 - vectors.mean), 0.0) if vectors.mean < 1.0 else 0.0
            )
        relevance = min(max(hit.relevance if hit is not None else 0.0, meant), 1.0)
        if relevance >= min_relevance:
            results.append(_result(near, score, relevance, age_days))
    results.sort(key=lambda result: (-result.score, -result.id))
    return results[:limit]


def _result(near: Near, score: float, relevance: float, age_days: float) -> SearchResult:
    return SearchResult(
        near.id,
        near.question,
        near.answer,
        near.timestamp,
        score,
        relevance,
        age_days,
        near.pinned,
        near.source,
    )

"""Hybrid ranking of memories: the candidates of words and vectors, fused as shepherd.fusion does it."""

from __future__ import annotations

from collections.abc import Sequence

from shepherd import fusion
from shepherd._native.rank import recency
from shepherd.fusion import Candidate
from shepherd.memory.results import result_of
from shepherd.memory.vectors.table import Nearest
from shepherd.types import SECONDS_PER_DAY, SearchResult

__all__ = ["candidates", "fuse"]


def candidates(
    words: Sequence[SearchResult],
    vectors: Nearest,
    n: int,
    asked: int,
    *,
    except_session: str,
    except_since: int,
) -> tuple[list[SearchResult], Nearest] | None:
    """Return the `n` best by words, and the `n` nearest with those, without `except_session` from then on.

    `words` and `vectors` are the best `asked` of each. None: too many of those are withheld, ask for more.
    """
    rows = [
        near
        for near in vectors.rows
        if not (except_session and near.row[6] == except_session and near.row[3] >= except_since)
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
    """Return the best memories by words and cosines, best first, ties to the one stored last."""
    by_words = {hit.id: (hit.score, hit.relevance) for hit in words}
    rows = {near.id: near.row for near in vectors.rows}
    found: list[Candidate] = [
        (
            near.id,
            *by_words.get(near.id, (0.0, 0.0)),
            near.cosine,
            recency(max((now - near.row[3]) / SECONDS_PER_DAY, 0.0), recency_floor),
            True,
        )
        for near in vectors.rows
    ]
    best = fusion.fuse(found, vectors.mean, weight=weight, limit=limit, min_relevance=min_relevance)
    return [result_of(rows[one], score, relevance, now) for one, score, relevance in best]

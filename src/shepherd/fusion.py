"""Hybrid ranking: the scores of words and the cosines of vectors as one ranking, of memories and of chunks.

A convex combination of normalised scores, (1 - w) words + w vectors. Source: Bruch, Gai, Ingber, An Analysis
of Fusion Functions for Hybrid Retrieval, ACM TOIS 42(1), 2023: it is better than reciprocal ranks in and out
of domain, and depends little on how scores are normalised. Scores of words are divided by the best one, since
the least is 0; cosines are scaled from the least to the greatest of the candidates. A candidate without a
vector is ranked by its words alone and loses nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["CANDIDATES", "Candidate", "Fused", "fuse"]

# Least number of candidates from words, and from vectors; each side also rates the candidates of the other.
CANDIDATES = 32


class Candidate(NamedTuple):
    """Scores of one row. `score` and `relevance` are by words, 0 where words did not find it.

    `cosine` is None for a row without a vector. `recency` weighs the cosine. A row with `has_words` False is
    near others that have the words; by itself it needs a cosine above the mean.
    """

    id: int
    score: float
    relevance: float
    cosine: float | None
    recency: float = 1.0
    has_words: bool = True


class Fused(NamedTuple):
    """A row with its fused score and its relevance, both 0..1."""

    id: int
    score: float
    relevance: float


def fuse(
    candidates: Iterable[Candidate], mean: float, *, weight: float, limit: int, min_relevance: float
) -> list[Fused]:
    """Return the best candidates, best first, ties to the larger id.

    `mean` is the mean of all the user's cosines. Relevance is the greater of the relevance by words and the
    distance of the cosine from the mean, as a share of the way to 1: cosines themselves differ from model to
    model, their place above the mean does so less.
    """
    rows = list(candidates)
    best = max((row.score for row in rows), default=0.0)
    cosines = [row.cosine for row in rows if row.cosine is not None]
    least = min(cosines, default=0.0)
    span = max(cosines, default=0.0) - least
    fused = []
    for row in rows:
        score, similarity = row.score / best if best > 0.0 else 0.0, 0.0
        if row.cosine is not None:
            scaled = (row.cosine - least) / span if span > 0.0 else 1.0
            score = (1.0 - weight) * score + weight * scaled * row.recency
            similarity = max((row.cosine - mean) / (1.0 - mean), 0.0) if mean < 1.0 else 0.0
        relevance = min(max(row.relevance, similarity), 1.0)
        if relevance >= min_relevance and (row.has_words or similarity > 0.0):
            fused.append(Fused(row.id, score, relevance))
    fused.sort(key=lambda one: (-one.score, -one.id))
    return fused[:limit]

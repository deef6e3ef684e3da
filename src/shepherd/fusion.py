"""Hybrid ranking: the scores of words and the cosines of vectors as one ranking, of memories and of chunks.

A convex combination of normalised scores, (1 - w) words + w vectors. Source: Bruch, Gai, Ingber, An Analysis
of Fusion Functions for Hybrid Retrieval, ACM TOIS 42(1), 2023: it is better than reciprocal ranks in and out
of domain, and depends little on how scores are normalised. Scores of words are divided by the best one, since
the least is 0; cosines are scaled from the least to the greatest of the candidates. A candidate without a
vector is ranked by its words alone and loses nothing by it.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CANDIDATES", "Candidate", "Fused", "fuse"]

# Least number of candidates from words, and from vectors; each side also rates the candidates of the other.
CANDIDATES = 32
# A row to be ranked: id, score and relevance by words (0 where words did not find it), cosine (None without a
# vector), weight of the cosine by its age, and whether the row has one of the words itself: one that is only
# near others with the words needs a cosine above the mean.
Candidate = tuple[int, float, float, float | None, float, bool]
# A ranked row: id, score and relevance, both 0..1.
Fused = tuple[int, float, float]


def fuse(
    candidates: Sequence[Candidate], mean: float, *, weight: float, limit: int, min_relevance: float
) -> list[Fused]:
    """Return the best candidates, best first, ties to the larger id.

    `mean` is the mean of all the user's cosines. Relevance is the greater of the relevance by words and the
    distance of the cosine from the mean, as a share of the way to 1: cosines themselves differ from model to
    model, their place above the mean does so less.
    """
    best = max((row[1] for row in candidates), default=0.0) or 1.0
    cosines = [row[3] for row in candidates if row[3] is not None]
    least = min(cosines, default=0.0)
    span = max(cosines, default=0.0) - least
    above = 1.0 - mean
    fused = []
    for row_id, by_words, relevance, cosine, recency, has_words in candidates:
        score, similarity = by_words / best, 0.0
        if cosine is not None:
            scaled = (cosine - least) / span if span > 0.0 else 1.0
            score = (1.0 - weight) * score + weight * scaled * recency
            if above > 0.0:
                similarity = max(cosine - mean, 0.0) / above
        fused_relevance = min(max(relevance, similarity), 1.0)
        if fused_relevance >= min_relevance and (has_words or similarity > 0.0):
            fused.append((score, row_id, fused_relevance))
    fused.sort(reverse=True)
    return [(row_id, score, relevance) for score, row_id, relevance in fused[:limit]]

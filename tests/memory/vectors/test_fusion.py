"""Words and vectors as one ranking: expected scores written out."""

from __future__ import annotations

import pytest

from shepherd.memory.vectors.fusion import fuse
from shepherd.memory.vectors.table import Near, Nearest
from shepherd.types import SearchResult

NOW = 1_700_000_000.0
DAY = 86_400


def near(id: int, cosine: float | None, *, days: int = 0, session: str = "") -> Near:
    return Near(id, f"q{id}", f"a{id}", int(NOW) - days * DAY, False, "user", session, cosine)


def hit(id: int, score: float, relevance: float) -> SearchResult:
    return SearchResult(id, f"q{id}", f"a{id}", int(NOW), score, relevance, 0.0)


def fused(words, rows, mean=0.0, **options):
    defaults = {"weight": 0.25, "limit": 10, "now": NOW, "recency_floor": 1.0, "min_relevance": 0.0}
    return [
        (one.id, pytest.approx(one.score), pytest.approx(one.relevance))
        for one in fuse(words, Nearest(rows, mean), **{**defaults, **options})
    ]


def test_scores_are_shares_of_the_best_word_score_and_of_the_span_of_cosines():
    rows = [near(1, 0.2), near(2, 0.6), near(3, 1.0)]

    assert fused([hit(1, 8.0, 0.5), hit(2, 4.0, 0.4)], rows) == [
        (1, 0.75, 0.5),
        (2, 0.75 * 0.5 + 0.25 * 0.5, 0.6),
        (3, 0.25, 1.0),
    ]


def test_memory_without_a_vector_is_ranked_by_its_words():
    rows = [near(1, None), near(2, 0.5), near(3, 0.1)]

    assert fused([hit(1, 8.0, 0.5), hit(2, 6.0, 0.5)], rows) == [
        (1, 1.0, 0.5),
        (2, 0.75 * 0.75 + 0.25, 0.5),
        (3, 0.0, 0.1),
    ]


def test_relevance_of_a_cosine_is_its_place_above_the_users_mean():
    assert fused([], [near(1, 0.9), near(2, 0.8), near(3, 0.7)], mean=0.8) == [
        (1, 0.25, 0.5),
        (2, 0.125, 0.0),
        (3, 0.0, 0.0),
    ]
    assert fused([], [near(1, 0.9), near(2, 0.8)], mean=0.8, min_relevance=0.3) == [(1, 0.25, 0.5)]


def test_age_takes_its_share_of_what_vectors_say():
    found = fused([], [near(1, 0.9, days=30), near(2, 0.5)], weight=1.0, recency_floor=0.0)

    assert found[0] == (1, 0.5, 0.9)


def test_ties_go_to_the_newer_and_the_session_in_front_of_the_model_stays_out():
    rows = [near(1, 0.5), near(2, 0.5), near(3, 0.5, session="now")]

    assert [one[0] for one in fused([], rows, except_session="now")] == [2, 1]
    assert [one[0] for one in fused([], rows, limit=1)] == [3]


def test_weight_zero_is_the_order_of_words_and_one_that_of_vectors():
    words, rows = [hit(1, 8.0, 0.5), hit(2, 4.0, 0.5)], [near(1, 0.1), near(2, 0.9)]

    assert [one[0] for one in fused(words, rows, weight=0.0)] == [1, 2]
    assert [one[0] for one in fused(words, rows, weight=1.0)] == [2, 1]

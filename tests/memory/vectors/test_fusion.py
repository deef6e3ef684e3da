"""Words and vectors as one ranking: expected scores written out."""

from __future__ import annotations

import pytest

from shepherd.memory.queries import RecallQuery
from shepherd.memory.vectors.recall import candidates, fuse
from shepherd.memory.vectors.table import Near, Nearest
from shepherd.types import SearchResult

NOW = 1_700_000_000.0
DAY = 86_400


def near(id: int, cosine: float | None, *, days: int = 0, session: str = "") -> Near:
    return Near(id, cosine, (id, f"q{id}", f"a{id}", int(NOW) - days * DAY, 0, "user", session))


def hit(id: int, score: float, relevance: float) -> SearchResult:
    return SearchResult(id, f"q{id}", f"a{id}", int(NOW), score, relevance, 0.0)


def asking(**options):
    defaults = {"limit": 10, "now": NOW, "recency_floor": 1.0, "min_relevance": 0.0}
    return RecallQuery((), **{**defaults, **options})


def fused(words, rows, mean=0.0, *, weight=0.25, **options):
    return [
        (one.id, pytest.approx(one.score), pytest.approx(one.relevance))
        for one in fuse(words, Nearest(rows, mean), asking(**options), weight=weight)
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


def test_ties_go_to_the_newer():
    rows = [near(1, 0.5), near(2, 0.5), near(3, 0.5)]

    assert [one[0] for one in fused([], rows)] == [3, 2, 1]
    assert [one[0] for one in fused([], rows, limit=1)] == [3]


def test_candidates_are_the_best_of_those_that_are_not_withheld():
    rows = [near(1, 0.1), near(2, 0.5, session="now"), near(3, 0.9, session="now", days=2), near(4, None)]
    words = [hit(2, 8.0, 0.5), hit(4, 4.0, 0.5), hit(1, 2.0, 0.5)]
    since = {"except_session": "now", "except_since": int(NOW) - DAY}

    told, vectors = candidates(words, Nearest(rows, 0.4), 1, 8, asking(**since))

    assert told == [words[1]]
    assert (vectors.rows, vectors.mean) == ([rows[2], rows[3]], 0.4)


def test_more_candidates_are_asked_for_only_while_withheld_ones_take_their_places():
    here, there = [near(n, 0.5, session="now") for n in range(4)], [near(n, 0.1) for n in range(4, 8)]
    words = [hit(row.id, 1.0, 0.5) for row in here]
    now = {"except_session": "now", "except_since": 0}

    assert candidates([], Nearest(here, 0.0), 4, 4, asking(**now)) is None
    assert candidates(words, Nearest(here + there, 0.0), 4, 4, asking(**now)) is None
    assert candidates(words, Nearest(here + there, 0.0), 4, 16, asking(**now)) == ([], Nearest(there, 0.0))
    assert candidates(words, Nearest(here, 0.0), 4, 4, asking()) is not None


def test_weight_zero_is_the_order_of_words_and_one_that_of_vectors():
    words, rows = [hit(1, 8.0, 0.5), hit(2, 4.0, 0.5)], [near(1, 0.1), near(2, 0.9)]

    assert [one[0] for one in fused(words, rows, weight=0.0)] == [1, 2]
    assert [one[0] for one in fused(words, rows, weight=1.0)] == [2, 1]

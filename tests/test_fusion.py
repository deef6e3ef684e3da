"""Scores of words and cosines of vectors as one ranking: expected values written out."""

from __future__ import annotations

import pytest

from shepherd.fusion import Candidate, fuse


def row(
    row_id: int,
    score: float,
    cosine: float | None,
    *,
    relevance: float = 0.0,
    recency: float = 1.0,
    has_words: bool = True,
) -> Candidate:
    return row_id, score, relevance, cosine, recency, has_words


def ranked(*rows: Candidate, mean: float = 0.5, weight: float = 0.5, limit: int = 10, least: float = 0.0):
    return [
        (row_id, pytest.approx(score), pytest.approx(relevance))
        for row_id, score, relevance in fuse(rows, mean, weight=weight, limit=limit, min_relevance=least)
    ]


def test_row_without_the_words_needs_a_cosine_above_the_mean() -> None:
    assert ranked(row(1, 0.0, 0.5, has_words=False)) == []
    assert ranked(row(1, 0.0, 0.4, has_words=False), row(2, 1.0, 0.5)) == [(2, 1.0, 0.0)]
    assert ranked(row(1, 0.0, 0.6, has_words=False)) == [(1, 0.5, 0.2)]
    assert ranked(row(1, 4.0, None, has_words=False, relevance=0.9)) == []


def test_row_with_the_words_is_found_whatever_its_cosine() -> None:
    assert ranked(row(1, 2.0, 0.1), row(2, 1.0, None), row(3, 0.5, 0.2)) == [
        (3, 0.5 * 0.25 + 0.5, 0.0),
        (2, 0.5, 0.0),
        (1, 0.5, 0.0),
    ]


def test_least_relevance_is_a_relevance_that_suffices() -> None:
    rows = (row(1, 1.0, None, relevance=0.3), row(2, 1.0, None, relevance=0.29))

    assert ranked(*rows, least=0.3) == [(1, 1.0, 0.3)]


def test_relevance_is_the_greater_of_words_and_vectors_and_at_most_one() -> None:
    assert ranked(row(1, 1.0, 0.75, relevance=0.2)) == [(1, 1.0, 0.5)]
    assert ranked(row(1, 1.0, 0.75, relevance=0.7)) == [(1, 1.0, 0.7)]
    assert ranked(row(1, 1.0, 1.0, relevance=0.7), mean=0.2) == [(1, 1.0, 1.0)]
    assert ranked(row(1, 1.0, 1.2)) == [(1, 1.0, 1.0)]
    assert ranked(row(1, 1.0, 1.0), mean=1.0) == [(1, 1.0, 0.0)]


def test_age_lowers_the_score_of_vectors_alone() -> None:
    old, new = row(1, 1.0, 0.9, recency=0.5), row(2, 1.0, 0.9)

    assert ranked(old, new) == [(2, 1.0, 0.8), (1, 0.75, 0.8)]
    assert ranked(old, new, weight=0.0) == [(2, 1.0, 0.8), (1, 1.0, 0.8)]


def test_ties_go_to_the_larger_id_and_the_limit_cuts() -> None:
    rows = [row(n, 1.0, None) for n in (1, 3, 2)]

    assert [found[0] for found in ranked(*rows)] == [3, 2, 1]
    assert [found[0] for found in ranked(*rows, limit=2)] == [3, 2]
    assert ranked() == []


def test_cosines_at_a_mean_of_one_add_no_relevance() -> None:
    assert ranked(row(1, 1.0, 1.0, relevance=0.25), mean=1.0) == [(1, 1.0, 0.25)]
    assert ranked(row(1, 0.0, 1.0, has_words=False), mean=1.0) == []

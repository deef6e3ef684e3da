"""The formulas of ranking against their twin, bit for bit, and their shape."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shepherd._native import rank
from tests.native import twin_rank

counts = st.integers(0, 10_000_000)
relevances = st.just(0.0) | st.floats(1e-200, 1.0, exclude_max=True)


@given(counts, counts)
def test_idf_is_the_twins(a: int, b: int) -> None:
    doc_freq, n_docs = sorted((a, b))

    assert rank.idf(n_docs, doc_freq) == twin_rank.idf(n_docs, doc_freq)


@given(
    st.floats(0.0, 20.0),
    st.tuples(st.integers(1, 1000), st.integers(0, 100_000), st.floats(0.0, sys.float_info.max)),
    st.floats(0.0, 3.0),
    st.floats(0.0, 1.0),
)
@example(1.0, (1, 0, 5e-324), 0.9, 0.3)
@example(1.0, (1, 1, 5e-324), 0.9, 0.3)
@example(1.0, (1, 1, 2.2250738585072014e-308), 3.0, 1.0)
@example(1.0, (1, 1, 0.0), 0.9, 0.3)
def test_term_is_the_twins(idf: float, counted: tuple[int, int, float], k1: float, b: float) -> None:
    twins = twin_rank.bm25_term(idf, *counted, k1=k1, b=b)

    assert rank.bm25_term(idf, *counted, k1=k1, b=b) == twins


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1.0))
def test_recency_is_the_twins(age_days: float, floor: float) -> None:
    assert rank.recency(age_days, floor) == twin_rank.recency(age_days, floor)


@given(st.floats(0.0, 500.0), st.floats(0.0, 300.0), counts, st.integers(0, 64))
def test_relevance_is_the_twins(bm25: float, idf_sum: float, n_docs: int, n_unknown: int) -> None:
    asked = (bm25, idf_sum, n_docs, n_unknown)

    assert rank.relevance(*asked) == twin_rank.relevance(*asked)


@given(st.sampled_from([5e-324, 1e-310, 1e-300, 1e-9]), st.floats(0.0, 1e6), st.floats(0.0, 1.0))
def test_the_smallest_mean_length_leaves_a_score_between_none_and_that_without_length(
    mean_len: float, k1: float, b: float
) -> None:
    most = rank.bm25_term(2.0, 3, 0, mean_len, k1=k1, b=b)

    assert most == rank.bm25_term(2.0, 3, 7, 0.0, k1=k1, b=b)
    assert 0.0 <= rank.bm25_term(2.0, 3, 7, mean_len, k1=k1, b=b) <= most


def test_known_values() -> None:
    assert rank.idf(10, 1) == pytest.approx(math.log(1 + 9.5 / 1.5))
    assert rank.bm25_term(2.0, 1, 30, 30) == pytest.approx(2.0)
    assert rank.recency(30, 0.0) == pytest.approx(0.5)
    assert rank.recency(0, 0.9) == pytest.approx(1.0)
    assert rank.relevance(rank.idf(10, 1), rank.idf(10, 1), 10) == pytest.approx(math.sqrt(0.5))
    unknown = math.log(202) / 2
    assert rank.relevance(1e9, 3.0, 100, 2) == pytest.approx(3.0 / (3.0 + 2 * unknown))


def test_recency_of_the_future_is_that_of_now() -> None:
    assert rank.recency(-100.0, 0.5) == rank.recency(0.0, 0.5) == 1.0


@given(st.floats(1e-6, 100.0), st.floats(1.0001, 10.0), st.floats(1e-3, 100.0), st.integers(1, 10_000_000))
def test_relevance_grows_with_bm25(bm25: float, factor: float, idf_sum: float, n_docs: int) -> None:
    less = rank.relevance(bm25, idf_sum, n_docs)
    more = rank.relevance(bm25 * factor, idf_sum, n_docs)

    assert less < more or less >= 1.0 - 1e-9


@given(st.floats(1e-6, 100.0), st.floats(1e-3, 100.0), st.integers(1, 10_000_000), st.integers(0, 3))
def test_each_unknown_word_lowers_relevance_and_more_so_in_a_larger_memory(
    bm25: float, idf_sum: float, n_docs: int, n_unknown: int
) -> None:
    share = twin_rank.known_share(idf_sum, n_docs, n_unknown)

    assert rank.relevance(bm25, idf_sum, n_docs, n_unknown) > rank.relevance(
        bm25, idf_sum, n_docs, n_unknown + 1
    )
    assert n_unknown == 0 or share > twin_rank.known_share(idf_sum, n_docs + 1, n_unknown)


def test_more_than_four_unknown_words_count_as_four() -> None:
    """A long message has many of them, and may still be about what was said."""
    assert rank.relevance(5.0, 9.0, 1000, 4) == rank.relevance(5.0, 9.0, 1000, 60)


@given(relevances, st.floats(1e-3, 300.0), st.integers(1, 10_000_000), st.integers(0, 9))
@example(1e-155, 1.0, 1, 0)
@example(0.5, 300.0, 10, 0)
@example(0.1, 1e-3, 10_000_000, 1)
def test_least_bm25_is_the_inverse_of_relevance(
    wanted: float, idf_sum: float, n_docs: int, n_unknown: int
) -> None:
    known = (idf_sum, n_docs, n_unknown)
    bm25 = rank.min_bm25(wanted, *known)

    if bm25 == math.inf:
        assert rank.relevance(1e9, *known) < wanted
        return
    assert rank.relevance(bm25 * (1 + 1e-12), *known) >= wanted * (1 - 1e-12)
    assert rank.relevance(bm25 * (1 - 1e-12), *known) <= wanted * (1 + 1e-12)


def test_no_bm25_reaches_more_than_full_relevance() -> None:
    assert rank.min_bm25(1.1, 5.0, 10) == math.inf
    assert rank.min_bm25(0.5, 0.0, 10) == math.inf
    assert rank.min_bm25(0.5, 5.0, 0) == math.inf
    assert rank.min_bm25(0.0, 0.0, 0) == 0.0


def test_full_relevance_is_reached_where_it_rounds_to_one() -> None:
    assert rank.relevance(rank.min_bm25(1.0, 5.0, 10), 5.0, 10) == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: rank.idf(10, 11),
        lambda: rank.idf(10, -1),
        lambda: rank.idf(math.nan, 1),
        lambda: rank.bm25_term(1.0, 1, 1, 1, k1=-1.0),
        lambda: rank.bm25_term(1.0, 1, 1, 1, b=1.5),
        lambda: rank.bm25_term(1.0, -1, 1, 1),
        lambda: rank.bm25_term(1.0, 1, -1, 1),
        lambda: rank.bm25_term(1.0, 1, 1, -1),
        lambda: rank.bm25_term(1.0, 1, 1, math.nan),
        lambda: rank.bm25_term(1.0, 1, 1, math.inf),
        lambda: rank.bm25_term(1.0, 1, math.inf, 1),
        lambda: rank.bm25_term(1.0, math.inf, 1, 1),
        lambda: rank.bm25_term(math.nan, 1, 1, 1),
        lambda: rank.bm25_term(1.0, 1, 1, 1, k1=1.1e6),
        lambda: rank.idf(math.inf, math.inf),
        lambda: rank.recency(math.nan, 0.5),
        lambda: rank.rescore([(1 << 62, 0, 1.0, 1.0, 0, 0, 0, 0, b"", True)], now=0.0),
        lambda: rank.rescore([], now=math.inf),
        lambda: rank.rescore([], now=0.0, recency_floor=2.0),
        lambda: rank.rescore([], now=0.0, words=["a"] * 65),
        lambda: rank.recency(1.0, 1.5),
        lambda: rank.recency(1.0, math.nan),
    ],
)
def test_values_outside_their_range_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"must be|cannot be|at most"):
        call()  # type: ignore[operator]

"""Estimating tokens from characters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.tokens import CharsPerToken, stripped_tokens

NUMBERS = st.one_of(st.floats(), st.integers(-10, 10**9).map(float))


@given(NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_the_average_is_always_within_two_to_five(start, samples):
    average = CharsPerToken(start)

    for n_chars, n_tokens in samples:
        average.observe(n_chars, n_tokens)
        assert 2.0 <= average.value <= 5.0


def test_it_starts_at_three_and_a_half():
    assert CharsPerToken().value == 3.5
    assert CharsPerToken(math.nan).value == 3.5
    assert CharsPerToken(math.inf).value == 3.5
    assert CharsPerToken(9.0).value == 5.0


def test_a_sample_moves_the_average_by_a_fifth():
    average = CharsPerToken()

    assert average.observe(450, 100)

    assert average.value == pytest.approx(3.5 + 0.2 * (4.5 - 3.5))


@pytest.mark.parametrize(
    ("n_chars", "n_tokens"),
    [
        *((1749, 1000), (7001, 1000), (0, 10), (10, 0), (-5, -5)),
        *((math.nan, 1), (1, math.nan), (math.inf, 1), (1, math.inf)),
    ],
)
def test_outliers_and_no_counts_are_rejected(n_chars, n_tokens):
    average = CharsPerToken()

    assert not average.observe(n_chars, n_tokens)
    assert average.value == 3.5


@pytest.mark.parametrize(("n_chars", "n_tokens"), [(1750, 1000), (7000, 1000)])
def test_a_factor_of_two_is_still_taken(n_chars, n_tokens):
    assert CharsPerToken().observe(n_chars, n_tokens)


def test_a_steady_tokenizer_is_learned():
    average = CharsPerToken()

    for _ in range(100):
        average.observe(4200, 1000)

    assert average.value == pytest.approx(4.2)


def test_estimates_round_up():
    assert CharsPerToken().estimate(0) == 0
    assert CharsPerToken().estimate(1) == 1
    assert CharsPerToken().estimate(35) == 10
    assert CharsPerToken().estimate(36) == 11
    assert CharsPerToken().estimate(math.nan) == 0
    assert CharsPerToken().estimate(-3) == 0


def test_a_stripped_message_keeps_its_own_ratio():
    assert stripped_tokens(300, 100, 90) == 30
    assert stripped_tokens(1000, 10, 5) == 1
    assert stripped_tokens(0, 12, 0) == 12
    assert stripped_tokens(12, 0, 3) == 1


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12))
def test_stripping_never_adds_tokens(chars_before, tokens_before, chars_after):
    remaining = stripped_tokens(chars_before, tokens_before, min(chars_after, chars_before))

    assert 1 <= remaining <= max(1, tokens_before)

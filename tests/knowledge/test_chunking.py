"""Pieces of a text: true offsets, everything kept, cut where a reader would."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.knowledge.chunks import spans

texts = st.text(alphabet=st.sampled_from("ab.!? \n\t\u3000。é\u0301x\x1c\x0b\r\u200d"), max_size=2000)


@given(texts, st.integers(20, 300))
def test_pieces_are_short_enough_and_keep_every_character(text, size):
    pieces = spans(text, size)

    assert all(0 <= start < end <= len(text) and end - start <= size for start, end in pieces)
    assert all(text[start:end] == text[start:end].strip() for start, end in pieces)
    starts = [start for start, _ in pieces]
    assert starts == sorted(set(starts))
    kept = {place for start, end in pieces for place in range(start, end)}
    assert all(place in kept or char.isspace() for place, char in enumerate(text))


@given(st.integers(200, 2000), st.integers(100, 400))
def test_neighbours_share_15_to_20_percent(n_words, size):
    text = " ".join(f"w{n}" for n in range(n_words))

    pieces = spans(text, size)

    assert len(pieces) > 1
    for (_, end), (start, _) in pairwise(pieces):
        assert size * 10 // 100 <= end - start <= size * 20 // 100


def test_a_word_is_cut_where_neighbours_would_share_less_than_15_percent():
    text = " ".join(["x" * 12] * 100)

    pieces = spans(text, 100)

    # No word begins 15 to 20 characters before the end of a piece; one that begins 12 before it is too short.
    assert {end - start for (_, end), (start, _) in pairwise(pieces)} == {20}


def test_a_short_text_is_one_piece():
    assert spans("  one sentence.\n") == [(2, 15)]
    assert spans(" \n\t ") == []


def test_a_text_as_long_as_a_piece_is_one_piece():
    text = "one sentence. " * 10

    assert spans(text, len(text.rstrip())) == [(0, len(text.rstrip()))]
    assert len(spans(text, len(text.rstrip()) - 1)) == 2


def test_cuts_fall_at_paragraphs_then_lines_then_sentences_then_words():
    word = "word " * 30
    paragraphs = f"{word.strip()}.\n\n{word.strip()}.\n\n{word}"
    lines = f"{word.strip()}.\n{word.strip()}.\n{word}"
    sentences = f"{word.strip()}. {word.strip()}. {word}"

    for text in (paragraphs, lines, sentences):
        start, end = spans(text, 200)[0]
        assert text[start:end] == f"{word.strip()}."
    start, end = spans("word " * 100, 200)[0]
    assert ("word " * 100)[end - 4 : end] == "word"


@pytest.mark.parametrize(("n_words", "ends_there"), [(8, False), (9, False), (11, True), (19, True)])
def test_a_paragraph_ends_a_piece_only_in_its_second_half(n_words, ends_there):
    paragraph = " ".join(["word"] * n_words)  # 20 words fill a piece

    _, end = spans(f"{paragraph}\n\n{'word ' * 50}", 100)[0]

    assert (end == len(paragraph)) is ends_there
    assert end > 50


def test_a_letter_keeps_its_marks():
    text = "e\u0301" * 200

    assert all(text[start] == "e" for start, _ in spans(text, 51))


@pytest.mark.parametrize(("n_before", "end"), [(0, 95), (14, 81), (15, 96)])
def test_a_letter_with_very_many_marks_is_cut(n_before, end):
    letter = "x" * (95 - n_before) + "e" + "\u0301" * 45

    assert spans(letter + "y" * 60, 96)[0] == (0, end)


def test_a_piece_of_no_size_is_refused():
    for size in (3, 19):
        with pytest.raises(ValueError, match="at least 20"):
            spans("text", size)
    assert spans("text", 20) == [(0, 4)]

"""The native tokenizer against its slow twin."""
# ruff: noqa: RUF001

import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shepherd._native import text as native
from tests.examples import examples
from tests.native import twin_text as twin

# Words and pieces of words that the rules speak of, glued and separated by what the rules speak of.
PIECES = st.sampled_from(
    [
        *"c C++ c# .NET vs code user example com v2 31 0 don t s Steve m re ve LL d O brien".split(),  # noqa: SIM905
        *"i a the What running skies é Ñ Ærø ß İ ſ Ω ά ς й Ё ﬁ ① ² ½ Å ｆｕｌｌ ٣ नमस्ते שָׁלוֹם مُحَمَّد".split(),  # noqa: SIM905
        *"日本 語 カﾞ の สวัสดี ำ 안녕 가 𠮷 😀 ﷺ".split(),  # noqa: SIM905
        *("x" * 63, "y" * 64, "z" * 65),
        *("e\u0301", "\u1100\u1161", "\u11a8", "\u0301", "\u093f"),
        *("\u200d", "\u00ad", "\ufe0f", "\ud800", "\x00"),
    ]
)
GLUE = st.sampled_from(
    [
        *("", "", "", " ", " ", "\n", "\u3000"),
        *"- _ . @ & ' ’ + ++ # .. -- / 、 。 ，".split(),  # noqa: SIM905
        *(", ", "\u2010", "\u2013"),
    ]
)


def glued(min_size=0, max_size=12):
    pairs = st.lists(st.tuples(PIECES, GLUE), min_size=min_size, max_size=max_size)
    return pairs.map(lambda found: "".join(piece + glue for piece, glue in found))


ANYTHING = st.text(st.characters(exclude_categories=()))
ASCII = st.text(st.sampled_from([chr(c) for c in range(128)] + list("aeiounst  '.-_+#@&") * 3))


@given(st.one_of(ASCII, glued(), ANYTHING))
@example("".join(map(chr, range(128))))
@settings(max_examples=examples(600))
def test_terms_are_those_of_the_twin(text):
    assert native.terms(text) == twin.terms(text)


@given(st.lists(st.text("bcdgmnpstyaeiou", max_size=6).map("{}s".format), max_size=6), st.booleans())
@settings(max_examples=examples(600))
def test_plurals_of_acronyms_are_those_of_the_twin(words, in_capitals):
    text = " ".join([*words, *twin.NO_PLURALS])

    assert native.terms(text.upper() if in_capitals else text) == twin.terms(text)


@given(st.one_of(ASCII, glued()), st.integers(-1, 8))
def test_keywords_are_those_of_the_twin(text, cap):
    assert native.keywords(text, cap) == twin.keywords(text, cap)


@given(st.one_of(ASCII, glued()), st.integers(0, 2**63))
def test_scoped_column_is_that_of_the_twin(text, tenant):
    assert native.scoped(text, tenant) == twin.scoped(text, tenant)


@given(st.lists(st.one_of(ASCII, glued(), ANYTHING)), st.integers(0, 2**40))
def test_match_expression_is_that_of_the_twin(keywords, tenant):
    assert native.match_expression(keywords, tenant) == twin.match_expression(keywords, tenant)


@given(st.one_of(ASCII, glued(), ANYTHING))
def test_compat_keywords_are_those_of_the_twin(text):
    assert native.keywords_compat(text) == twin.keywords_compat(text)


@given(st.lists(glued(min_size=1), min_size=1, max_size=8), st.integers(1, 60), st.sampled_from(["", "é "]))
@settings(max_examples=examples(30))
def test_a_text_longer_than_a_piece_is_read_without_a_seam(blocks, repeats, prefix):
    text = prefix + " ".join(blocks) * repeats * 8

    assert native.terms(text) == twin.terms(text)
    assert native.keywords(text, 200) == twin.keywords(text, 200)


@pytest.mark.parametrize("offset", range(2040, 2056))
def test_a_piece_never_ends_inside_a_term(offset):
    text = "é" + "x" * offset + " " + "c++ e\u0301te\u0301, l’amour " * 200 + "日本語、" * 900

    assert native.terms(text) == twin.terms(text)


MARKS = "\u0301\u0323\u093c\u064b\uff9e\uff9f\u200d\u0f73\u0344"


@given(st.integers(25, 70), st.text(MARKS, min_size=1, max_size=4))
def test_towers_of_marks_are_cut_as_in_the_twin(height, marks):
    text = "é क" + marks * height + "ب x"

    assert native.terms(text) == twin.terms(text)


def test_every_character_folds_as_in_the_twin():
    characters = [chr(point) for point in range(128, sys.maxunicode + 1)]
    differing = []

    for start in range(0, len(characters), 512):
        block = characters[start : start + 512]
        text = " ".join("a" + character for character in block if unicodedata.category(character) != "Cn")
        if native.terms(text) != twin.terms(text):
            differing.append(hex(ord(block[0])))

    assert differing == []

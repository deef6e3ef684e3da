"""Our Porter2 against the Snowball project's."""

import inspect
import itertools
import re
import sysconfig
from pathlib import Path

import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native.text import stem
from tests.examples import examples

reference = snowballstemmer.stemmer("english").stemWord

SUFFIXES = """
ed edly ing ingly eed eedly s es ies ied ss us sses 's 's' ' y ly li
ational tional ization fulness ousness iveness biliti bli ogist ogi logy fulli lessli
icate ative alize iciti ical ness ful
al ance ence er ic able ible ant ement ment ent ism ate iti ous ive ize ion sion tion e l ll
""".split()  # noqa: SIM905
STEMS = """
hop hopp add egg off ebb past univers later emerg organ inter gener commun arsen
inn out cann herr earr even proc exc succ sk d l t v h by say boy yell y yy ayy a e o bb x
box snow fix geo lo bl at iz luxuriat
""".split()  # noqa: SIM905
EXCEPTIONS = """
skis skies idly gently ugly early only singly sky news howe atlas cosmos bias andes
""".split()  # noqa: SIM905


def words_of_the_standard_library():
    """The words of the interpreter's own modules: some ten thousand, of every shape."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(itertools.chain(folder.glob("*.py"), folder.glob("email/*.py"), [Path(inspect.__file__)]))
    text = " ".join(file.read_text("utf-8", "replace").lower() for file in files)
    return sorted(set(re.findall("[a-z']+", text)))


@pytest.mark.parametrize(
    ("word", "expected"),
    [("running", "run"), ("generously", "generous"), ("dying", "die"), ("skis", "ski")],
)
def test_known_words_have_their_published_stem(word, expected):
    assert stem(word) == expected


def test_every_word_of_the_standard_library_stems_as_in_snowball():
    words = words_of_the_standard_library()

    assert len(words) > 5_000
    assert [(word, stem(word)) for word in words if stem(word) != reference(word)] == []


def test_every_pair_of_suffixes_stems_as_in_snowball():
    words = {*EXCEPTIONS, *STEMS}
    words |= {base + one + two for base in STEMS for one in ("", *SUFFIXES) for two in SUFFIXES}

    assert [(word, stem(word)) for word in sorted(words) if stem(word) != reference(word)] == []


@given(st.text("aeioyybdlnstxw'", max_size=10))
@settings(max_examples=examples(1000))
def test_any_letters_stem_as_in_snowball(word):
    assert stem(word) == reference(word)


@given(st.text())
def test_other_words_come_back_as_they_are(word):
    if not re.fullmatch("[a-z']*", word):
        assert stem(word) == word


def test_a_long_word_is_no_trouble():
    assert stem("na" * 100_000 + "ing") == "na" * 100_000

"""The tokenizer of index and query: from text to terms, by the rules in text.c."""

from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "FORMS",
    "STOP_WORDS",
    "TOKENIZER_VERSION",
    "folded",
    "keywords",
    "keywords_compat",
    "match_expression",
    "pairs",
    "scoped",
    "stem",
    "terms",
]

TOKENIZER_VERSION: int
"""Version that is stored in every database; an index of another version has to be rebuilt."""

FORMS: Mapping[str, str]
"""Irregular and colloquial English words, each with the word that it stands for: went, go; mom, mother."""

STOP_WORDS: frozenset[str]
"""English stop words, folded and without apostrophes: "don't" is "dont"."""

def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, with repeats.

    Folded (NFKC, case, diacritics), technical forms whole and in parts, unspaced scripts as pairs of
    characters, no stop words, plurals of acronyms and English words stemmed. A text of nothing but stop words
    gives all its words.
    """

def keywords(text: str, cap: int = 64) -> list[str]:
    """Return the distinct terms of `text`, at most `cap`, in order of first appearance.

    The rest of the text is not read once the cap is reached.

    >>> keywords("What is my name?")
    ['name']
    """

def folded(text: str) -> bytes:
    """Return the text as the C tokenizer takes it: UTF-8, lower case, without marks."""

def scoped(text: str, tenant: int) -> tuple[bytes, int]:
    """Return (UTF-8 for an FTS5 column, number of terms), every term as `t<tenant>_<term>`, joined by blanks.

    For the tokenizer "ascii tokenchars '_'": in a term, ASCII other than a-z and 0-9 is `_` and two hex
    digits, so a term is one token, and two terms or two tenants never share one.
    """

def match_expression(keywords: Sequence[str], tenant: int) -> bytes:
    """Return the FTS5 query for rows of `tenant` with any of the keywords; empty for no keywords."""

def keywords_compat(text: str) -> list[str]:
    """Return the words that the original Shepherd kept: ASCII, longer than two characters, no stop words."""

def pairs(texts: Iterable[str]) -> bytes:
    """Return the pairs of neighbouring terms in the first 32 of each text, in 32 bytes; b"" without any.

    A set for rank.rescore: it may seem to have a few pairs more, and misses none.
    """

def stem(word: str) -> str:
    """Return the Porter2 stem of a lower-case English word; other words are unchanged."""

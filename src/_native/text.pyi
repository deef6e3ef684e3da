"""From text to terms: the one tokenizer of index and query. The rules stand at the top of text.c."""

from collections.abc import Mapping, Sequence

__all__ = [
    "FORMS",
    "STOP_WORDS",
    "TOKENIZER_VERSION",
    "folded",
    "keywords",
    "keywords_compat",
    "match_expression",
    "scoped",
    "stem",
    "terms",
]

TOKENIZER_VERSION: int
"""Stored in every database; another number means that its index has to be made again."""

FORMS: Mapping[str, str]
"""Irregular and colloquial English words, each with the word it is read as: went is go, mom is mother."""

STOP_WORDS: frozenset[str]
"""Folded, without apostrophes: "don't" is looked up as "dont"."""

def terms(text: str) -> list[str]:
    """Every term of `text` in order, with repeats.

    Folded (NFKC, case, diacritics), technical forms whole and in parts, unspaced scripts as pairs of
    characters, stop words out, English stemmed. A text of nothing but stop words gives all its words.
    """

def keywords(text: str, cap: int = 64) -> list[str]:
    """The distinct terms of `text`, at most `cap` of them, in order of first appearance.

    The rest of the text is not read once the cap is reached.

    >>> keywords("What is my name?")
    ['name']
    """

def folded(text: str) -> bytes:
    """The text as the C tokenizer takes it: UTF-8, lower case, without marks. For other native indexes."""

def scoped(text: str, tenant: int) -> tuple[bytes, int]:
    """(UTF-8 text for an FTS5 column, number of terms): every term as `t<tenant>_<term>`, joined by blanks.

    For the tokenizer "ascii tokenchars '_'": in a term, ASCII other than a-z and 0-9 is `_` and two hex
    digits, so a term is one token, and two terms or two tenants never share one.
    """

def match_expression(keywords: Sequence[str], tenant: int) -> bytes:
    """The FTS5 query that finds rows of `tenant` with any of the keywords; empty for no keywords."""

def keywords_compat(text: str) -> list[str]:
    """The words that the original's rule keeps: ASCII letters and digits, longer than two, no stop words."""

def stem(word: str) -> str:
    """The Porter2 stem of an English word in lower case; other words come back as they are."""

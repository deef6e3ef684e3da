"""Turns that only say what a fact beside them says already: `My name is Steve` next to `name=Steve`.

Word for word: what has any other word, `My name is not Steve` or `I am Steve`, is no repetition. To leave out
every turn that a fact was learned from would lose what else was said in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shepherd.types import Fact, SearchResult

__all__ = ["FactWords", "fact_words", "without_repetitions"]

_WORD = re.compile(r"[^\W_]+")
# What a statement has besides key and value. In other languages such turns stay, which only costs tokens.
_EMPTY = frozenset(("a", "am", "an", "and", "are", "i", "is", "it", "m", "my", "our", "s", "the", "we"))
# A longer text is never a repetition; it need not be compared with hundreds of facts.
_MOST_CHARACTERS = 200


class FactWords(NamedTuple):
    """The words of each fact's key and value, and all that a repetition of facts may have."""

    of_each: Sequence[frozenset[str]]
    of_all: frozenset[str]


def fact_words(facts: Iterable[Fact]) -> FactWords:
    """What without_repetitions compares with; to be kept for as long as the facts stay the same."""
    of_each = [_words(fact.key) | _words(fact.value) for fact in facts]
    return FactWords(of_each, _EMPTY.union(*of_each))


def without_repetitions(results: Iterable[SearchResult], facts: FactWords) -> list[SearchResult]:
    """The results without turns in which the user said nothing but facts that are shown, too."""
    return [result for result in results if result.source != "turn" or not _is_said(result.question, facts)]


def _is_said(text: str, facts: FactWords) -> bool:
    if len(text) > _MOST_CHARACTERS:
        return False
    folded = text.casefold()
    first = _WORD.search(folded)
    if first is None or first[0] not in facts.of_all:  # most turns end here, after 1 µs
        return False
    words = frozenset(_WORD.findall(folded))
    if not words <= facts.of_all:
        return False
    said = frozenset[str]().union(*(fact for fact in facts.of_each if fact <= words))
    return bool(said) and words - said <= _EMPTY


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))

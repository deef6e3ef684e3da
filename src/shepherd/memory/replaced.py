"""Turns that told what a fact was before: `I live in Austin`, where `location` is Berlin by now.

Beside the fact such a turn would contradict it, and a model may well believe the turn. It is not shown where
it is one sentence that says nothing but the value that was learned from it: `Recommend me a place in Austin`
and `My sister is in Austin` stay, since what more they say would be lost. What is not shown stays in memory,
and a search finds it. In doubt a turn is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from shepherd._native.text import STOP_WORDS, terms
from shepherd.memory.records import FactChange
from shepherd.types import Fact, SearchResult

__all__ = ["Former", "FormerValues", "former_values", "without_replaced"]

# Thai to Lao, Burmese, Khmer, Japanese and Chinese have no spaces: what stands there in one piece may be many
# words. Words are looked for in it as parts.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_FIRST_UNSPACED = re.compile(f"[{_UNSPACED}]")
_QUESTION_MARK = re.compile("[?\uff1f\u061f\u037e]")
_SENTENCE_END = re.compile(r"[.!?;\n\u3002\uff01\uff1f](?=\s*\S)")


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


# What a sentence has besides a value and what it is the value of. None asks, denies, or tells of others.
_SMALL = _words(
    "a actually already also am an and are as at been by called for from have hello here hey hi i im in is it"
    " ive just m me my named now of oh ok okay on our please re really remember s so still that thats the"
    " this to ve was we were with yes"
    " aus bei bin ich ist mein meine sind unser unsere wir zu"  # German
    " au c de des du en est j je l la le ma mon nous suis un une à"  # French
    " el es estoy mi soy yo"  # Spanish
    " di e em eu io meu mia minha mio sono sou è é"  # Italian, Portuguese
)
# The same of Chinese and Japanese, and how one says there that one lives or is called.
_SMALL_SIGNS = frozenset("我们的现在目前是了于来自住居叫姓就私僕俺名はにのがですまいてんだよともを")
_SUBJECTS = _words("i im ive we ich wir j je nous yo io eu")
# One word more may tell how the value is so, as in `I live in Austin`; these tell that it is not.
_DENIALS = _words("almost fast hardly jamais kaum mai nearly never nicht nie niemals nunca não rarely")
# A turn is remembered with its time, and what is learned from it counts from then on.
_SAME_TURN_S = 600
_MOST_CHARACTERS = 200
_MOST_USERS = 1024


class Value(NamedTuple):
    """What a fact was, when that was told, and the words of both its key and its value."""

    at: int
    words: frozenset[str]
    key: frozenset[str]
    terms: frozenset[str]


class Former(NamedTuple):
    """What a user's facts were before, and the words of what they are."""

    values: Sequence[Value] = ()
    present: Sequence[frozenset[str]] = ()


class FormerValues:
    """The former values of each user, looked up once per change of the facts."""

    # By identity: a store hands out the same tuple until something changes.
    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[Fact, ...], Former]] = {}

    def of(
        self, user_id: str, facts: tuple[Fact, ...], history: Callable[[], Iterable[FactChange]]
    ) -> Former:
        """Those of these facts of the user's; `history` is asked when they are new."""
        known = self._known.get(user_id)
        if known is not None and known[0] is facts:
            return known[1]
        former = former_values(facts, history())
        if len(self._known) >= _MOST_USERS:
            self._known.clear()
        self._known[user_id] = (facts, former)
        return former


def former_values(facts: Iterable[Fact], history: Iterable[FactChange]) -> Former:
    """What of the history is not so any more, because the fact has another value."""
    now = {fact.key: _words(fact.value) for fact in facts}
    former = [
        Value(change.changed_at, words, _words(change.key), _terms(change.key) | _terms(change.value))
        for change in history
        if change.value is not None
        and change.key in now
        and not (words := _words(change.value)) <= STOP_WORDS
        and not all(map(_SMALL_SIGNS.issuperset, words))
        and words != now[change.key]
    ]
    return Former(former, [words for words in now.values() if words])


def without_replaced(results: Iterable[SearchResult], former: Former) -> list[SearchResult]:
    """The results without turns that only told what a fact was before."""
    return [result for result in results if result.source != "turn" or not _is_former(result, former)]


def _is_former(result: SearchResult, former: Former) -> bool:
    text = result.question
    if len(text) > _MOST_CHARACTERS or _SENTENCE_END.search(text) or _QUESTION_MARK.search(text):
        return False
    near = [value for value in former.values if abs(value.at - result.timestamp) <= _SAME_TURN_S]
    if not near:
        return False
    text = text.casefold()
    said = _words(text)
    told = [value for value in near if _is_in(value.words, text, said)]
    return (
        bool(told) and not _says_more(text, told) and not any(_is_in(p, text, said) for p in former.present)
    )


def _says_more(text: str, told: Sequence[Value]) -> bool:
    """Whether a sentence says anything besides these values."""
    known = frozenset[str]().union(*(value.words | value.key for value in told))
    for part in sorted(filter(_is_unspaced, known), key=len, reverse=True):
        text = text.replace(part, " ")
    said = _words(text)
    known_terms = frozenset[str]().union(*(value.terms for value in told))
    more = [word for word in said - known - _SMALL if not known_terms.issuperset(terms(word))]
    more = [word for word in more if not _SMALL_SIGNS.issuperset(word)]
    if not more:
        return False
    if len(more) > 1 or more[0] in STOP_WORDS or more[0] in _DENIALS or _is_unspaced(more[0]):
        return True
    # `My sister is in Austin` is about somebody else; `my favourite editor` is the editor.
    return _SUBJECTS.isdisjoint(said) and not any(value.key & said for value in told)


def _is_in(words: frozenset[str], text: str, said: frozenset[str]) -> bool:
    return all(word in text if _is_unspaced(word) else word in said for word in words)


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and _FIRST_UNSPACED.match(word) is not None


def _terms(text: str) -> frozenset[str]:
    return frozenset(terms(text.replace("_", " ")))

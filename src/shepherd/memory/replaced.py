"""Turns that told what a fact was before: `I live in Austin`, where `location` is Berlin by now.

Beside the fact such a turn would contradict it, and a model may well believe the turn. It is not shown where
it is one sentence with the value that was learned from it, and with nothing else that still is a fact: what
more was said in it would be lost. It stays in memory, and a search finds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from shepherd.memory.records import FactChange
from shepherd.types import Fact, SearchResult

__all__ = ["Former", "FormerValues", "former_values", "without_replaced"]

_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"[.!?;\n\u3002\uff01\uff1f](?=\s*\S)")
# A turn is remembered with its time, and what is learned from it counts from then on.
_SAME_TURN_S = 600
_MOST_CHARACTERS = 200
_MOST_USERS = 1024


class Former(NamedTuple):
    """What a user's facts were before, with when each was told, and the words of what they are."""

    values: Sequence[tuple[int, frozenset[str]]] = ()
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
        (change.changed_at, words)
        for change in history
        if change.value is not None
        and change.key in now
        and (words := _words(change.value))
        and words != now[change.key]
    ]
    return Former(former, [words for words in now.values() if words])


def without_replaced(results: Iterable[SearchResult], former: Former) -> list[SearchResult]:
    """The results without turns that only told what a fact was before."""
    return [result for result in results if result.source != "turn" or not _is_former(result, former)]


def _is_former(result: SearchResult, former: Former) -> bool:
    text = result.question
    if len(text) > _MOST_CHARACTERS or _SENTENCE_END.search(text):
        return False
    told = [words for at, words in former.values if abs(at - result.timestamp) <= _SAME_TURN_S]
    if not told:
        return False
    said = _words(text)
    return any(words <= said for words in told) and not any(words <= said for words in former.present)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))

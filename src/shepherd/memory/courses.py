"""Memories and time: their order for questions about an order of events, and on which day they were told.

"In what order did I visit the towns?" is answered by several memories, oldest first, and "When did I visit
Rome?" by the day. "Have I worked with Flask?" may find one that says yes and one that says never: then both
have their day.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import permutations
from typing import NamedTuple

from shepherd._native.rank import ASSISTANT_ANSWER, ASSISTANT_QUESTION
from shepherd._native.text import terms
from shepherd.memory.discourse import TALKS, assistants
from shepherd.types import SearchResult

__all__ = ["arranged", "asks_for_order"]

# Longer messages ask for something else, or give what is to be put in order.
_MOST_CHARACTERS = 500
# Most messages have none of these words.
_WORDS_OF_ORDER = frozenset(
    word + sign
    for word in (
        *("order", "sequence", "timeline", "chronological", "chronologically", "first", "earlier", "time"),
        *("history", "develop", "developed", "evolve", "evolved", "unfold", "unfolded", "progress"),
        "progressed",
    )
    for sign in ("", "?", ",", ".")
)
_ORDER = re.compile(
    r"\b(?:what|which|the) (?:order|sequence)\b(?= (?:did|do|have|had|has|were|was|of|in which|that|i|we)\b)"
    r"|\bin (?:what|which) (?:order|sequence)\b|\bin (?:chronological )?(?:order|sequence)\W*$"
    r"|\bchronological"
    r"|\btimeline\b|\bhistory of (?:my|our|the)\b"
    r"|\bhow (?:did|has|have|had) [^.?!]{1,80} (?:develop|evolve|unfold|progress)(?:e?d)?\b"
    r"|\bhow (?:did|has|have|had) [^.?!]{1,80} over time\b"
    r"|\b(?:did|do|have|had|were|was) (?:i|we|you|my|our)\b[^.?!]{1,80} first\b"
    r"[^.!]{1,80}\b(?:then|next|after|afterwards|second|last|later)\b"
    r"|\bwhich [^.?!]{1,80} (?:first|earlier)\W*$"
)
_WHEN = re.compile(
    r"\bwhen (?:did|was|were|has|have|had)\b|\bhow long ago\b|\b(?:what|which) (?:day|date|month)\b"
)
# First words of a question.
_ASKING = frozenset(
    (
        *("have", "has", "had", "did", "do", "does", "am", "is", "are", "was", "were", "can", "could"),
        *("what", "what's", "which", "when", "where", "who", "how", "why", "tell", "show", "remind", "list"),
    )
)
# Signs in a sentence of a person that it denies something, or that something has changed.
_DENIALS = ("never", "n't", "n\u2019t", " not ", "no longer", "anymore", "any more")
_CHANGES = (
    *("no longer", "anymore", "any more", "instead", "changed", "switched", "moved", "extended"),
    *("postponed", "rescheduled", "updated", "used to", " now "),
)
_SENTENCE = re.compile(r"[^.?!\n]+(?:[.?!]+(?!\s)[^.?!\n]*)*")
_SEARCHED_CHARACTERS = 600
# Words of the question that two memories about the same thing share; all, if it has fewer.
_SHARED_WORDS = 2
# Letters in which a keyword is like its word, but for a few irregular ones.
_BEGINNING = 4
_LABEL_CHARACTERS = 40


class _Said(NamedTuple):
    """The sentences of a person in a memory, in lower case, by what they do."""

    denying: list[str]
    changing: list[str]
    affirming: list[str]


def asks_for_order(message: str) -> bool:
    """Return whether a message asks for an order of events or how something developed. English."""
    if len(message) > _MOST_CHARACTERS:
        return False
    lowered = message.lower()
    return not _WORDS_OF_ORDER.isdisjoint(lowered.split()) and _ORDER.search(lowered) is not None


def arranged(
    message: str, results: list[SearchResult], keywords: Collection[str], *, is_ordered: bool
) -> tuple[list[SearchResult], dict[int, str]]:
    """Return the results in the order in which `message` gets them, and a remark with the day of some, by id.

    If it asks for an order of events, the oldest comes first. Of memories that contradict one another, the
    newest comes first, and the remark says that it is the latest.
    """
    if is_ordered:
        return _oldest_first(results), _days(results)
    if not _is_question(message):
        return results, {}
    if len(message) <= _MOST_CHARACTERS and _WHEN.search(message.lower()):
        return results, _days(results)
    if not (found := _contradicting(results, keywords)):
        return results, {}
    newest = _oldest_first([result for result in results if result.id in found])[::-1]
    places = iter(newest)
    in_order = [next(places) if result.id in found else result for result in results]
    return in_order, _days(newest, latest=newest[0].id)


def _is_question(message: str) -> bool:
    return "?" in message or message.lstrip()[:12].lower().partition(" ")[0] in _ASKING


def _oldest_first(results: Iterable[SearchResult]) -> list[SearchResult]:
    return sorted(results, key=lambda result: (result.timestamp, result.id))


def _days(results: Sequence[SearchResult], latest: int | None = None) -> dict[int, str]:
    """Return the remark of each result by id; `latest`: the one that is named so."""
    days = {result.id: datetime.fromtimestamp(result.timestamp) for result in results}
    # On one day, the time of the day tells them apart.
    n_days = len({day.date() for day in days.values()})
    form = "%Y-%m-%d" if n_days == len(days) else "%Y-%m-%d %H:%M"
    return {
        id: f" (said on {day.strftime(form)}{', the latest' if id == latest else ''})"
        for id, day in days.items()
    }


def _contradicting(results: Sequence[SearchResult], keywords: Collection[str]) -> set[int]:
    """Return the ids of results of which another one about the same thing says something else."""
    # Most messages end here: fewer than two memories have the words, or nothing is denied or has changed.
    texts = {result.id: _own_text(result) for result in results}
    beginnings = [word[:_BEGINNING] for word in set(keywords)]
    least = min(_SHARED_WORDS, len(beginnings))
    texts = {id: text for id, text in texts.items() if _n_in(text, beginnings) >= least > 0}
    everything = "\n".join(texts.values())
    if len(texts) < 2 or not (_has(everything, _DENIALS) or _has(everything, _CHANGES)):
        return set()
    wanted = frozenset(keywords)
    said = {id: _sentences(text, beginnings, least) for id, text in texts.items()}
    found: set[int] = set()
    for one, other in permutations([result for result in results if result.id in texts], 2):
        if one.timestamp == other.timestamp:
            continue
        # What holds now contradicts everything older; what is denied, what is affirmed before or after it.
        pairs = [(said[one.id].denying, said[other.id].affirming)]
        if one.timestamp > other.timestamp:
            pairs.append((said[one.id].changing, [texts[other.id]]))
        if any(_share(wanted, least, sentences, others) for sentences, others in pairs):
            found |= {one.id, other.id}
    return found


def _has(text: str, signs: Sequence[str]) -> bool:
    for sign in signs:  # noqa: SIM110 - any() takes twice as long
        if sign in text:
            return True
    return False


def _n_in(text: str, beginnings: Sequence[str]) -> int:
    n = 0
    for beginning in beginnings:
        n += beginning in text
    return n


def _share(wanted: frozenset[str], least: int, sentences: list[str], others: list[str]) -> bool:
    """Return whether one of the sentences has so many of the wanted words that the others have as well."""
    if not sentences or not others:
        return False
    known = wanted.intersection(terms("\n".join(others)))
    return len(known) >= least and any(len(known.intersection(terms(one))) >= least for one in sentences)


def _own_text(result: SearchResult) -> str:
    """Return the beginning of what a person wrote of a memory, in lower case."""
    question, answer = result.question, result.answer
    # The pattern of a label takes as long as everything else.
    beginnings = question[:_LABEL_CHARACTERS] + answer[:_LABEL_CHARACTERS]
    if result.source in TALKS or ":" in beginnings:
        bits = assistants(question, answer, result.source)
        question = "" if bits & ASSISTANT_QUESTION else question
        answer = "" if bits & ASSISTANT_ANSWER else answer
    return f"{question}\n{answer}"[:_SEARCHED_CHARACTERS].lower()


def _sentences(text: str, beginnings: Sequence[str], least: int) -> _Said:
    """Return the sentences; of those that deny or have changed something, the ones with so many keywords."""
    said = _Said([], [], [])
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        is_denial, is_change = _has(sentence, _DENIALS), _has(sentence, _CHANGES)
        if not is_denial:
            said.affirming.append(sentence)
        if (is_denial or is_change) and _n_in(sentence, beginnings) >= least:
            said.denying.extend([sentence] if is_denial else [])
            said.changing.extend([sentence] if is_change else [])
    return said

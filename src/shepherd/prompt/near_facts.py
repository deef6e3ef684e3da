"""The fact that comes nearest to a question, where no fact explains every word of it.

"What's my position at the museum?" is answered by the position if another fact tells of the museum. Beside
"What kind of riding do I compete in?", the riding discipline may be what is meant: that is not sure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shepherd.prompt.asked_facts import Asked, asked_by, explained, is_in_value, is_theirs
from shepherd.prompt.concepts import are_related, are_same, content_words, is_common, relation_of
from shepherd.prompt.fact_kinds import can_answer, is_likewise, is_of_this_time
from shepherd.prompt.fact_profiles import FORMER, Known, Profile
from shepherd.prompt.fact_values import is_beyond
from shepherd.prompt.question_words import is_silent
from shepherd.prompt.questions import Question
from shepherd.prompt.value_parts import parts_asked_for
from shepherd.types import Fact

__all__ = ["GENERAL", "NearFact", "nearest_fact"]

# Words of keys that say of what kind a value is, and nothing of what it is about.
GENERAL = frozenset(
    content_words(
        "name number type kind sort code id info main current status title level discipline subject object"
        " preference model brand choice spoken own detail year place thing details size favorite usual"
    )
)
# Of these, people have several: the phone number "at work" is perhaps another one.
_SEVERAL = frozenset(
    content_words(
        "phone mobile telephone email address number code pin password name friend colleague boss teacher"
        " price cost size weight height length speed color age birthday birth date key wifi user username"
        " plate account insurance"
    )
)
# They tell apart what has the same name: the old car, the other phone.
_TELLING = frozenset(
    content_words(
        "second third other another next last previous old former first spare backup new big small little"
        " late ex step half emergency home work office school private business"
    )
)
# "which doctor should they ring if I faint": the doctor, perhaps.
_IF = re.compile(
    r"((?:which|what) [\w-]+) (?:should|can|do|must|could) (?:they|you|people|somebody|someone|others)"
    r" (?:ring|call|phone|contact|tell|inform|fetch|ask)\b.* (?:if|when|in case) (?:i|we|something)\b.*",
    re.IGNORECASE,
)
_THING = re.compile(
    r"\W*(?:(?:on|in|at|for|of|from|to) )?(?:which|what) (?!is\b|are\b|was\b|does\b|do\b|did\b|has\b)(\w+)",
    re.IGNORECASE,
)
# A taste does not say of what kind the thing is: "What food do I dislike?" may ask for the coriander.
_TASTES = frozenset(content_words("likes dislikes loves hates enjoys avoids prefers"))
_TASTE = re.compile(
    r"\W*(?:and )?(?:which|what)(?: (?:kind|sort|type)s? of)? (?P<kind>[\w-]+) (?:do|don't|can't) (?:i|we)"
    r" (?:not |really |also |most |never )?\w+\W*",
    re.IGNORECASE,
)
_OWNED = re.compile(r"(\w+)['\u2019]s\b", re.IGNORECASE)
# What the thing belongs to, and where it is: "the password at the club" is not the club.
_BESIDE = re.compile(
    r"(?<=\w) (?:of|for|at|in|on|with|to|from|as|by) (?:my|our|the|an?|this|that)\b"
    r"(?: [\w'\u2019-]+){1,3}",
    re.IGNORECASE,
)
# "What does my bike weigh?" does not ask for the bike, nor does "What is my bike worth?"
_SUBJECT = re.compile(
    r"\b(?:does|do|did|has|have|can|will|would|should) (?:my|our|the) (?:[\w-]+ )?[\w-]+(?= \w)",
    re.IGNORECASE,
)
_PREDICATE = re.compile(r"\b(?:is|are|was|were|['\u2019]s) (?:my|our|the) [\w-]+ ([\w-]+)\W*$", re.IGNORECASE)
# "Who conducts the choir?" does not ask for the choir.
_WHO_DOES = re.compile(
    r"\bwho (?!(?:is|are|was|do|does|did|should|can)\b)\w+ (?:my|our|the)\b", re.IGNORECASE
)
_PRONOUN = re.compile(r"\b(?:he|she|him|his|her|hers)\b", re.IGNORECASE)
_CODED = re.compile(r"(?<=\w )(?!I\b)(?:[A-Z]{2,}|\w*\d\w*)\b")


# How much nearer than the next one a fact has to be, and what an unexplained word costs.
_CLEARLY, _OPEN_WORTH = 0.1, 0.2


class _Near(NamedTuple):
    score: float
    fact: Fact
    is_sure: bool


@dataclass(frozen=True, slots=True)
class NearFact:
    """A fact beside a question. It `is_sure` if other facts explain the words that it leaves open."""

    fact: Fact
    is_sure: bool


def nearest_fact(question: Question, message: str, facts: Sequence[Fact]) -> NearFact | None:
    """Return the one fact that clearly comes nearest to a question of a message, None if there is no such."""
    known = Known([*facts, *parts_asked_for(message, facts)])
    without = _IF.sub(r"\1 do I have", question.text)
    asked = asked_by(replace(question, text=without), message, known)
    if asked is None or not asked.words or _WHO_DOES.search(asked.text) or _CODED.search(asked.text):
        return None
    found = [
        _Near(score, one.fact, is_sure and without == question.text)
        for one in known.profiles
        for score, is_sure in _nearness(one, asked, known)
    ]
    found.sort(key=lambda near: -near.score)
    if not found or (len(found) > 1 and found[1].score > found[0].score - _CLEARLY):
        return None
    return NearFact(found[0].fact, found[0].is_sure)


def _nearness(one: Profile, asked: Asked, known: Known) -> Iterator[tuple[float, bool]]:
    """Yield how near a fact comes, and whether that is sure; nothing if it does not."""
    if not _can_be_told(one, asked):
        return
    is_meant = is_theirs(one, asked, known)
    is_somebodys = one.relations and not asked.relations and _PRONOUN.search(asked.text)
    if not is_meant and not is_somebodys:
        return
    thing = content_words(_SUBJECT.sub("", _BESIDE.sub("", asked.text)))
    hits = {key for word in thing if word not in GENERAL for key in one.attributes if are_same(word, key)}
    needed = set(one.attributes) - GENERAL - FORMER
    if not (hits & needed - _SEVERAL or (is_meant and not hits and is_in_value(asked, one))):
        return
    worths = {word: explained(word, one, asked, known)[0] for word in asked.words}
    open_words = [word for word, worth in worths.items() if not worth and not is_silent(word, asked.text)]
    if open_words and open_words == _kind_of_taste(asked, one):
        yield sum(worths.values()) - _OPEN_WORTH, False
        return
    if _asks_for_another(asked, one, open_words):
        return
    unknown = [word for word in open_words if not _is_told_elsewhere(word, one, known)]
    is_covered = all(any(are_related(word, key) for word in asked.words) for key in needed)
    if not unknown and (is_covered or not hits):
        yield sum(worths.values()), is_meant
    is_close = is_covered and 0 < len(unknown) <= len(hits) + 1
    if is_close and hits and not any(map(_is_known_thing, unknown)):
        yield sum(worths.values()) - _OPEN_WORTH * len(unknown), False


def _kind_of_taste(asked: Asked, one: Profile) -> list[str]:
    """Return the word for the kind of things that a question wants of what somebody likes or dislikes."""
    found = _TASTE.fullmatch(asked.text) if not _TASTES.isdisjoint(one.attributes) else None
    return [word for word in content_words(found["kind"]) if word in asked.words] if found else []


def _can_be_told(one: Profile, asked: Asked) -> bool:
    """Return whether a value is of the kind and time that is asked for, and tells more than the question."""
    return (
        not one.value <= {*asked.words, *content_words(asked.text)}
        and can_answer(one, asked.text)
        and is_of_this_time(one, asked.text, asked.words)
        and is_likewise(one, asked.text, asked.words)
        and not is_beyond(one, asked.text)
    )


def _is_known_thing(word: str) -> bool:
    """Return whether a word names what facts are about, and so asks for another one."""
    return is_common(word) or bool(relation_of(word))


def _asks_for_another(asked: Asked, one: Profile, open_words: Sequence[str]) -> bool:
    """Return whether the thing that is asked for, its owner or its kind is among the words that stay open."""
    named = _THING.match(asked.text)
    things = content_words(named[1])[:1] if named else []
    told = (*_OWNED.findall(asked.text), *_PREDICATE.findall(asked.text))
    others = _TELLING.union(things, content_words(" ".join(told)))
    attributes = {word for word in asked.words if word in _SEVERAL and word not in one.value}
    return not others.isdisjoint(open_words) or any(
        not any(are_related(word, key) for key in one.key) for word in attributes
    )


def _is_told_elsewhere(word: str, one: Profile, known: Known) -> bool:
    """Return whether another fact of the same person tells of what a word names."""
    return any(
        word in other.value or any(are_same(word, key) for key in other.attributes)
        for other in known.profiles
        if other.fact.key != one.fact.key and (not other.relations or other.relations == one.relations)
    )

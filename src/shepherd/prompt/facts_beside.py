"""Facts that stand beside what is asked for: the phone at work is no job, the cat's age is not its name."""

from __future__ import annotations

import re
from collections.abc import Collection

from shepherd.prompt.asked_about import asks_for_work
from shepherd.prompt.concepts import are_related, are_same, content_words, is_common
from shepherd.prompt.fact_kinds import HOW_MUCH, WHEN, WHO
from shepherd.prompt.fact_profiles import NAMED, Profile

__all__ = [
    "is_kind_of_employer",
    "is_measure",
    "is_no_name",
    "is_no_work",
    "is_of_another_rank",
    "is_own_name",
]

# Heads of keys that measure, date or identify a thing, and are not the thing.
_MEASURES = frozenset(
    content_words(
        "number id code pin iban day date time hours schedule deadline size weight height length age price"
        " cost expiry phone telephone email website address"
    )
)
# Words of keys that hold the user's own name, and of questions that ask for nothing else.
_OWN_NAMES = frozenset(
    content_words(
        "name surname nickname nick alias moniker preferred known call called display user full first last"
        " family middle given whole real complete legal birth maiden short forename"
    )
)
_FIRST = frozenset(content_words("first given forename"))
_SECOND = frozenset(content_words("surname last family maiden"))
_RANKS = tuple(
    frozenset(group.split())
    for group in (
        "oldest eldest older elder big first firstborn",
        "youngest younger little littlest lastborn",
        "middle",
        "second",
        "third",
    )
)
# "What's the name of my gym?", "What is my gym called?"
_CALLED = re.compile(
    r"\bname of (?:my|our|the) (?P<thing>[\w'\u2019-]+(?: [\w'\u2019-]+)?)\W*$"
    r"|\bwhat(?:['\u2019]?s| is) (?:my|our|the) (?P<called>[\w'\u2019-]+(?: [\w'\u2019-]+)?)"
    r" (?:called|named)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+")
_JOBS = content_words("job profession title")
_EMPLOYERS = content_words("employer company firm workplace business clinic school university shop")
# As phrases.in_question has it.
_EMPLOYER = re.compile(r"\b(?:is my|(?:do|did|am) (?:i|we)) employer\b", re.IGNORECASE)
_WHICH = re.compile(r"\W*(?:(?:at|for|by|in|with) )?(?:which|what) ([\w-]+)", re.IGNORECASE)
_WORKS = content_words("job employer business workplace study school work trade employment runs teaches")


def is_no_name(one: Profile, words: Collection[str]) -> bool:
    """Return whether the user's own name is asked for by these stems, and a fact has another one or none.

    "What am I called?" asks neither for a phone nor for the name on the radio.
    """
    if not words or not _OWN_NAMES.issuperset(words):
        return False
    is_first = not _FIRST.isdisjoint(words) and _SECOND.isdisjoint(words)
    is_surname = not _SECOND.isdisjoint(one.attributes) and _FIRST.isdisjoint(one.attributes)
    return not _OWN_NAMES.issuperset(one.attributes) or (is_first and is_surname)


def is_own_name(one: Profile, words: Collection[str]) -> bool:
    """Return whether the user's own name is asked for by these stems, and a fact has it."""
    is_asked = not NAMED.isdisjoint(words) and _OWN_NAMES.issuperset(words)
    return is_asked and _OWN_NAMES.issuperset(one.attributes)


def is_measure(one: Profile, text: str, words: Collection[str]) -> bool:
    """Return whether a thing or its name is asked for, and a fact has only its number, its date or the like.

    "What is my gym called?" does not ask for the days at the gym.
    """
    called = _CALLED.search(text)
    things = content_words(called["thing"] or called["called"])[-1:] if called else []
    if things and not one.relations:
        is_alike = are_related if one.head in NAMED else are_same  # a shop by its business_name
        if things[0] not in one.value and not any(is_alike(things[0], key) for key in one.key):
            return True
    if one.head not in _MEASURES or WHEN.search(text) or HOW_MUCH.search(text):
        return False
    is_named = WHO.search(text) is not None or not NAMED.isdisjoint(content_words(text))
    if is_named:
        return not any(are_same(word, one.head) for word in words)
    if any(are_related(word, one.head) for word in words):
        return False
    return not any(are_same(word, key) for word in words for key in one.attributes)


def is_of_another_rank(one: Profile, text: str) -> bool:
    """Return whether a fact is about another one of several: the middle child, not the eldest."""
    if not one.relations:
        return False
    asked, told = (_ranks_in(words) for words in (text, one.fact.key.replace("_", " ")))
    return bool(asked and told) and asked.isdisjoint(told)


def is_no_work(one: Profile, text: str) -> bool:
    """Return whether a question asks what somebody does or for whom, and a fact tells neither."""
    if one.relations:
        return False
    if _EMPLOYER.search(text):
        return any(are_same(one.head, job) for job in _JOBS) and not any(
            are_same(one.head, employer) for employer in _EMPLOYERS
        )
    return asks_for_work(text) and not any(are_same(one.head, work) for work in _WORKS)


def is_kind_of_employer(one: Profile, word: str, text: str) -> bool:
    """Return whether a question asks for an employer, and a word names its kind.

    Any kind will do in "Which vineyard employs me?", but "Which floor do I work on?" asks for a floor.
    """
    thing = _WHICH.match(text) if _EMPLOYER.search(text) else None
    if thing is None or word not in content_words(thing[1]):
        return False
    is_kind = not is_common(word) or any(are_related(word, kind) for kind in _EMPLOYERS)
    return is_kind and any(are_same(one.head, employer) for employer in _EMPLOYERS)


def _ranks_in(text: str) -> set[int]:
    words = set(_WORD.findall(text.casefold()))
    return {n for n, group in enumerate(_RANKS) if group & words}

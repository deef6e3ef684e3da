"""Profiles of facts: whom or what each one is about, and the names of people and animals."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shepherd.prompt.concepts import (
    are_related,
    are_same,
    content_words,
    is_kind_of,
    relation_of,
    relations_among,
)
from shepherd.prompt.phrases import in_key
from shepherd.types import Fact

__all__ = [
    "AGES",
    "EVENTS",
    "FORMER",
    "NAME",
    "NAMED",
    "NUMERALS",
    "SIZES",
    "Known",
    "Profile",
    "names_in",
    "names_of",
    "profile_of",
]

# Adjectives that tell relatives apart where there are several.
SIZES = frozenset(content_words("little big young younger older elder dear lovely late own only"))
# Words in keys of another time.
FORMER = frozenset(content_words("former previous old past retired ex maiden formerly prior first last"))
# What was once and is told as a fact of today.
EVENTS = frozenset(
    content_words("birthday born birth wedding anniversary married hometown birthplace grew raised")
)
AGES = frozenset(content_words("old age aged older"))
NAMED = frozenset(content_words("name called call named"))
NAME = re.compile(r"[A-ZÀ-Þ][\w'\u2019-]*")
# "a nurse in Cork"
_PLACES = re.compile(
    r"(?<=\w )(?:in|at|near|from|for) (?:the )?[A-ZÀ-Þ][\w'\u2019-]*(?: [A-ZÀ-Þ][\w'\u2019-]*)*"
)
NUMERALS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    "|eighteen|nineteen|twenty"
)
# How old somebody is, in a description: "Toby, aged 11", "a nine-year-old beagle", "both 7".
_YEARS = re.compile(
    rf"\baged? \d{{1,3}}\b|\b(?:\d{{1,3}}|{NUMERALS})[- ](?:years?|yrs?|months?)\b|\(\d{{1,3}}(?=[,;)])"
    r"|,\s*(?:both |all |now )?\d{1,3}(?=\W|$)|\bboth \d{1,3}\b",
    re.IGNORECASE,
)

# Words that tell one sister from another.
_CHILDREN = ("son", "daughter", "child", "boy", "girl", "eldest", "youngest")
_TWINS = 2
_FIRST_OR_LAST = frozenset(content_words("first last"))
_FIRST, _SECOND = (content_words(word)[0] for word in ("first", "second"))
_RANKS = frozenset(
    (
        *("oldest", "eldest", "older", "elder", "middle", "younger", "youngest", "big", "little", "twin"),
        *("first", "second", "third", "fourth"),
        *("late", "former", "previous", "old", "ex"),
    )
)


@dataclass(frozen=True)
class Profile:
    """The stems of a fact's key and value, and the names and relations of its owner."""

    fact: Fact
    key: tuple[str, ...]
    value: frozenset[str]
    relations: frozenset[str]
    names: frozenset[str]
    is_ranked: bool = False  # "first" counts here, as in first_dog beside second_dog

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The words of the key beside those for a person or animal."""
        return tuple(word for word in self.key if not relation_of(word) and word not in self.names)

    @cached_property
    def is_bare(self) -> bool:
        """True if the key names a person or animal, or asks for their name alone: "farm_dog"."""
        if not self.relations:
            return False
        is_named = bool(relation_of(self.key[-1])) and NAME.match(self.fact.value) is not None
        return is_named or not set(self.attributes) - NAMED - FORMER - SIZES

    @cached_property
    def is_former(self) -> bool:
        """True if the key belongs to another time: "previous_job"."""
        of_names = _FIRST_OR_LAST if "name" in self.key else frozenset()
        return not self.is_ranked and not (FORMER - of_names).isdisjoint(self.key)

    @cached_property
    def is_event(self) -> bool:
        """True if the fact is about a past event, such as a birth or a wedding."""
        is_named = any(are_related(word, event) for word in self.attributes for event in EVENTS)
        return is_named or not EVENTS.isdisjoint(self.value)

    @cached_property
    def head(self) -> str:
        """The word of the key that the others specify: "year" of year_of_study, "phone" of daughter_phone."""
        first = content_words(in_key(self.fact.key).partition(" of ")[0])
        heads = [word for word in first if word in self.attributes]
        return heads[-1] if heads else ""

    def is_age(self) -> bool:
        """Return whether the fact says how old somebody is."""
        return not AGES.isdisjoint(self.attributes) or (self.is_bare and bool(_YEARS.search(self.fact.value)))


class Known:
    """Profiles of facts, and whose name each one is."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.names: dict[str, set[str]] = {}
        self._ranks: dict[str, set[str]] = {}
        profiles = _ranked([profile_of(fact) for fact in facts])
        for one in profiles:
            if one.is_bare:
                # "older brother Caleb" of `sibling` is a brother.
                told = relations_among(one.value)
                kinds = {kind for kind in told if any(is_kind_of(kind, of) for of in one.relations)}
                names = names_in(one.fact.value)
                for name in names:
                    self.names.setdefault(name, set()).update(one.relations | kinds)
                    self._ranks.setdefault(name, set()).update(_ranks_in(one.fact.key))
        self.profiles = [self._with_names(one) for one in profiles]

    def _with_names(self, one: Profile) -> Profile:
        """Return the profile with the names of whom it is about; "pickle_age" is about the cat Pickle."""
        if named := [word for word in one.key if word in self.names]:
            relations = frozenset().union(*(self.names[name] for name in named))
            return replace(one, relations=one.relations | relations, names=frozenset(named))
        if one.relations == {"twin"} and (twins := self._only_children()):
            of_twins = frozenset().union(*(self.names[name] for name in twins))
            return replace(one, relations=one.relations | of_twins, names=twins)
        # The age of the youngest sister is not that of Salome, the middle one.
        ranks = _ranks_in(one.fact.key)
        names = {
            name
            for name, of in self.names.items()
            if of & one.relations
            and not (ranks and self._ranks[name] and self._ranks[name].isdisjoint(ranks))
        }
        # Nor is that of the cat the age of the late cat, or the other way round.
        names = {name for name in names if bool(ranks) == bool(self._ranks[name])} or names
        return replace(one, names=frozenset(names))

    def without(self, words: Collection[str]) -> Known:
        """Return the facts without those whose values have one of these stems."""
        return Known([one.fact for one in self.profiles if one.value.isdisjoint(words)])

    def _only_children(self) -> frozenset[str]:
        """Return the names of the user's children if they have two, who are the twins of `twins_age`."""
        if any("twin" in of for of in self.names.values()):
            return frozenset()
        children = [name for name, of in self.names.items() if all(is_kind_of(one, "child") for one in of)]
        return frozenset(children) if len(children) == _TWINS else frozenset()


def _ranked(profiles: Sequence[Profile]) -> list[Profile]:
    """Return profiles in which `first_dog` is no dog of former times if there is a `second_dog`."""
    seconds = {frozenset(one.key) - {_SECOND} for one in profiles if _SECOND in one.key}
    return [
        replace(one, is_ranked=True)
        if _FIRST in one.key
        and (frozenset(one.key) - {_FIRST} in seconds or not one.relations.isdisjoint(_CHILDREN))
        else one
        for one in profiles
    ]


def _ranks_in(key: str) -> set[str]:
    """Return the words of a key that say which of several it is about."""
    return set(re.split(r"[\W_]+", key.casefold())) & _RANKS


def profile_of(fact: Fact) -> Profile:
    """Return the profile of one fact, without the names that others give its owner."""
    key = tuple(content_words(in_key(fact.key)))
    relations = relations_among(key)
    if any(are_same(word, "allergi") for word in key):  # "fish_allergy" is not about a fish
        relations = frozenset(one for one in relations if not is_kind_of(one, "pet"))
    return Profile(fact, key, frozenset(content_words(fact.value)), relations, frozenset())


def names_in(value: str) -> list[str]:
    """Return the stems of the first names in the value of a fact about people or animals."""
    called = re.search(r"\b(?:called|named)\s+(.+)", value)
    named = _PLACES.sub("", called[1] if called else value)
    return [stem for name in NAME.findall(named) for stem in content_words(name)[:1]]


def names_of(facts: Sequence[Fact]) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Return for each person or animal of the user the stems of what they are, and of their first names."""
    profiles = (profile_of(fact) for fact in facts)
    return [
        (
            frozenset(word for word in (*one.key, *one.value) if relation_of(word)),
            frozenset(names_in(one.fact.value)[:1]),
        )
        for one in profiles
        if one.is_bare and names_in(one.fact.value)
    ]

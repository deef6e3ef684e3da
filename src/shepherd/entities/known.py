"""What names mean before a conversation begins: of the user's facts, and of the nodes of his knowledge."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from shepherd.entities.lexicon import GIVEN_NAMES, OWNED_KINDS, PLACES, ROLES, gender_of_name
from shepherd.entities.records import ENTITY_TYPES, EntityType, Known
from shepherd.types import Fact

__all__ = ["NodeLike", "known_from_facts", "known_from_nodes"]

# How the user is called, by himself: he is not an entity.
_OF_THE_USER = re.compile(r"(?:first|last|full|nick|user|preferred|middle)?_?name|nickname|surname|username")
_LIVES = re.compile(r"(?:home_?|current_?)?(?:city|town|location|country|state|residence)|lives_in|home")
_FROM = re.compile(r"hometown|birth_?place|origin|born_in|nationality_country")
_EMPLOYER = re.compile(r"employer|company|workplace|works_(?:at|for)|organi[sz]ation")
_SCHOOL = re.compile(r"school|university|college|alma_mater")
_SEPARATOR = re.compile(r"\s*(?:,|;|\band\b|&)\s*")
_NAME = re.compile(r"[^\W\d_][\w.'\u2019-]*(?:\s+[\w.'\u2019&-]+){0,4}")
_KINDS: dict[str, EntityType] = {
    "people": "person",
    "company": "organization",
    "organisation": "organization",
    "place": "location",
    "city": "location",
    "country": "location",
    "meeting": "event",
    "book": "object",
    "paper": "object",
    "tool": "object",
    "project": "object",
    "idea": "abstract",
    "concept": "abstract",
}
# A title is one line; a sentence is no name that a message would repeat.
_MOST_TITLE_WORDS = 6


class NodeLike(Protocol):
    """What is read of a node of knowledge."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def title(self) -> str:
        """What it is called by."""

    @property
    def kind(self) -> str:
        """What it is, in a word; may be empty."""

    @property
    def description(self) -> str:
        """What it is, in a sentence; may be empty."""


def known_from_facts(facts: Iterable[Fact]) -> list[Known]:
    """The people, places and employers that facts name: `sister=Anna`, `city=Austin`, `employer=Acme`."""
    found = []
    for fact in facts:
        key = fact.key.strip().casefold().replace(" ", "_").replace("-", "_")
        if _OF_THE_USER.fullmatch(key) or not fact.value[:1].isupper():
            continue
        for value in _SEPARATOR.split(fact.value) if _role(key) else (fact.value,):
            one = _of_fact(key, value.strip())
            if one is not None:
                found.append(one)
    return found


def known_from_nodes(nodes: Iterable[NodeLike]) -> list[Known]:
    """The nodes whose titles are short enough to be named in a message."""
    found = []
    for node in nodes:
        title = " ".join(node.title.split())
        if not title or len(title.split()) > _MOST_TITLE_WORDS:
            continue
        kind = _kind(node.kind.strip().casefold())
        gender = gender_of_name(title) if kind == "person" else ""
        found.append(Known(title, kind, gender, description=node.description, node_id=node.id))
    return found


def _of_fact(key: str, value: str) -> Known | None:
    if not _NAME.fullmatch(value):
        return None
    role = _role(key)
    if role in ROLES:
        return Known(value, "person", ROLES[role] or gender_of_name(value), relation=f"{role} of")
    if _EMPLOYER.fullmatch(key):
        return Known(value, "organization", relation="employer of")
    if _SCHOOL.fullmatch(key):
        return Known(value, "organization", relation=f"{key.replace('_', ' ')} of")
    if _LIVES.fullmatch(key):
        return Known(value, "location", relation="home of")
    if _FROM.fullmatch(key):
        return Known(value, "location", relation="place of origin of")
    if role in OWNED_KINDS:
        return Known(value, "unknown", relation=f"{role} of")
    first = value.split(maxsplit=1)[0].casefold()
    kind: EntityType = "person" if first in GIVEN_NAMES else "location" if first in PLACES else "unknown"
    return Known(value, kind, gender_of_name(value) if kind == "person" else "", relation=f"{_words(key)} of")


def _role(key: str) -> str:
    """`sister` of `sister_name`, `older_sister`, `sisters`; else empty."""
    words = key.removesuffix("_name").removesuffix("_names").split("_")
    last = words[-1]
    for word in (last, last.removesuffix("s")):
        if word in ROLES or word in OWNED_KINDS:
            return word
    return ""


def _words(key: str) -> str:
    return key.replace("_", " ")


def _kind(word: str) -> EntityType:
    for kind in ENTITY_TYPES:
        if word == kind:
            return kind
    return _KINDS.get(word, "unknown")

"""Names known before a conversation begins: of the user's facts, and of the nodes of their knowledge."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from shepherd.entities.lexicon import GIVEN_NAMES, OWNED_KINDS, PLACES, ROLES, gender_of_name
from shepherd.entities.records import ENTITY_TYPES, EntityType, Known
from shepherd.entities.state import Gazetteer
from shepherd.errors import ShepherdError
from shepherd.types import Fact

if TYPE_CHECKING:
    from shepherd.knowledge import Knowledge, Node

__all__ = ["KnownNames", "LastChange", "known_from_facts", "known_from_nodes"]

_log = logging.getLogger(__name__)

# Id of the node that was changed last, and the time; None without nodes.
LastChange = tuple[int, int] | None
# Number of nodes whose titles are known: those that were changed last.
_KNOWN_NODES = 500
# Names of the user, who is not an entity.
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
# No message repeats a longer title word by word.
_MOST_TITLE_WORDS = 6


def known_from_facts(facts: Iterable[Fact]) -> list[Known]:
    """Return the people, places and employers that facts name: `sister=Anna`, `city=Austin`."""
    found = []
    for fact in facts:
        key = fact.key.strip().casefold().replace(" ", "_").replace("-", "_")
        if _OF_THE_USER.fullmatch(key) or not fact.value[:1].isupper():
            continue
        # "Smith & Sons" is one employer.
        has_several = _role(key) and not (_EMPLOYER.fullmatch(key) or _SCHOOL.fullmatch(key))
        for value in _SEPARATOR.split(fact.value) if has_several else (fact.value,):
            one = _of_fact(key, value.strip())
            if one is not None:
                found.append(one)
    return found


def known_from_nodes(nodes: Iterable[Node]) -> list[Known]:
    """Return the nodes whose titles are short enough to be named in a message."""
    found = []
    for node in nodes:
        title = " ".join(node.title.split())
        if not title or len(title.split()) > _MOST_TITLE_WORDS:
            continue
        kind = _kind(node.kind.strip().casefold())
        gender = gender_of_name(title) if kind == "person" else ""
        found.append(Known(title, kind, gender, description=node.description, node_id=node.id))
    return found


class KnownNames:
    """Names of one user's facts and of the nodes changed last, rebuilt when these change.

    Two threads may ask at once. A database that fails costs the nodes.
    """

    def __init__(self, knowledge: Knowledge | None) -> None:
        self._knowledge = knowledge
        self._known: tuple[Sequence[Fact], LastChange, list[Known], Gazetteer] = ((), None, [], Gazetteer(()))

    def of(self, facts: Sequence[Fact], changed: LastChange) -> Gazetteer:
        """Return the names for these facts and this last change of a node."""
        of_facts, of_change, nodes, names = self._known
        if changed == of_change and (facts is of_facts or facts == of_facts):
            return names
        if changed != of_change:
            nodes = self._nodes()
        names = Gazetteer([*known_from_facts(facts), *nodes])
        self._known = facts, changed, nodes, names
        return names

    def _nodes(self) -> list[Known]:
        if self._knowledge is None:
            return []
        try:
            return known_from_nodes(self._knowledge.list_nodes(limit=_KNOWN_NODES))
        except ShepherdError as error:
            _log.info("entities: %s", error)
            return []


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
    if _FROM.fullmatch(key):
        return Known(value, "location", relation="place of origin of")
    if _LIVES.fullmatch(key):
        return Known(value, "location", relation="home of")
    if role in OWNED_KINDS:
        return Known(value, "unknown", relation=f"{role} of")
    first = value.split(maxsplit=1)[0].casefold()
    kind: EntityType = "person" if first in GIVEN_NAMES else "location" if first in PLACES else "unknown"
    gender = gender_of_name(value) if kind == "person" else ""
    return Known(value, kind, gender, relation=f"{key.replace('_', ' ')} of")


def _role(key: str) -> str:
    """Return `sister` for `sister_name`, `older_sister` and `sisters`; "" for keys that are no role."""
    words = key.removesuffix("_name").removesuffix("_names").split("_")
    last = words[-1]
    for word in (last, last.removesuffix("s")):
        if word in ROLES or word in OWNED_KINDS:
            return word
    return ""


def _kind(word: str) -> EntityType:
    return next((kind for kind in ENTITY_TYPES if kind == word), _KINDS.get(word, "unknown"))

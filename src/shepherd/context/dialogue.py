"""Who and what a conversation is about: a registry that hears its turns, and is kept with it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shepherd.context.entity_reading import EntityReader
from shepherd.context.parts import Part
from shepherd.entities import (
    Entity,
    EntityRegistry,
    EntityText,
    Gazetteer,
    Known,
    Ranked,
    SessionEntities,
    entity_text,
    known_from_facts,
    known_from_nodes,
    rank_entities,
)
from shepherd.errors import ShepherdError
from shepherd.knowledge import Knowledge
from shepherd.lru_cache import FIFODict
from shepherd.memory import Memory
from shepherd.types import Fact

__all__ = ["Dialogue", "KnownNames", "Listened"]

_log = logging.getLogger(__name__)

_MOST_ENTITIES = 6
_MIN_RELEVANCE = 0.3
_MOST_ATTRIBUTES = 5
# Nodes whose titles are listened for: those changed last.
_KNOWN_NODES = 500
# More of a message does not change whom it is about, and is not worth the time.
_HEARD_CHARS = 20_000
# Number of entities whose texts are cached: those that are in focus are told turn after turn.
_MOST_TEXTS = 512

# Which node was changed last, and when; None without nodes.
Changed = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Listened:
    """Who a conversation was about after a turn, and what of that was written already."""

    registry: EntityRegistry
    texts: FIFODict[int, _Told]


class KnownNames:
    """Names that mean something before they are said: of one user's facts, and of the nodes changed last.

    Made anew when these change. Two threads may ask at once. A database that fails costs the nodes.
    """

    def __init__(self, knowledge: Knowledge | None) -> None:
        self._knowledge = knowledge
        self._known: tuple[Sequence[Fact], Changed, list[Known], Gazetteer] = ((), None, [], Gazetteer(()))

    def of(self, facts: Sequence[Fact], changed: Changed) -> Gazetteer:
        """The names, with these facts and this last change of a node."""
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


@dataclass(frozen=True, slots=True)
class _Told:
    """An entity as a part, as long as it and those that it is related to are what they were."""

    entity: Entity
    related: tuple[str, ...]
    part: Part | None


class Dialogue:
    """The entities of one conversation of one user. For one thread at a time.

    What is private of an entity is told only where `allow_private`. A `reader` reads each message of the user
    once more, after its answer. A database that fails costs what it has.
    """

    def __init__(
        self,
        memory: Memory | None,
        knowledge: Knowledge | None,
        user_id: str,
        *,
        allow_private: bool,
        names: KnownNames | None = None,
        reader: EntityReader | None = None,
    ) -> None:
        self._kept = None if memory is None else SessionEntities(memory.transactions, user_id)
        self._allow_private = allow_private
        self._registry = EntityRegistry()
        self._names = KnownNames(knowledge) if names is None else names
        self._texts: FIFODict[int, _Told] = FIFODict(_MOST_TEXTS)
        self._reader = reader
        self._last_text = ""

    @property
    def listened(self) -> Listened:
        """What `go_on` begins with; this dialogue must not be used any more."""
        return Listened(self._registry, self._texts)

    def go_on(self, before: Listened) -> None:
        """Go on where another dialogue of the same conversation has ended; others may do so, too."""
        self._registry, self._texts = before.registry.copy(), before.texts.copy()

    def parts(
        self, text: str, facts: Sequence[Fact], *, changed: Changed = None, hears: bool = True
    ) -> list[Part]:
        """What a message gets: whom it speaks of, then who is in focus, if there is something to tell.

        `changed` is the user's knowledge's. With `hears` the message is part of the conversation from here
        on; see `take_back`.
        """
        self._registry.set_known(self._names.of(facts, changed))
        text = text[:_HEARD_CHARS]
        if self._reader is not None and hears:
            self._registry.learn(self._reader.take())
            self._last_text = text
        found = self._registry.hear(text) if hears else self._registry.resolve(text)
        ranked = rank_entities(
            self._registry, found, min_relevance=_MIN_RELEVANCE, max_entities=_MOST_ENTITIES
        )
        return [part for one in ranked if (part := self._part(one)) is not None]

    def heard(self, text: str) -> None:
        """An earlier message of the user, which gets nothing any more."""
        self._registry.hear(text[:_HEARD_CHARS])

    def answered(self, text: str) -> None:
        """The model's answer ends the turn."""
        self._registry.hear(text[:_HEARD_CHARS], "assistant")
        self._registry.end_turn()
        if self._reader is not None and self._last_text:
            self._reader.begin(self._last_text)

    def take_back(self) -> None:
        """Forget the turn under way, or the last one."""
        self._registry.roll_back()
        if self._reader is not None:
            self._reader.drop()

    def load(self, session_id: str) -> None:
        """Go on with a stored conversation, "" for a new one."""
        self._registry = EntityRegistry()
        self._texts = FIFODict(_MOST_TEXTS)
        if self._reader is not None:
            self._reader.drop()
        if session_id and self._kept is not None:
            self._registry = self._kept.load(session_id)

    def save(self, session_id: str) -> None:
        """Keep it with its conversation. Raises StoreError."""
        if self._kept is not None:
            self._kept.save(session_id, self._registry)

    def _part(self, ranked: Ranked) -> Part | None:
        entity = ranked.entity
        related = tuple(other.name for one in entity.relations if (other := self._registry.get(one.target)))
        told = self._texts.get(entity.id)
        if told is None or told.entity is not entity or told.related != related:
            told = self._texts[entity.id] = _Told(entity, related, self._written(ranked))
        part = told.part
        if part is None or part.score == ranked.relevance:
            return part
        about = {**part.about, "relevance": ranked.relevance}
        return replace(part, score=ranked.relevance, about=about)

    def _written(self, ranked: Ranked) -> Part | None:
        whole = self._text(ranked, _MOST_ATTRIBUTES)
        # "the user's editor, editor of the user" tells nothing.
        relations = whole.relations if ranked.entity.is_named else whole.relations[1:]
        if not (whole.attributes or relations or whole.description):
            return None
        shorter = [self._text(ranked, n).text for n in range(len(whole.attributes) - 1, -1, -1)]
        if whole.relations or whole.description:
            shorter.append(self._text(ranked, 0, relations=False, description=False).text)
        about = {
            "entity_id": whole.entity_id,
            "title": whole.name,
            "type": whole.type,
            "relevance": whole.relevance,
            "attributes": dict(whole.attributes),
        }
        return Part(
            "entities",
            f"entity:{whole.entity_id}",
            whole.text,
            score=whole.relevance,
            shorter=tuple(shorter),
            about=about,
        )

    def _text(
        self, ranked: Ranked, n_attributes: int, *, relations: bool = True, description: bool = True
    ) -> EntityText:
        return entity_text(
            self._registry,
            ranked,
            max_attributes=n_attributes,
            relations=relations,
            description=description,
            allow_private=self._allow_private,
        )

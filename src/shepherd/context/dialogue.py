"""Who and what a conversation is about: a registry that hears its turns, and is kept with it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from shepherd.context.parts import Part
from shepherd.entities import (
    EntityRegistry,
    EntityText,
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
from shepherd.memory import Memory
from shepherd.types import Fact

__all__ = ["Dialogue"]

_log = logging.getLogger(__name__)

_MOST_ENTITIES = 6
_MIN_RELEVANCE = 0.3
_MOST_ATTRIBUTES = 5
# Nodes whose titles are listened for: those changed last.
_KNOWN_NODES = 500
# More of a message does not change whom it is about, and is not worth the time.
_HEARD_CHARS = 20_000


class Dialogue:
    """The entities of one conversation of one user. For one thread at a time.

    What is private of an entity is told only where `allow_private`. A database that fails costs what it has.
    """

    def __init__(
        self, memory: Memory | None, knowledge: Knowledge | None, user_id: str, *, allow_private: bool
    ) -> None:
        self._kept = None if memory is None else SessionEntities(memory.transactions, user_id)
        self._knowledge = knowledge
        self._allow_private = allow_private
        self._registry = EntityRegistry()
        self._facts: Sequence[Fact] = ()
        self._nodes: list[Known] | None = None

    def parts(self, text: str, facts: Sequence[Fact], *, hears: bool = True) -> list[Part]:
        """What a message gets: whom it speaks of, then who is in focus, if there is something to tell.

        With `hears` the message is part of the conversation from here on; see `take_back`.
        """
        self._learn(facts)
        text = text[:_HEARD_CHARS]
        found = self._registry.hear(text) if hears else self._registry.resolve(text)
        ranked = rank_entities(
            self._registry, found, min_relevance=_MIN_RELEVANCE, max_entities=_MOST_ENTITIES
        )
        return [part for one in ranked if (part := self._part(one)) is not None]

    def answered(self, text: str) -> None:
        """The model's answer ends the turn."""
        self._registry.hear(text[:_HEARD_CHARS], "assistant")
        self._registry.end_turn()

    def take_back(self) -> None:
        """Forget the turn under way, or the last one."""
        self._registry.roll_back()

    def load(self, session_id: str) -> None:
        """Go on with a stored conversation, "" for a new one."""
        self._registry = EntityRegistry()
        self._facts, self._nodes = (), None
        if session_id and self._kept is not None:
            self._registry = self._kept.load(session_id)

    def save(self, session_id: str) -> None:
        """Keep it with its conversation. Raises StoreError."""
        if self._kept is not None:
            self._kept.save(session_id, self._registry)

    def _learn(self, facts: Sequence[Fact]) -> None:
        """Names that mean something before they are said: of facts, and of nodes."""
        if self._nodes is not None and facts is self._facts:
            return
        if self._nodes is None:
            self._nodes = []
            if self._knowledge is not None:
                try:
                    self._nodes = known_from_nodes(self._knowledge.list_nodes(limit=_KNOWN_NODES))
                except ShepherdError as error:
                    _log.info("entities: %s", error)
        self._facts = facts
        self._registry.set_known([*known_from_facts(facts), *self._nodes])

    def _part(self, ranked: Ranked) -> Part | None:
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

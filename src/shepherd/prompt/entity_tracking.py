"""Entities of a conversation: a registry that follows its turns, and the parts of a prompt that it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from shepherd.entities import (
    Entity,
    EntityReader,
    EntityRegistry,
    KnownNames,
    LastChange,
    Ranked,
    SessionEntities,
    entity_forms,
    rank_entities,
)
from shepherd.escaping import without_blocks
from shepherd.knowledge import Knowledge
from shepherd.lru_cache import FIFODict
from shepherd.memory import Memory
from shepherd.prompt.plan import Part
from shepherd.types import Fact

__all__ = ["Dialogue", "DialogueState"]

# More than ten, so that their weight in the allocation can grow.
_MOST_ENTITIES = 20
_MIN_RELEVANCE = 0.3
_MOST_ATTRIBUTES = 5
# The rest of a longer message is not analysed: it takes time and hardly changes what the message is about.
_MOST_CHARS = 20_000
# Number of entities whose texts are cached: the same few are in focus turn after turn.
_MOST_TEXTS = 512


@dataclass(frozen=True, slots=True)
class DialogueState:
    """State of a dialogue after a turn: the registry, and the texts of entities that are cached."""

    registry: EntityRegistry
    texts: FIFODict[int, _Cached]


@dataclass(frozen=True, slots=True)
class _Cached:
    """The part of an entity, valid while the entity and the names of its relations stay the same."""

    entity: Entity
    related: tuple[str, ...]
    part: Part | None


class Dialogue:
    """The entities of one conversation of one user. For one thread at a time.

    Private attributes are shown only with `allow_private`. A `reader` analyses each message of the user once
    more, after its answer. Without a memory nothing is stored.
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
        self._stored = None if memory is None else SessionEntities(memory.transactions, user_id)
        self._allow_private = allow_private
        self._registry = EntityRegistry()
        self._names = KnownNames(knowledge) if names is None else names
        self._texts: FIFODict[int, _Cached] = FIFODict(_MOST_TEXTS)
        self._reader = reader
        self._last_text = ""

    @property
    def state(self) -> DialogueState:
        """The state for `continue_from`; this dialogue must not be used after that."""
        return DialogueState(self._registry, self._texts)

    @property
    def is_empty(self) -> bool:
        """True while no entity is registered."""
        return not len(self._registry)

    def continue_from(self, state: DialogueState) -> None:
        """Continue behind another dialogue of the same conversation, whose state may be used again."""
        self._registry, self._texts = state.registry.copy(), state.texts.copy()

    def parts(
        self, text: str, facts: Sequence[Fact], *, changed: LastChange = None, registers: bool = True
    ) -> list[Part]:
        """Return the parts for a message: entities that it names, then those in focus, if they say something.

        `changed` is the last change of the user's knowledge. With `registers` the message becomes part of the
        conversation; see `roll_back`.
        """
        self._registry.set_known(self._names.of(facts, changed))
        text = without_blocks(text[:_MOST_CHARS])
        if self._reader is not None and registers:
            self._registry.learn(self._reader.take())
            self._last_text = text
        found = self._registry.register(text) if registers else self._registry.resolve(text)
        ranked = rank_entities(
            self._registry, found, min_relevance=_MIN_RELEVANCE, max_entities=len(self._registry)
        )
        parts = (part for one in ranked if (part := self._part(one)) is not None)
        return list(islice(parts, _MOST_ENTITIES))

    def register(self, text: str) -> None:
        """Add an earlier message of the user, which gets no parts."""
        self._registry.register(without_blocks(text[:_MOST_CHARS]))

    def end_turn(self, answer: str) -> None:
        """Add the model's answer, which ends the turn."""
        self._registry.register(without_blocks(answer[:_MOST_CHARS]), "assistant")
        self._registry.end_turn()
        if self._reader is not None and self._last_text:
            self._reader.begin(self._last_text)

    def roll_back(self) -> bool:
        """Undo the current turn, or the last one; False if that one is too old: see `read_again`."""
        if self._reader is not None:
            self._reader.drop()
        return self._registry.roll_back()

    def read_again(self, turns: Iterable[tuple[str, str]]) -> None:
        """Replace the entities by those that these messages of the user and their answers name.

        What a reader found in them, or was told by facts that have changed, is lost.
        """
        self._registry = self._registry.emptied()
        for text, answer in turns:
            self.register(text)
            self._registry.register(without_blocks(answer[:_MOST_CHARS]), "assistant")
            self._registry.end_turn()

    def load(self, session_id: str, turns: Iterable[tuple[str, str]] = ()) -> None:
        """Continue a stored conversation, or begin a new one for "". Raises StoreError, and is as before.

        Where no entities are stored, `turns` are read again.
        """
        registry = EntityRegistry()
        if session_id and self._stored is not None:
            registry = self._stored.load(session_id)
        self._registry, self._texts = registry, FIFODict(_MOST_TEXTS)
        if self._reader is not None:
            self._reader.drop()
        if self.is_empty:
            self.read_again(turns)

    def save(self, session_id: str) -> None:
        """Store the registry with its conversation. Raises StoreError."""
        if self._stored is not None:
            self._stored.save(session_id, self._registry)

    def _part(self, ranked: Ranked) -> Part | None:
        entity = ranked.entity
        related = tuple(other.name for one in entity.relations if (other := self._registry.get(one.target)))
        cached = self._texts.get(entity.id)
        if cached is None or cached.entity is not entity or cached.related != related:
            cached = self._texts[entity.id] = _Cached(entity, related, self._rendered(ranked))
        part = cached.part
        if part is None or part.score == ranked.relevance:
            return part
        about = {**part.about, "relevance": ranked.relevance}
        return Part(part.category, part.id, part.text, 0, ranked.relevance, part.shorter, about)

    def _rendered(self, ranked: Ranked) -> Part | None:
        """Return the part of an entity, None if it says nothing but the name."""
        whole, *shorter = entity_forms(
            self._registry, ranked, max_attributes=_MOST_ATTRIBUTES, allow_private=self._allow_private
        )
        # "the user's editor, editor of the user" says nothing.
        relations = whole.relations if ranked.entity.is_named else whole.relations[1:]
        if not (whole.attributes or relations or whole.description):
            return None
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
            shorter=tuple(form.text for form in shorter),
            about=about,
        )

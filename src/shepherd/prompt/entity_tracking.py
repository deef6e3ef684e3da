"""Entities of a conversation: a registry that follows its turns, and a model that reads messages for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shepherd.entities import (
    Entity,
    EntityRegistry,
    EntityText,
    Extracted,
    Gazetteer,
    Known,
    Ranked,
    SessionEntities,
    entity_text,
    extract_entities,
    known_from_facts,
    known_from_nodes,
    rank_entities,
)
from shepherd.errors import ShepherdError
from shepherd.knowledge import Knowledge
from shepherd.lru_cache import FIFODict
from shepherd.memory import Memory
from shepherd.prompt.plan import Part
from shepherd.types import Fact

if TYPE_CHECKING:
    from shepherd.inference import Engine

__all__ = ["Dialogue", "EntityReader", "KnownNames", "Listened"]


_log = logging.getLogger(__name__)

_JOIN_S = 2.0


class EntityReader:
    """Reads one message at a time with a model that is opened for the first one. `close` it.

    `open_model` gives an engine that is this object's alone, such as `lambda: engine.sibling(n_ctx=2048)`: it
    yields to the user's. A message that comes while another is read waits; the one that waited before it is
    not read. Called from one thread.
    """

    def __init__(self, open_model: Callable[[], Engine]) -> None:
        self._open_model = open_model
        self._model: Engine | None = None
        self._changed = threading.Condition()
        self._waiting: str | None = None
        self._is_reading = False
        self._is_closed = False
        self._number = 0  # of the conversation that results belong to
        self._found: list[Extracted] = []
        self._thread: threading.Thread | None = None

    def begin(self, text: str) -> None:
        """Read this message when there is time."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting = text
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="shepherd-entities", daemon=True)
            self._thread.start()

    def take(self) -> list[Extracted]:
        """What was found since the last call."""
        with self._changed:
            found, self._found = self._found, []
            return found

    def drop(self) -> None:
        """What is read, waits or was found is of no use any more."""
        with self._changed:
            self._number += 1
            self._waiting = None
            self._found = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether nothing is read or waits, or no more within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting is None and not self._is_reading, timeout_s)

    def close(self) -> None:
        """End what is read, and close the model. May be called twice."""
        with self._changed:
            self._is_closed = True
            self._waiting = None
            model, self._model = self._model, None
            self._changed.notify_all()
        if model is not None:
            model.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_reading = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting is not None or self._is_closed)
                if self._is_closed or self._waiting is None:
                    return
                text, self._waiting = self._waiting, None
                number, self._is_reading = self._number, True
            found = self._read(text)
            with self._changed:
                if number == self._number:
                    self._found += found

    def _read(self, text: str) -> tuple[Extracted, ...]:
        try:
            model = self._opened()
            return () if model is None else extract_entities(model, text)
        except ShepherdError as error:
            _log.info("entities by the model: %s", error)
        except Exception:
            _log.exception("entities by the model")
        return ()

    def _opened(self) -> Engine | None:
        """The model; None when this was closed meanwhile."""
        if self._model is None:
            model = self._open_model()
            with self._changed:
                if not self._is_closed:
                    self._model = model
            if self._is_closed:
                model.close()
                return None
        return self._model


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

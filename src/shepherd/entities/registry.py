"""Registry of the entities of one session: which were named, when, and what was stated about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shepherd.entities.extractor import Extracted
from shepherd.entities.records import USER, Entity, Known, Resolved, Speaker
from shepherd.entities.resolution import Reading
from shepherd.entities.state import (
    FOCUS_LEAST,
    FOCUS_TURNS,
    SINGLE_VALUED,
    Gazetteer,
    State,
    salience_at,
)

__all__ = ["EntityRegistry"]

# Number of turns that can be rolled back.
_MOST_UNDONE = 20
# Confidence of an attribute that a model found.
_BY_MODEL = 0.8
# Until names are set, relations that facts stated in a stored session remain.
_NOT_KNOWN_YET = Gazetteer(())


class EntityRegistry:
    """The people and things that a conversation is about.

    >>> registry = EntityRegistry()
    >>> registry.register("My sister Anna works at Acme.")[0].confidence
    1.0
    >>> registry.end_turn()
    >>> [registry[found.entity_id].name for found in registry.resolve("Where does she work?")]
    ['Anna']

    A turn is every text registered before `end_turn()`: the user's message, then the answer. `known` are
    names that facts and nodes define. The rules read English; names and known entities are found in any
    language that puts blanks between words. Not thread-safe.
    """

    def __init__(
        self, entities: Iterable[Entity] = (), *, turn: int = 0, known: Iterable[Known] = ()
    ) -> None:
        self._state = State.of(entities, turn)
        # The state before each of the last turns, and the known names that it follows.
        self._before: list[tuple[State, Gazetteer]] = []
        self._is_open = False
        self._known = _NOT_KNOWN_YET
        names = Gazetteer(known)
        if names.known:
            self.set_known(names)

    def __len__(self) -> int:
        return len(self._state.entities)

    def __iter__(self) -> Iterator[Entity]:
        """Iterate over the entities, the one mentioned last first."""
        return iter(list(self._state.recent()))

    def __getitem__(self, entity_id: int) -> Entity:
        return self._state.entities[entity_id]

    @property
    def turn(self) -> int:
        """Number of the current or next turn, from 0."""
        return self._state.turn

    def get(self, entity_id: int) -> Entity | None:
        """Return the entity with this id, None if it was removed."""
        return self._state.entities.get(entity_id)

    def find(self, name: str) -> Entity | None:
        """Return the entity that this name or alias most likely means."""
        entries = self._state.names.find(name)
        return self._state.entities[entries[0].id] if entries else None

    # ---- a turn

    def copy(self) -> EntityRegistry:
        """Return an independent registry with the same content, whose turns cannot be rolled back."""
        other = EntityRegistry()
        other._state, other._known = self._state.copy(), self._known
        return other

    def emptied(self) -> EntityRegistry:
        """Return a registry without entities that has the same known names."""
        other = EntityRegistry()
        other._known = self._known
        return other

    def set_known(self, known: Iterable[Known] | Gazetteer) -> None:
        """Replace the names that facts and nodes define; entities of the conversation stay.

        A relation to the user that a fact stated is removed when no fact states it any more.
        """
        if known is self._known:
            return
        self._known = known if isinstance(known, Gazetteer) else Gazetteer(known)
        self._state.follow_facts(self._known)

    def resolve(self, text: str) -> tuple[Resolved, ...]:
        """Return the registered entities that a text refers to, in order; changes nothing."""
        read = Reading(self._state.copy(), self._known).read(text, "user")
        return tuple(found for found in read if found.entity_id in self._state.entities)

    def register(self, text: str, speaker: Speaker = "user") -> tuple[Resolved, ...]:
        """Return what a text of this turn refers to, in order; add new entities and count mentions.

        In an answer only known names count, and words that are clearly names.
        """
        self._open_turn()
        return Reading(self._state, self._known).read(text, speaker)

    def end_turn(self) -> None:
        """End the turn; entities that it did not name lose salience."""
        self._open_turn()
        self._is_open = False
        self._state.turn += 1
        del self._before[:-_MOST_UNDONE]

    def roll_back(self) -> bool:
        """Undo the current turn, or the last one; False if there is none.

        The last twenty turns can be undone, except those before a registry was loaded.
        """
        self._is_open = False
        if not self._before:
            return False
        self._state, known = self._before.pop()
        if self._known is not known:  # facts have changed since
            self._state.follow_facts(self._known)
        return True

    def _open_turn(self) -> None:
        if not self._is_open:
            self._before.append((self._state.copy(), self._known))
            self._is_open = True

    # ---- what is known of them

    def salience(self, entity_id: int) -> float:
        """Return the present salience of an entity, 0..1."""
        return salience_at(self._state.entities[entity_id], self._state.turn)

    def salient(self) -> list[tuple[Entity, float]]:
        """Return the entities in focus with their salience, the highest first; ties by the last mention."""
        found = []
        for entity in self._state.recent():
            if self._state.turn - entity.last_turn > FOCUS_TURNS:
                break
            salience = salience_at(entity, self._state.turn)
            if salience >= FOCUS_LEAST:
                found.append((entity, salience))
        found.sort(key=lambda pair: -pair[1])
        return found

    def set_attribute(
        self, entity_id: int, name: str, value: str, *, confidence: float = 1.0, private: bool | None = None
    ) -> None:
        """Set an attribute, unless its present value is more certain."""
        self._state.note(entity_id, name, value, confidence, private)

    def relate(self, entity_id: int, label: str, target: int) -> None:
        """Add the relation `label` ("sister of") to the target, an entity or USER."""
        self._state.relate(entity_id, label, target)

    def learn(self, found: Iterable[Extracted]) -> None:
        """Add what a model found in the current or last turn.

        It is less certain than what the rules found, and does not replace that.
        """
        listed = list(found)
        ids: dict[str, int] = {"user": USER}
        for one in listed:
            known = self.find(one.name)
            if known is None:
                known = self._state.add(one.name, one.type)
                self._state.mention(known.id, one.name)
            self._state.characterise(known.id, one.type)
            for name, value in one.attributes:
                self.set_attribute(known.id, name, value, confidence=_BY_MODEL)
            ids[one.name.casefold()] = known.id
        for one in listed:
            for label, target in one.relations:
                target_id, entity_id = ids.get(" ".join(target.casefold().split())), ids[one.name.casefold()]
                relations = self._state.entities[entity_id].relations
                is_settled = label in SINGLE_VALUED and any(known.label == label for known in relations)
                if target_id is not None and not is_settled:
                    self.relate(entity_id, label, target_id)

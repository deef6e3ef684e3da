"""The entities of one session: who was named, when, and what was said of them.

Knows no database and no model; see storage for where it is kept, ranking for what of it a prompt gets.
"""

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

# How many turns can be taken back.
_MOST_UNDONE = 20
# How sure an attribute is that a model found.
_BY_MODEL = 0.8
# Before anybody has said what is known: what a session was kept with stays.
_NOT_KNOWN_YET = Gazetteer(())


class EntityRegistry:
    """Who and what a conversation is about.

    >>> registry = EntityRegistry()
    >>> registry.hear("My sister Anna works at Acme.")[0].confidence
    1.0
    >>> registry.end_turn()
    >>> [registry[found.entity_id].name for found in registry.resolve("Where does she work?")]
    ['Anna']

    A turn is what is heard until `end_turn()`: the user's message, then the answer. `known` are names that
    mean something before they are said, of facts and nodes. Rules read English; names and known entities are
    found in any language that writes blanks. Not for two threads at once.
    """

    def __init__(
        self, entities: Iterable[Entity] = (), *, turn: int = 0, known: Iterable[Known] = ()
    ) -> None:
        self._state = State.of(entities, turn)
        self._is_open = False
        self._known = _NOT_KNOWN_YET
        names = Gazetteer(known)
        if names.known:
            self.set_known(names)

    def __len__(self) -> int:
        return len(self._state.entities)

    def __iter__(self) -> Iterator[Entity]:
        """The one mentioned last first."""
        return iter([self._state.entities[entity_id] for entity_id in self._state.recent()])

    def __getitem__(self, entity_id: int) -> Entity:
        return self._state.entities[entity_id]

    @property
    def turn(self) -> int:
        """The number of the turn that is under way or comes next, from 0."""
        return self._state.turn

    def get(self, entity_id: int) -> Entity | None:
        """That entity, if it is still known."""
        return self._state.entities.get(entity_id)

    def find(self, name: str) -> Entity | None:
        """The entity of that name or alias, the surest one."""
        entries = self._state.names.find(name)
        return self._state.entities[entries[0].id] if entries else None

    # ---- a turn

    def copy(self) -> EntityRegistry:
        """Another one that knows the same and goes on by itself; none of its turns can be taken back yet."""
        other = EntityRegistry()
        other._state, other._known = self._state.copy(), self._known
        return other

    def set_known(self, known: Iterable[Known] | Gazetteer) -> None:
        """Other names that mean something before they are said; who was named stays.

        What somebody is to the user because a fact said so, he is as long as it does.
        """
        if known is self._known:
            return
        self._known = known if isinstance(known, Gazetteer) else Gazetteer(known)
        self._state.follow_facts(self._known)

    def resolve(self, text: str) -> tuple[Resolved, ...]:
        """What a text refers to, in order, of entities there are; nothing changes, nothing is registered."""
        self._state.begin()
        try:
            read = Reading(self._state, self._known).read(text, "user")
        finally:
            self._state.undo()
        return tuple(found for found in read if found.entity_id in self._state.entities)

    def hear(self, text: str, speaker: Speaker = "user") -> tuple[Resolved, ...]:
        """What a text of this turn refers to, in order; who is new is registered, who is named gains.

        Of an answer only names count that are known, or plainly names.
        """
        if not self._is_open:
            self._state.begin()
            self._is_open = True
        return Reading(self._state, self._known).read(text, speaker)

    def end_turn(self) -> None:
        """What is heard next belongs to the next turn; who was not named in this one loses salience."""
        if not self._is_open:  # a turn in which nothing was heard
            self._state.begin()
        self._is_open = False
        self._state.turn += 1
        self._state.end(most=_MOST_UNDONE)

    def roll_back(self) -> bool:
        """Takes back all of the turn under way, or of the last one; False: there is none to take back.

        The last twenty can be taken back, but for those before a registry was loaded.
        """
        self._is_open = False
        if not self._state.undo():
            return False
        if self._known is not _NOT_KNOWN_YET:  # what facts said then, they may not say now
            self._state.follow_facts(self._known)
        return True

    # ---- what is known of them

    def salience(self, entity_id: int) -> float:
        """How much an entity is in focus now, 0..1: it decays with each turn that does not name it."""
        return salience_at(self._state.entities[entity_id], self._state.turn)

    def salient(self) -> list[tuple[Entity, float]]:
        """All that are in focus with their salience, the most first, ties to the one mentioned last."""
        found = []
        for entity_id in self._state.recent():
            entity = self._state.entities[entity_id]
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
        """Notes something about an entity, in place of what was known less surely under that name."""
        self._state.note(entity_id, name, value, confidence, private)

    def relate(self, entity_id: int, label: str, target: int) -> None:
        """Notes that an entity is `label` ("sister of") the target, an entity or USER."""
        self._state.relate(entity_id, label, target)

    def learn(self, found: Iterable[Extracted]) -> None:
        """Takes what a model found in the turn under way, or the last one: who is new, what is said of them.

        It is less sure than what the rules read, and does not replace that.
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
                self._state.note(known.id, name, value, _BY_MODEL)
            ids[one.name.casefold()] = known.id
        for one in listed:
            for label, target in one.relations:
                target_id, entity_id = ids.get(" ".join(target.casefold().split())), ids[one.name.casefold()]
                relations = self._state.entities[entity_id].relations
                is_settled = label in SINGLE_VALUED and any(known.label == label for known in relations)
                if target_id is not None and not is_settled:
                    self._state.relate(entity_id, label, target_id)

    def describe(self, entity_id: int, description: str) -> None:
        """Gives an entity a description in a few words."""
        self._state.describe(entity_id, description)

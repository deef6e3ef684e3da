"""State of a registry: its entities, which are immutable, and indexes of their names and relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from shepherd.entities.names import NameIndex, key_of
from shepherd.entities.records import (
    PRIVATE_ATTRIBUTES,
    USER,
    Attribute,
    Entity,
    EntityType,
    Gender,
    Known,
    Mention,
    Relation,
)
from shepherd.secret_detection import find_secrets

__all__ = [
    "DECAY",
    "FOCUS_LEAST",
    "FOCUS_TURNS",
    "MENTION_GAIN",
    "MOST_ENTITIES",
    "SINGLE_VALUED",
    "Gazetteer",
    "State",
    "salience_at",
]

NEW_SALIENCE = 1.0
MENTION_GAIN = 0.5
DECAY = 0.8
FOCUS_LEAST = 0.1
# After this many turns without a mention every salience is below FOCUS_LEAST: 0.8^10 = 0.107, 0.8^11 = 0.086.
FOCUS_TURNS = 11

MOST_ENTITIES = 2000
_MOST_MENTIONS = 16
_MOST_ATTRIBUTES = 24
_MOST_RELATIONS = 16
_MOST_ALIASES = 8
_LONGEST_NAME, _LONGEST_VALUE = 120, 400
# Relations with a single target: a new one replaces the old one.
SINGLE_VALUED = frozenset(("lives in", "works at", "married to", "reports to", "located in", "studies at"))


def salience_at(entity: Entity, turn: int) -> float:
    """Return the salience during `turn`: it decays with each turn that has passed without a mention."""
    passed = turn - entity.last_turn - 1
    return entity.salience * DECAY**passed if passed > 0 else entity.salience


class Gazetteer:
    """Names known before the conversation, by name and by their relation to the user."""

    def __init__(self, known: Iterable[Known]) -> None:
        self.known = tuple(known)
        self.names = NameIndex()  # ids are places in `known`
        self._by_relation: dict[str, list[Known]] = {}
        for place, one in enumerate(self.known):
            self.names.add(place, one.name, is_person=one.type == "person")
            for alias in one.aliases:
                self.names.add(place, alias, is_alias=True)
            if one.relation:
                self._by_relation.setdefault(one.relation[:_LONGEST_NAME], []).append(one)

    def related(self, relation: str) -> Known | None:
        """Return the first name with this relation ("sister of") to the user."""
        return next(iter(self._by_relation.get(relation, ())), None)

    def holds(self, entity: Entity, relation: str) -> bool:
        """Return whether an entity with this name, or a longer or shorter form of it, has the relation."""
        names = [set(key_of(name)) for name in (entity.name, *entity.aliases)]
        for one in self._by_relation.get(relation, ()):
            for words in map(set, map(key_of, (one.name, *one.aliases))):
                if any(name and words and (name <= words or words <= name) for name in names):
                    return True
        return False


class State:
    """Entities by id, their names, and their relations by label and target.

    `entities` is in the order of the last mention, the latest at the end. A relation may point to an entity
    that was removed; its id is never used again.
    """

    def __init__(self, turn: int = 0) -> None:
        self.entities: dict[int, Entity] = {}
        self.names = NameIndex()
        self._related: dict[tuple[str, int], tuple[int, ...]] = {}
        self.turn = turn
        self.next_id = 1
        self.next_place = 1

    @classmethod
    def of(cls, entities: Iterable[Entity], turn: int) -> State:
        """Return the state of these stored entities."""
        state = cls(turn=turn)
        for entity in sorted(entities, key=lambda entity: entity.place):
            state._put(entity)
            targets = [relation.target for relation in entity.relations]
            state.next_id = max(state.next_id, entity.id + 1, *(target + 1 for target in targets))
            state.next_place = max(state.next_place, entity.place + 1)
            state._name(entity)
        return state

    def copy(self) -> State:
        """Return an independent state with the same content: four copies of dictionaries."""
        other = State(self.turn)
        other.entities, other._related = self.entities.copy(), self._related.copy()
        other.names = self.names.copy()
        other.next_id, other.next_place = self.next_id, self.next_place
        return other

    # ---- queries

    def recent(self) -> Iterator[Entity]:
        """Yield the entities, the one mentioned last first; nothing may change meanwhile."""
        return reversed(self.entities.values())

    def related(self, label: str, target: int) -> list[Entity]:
        """Return the entities that are `label` ("sister of") the target, the one mentioned last first."""
        ids = self._related.get((label, target), ())
        return sorted((self.entities[id] for id in ids), key=lambda entity: -entity.place)

    # ---- changes

    def add(
        self,
        name: str,
        type: EntityType = "unknown",
        gender: Gender = "",
        *,
        is_named: bool = True,
        node_id: int = 0,
        description: str = "",
    ) -> Entity:
        """Add an entity without mentions; at the limit, remove the one with the oldest mention."""
        if len(self.entities) >= MOST_ENTITIES:
            self.remove(next(iter(self.entities)))
        entity = Entity(
            self.next_id,
            " ".join(name.split())[:_LONGEST_NAME],
            type,
            gender,
            " ".join(description.split())[:_LONGEST_VALUE],
            salience=0.0,
            last_turn=self.turn,
            place=self.next_place,
            is_named=is_named,
            node_id=node_id,
        )
        self.next_id += 1
        self.next_place += 1
        self._put(entity)
        self._name(entity)
        return entity

    def mention(self, entity_id: int, text: str) -> None:
        """Count a mention: a new entity gets full salience, any other half of it more."""
        entity = self.entities.pop(entity_id)  # and back at the end
        if entity.n_mentions == 0:
            salience = NEW_SALIENCE
        else:
            salience = min(NEW_SALIENCE, salience_at(entity, self.turn) + MENTION_GAIN)
        mentions = entity.mentions
        if mentions and mentions[-1].turn == self.turn:
            last = mentions[-1]
            mentions = (*mentions[:-1], replace(last, n=last.n + 1))
        else:
            mentions = (*mentions[1 - _MOST_MENTIONS :], Mention(self.turn, text[:_LONGEST_NAME]))
        self.entities[entity_id] = replace(
            entity,
            mentions=mentions,
            n_mentions=entity.n_mentions + 1,
            salience=salience,
            last_turn=self.turn,
            place=self.next_place,
        )
        self.next_place += 1

    def note(
        self, entity_id: int, name: str, value: str, confidence: float = 1.0, private: bool | None = None
    ) -> None:
        """Set an attribute, unless it is a secret or less certain than the present value."""
        name, value = " ".join(name.split()).casefold(), " ".join(value.split())
        if not name or not value or find_secrets(f"{name} is {value}"):
            return
        entity = self.entities[entity_id]
        known = entity.attribute(name)
        if known is not None and known.confidence > confidence:
            return
        hidden = name in PRIVATE_ATTRIBUTES if private is None else private
        new = Attribute(name[:_LONGEST_NAME], value[:_LONGEST_VALUE], confidence, self.turn, hidden)
        others = [attribute for attribute in entity.attributes if attribute.name != new.name]
        self._put(replace(entity, attributes=(*others, new)[-_MOST_ATTRIBUTES:]))

    def remove_attribute(self, entity_id: int, name: str, value: str) -> None:
        """Remove an attribute if it has this value."""
        entity = self.entities[entity_id]
        kept = tuple(one for one in entity.attributes if (one.name, one.value) != (name, value))
        if len(kept) < len(entity.attributes):
            self._put(replace(entity, attributes=kept))

    def relate(self, entity_id: int, label: str, target: int, *, of_fact: bool = False) -> None:
        """Add a relation once; a single-valued one replaces its other target."""
        entity = self.entities[entity_id]
        if target == entity_id or (target != USER and target not in self.entities):
            return
        label = label[:_LONGEST_NAME]
        relations = tuple(
            known
            for known in entity.relations
            if known.label != label or known.target == target or label not in SINGLE_VALUED
        )
        if not any(known.label == label and known.target == target for known in relations):
            relations = (*relations, Relation(label, target, self.turn, of_fact))[-_MOST_RELATIONS:]
        if relations != entity.relations:
            self._put(replace(entity, relations=relations))

    def unrelate(self, entity_id: int, label: str, target: int) -> None:
        """Remove a relation if it exists."""
        entity = self.entities[entity_id]
        kept = tuple(one for one in entity.relations if (one.label, one.target) != (label, target))
        if len(kept) < len(entity.relations):
            self._put(replace(entity, relations=kept))

    def follow_facts(self, known: Gazetteer) -> None:
        """Mark relations to the user that facts state, and remove those that facts no longer state."""
        of_user = {id for (_, target), ids in self._related.items() if target == USER for id in ids}
        for entity_id in sorted(of_user):
            entity = self.entities[entity_id]
            relations = []
            for one in entity.relations:
                holds = one.target == USER and known.holds(entity, one.label)
                if holds or not one.of_fact:
                    relations.append(one if one.of_fact == holds else replace(one, of_fact=holds))
            if tuple(relations) != entity.relations:
                self._put(replace(entity, relations=tuple(relations)))

    def describe(self, entity_id: int, description: str) -> None:
        """Set the description of an entity."""
        text = " ".join(description.split())[:_LONGEST_VALUE]
        self._put(replace(self.entities[entity_id], description=text))

    def rename(self, entity_id: int, name: str) -> None:
        """Set a name; the old one, unless it was a description, becomes an alias."""
        entity = self.entities[entity_id]
        aliases = entity.aliases
        if entity.is_named and entity.name != name and entity.name not in aliases:
            aliases = (*aliases, entity.name)[-_MOST_ALIASES:]
        self.names.remove(entity_id, (entity.name, *entity.aliases))
        renamed = replace(entity, name=name[:_LONGEST_NAME], aliases=aliases, is_named=True)
        self._put(renamed)
        self._name(renamed)

    def alias(self, entity_id: int, name: str) -> None:
        """Add another name of an entity."""
        entity = self.entities[entity_id]
        if name == entity.name or name in entity.aliases:
            return
        self._put(replace(entity, aliases=(*entity.aliases, name)[-_MOST_ALIASES:]))
        self.names.add(entity_id, name, is_alias=True)

    def characterise(self, entity_id: int, type: EntityType = "unknown", gender: Gender = "") -> None:
        """Set type and gender where they are unknown."""
        entity = self.entities[entity_id]
        wanted = type if entity.type == "unknown" else entity.type
        agreed = entity.gender or gender
        if (wanted, agreed) != (entity.type, entity.gender):
            changed = replace(entity, type=wanted, gender=agreed)
            self._put(changed)
            if wanted == "person" and entity.type != "person":
                self._name(changed)

    def merge(self, kept_id: int, gone_id: int) -> None:
        """Merge two entities that turned out to be the same into the first one."""
        kept, gone = self.entities[kept_id], self.entities[gone_id]
        self.remove(gone_id, successor=kept_id)
        kept = self.entities[kept_id]
        names = {attribute.name for attribute in kept.attributes}
        aliases = dict.fromkeys((*kept.aliases, *((gone.name,) if gone.is_named else ()), *gone.aliases))
        aliases.pop(kept.name, None)
        settled = {relation.label for relation in kept.relations} & SINGLE_VALUED
        own = [one for one in gone.relations if one.target != kept_id and one.label not in settled]
        known = {(relation.label, relation.target) for relation in kept.relations}
        merged = replace(
            kept,
            type=kept.type if kept.type != "unknown" else gone.type,
            gender=kept.gender or gone.gender,
            description=kept.description or gone.description,
            aliases=tuple(aliases)[-_MOST_ALIASES:],
            attributes=(*(one for one in gone.attributes if one.name not in names), *kept.attributes)[
                -_MOST_ATTRIBUTES:
            ],
            relations=(*kept.relations, *(one for one in own if (one.label, one.target) not in known))[
                -_MOST_RELATIONS:
            ],
            node_id=kept.node_id or gone.node_id,
        )
        self._put(merged)
        self._name(merged)

    def remove(self, entity_id: int, *, successor: int | None = None) -> None:
        """Remove an entity; relations to it then point to the `successor`, if there is one."""
        gone = self.entities.pop(entity_id)
        self._index(gone.id, gone.relations, ())
        self.names.remove(entity_id, (gone.name, *gone.aliases))
        if successor is None:
            return
        # Rare: somebody got a name, or turned out to be somebody known.
        pointing = [
            other
            for other in self.entities.values()
            if other.relations and entity_id in [relation.target for relation in other.relations]
        ]
        for other in pointing:
            turned = (
                relation if relation.target != entity_id else replace(relation, target=successor)
                for relation in other.relations
            )
            kept = tuple(relation for relation in turned if relation.target != other.id)
            self._put(replace(other, relations=kept))

    def _put(self, entity: Entity) -> None:
        """Store an entity and index its relations."""
        known = self.entities.get(entity.id)
        self.entities[entity.id] = entity
        before = () if known is None else known.relations
        if before is not entity.relations:
            self._index(entity.id, before, entity.relations)

    def _index(self, entity_id: int, before: Sequence[Relation], now: Sequence[Relation]) -> None:
        was, is_ = ({(relation.label, relation.target) for relation in some} for some in (before, now))
        for key in was ^ is_:
            others = tuple(id for id in self._related.get(key, ()) if id != entity_id)
            others += (entity_id,) if key in is_ else ()
            if others:
                self._related[key] = others
            else:
                self._related.pop(key, None)

    def _name(self, entity: Entity) -> None:
        if not entity.is_named:
            return
        self.names.add(entity.id, entity.name, is_person=entity.type == "person")
        for alias in entity.aliases:
            self.names.add(entity.id, alias, is_alias=True)

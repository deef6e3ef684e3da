"""All that a registry knows at one moment, with what the last turns changed of it. Entities are immutable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from shepherd.entities.journal import Journal, Recency
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
# Not named for so many turns, the most salient one is below FOCUS_LEAST: 0.8^10 = 0.107, 0.8^11 = 0.086.
FOCUS_TURNS = 11

MOST_ENTITIES = 2000
_MOST_MENTIONS = 16
_MOST_ATTRIBUTES = 24
_MOST_RELATIONS = 16
_MOST_ALIASES = 8
_LONGEST_NAME, _LONGEST_VALUE = 120, 400
# Of these one has a single target: a new one takes the place of the old one.
SINGLE_VALUED = frozenset(("lives in", "works at", "married to", "reports to", "located in", "studies at"))


def salience_at(entity: Entity, turn: int) -> float:
    """Salience while `turn` is under way: the turns since the last mention have passed without one."""
    passed = turn - entity.last_turn - 1
    return entity.salience * DECAY**passed if passed > 0 else entity.salience


class Gazetteer:
    """What was known before, by name and by what it is to the user."""

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
        """Who is `relation` ("sister of") the user; of several the first."""
        return next(iter(self._by_relation.get(relation, ())), None)

    def holds(self, entity: Entity, relation: str) -> bool:
        """Whether that is so of an entity of this name, or of a longer or a shorter form of it."""
        names = [set(key_of(name)) for name in (entity.name, *entity.aliases)]
        for one in self._by_relation.get(relation, ()):
            for words in map(set, map(key_of, (one.name, *one.aliases))):
                if any(name and words and (name <= words or words <= name) for name in names):
                    return True
        return False


class State:
    """Entities by id, their names, who is what to whom, and their ids in the order of their last mention.

    Whoever changes it owns it. What is changed after `begin`, `undo` takes back. A relation may point to an
    entity that was forgotten, whose id is never given again.
    """

    def __init__(self, turn: int = 0) -> None:
        self._journal = Journal()
        self.entities: dict[int, Entity] = {}
        self.names = NameIndex(journal=self._journal)
        self._related: dict[tuple[str, int], tuple[int, ...]] = {}
        self._recency = Recency()
        self.turn = turn
        self.next_id = 1
        self.next_place = 1

    @classmethod
    def of(cls, entities: Iterable[Entity], turn: int) -> State:
        """The state of these entities, as they were kept."""
        state = cls(turn=turn)
        for entity in sorted(entities, key=lambda entity: entity.place):
            state._put(entity)
            state._recency.add(entity.place, entity.id)
            targets = [relation.target for relation in entity.relations]
            state.next_id = max(state.next_id, entity.id + 1, *(target + 1 for target in targets))
            state.next_place = max(state.next_place, entity.place + 1)
            state._name(entity)
        return state

    def copy(self) -> State:
        """Another one that can be changed; nothing of it can be taken back."""
        other = State(self.turn)
        other.entities, other._related = self.entities.copy(), self._related.copy()
        other.names = self.names.copy(other._journal)
        other._recency = self._recency.copy()
        other.next_id, other.next_place = self.next_id, self.next_place
        return other

    # ---- taking back

    def begin(self) -> None:
        """What changes from now on can be taken back."""
        self._journal.begin((self.turn, self.next_id, self.next_place))

    def end(self, *, most: int) -> None:
        """The turn is over; so many of the last ones can be taken back."""
        self._journal.keep(most)
        self._recency.tidy(self.entities)

    def undo(self) -> bool:
        """Everything is as it was at the last `begin`; False where there was none."""
        if not self._journal:
            return False
        (self.turn, self.next_id, self.next_place), changed = self._journal.undo()
        self._recency.forget_from(self.next_place)
        for mapping, key in changed:
            entity = self.entities.get(key) if mapping is self.entities else None
            if entity is not None:
                self._recency.restore(entity.place, entity.id)
        return True

    # ---- looking

    def recent(self) -> Iterator[int]:
        """Ids, the one mentioned last first."""
        return self._recency.latest(self.entities)

    def related(self, label: str, target: int) -> list[Entity]:
        """Who is `label` ("sister of") the target, the one mentioned last first."""
        ids = self._related.get((label, target), ())
        return sorted((self.entities[id] for id in ids), key=lambda entity: -entity.place)

    # ---- changing

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
        """A new entity that nothing has mentioned yet; the longest unmentioned one makes room for it."""
        if len(self.entities) >= MOST_ENTITIES:
            self.forget(self._recency.oldest(self.entities))
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
        self._recency.add(entity.place, entity.id)
        self._name(entity)
        return entity

    def mention(self, entity_id: int, text: str) -> None:
        """Counts a mention: full salience for a new entity, and half of it more for another."""
        entity = self.entities[entity_id]
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
        self._put(
            replace(
                entity,
                mentions=mentions,
                n_mentions=entity.n_mentions + 1,
                salience=salience,
                last_turn=self.turn,
                place=self.next_place,
            )
        )
        self._recency.add(self.next_place, entity_id)
        self.next_place += 1

    def note(
        self, entity_id: int, name: str, value: str, confidence: float = 1.0, private: bool | None = None
    ) -> None:
        """Notes an attribute; a secret is not noted, nor what is less sure than what is known."""
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

    def forget_attribute(self, entity_id: int, name: str, value: str) -> None:
        """Takes an attribute away, if that is its value."""
        entity = self.entities[entity_id]
        kept = tuple(one for one in entity.attributes if (one.name, one.value) != (name, value))
        if len(kept) < len(entity.attributes):
            self._put(replace(entity, attributes=kept))

    def relate(self, entity_id: int, label: str, target: int, *, of_fact: bool = False) -> None:
        """Notes a relation, once; one that has a single target loses another one."""
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
        """Takes a relation away, if it is there."""
        entity = self.entities[entity_id]
        kept = tuple(one for one in entity.relations if (one.label, one.target) != (label, target))
        if len(kept) < len(entity.relations):
            self._put(replace(entity, relations=kept))

    def follow_facts(self, known: Gazetteer) -> None:
        """Marks the relations to the user that facts hold; those that they held and hold no more go."""
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
        """Gives an entity a description in a few words."""
        said = " ".join(description.split())[:_LONGEST_VALUE]
        self._put(replace(self.entities[entity_id], description=said))

    def rename(self, entity_id: int, name: str) -> None:
        """Gives an entity its name, or a longer one; the old name, if it was one, becomes an alias."""
        entity = self.entities[entity_id]
        aliases = entity.aliases
        if entity.is_named and entity.name != name and entity.name not in aliases:
            aliases = (*aliases, entity.name)[-_MOST_ALIASES:]
        self.names.remove(entity_id, (entity.name, *entity.aliases))
        renamed = replace(entity, name=name[:_LONGEST_NAME], aliases=aliases, is_named=True)
        self._put(renamed)
        self._name(renamed)

    def alias(self, entity_id: int, name: str) -> None:
        """Makes an entity known by another name, too."""
        entity = self.entities[entity_id]
        if name == entity.name or name in entity.aliases:
            return
        self._put(replace(entity, aliases=(*entity.aliases, name)[-_MOST_ALIASES:]))
        self.names.add(entity_id, name, is_alias=True)

    def characterise(self, entity_id: int, type: EntityType = "unknown", gender: Gender = "") -> None:
        """Notes type and gender where they are not known."""
        entity = self.entities[entity_id]
        wanted = type if entity.type == "unknown" else entity.type
        agreed = entity.gender or gender
        if (wanted, agreed) != (entity.type, entity.gender):
            changed = replace(entity, type=wanted, gender=agreed)
            self._put(changed)
            if wanted == "person" and entity.type != "person":
                self._name(changed)

    def merge(self, kept_id: int, gone_id: int) -> None:
        """Makes one of two that turned out to be the same: what is known of either is known of the first."""
        kept, gone = self.entities[kept_id], self.entities[gone_id]
        self.forget(gone_id, by=kept_id)
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

    def forget(self, entity_id: int, *, by: int | None = None) -> None:
        """Takes an entity out; relations to it are to `by` from now on, or to nobody."""
        self._journal.note(self.entities, entity_id)
        gone = self.entities.pop(entity_id)
        self._index(gone.id, gone.relations, ())
        self.names.remove(entity_id, (gone.name, *gone.aliases))
        if by is None:
            return
        # Seldom: somebody has got a name, or turned out to be another one.
        pointing = [
            other
            for other in self.entities.values()
            if other.relations and entity_id in [relation.target for relation in other.relations]
        ]
        for other in pointing:
            turned = (
                relation if relation.target != entity_id else replace(relation, target=by)
                for relation in other.relations
            )
            kept = tuple(relation for relation in turned if relation.target != other.id)
            self._put(replace(other, relations=kept))

    def _put(self, entity: Entity) -> None:
        """This is what is known of an entity from now on."""
        known = self.entities.get(entity.id)
        self._journal.note(self.entities, entity.id)
        self.entities[entity.id] = entity
        before = () if known is None else known.relations
        if before is not entity.relations:
            self._index(entity.id, before, entity.relations)

    def _index(self, entity_id: int, before: Sequence[Relation], now: Sequence[Relation]) -> None:
        was, is_ = ({(relation.label, relation.target) for relation in some} for some in (before, now))
        for key in was ^ is_:
            self._journal.note(self._related, key)
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

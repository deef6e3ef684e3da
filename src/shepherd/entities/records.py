"""Records about entities: the entities, their attributes and relations, and what a text refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "ENTITY_TYPES",
    "PRIVATE_ATTRIBUTES",
    "USER",
    "USER_NAME",
    "Attribute",
    "Entity",
    "EntityType",
    "Gender",
    "Known",
    "Mention",
    "Relation",
    "Resolved",
    "Speaker",
]

EntityType = Literal["person", "organization", "location", "event", "object", "time", "abstract", "unknown"]
ENTITY_TYPES: tuple[EntityType, ...] = (
    "person",
    "organization",
    "location",
    "event",
    "object",
    "time",
    "abstract",
    "unknown",
)
# Gender that pronouns agree with; "" is unknown.
Gender = Literal["", "f", "m"]
Speaker = Literal["user", "assistant"]

# Target of a relation to the user, who is not in the registry.
USER = 0
USER_NAME = "the user"

# Attributes that remote models do not see unless allowed.
PRIVATE_ATTRIBUTES = frozenset(
    ("email", "phone", "address", "birthday", "age", "salary", "health", "diagnosis", "religion", "passport")
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an entity. `confidence` is 0..1; `turn` is the turn that stated it."""

    name: str
    value: str
    confidence: float = 1.0
    turn: int = 0
    private: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation from an entity to its target: `sister of` the user, `works at` Acme.

    With `of_fact` a fact of the user states it; it is removed when no fact does.
    """

    label: str
    target: int
    turn: int = 0
    of_fact: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """Mentions of an entity in one turn: their number, and the first text."""

    turn: int
    text: str
    n: int = 1


@dataclass(frozen=True, slots=True)
class Entity:
    """A person or thing that a conversation is about.

    `aliases` are other names. `place` counts mentions of the whole conversation: the entity with the higher
    one was mentioned last. `salience` is that at the end of `last_turn`; the registry computes the present
    one. `mentions` are those of the latest turns. With `is_named`, `name` is a name and not a description
    ("the manager"). `node_id` is the node of the user's knowledge that defines it, 0 for none.
    """

    id: int
    name: str
    type: EntityType = "unknown"
    gender: Gender = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    relations: tuple[Relation, ...] = ()
    mentions: tuple[Mention, ...] = ()
    n_mentions: int = 0
    salience: float = 1.0
    last_turn: int = 0
    place: int = 0
    is_named: bool = True
    node_id: int = 0

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of that name."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)


@dataclass(frozen=True, slots=True)
class Known:
    """A name known before the conversation, of a node or in a fact.

    `relation` is the relation to the user ("sister of").
    """

    name: str
    type: EntityType = "unknown"
    gender: Gender = ""
    aliases: tuple[str, ...] = ()
    description: str = ""
    attributes: tuple[Attribute, ...] = field(default=())
    relation: str = ""
    node_id: int = 0


@dataclass(frozen=True, slots=True)
class Resolved:
    """Entity that `text[start:end]` refers to, with confidence (0..1) and the kind of reference."""

    entity_id: int
    start: int
    end: int
    confidence: float
    by: Literal["name", "description", "pronoun"] = "name"

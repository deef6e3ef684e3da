"""What a conversation is about, as values: entities, what is known of them, and what a text refers to."""

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
# Which pronouns agree; "" is not known.
Gender = Literal["", "f", "m"]
Speaker = Literal["user", "assistant"]

# The target of a relation to the user, who is no entity of the registry.
USER = 0
USER_NAME = "the user"

# Not told to models elsewhere, unless that is allowed.
PRIVATE_ATTRIBUTES = frozenset(
    ("email", "phone", "address", "birthday", "age", "salary", "health", "diagnosis", "religion", "passport")
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something known of an entity. `confidence` is 0..1; `turn` is the one that it was said in."""

    name: str
    value: str
    confidence: float = 1.0
    turn: int = 0
    private: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """Reads from the entity to its target: `sister of` the user, `works at` Acme.

    `of_fact`: a fact of the user says so; it goes when the facts do not say it any more.
    """

    label: str
    target: int
    turn: int = 0
    of_fact: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """That a turn named an entity `n` times, first as `text`."""

    turn: int
    text: str
    n: int = 1


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something that a conversation is about.

    `aliases` are other names. `place` counts mentions of the whole conversation: of two entities the one with
    the greater was named last. `salience` is as of the end of `last_turn`; the registry knows it as of now.
    `mentions` are the latest turns'. `is_named`: `name` is a name, not a description ("the manager").
    `node_id`: the node of the user's knowledge that it comes from.
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
        """What is known under that name."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)


@dataclass(frozen=True, slots=True)
class Known:
    """A name that means something before the conversation begins: of a node, or of a fact's value.

    `relation` is to the user ("sister of"); `role` is what he may call it by ("sister").
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
    """What a piece of a text, `text[start:end]`, refers to, how sure that is (0..1), and what told it."""

    entity_id: int
    start: int
    end: int
    confidence: float
    by: Literal["name", "description", "pronoun"] = "name"

"""Entities of a session: the people and things that a conversation is about, and their form in a prompt.

This package knows text and salience; it does not know models, windows or the order of a turn.
"""

from __future__ import annotations

from shepherd.entities.extractor import EntityReader, Extracted, extract_entities
from shepherd.entities.known import KnownNames, LastChange, known_from_facts, known_from_nodes
from shepherd.entities.ranking import (
    FIRST_ATTRIBUTES,
    EntityText,
    Ranked,
    entity_forms,
    entity_text,
    fit_entities,
    rank_entities,
)
from shepherd.entities.records import (
    ENTITY_TYPES,
    PRIVATE_ATTRIBUTES,
    USER,
    Attribute,
    Entity,
    EntityType,
    Known,
    Mention,
    Relation,
    Resolved,
)
from shepherd.entities.registry import EntityRegistry
from shepherd.entities.state import Gazetteer
from shepherd.entities.storage import SessionEntities

__all__ = [
    "ENTITY_TYPES",
    "FIRST_ATTRIBUTES",
    "PRIVATE_ATTRIBUTES",
    "USER",
    "Attribute",
    "Entity",
    "EntityReader",
    "EntityRegistry",
    "EntityText",
    "EntityType",
    "Extracted",
    "Gazetteer",
    "Known",
    "KnownNames",
    "LastChange",
    "Mention",
    "Ranked",
    "Relation",
    "Resolved",
    "SessionEntities",
    "entity_forms",
    "entity_text",
    "extract_entities",
    "fit_entities",
    "known_from_facts",
    "known_from_nodes",
    "rank_entities",
]

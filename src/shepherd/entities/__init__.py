"""The entities of a session: who and what a conversation is about, and which of it a prompt gets.

They know text and salience; not how many tokens a model has room for, nor where a session is kept.
"""

from __future__ import annotations

from shepherd.entities.extractor import Extracted, extract_entities
from shepherd.entities.known import known_from_facts, known_from_nodes
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
    "EntityRegistry",
    "EntityText",
    "EntityType",
    "Extracted",
    "Gazetteer",
    "Known",
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

"""Entities of a text by a local model instead of rules: optional, slower, and in any language that it reads.

The answer follows a grammar, so that it is always what was asked for; what the text does not say is dropped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shepherd.entities.records import ENTITY_TYPES, EntityType
from shepherd.types import Message, Sampling

if TYPE_CHECKING:
    from shepherd.inference import Engine

__all__ = ["ENTITY_GRAMMAR", "ENTITY_PROMPT", "Extracted", "extract_entities", "parse_entities"]

_MOST_CHARS = 4000
_MOST_TOKENS = 600

ENTITY_PROMPT = (
    "List who and what the text names, as JSON: "
    '{"entities": [{"name": "…", "type": "…", "attributes": {"key": "value"}, '
    '"relations": [{"relation": "…", "target": "…"}]}]}. '
    f"Types: {', '.join(ENTITY_TYPES)}. Only what the text says, in its words; attributes and relations may"
    " be empty. A relation reads from the entity to its target, another name of the list or user."
)

# A quoted word, as GBNF writes it in its own quotes.
_TYPES = " | ".join(rf'"\"{kind}\""' for kind in ENTITY_TYPES)
# Counts and lengths end a model that repeats itself.
ENTITY_GRAMMAR = rf"""
root       ::= "{{\"entities\": [" entities? "]}}"
entities   ::= entity (", " entity){{0,11}}
entity     ::= "{{\"name\": " text ", \"type\": " type rest
rest       ::= ", \"attributes\": {{" attributes? "}}, \"relations\": [" relations? "]}}"
type       ::= {_TYPES}
attributes ::= attribute (", " attribute){{0,5}}
attribute  ::= key ": " value
relations  ::= relation (", " relation){{0,5}}
relation   ::= "{{\"relation\": " key ", \"target\": " text "}}"
key        ::= "\"" char{{1,40}} "\""
text       ::= "\"" char{{1,80}} "\""
value      ::= "\"" char{{1,160}} "\""
char       ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{{4}})
"""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a model found; a relation's target is a name, or `user`."""

    name: str
    type: EntityType = "unknown"
    attributes: tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str], ...] = ()


def extract_entities(engine: Engine, text: str, *, max_tokens: int = _MOST_TOKENS) -> tuple[Extracted, ...]:
    """What the engine's model finds in the beginning of a text, while nobody waits for an answer.

    An answer that did not end, or is no JSON, gives what could be read of it: nothing. Raises ModelError when
    the engine fails, ContextOverflowError when its window is too small.
    """
    shown = text[:_MOST_CHARS]
    answer = engine.generate(
        [Message("system", ENTITY_PROMPT), Message("user", shown)],
        sampling=Sampling(temperature=0.0),
        max_tokens=max_tokens,
        grammar=ENTITY_GRAMMAR,
        background=True,
    )
    try:
        with answer:
            for _ in answer:
                pass
        return parse_entities(answer.text, shown)
    finally:
        answer.close()


def parse_entities(answer: str, text: str) -> tuple[Extracted, ...]:
    """The entities of an answer whose names stand in the text, with the values that do."""
    try:
        listed = json.loads(answer)["entities"]
    except (ValueError, KeyError, TypeError):
        return ()
    said = _folded(text)
    if not isinstance(listed, list):
        return ()
    found = [one for one in (_extracted(entry, said) for entry in listed) if one is not None]
    names = {_folded(one.name) for one in found} | {"user"}
    return tuple(
        Extracted(
            one.name,
            one.type,
            one.attributes,
            tuple((label, target) for label, target in one.relations if _folded(target) in names),
        )
        for one in found
    )


def _extracted(entry: Any, said: str) -> Extracted | None:
    if not isinstance(entry, dict) or not _is_said(entry.get("name"), said):
        return None
    kind = entry.get("type")
    attributes, relations = entry.get("attributes"), entry.get("relations")
    return Extracted(
        " ".join(entry["name"].split()),
        kind if kind in ENTITY_TYPES else "unknown",
        tuple(
            (key, value)
            for key, value in (attributes.items() if isinstance(attributes, dict) else ())
            if key.strip() and _is_said(value, said)
        ),
        tuple(
            (relation["relation"], relation["target"])
            for relation in (relations if isinstance(relations, list) else ())
            if isinstance(relation, dict)
            and isinstance(relation.get("relation"), str)
            and isinstance(relation.get("target"), str)
            and relation["relation"].strip()
        ),
    )


def _is_said(value: Any, said: str) -> bool:
    return isinstance(value, str) and bool(value.strip()) and _folded(value) in said


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())

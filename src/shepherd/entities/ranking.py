"""Entities in a prompt: their order and text. Those that the question names come first, then those in focus.

    • Anna Smith (Person)
      a cellist from Vienna
      location: Austin
      Related: sister of the user, works at Acme

Names and values are untrusted text: each is escaped, is one line and cannot pass for another entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shepherd.entities.records import USER, USER_NAME, Attribute, Entity, Resolved
from shepherd.entities.registry import EntityRegistry
from shepherd.escaping import escape_fact_key, escape_text

__all__ = [
    "FIRST_ATTRIBUTES",
    "EntityText",
    "Ranked",
    "entity_forms",
    "entity_text",
    "fit_entities",
    "rank_entities",
]

# Relevance of salient entities against those that the question names.
_SALIENCE_WEIGHT = 0.7
FIRST_ATTRIBUTES = ("email", "phone", "title", "department", "location")
_MAX_NAME, _MAX_DESCRIPTION, _MAX_KEY, _MAX_VALUE = 120, 300, 60, 300
_MOST_RELATIONS = 6
_COLON_TWIN = "\uff1a"
_LABEL = re.compile(r"\A([^:]{0,80}):")


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entity and its relevance to the question, 0..1."""

    entity: Entity
    relevance: float


@dataclass(frozen=True, slots=True)
class EntityText:
    """Form of an entity in a prompt: the values shown, the exact text, its tokens and its relevance."""

    entity_id: int
    name: str
    type: str
    description: str
    attributes: tuple[tuple[str, str], ...]
    relations: tuple[tuple[str, str], ...]
    relevance: float
    text: str = ""
    tokens: int = 0


def rank_entities(
    registry: EntityRegistry,
    resolved: Iterable[Resolved],
    *,
    min_relevance: float = 0.1,
    max_entities: int = 10,
) -> list[Ranked]:
    """Return entities, the most relevant first: resolved ones by confidence, others by 0.7 of their salience.

    Each entity has one entry with its highest score; ties go to the one mentioned last.
    """
    scores: dict[int, float] = {}
    for one in resolved:
        if registry.get(one.entity_id) is not None:
            scores[one.entity_id] = max(scores.get(one.entity_id, 0.0), one.confidence)
    for entity, salience in registry.salient():
        scores[entity.id] = max(scores.get(entity.id, 0.0), _SALIENCE_WEIGHT * salience)
    ranked = [
        Ranked(registry[entity_id], score) for entity_id, score in scores.items() if score >= min_relevance
    ]
    ranked.sort(key=lambda one: (-one.relevance, -one.entity.place))
    return ranked[: max(max_entities, 0)]


def entity_text(
    registry: EntityRegistry,
    ranked: Ranked,
    *,
    max_attributes: int = 5,
    relations: bool = True,
    allow_private: bool = True,
) -> EntityText:
    """Return an entity as text; private attributes only with `allow_private`."""
    entity = ranked.entity
    shown = [one for one in _ordered(entity.attributes) if allow_private or not one.private]
    return _written(
        EntityText(
            entity.id,
            escape_text(entity.name, _MAX_NAME),
            entity.type,
            _described(entity.description),
            tuple(
                (_key(one.name), escape_text(one.value, _MAX_VALUE))
                for one in shown[: max(max_attributes, 0)]
            ),
            tuple(_related(registry, entity)) if relations else (),
            ranked.relevance,
        )
    )


def entity_forms(
    registry: EntityRegistry,
    ranked: Ranked,
    *,
    max_attributes: int = 5,
    relations: bool = True,
    allow_private: bool = True,
) -> list[EntityText]:
    """Return the whole text of an entity, then ever shorter forms of it.

    It loses its attributes, the last one first, then its relations, then its description.
    """
    whole = entity_text(
        registry, ranked, max_attributes=max_attributes, relations=relations, allow_private=allow_private
    )
    return list(_ever_shorter(whole))


def _ever_shorter(form: EntityText) -> Iterator[EntityText]:
    yield form
    while form.attributes:
        form = _written(replace(form, attributes=form.attributes[:-1]))
        yield form
    if form.relations:
        form = _written(replace(form, relations=()))
        yield form
    if form.description:
        yield _written(replace(form, description=""))


def _written(shown: EntityText) -> EntityText:
    """Return the form with its text."""
    lines = [f"• {shown.name} ({shown.type.capitalize()})"]
    if shown.description:
        lines.append(f"  {shown.description}")
    lines += [f"  {key}: {value}" for key, value in shown.attributes]
    if shown.relations:
        lines.append("  Related: " + ", ".join(f"{label} {target}" for label, target in shown.relations))
    return replace(shown, text="\n".join(lines))


def fit_entities(
    registry: EntityRegistry,
    ranked: Sequence[Ranked],
    count_tokens: Callable[[str], int],
    max_tokens: int,
    *,
    max_attributes: int = 5,
    relations: bool = True,
    allow_private: bool = True,
) -> list[EntityText]:
    """Return the entities that fit into `max_tokens`, in order; line breaks are counted.

    An entity that is too long takes a shorter form, or is skipped.
    """
    left = max_tokens
    fitted = []
    for one in ranked:
        whole = entity_text(
            registry, one, max_attributes=max_attributes, relations=relations, allow_private=allow_private
        )
        for form in _ever_shorter(whole):
            tokens = count_tokens(form.text + "\n")
            if tokens <= left:
                left -= tokens
                fitted.append(replace(form, tokens=tokens))
                break
    return fitted


def _key(name: str) -> str:
    """Escape an attribute's name, which the first colon of its line ends."""
    return escape_fact_key(name, _MAX_KEY).replace(":", _COLON_TWIN)


def _described(text: str) -> str:
    """Escape a description so that it cannot pass for an attribute or a list of relations."""
    return _LABEL.sub(rf"\1{_COLON_TWIN}", escape_text(text, _MAX_DESCRIPTION))


def _ordered(attributes: Iterable[Attribute]) -> list[Attribute]:
    """Sort attributes: FIRST_ATTRIBUTES, then by name."""
    places = {name: place for place, name in enumerate(FIRST_ATTRIBUTES)}
    return sorted(attributes, key=lambda one: (places.get(one.name, len(places)), one.name))


def _related(registry: EntityRegistry, entity: Entity) -> list[tuple[str, str]]:
    related = []
    for relation in entity.relations:
        target = registry.get(relation.target)
        if relation.target == USER:
            name = USER_NAME
        elif target is not None:
            # A comma separates relations.
            name = escape_fact_key(target.name, _MAX_NAME)
        else:
            continue
        related.append((escape_fact_key(relation.label, _MAX_KEY), name))
        if len(related) == _MOST_RELATIONS:
            break
    return related

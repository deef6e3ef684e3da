"""Which entities a prompt gets and how they stand in it: what the question names, then what is in focus.

    • Anna Smith (Person)
      a cellist from Vienna
      location: Austin
      Related: sister of the user, works at Acme

Names and values are what people wrote: each is one line, cannot pass for another entry, and is made harmless.
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

# Beside what the question itself names, something salient counts for so much.
_SALIENCE_WEIGHT = 0.7
FIRST_ATTRIBUTES = ("email", "phone", "title", "department", "location")
_MAX_NAME, _MAX_DESCRIPTION, _MAX_KEY, _MAX_VALUE = 120, 300, 60, 300
_MOST_RELATIONS = 6
_COLON_TWIN = "\uff1a"
_LABEL = re.compile(r"\A([^:]{0,80}):")


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entity and how relevant it is to the question, 0..1."""

    entity: Entity
    relevance: float


@dataclass(frozen=True, slots=True)
class EntityText:
    """An entity as a prompt gets it: what is shown of it, the exact text, its tokens and its relevance."""

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
    """The most relevant first: resolved ones by confidence, salient others by 0.7 of their salience.

    One entry for each entity, the larger score; ties to the one mentioned last.
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
    description: bool = True,
    allow_private: bool = True,
) -> EntityText:
    """An entity as text. `max_attributes` 0 is none; private ones only with `allow_private`."""
    entity = ranked.entity
    shown = [one for one in _ordered(entity.attributes) if allow_private or not one.private]
    return _written(
        EntityText(
            entity.id,
            escape_text(entity.name, _MAX_NAME),
            entity.type,
            _described(entity.description) if description else "",
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
    """An entity whole, and then in ever shorter forms, for where it does not fit.

    It loses its attributes from the last on, then its relations, then its description.
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
    """The same with its text."""
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
    """Those that fit into `max_tokens`, in order, each with its line break counted.

    One that is too big for what is left takes a shorter form; what does not fit even so is skipped, and the
    next one may fit.
    """
    room = max_tokens
    fitted = []
    for one in ranked:
        whole = entity_text(
            registry, one, max_attributes=max_attributes, relations=relations, allow_private=allow_private
        )
        for form in _ever_shorter(whole):
            tokens = count_tokens(form.text + "\n")
            if tokens <= room:
                room -= tokens
                fitted.append(replace(form, tokens=tokens))
                break
    return fitted


def _key(name: str) -> str:
    """An attribute's name; the first colon of its line ends it."""
    return escape_fact_key(name, _MAX_KEY).replace(":", _COLON_TWIN)


def _described(text: str) -> str:
    """A description that cannot pass for an attribute or for relations: its label, if it has one, is none."""
    return _LABEL.sub(rf"\1{_COLON_TWIN}", escape_text(text, _MAX_DESCRIPTION))


def _ordered(attributes: Iterable[Attribute]) -> list[Attribute]:
    """What is asked for most first, then by name."""
    places = {name: place for place, name in enumerate(FIRST_ATTRIBUTES)}
    return sorted(attributes, key=lambda one: (places.get(one.name, len(places)), one.name))


def _related(registry: EntityRegistry, entity: Entity) -> list[tuple[str, str]]:
    related = []
    for relation in entity.relations:
        target = registry.get(relation.target)
        if relation.target == USER:
            name = USER_NAME
        elif target is not None:
            # A comma begins the next relation.
            name = escape_fact_key(target.name, _MAX_NAME)
        else:
            continue
        related.append((escape_fact_key(relation.label, _MAX_KEY), name))
        if len(related) == _MOST_RELATIONS:
            break
    return related

"""Graph of MCP's reference memory server: memory.jsonl with one item a line, or one JSON object.

Entities are recognised by their names. What is known stays as it is, so a second import changes nothing, and
that of a file that has grown adds what is new. An entity that only a relation names is created, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from shepherd.errors import DocumentError, UsageError
from shepherd.knowledge.entity_graph import Entity, EntityGraph, Relation, check_name, cleaned_name
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.observations import cleaned_observation, observations_of, written
from shepherd.knowledge.records import Outcome
from shepherd.knowledge.transfer import State

__all__ = ["is_graph", "read"]

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_BATCH = 50  # entities of one transaction
_OBJECT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:entities|relations)"\s*:\s*\[')
_LINE = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"type"\s*:\s*"(?:entity|relation)"')
_T = TypeVar("_T")


def is_graph(beginning: bytes, name: str) -> bool:
    """Return True for a file that begins as a graph; `name` is its name."""
    if PurePath(name).suffix.lower() not in _SUFFIXES:
        return False
    if _OBJECT.match(beginning) or _LINE.match(beginning):
        return True
    try:
        head = json.loads(beginning.strip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and head.get("type") in ("entity", "relation")


class _Graph(NamedTuple):
    """Entities by name, relations, lines that are neither, and the number of secrets covered by name."""

    entities: dict[str, Entity]
    relations: dict[Relation, None]
    bad: list[tuple[str, str]]
    secrets: dict[str, int]


def read(
    knowledge: Knowledge,
    data: bytes,
    name: str,
    dimensions: tuple[str, ...],
    progress: Callable[[int, int, str], None],
) -> Iterator[Outcome]:
    """Import a graph; yield the outcome of each entity, then those of lines that could not be imported.

    New entities get the dimensions. DocumentError names the line at which a single object is damaged.
    """
    found = _graph(knowledge, data, name)
    graph = EntityGraph(knowledge)
    total = len(found.entities) + len(found.relations)
    states: dict[str, State] = {}
    for done, batch in _batches(found.entities.values()):
        created = {entity.name for entity in graph.create_entities(batch, dimensions)}
        known = [(one.name, one.observations) for one in batch if one.name not in created]
        grown = {entity for entity, new in graph.add_observations(known) if new} if known else set()
        for one in batch:
            states[one.name] = (
                "added" if one.name in created else "changed" if one.name in grown else "unchanged"
            )
        progress(done, total, "entities")
    for done, relations in _batches(found.relations):
        for relation in graph.create_relations(relations):
            if states[relation.from_name] == "unchanged":
                states[relation.from_name] = "changed"
        progress(len(found.entities) + done, total, "relations")
    ids = graph.ids_of(states)
    for entity, state in states.items():
        yield Outcome(entity, state, ids.get(entity, 0), secrets=found.secrets.get(entity, 0))
    for place, problem in found.bad:
        yield Outcome(place, "failed", reason=f"{name}: {place}: {problem}")


def _batches(items: Iterable[_T]) -> Iterator[tuple[int, list[_T]]]:
    """Yield the items in lists, each with the number of items up to its end."""
    waiting, done = iter(items), 0
    while batch := list(islice(waiting, _BATCH)):
        done += len(batch)
        yield done, batch


def _graph(knowledge: Knowledge, data: bytes, name: str) -> _Graph:
    found = _Graph({}, {}, [], {})
    for place, kind, item in _items(data, name):
        try:
            if kind == "entity":
                _add_entity(knowledge, found, _expected(item))
            elif kind == "relation":
                _add_relation(knowledge, found, _expected(item))
            else:
                raise UsageError("neither an entity nor a relation" if item is not None else "not JSON")
        except UsageError as error:
            found.bad.append((place, str(error)))
    for relation in found.relations:
        for end in relation[:2]:
            found.entities.setdefault(end, Entity(end, ""))
    return found


def _items(data: bytes, name: str) -> Iterator[tuple[str, object, Any]]:
    """Yield place, kind and value of each item; the value of a line that is not JSON is None."""
    text = data.decode("utf-8-sig", "replace")
    if _OBJECT.match(data):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise DocumentError(
                f"{name}: line {line} is damaged: not JSON", hint="export it again"
            ) from error
        for key, kind in (("entities", "entity"), ("relations", "relation")):
            items = whole.get(key, [])
            for number, item in enumerate(items if isinstance(items, list) else [], 1):
                yield f"{kind} {number}", kind, item
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                item = json.loads(line)
            except (ValueError, RecursionError):
                item = None
            yield f"line {number}", item.get("type") if isinstance(item, dict) else "", item


def _add_entity(knowledge: Knowledge, found: _Graph, item: Mapping[str, Any]) -> None:
    name, kind = _text(item, "name"), _text(item, "entityType", "")
    observations = item.get("observations", [])
    if not isinstance(observations, list) or not all(isinstance(one, str) for one in observations):
        raise UsageError("observations is not a list of texts")
    notes = written(filter(None, map(cleaned_observation, observations)))
    safe, n_secrets = knowledge.without_secrets(NewNode(name, description=kind, notes=notes))
    name = cleaned_name(safe.title)
    check_name(name)
    known = found.entities.get(name, Entity(name, ""))
    merged = dict.fromkeys((*known.observations, *observations_of(safe.notes)))
    found.entities[name] = Entity(name, known.kind or cleaned_name(safe.description), tuple(merged))
    found.secrets[name] = found.secrets.get(name, 0) + n_secrets


def _add_relation(knowledge: Knowledge, found: _Graph, item: Mapping[str, Any]) -> None:
    from_name, to_name, type = (_text(item, key) for key in ("from", "to", "relationType"))
    safe, n_secrets = knowledge.without_secrets(NewNode(from_name, description=to_name, notes=type))
    relation = Relation(*map(cleaned_name, (safe.title, safe.description, safe.notes)))
    if relation.from_name == relation.to_name:
        raise UsageError("an entity can't be related to itself")
    for end in relation[:2]:
        check_name(end)
    found.relations[relation] = None
    found.secrets[relation.from_name] = found.secrets.get(relation.from_name, 0) + n_secrets


def _expected(item: object) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise UsageError("not a JSON object")
    return item


def _text(item: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = item.get(key, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise UsageError(f'"{key}" is missing or not a string')
    return cleaned_name(value)

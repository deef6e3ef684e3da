"""The MCP memory server's graph: memory.jsonl, an entity or a relation a line; or all as one JSON object.

Each observation becomes a memory of its own under the entity's name, so that a graph that has grown can be
imported again and only what is new comes in. The file has no times: what is imported is of now.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Any

from shepherd.memory.importers import jsonstream
from shepherd.memory.importers.records import Bad, Entry, json_object, statement, text

__all__ = ["read"]

SOURCE = "mcp"
_KEYS = {"entities": "entity", "relations": "relation"}


def read(file: BufferedReader, now: int) -> Iterator[Entry]:
    """A record of each observation and each relation."""
    if _is_graph(file.peek()):
        yield from _graph(file, now)
        return
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            item = json_object(line)
        except ValueError as error:
            yield Bad(f"line {number}", str(error))
            continue
        yield from _records(f"line {number}", item.get("type"), item, now)


def _is_graph(head: bytes) -> bool:
    try:
        return "entities" in json_object(head.split(b"\n", 1)[0])
    except ValueError:
        return head.lstrip()[:1] == b"{" and b'"type"' not in head.split(b"\n", 1)[0]


def _graph(file: BufferedReader, now: int) -> Iterator[Entry]:
    number = 0
    try:
        for key, item in jsonstream.items(file):
            number += 1
            yield from _records(f"item {number}", _KEYS.get(key), item, now)
    except ValueError as error:
        yield Bad(f"item {number + 1}", str(error))


def _records(place: str, kind: object, item: Any, now: int) -> Iterator[Entry]:
    if kind == "entity" and isinstance(item, dict) and (name := text(item.get("name"))):
        kind_of_entity = text(item.get("entityType"))
        subject = f"{name} ({kind_of_entity})" if kind_of_entity else name
        observations = item.get("observations")
        for observation in observations if isinstance(observations, list) else []:
            if said := text(observation):
                yield statement(subject, said, now, SOURCE)
            else:
                yield Bad(place, "an observation is not a text")
    elif kind == "relation" and isinstance(item, dict):
        source, relation, target = (text(item.get(key)) for key in ("from", "relationType", "to"))
        if source and relation and target:
            yield statement(source, f"{source} {relation.replace('_', ' ')} {target}", now, SOURCE)
        else:
            yield Bad(place, "a relation without from, relationType or to")
    else:
        yield Bad(place, "neither an entity nor a relation")

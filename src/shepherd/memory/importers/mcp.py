"""Graph of the MCP memory server: memory.jsonl with an entity or a relation a line, or one JSON object.

Each observation becomes a memory of its own under the entity's name, so that a second import of a graph that
has grown adds only what is new. The file has no times: every memory gets the time of the import.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Any

from shepherd.memory.importers.records import (
    Bad,
    Entry,
    json_items,
    json_lines,
    json_object,
    relation,
    statement,
    text,
    understood,
)

__all__ = ["read"]

SOURCE = "mcp"
_KINDS = {"entities": "entity", "relations": "relation"}


def read(file: BufferedReader, now: int) -> Iterator[Entry]:
    """Yield a record of each observation and each relation."""
    if _is_graph(file.peek()):
        items = ((place, _KINDS.get(key), item) for place, key, item in json_items(file))
    else:
        items = (
            (place, None if isinstance(item, Bad) else item.get("type"), item)
            for place, item in json_lines(file)
        )
    for place, kind, item in items:
        if isinstance(item, Bad):
            yield item
        else:
            yield from understood(place, _records(place, kind, item, now))


def _is_graph(head: bytes) -> bool:
    try:
        return "entities" in json_object(head.split(b"\n", 1)[0])
    except ValueError:
        return head.lstrip()[:1] == b"{" and b'"type"' not in head.split(b"\n", 1)[0]


def _records(place: str, kind: object, item: Any, now: int) -> Iterator[Entry]:
    if kind == "entity" and isinstance(item, dict) and (name := text(item.get("name"))):
        kind_of_entity = text(item.get("entityType"))
        subject = f"{name} ({kind_of_entity})" if kind_of_entity else name
        observations = item.get("observations")
        for observation in observations if isinstance(observations, list) else []:
            if said := text(observation):
                yield statement(subject, said, now, SOURCE)
            else:
                yield Bad(place, "an observation is not a string")
    elif kind == "relation" and isinstance(item, dict):
        source, verb, target = (text(item.get(key)) for key in ("from", "relationType", "to"))
        yield relation(source, verb, target, now, SOURCE) or Bad(
            place, "a relation without from, relationType or to"
        )
    else:
        yield Bad(place, "neither an entity nor a relation")

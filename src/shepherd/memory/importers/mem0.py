"""mem0: what `get_all()` gives, written as JSON; a list, {"results": […], "relations": […]}, or lines.

Its memories are statements about the user or, with only an agent's id, about the agent. Relations of its
graph are "source relationship target".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BufferedReader
from typing import Any

from shepherd.memory.importers import jsonstream
from shepherd.memory.importers.records import ABOUT_USER, Bad, Entry, json_object, moment, statement, text

__all__ = ["read"]

SOURCE = "mem0"
_ABOUT_AGENT = "About you"
# Beside the items: counts and links of pages, as the platform's API gives them.
_IGNORED = {"count", "next", "previous", "total", "page", "page_size", "total_memories"}


def read(file: BufferedReader, now: int) -> Iterator[Entry]:
    """A record of each memory and each relation."""
    items = _lines(file) if _has_lines(file) else _items(file)
    for place, key, item in items:
        if isinstance(item, Bad):
            yield item
        elif key not in _IGNORED:
            yield _record(place, item, now)


def _has_lines(file: BufferedReader) -> bool:
    try:
        return "memory" in json_object(file.peek().split(b"\n", 1)[0])
    except ValueError:
        return False


def _lines(lines: Iterable[bytes]) -> Iterator[tuple[str, str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", "", json_object(line)
        except ValueError as error:
            yield "", "", Bad(f"line {number}", str(error))


def _items(file: BufferedReader) -> Iterator[tuple[str, str, Any]]:
    number = 0
    try:
        for key, item in jsonstream.items(file):
            number += 1
            yield f"item {number}", key, item
    except ValueError as error:
        yield "", "", Bad(f"item {number + 1}", str(error))


def _record(place: str, item: Any, now: int) -> Entry:
    if not isinstance(item, dict):
        return Bad(place, "not a memory of mem0's")
    if said := text(item.get("memory")) or text(item.get("data")):
        created = moment(item.get("updated_at") or item.get("created_at"), now)
        is_agents = bool(item.get("agent_id")) and not item.get("user_id")
        subject = _ABOUT_AGENT if is_agents else ABOUT_USER
        if categories := [text(name) for name in item.get("categories") or () if text(name)]:
            subject += ": " + ", ".join(categories)
        return statement(subject, said, created, SOURCE, text(item.get("run_id")))
    source, relation, target = (
        text(item.get("source")),
        text(item.get("relationship")) or text(item.get("relation")),
        text(item.get("target")) or text(item.get("destination")),
    )
    if source and relation and target:
        return statement(source, f"{source} {relation.replace('_', ' ')} {target}", now, SOURCE)
    return Bad(place, "not a memory of mem0's")

"""Result of mem0's `get_all()` as JSON: a list, {"results": […], "relations": […]}, or lines.

Its memories are statements about the user or, with only an agent's id, about the agent. Relations of its
graph are "source relationship target".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BufferedReader
from typing import Any

from shepherd.memory.importers.records import (
    ABOUT_USER,
    Bad,
    Entry,
    json_items,
    json_lines,
    json_object,
    moment,
    relation,
    statement,
    text,
    understood,
)

__all__ = ["read"]

SOURCE = "mem0"
_ABOUT_AGENT = "About you"
# Beside the items: counts and links of pages, as the platform's API returns them.
_IGNORED = {"count", "next", "previous", "total", "page", "page_size", "total_memories"}


def read(file: BufferedReader, now: int) -> Iterator[Entry]:
    """Yield a record of each memory and each relation."""
    items: Iterable[tuple[str, str, Any]] = (
        ((place, "", item) for place, item in json_lines(file)) if _has_lines(file) else json_items(file)
    )
    for place, key, item in items:
        if isinstance(item, Bad):
            yield item
        elif key not in _IGNORED:
            yield from understood(place, _records(place, item, now))


def _has_lines(file: BufferedReader) -> bool:
    try:
        return "memory" in json_object(file.peek().split(b"\n", 1)[0])
    except ValueError:
        return False


def _records(place: str, item: Any, now: int) -> Iterator[Entry]:
    problem = Bad(place, "not a memory of mem0's")
    if not isinstance(item, dict):
        yield problem
    elif said := text(item.get("memory")) or text(item.get("data")):
        created = moment(item.get("updated_at") or item.get("created_at"), now)
        is_agents = bool(item.get("agent_id")) and not item.get("user_id")
        subject = _ABOUT_AGENT if is_agents else ABOUT_USER
        names = item.get("categories")
        if categories := [text(name) for name in (names if isinstance(names, list) else ()) if text(name)]:
            subject += ": " + ", ".join(categories)
        yield statement(subject, said, created, SOURCE, text(item.get("run_id")))
    else:
        verb = text(item.get("relationship")) or text(item.get("relation"))
        target = text(item.get("target")) or text(item.get("destination"))
        yield relation(text(item.get("source")), verb, target, now, SOURCE) or problem

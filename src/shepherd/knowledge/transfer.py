"""Knowledge as JSON lines: dimensions, nodes with their text, edges.

Reading one's own export changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shepherd.errors import DocumentError
from shepherd.knowledge.incoming import IncomingEdge, put_dimensions, put_edges, put_nodes
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import Dimension, Outcome
from shepherd.transactions import Connection

__all__ = ["is_export", "read", "records"]

_PAGE = 100
_FORMAT = "shepherd knowledge"
_NODE = (
    "id, title, kind, description, notes, link, event_date, metadata, content_hash, origin, created_at,"
    " updated_at, source_text"
)
_EDGE = "id, from_node_id, to_node_id, type AS edge_type, explanation, confidence, source, created_at"
# `type` of a line is what it holds.
_EDGE_NAMES = _EDGE.replace("type AS ", "").split(", ")


def records(knowledge: Knowledge) -> Iterator[dict[str, Any]]:
    """Everything, in pages: writers are not held up."""
    yield {"type": "format", "format": _FORMAT, "version": 1}
    for dimension in knowledge.list_dimensions():
        yield {
            "type": "dimension",
            "name": dimension.name,
            "description": dimension.description,
            "icon": dimension.icon,
            "is_priority": dimension.is_priority,
        }
    for row in _rows(knowledge, "nodes", _NODE):
        fields = dict(zip(_NODE.split(", "), row, strict=True))
        fields["metadata"] = json.loads(fields["metadata"])
        node = knowledge.get_node(row[0])
        yield {"type": "node", **fields, "dimensions": list(node.dimensions) if node else []}
    for row in _rows(knowledge, "edges", _EDGE):
        yield {"type": "edge", **dict(zip(_EDGE_NAMES, row, strict=True))}


def _rows(knowledge: Knowledge, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    after = 0
    while True:

        def page(connection: Connection, after: int = after) -> list[tuple[Any, ...]]:
            return connection.execute(
                f"SELECT {columns} FROM {table} WHERE user_id = ? AND id > ? ORDER BY id LIMIT {_PAGE}",
                (knowledge.user_id, after),
            )

        nothing: list[tuple[Any, ...]] = []
        rows = knowledge.look(page, nothing)
        yield from rows
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def is_export(beginning: bytes) -> bool:
    """Whether a file that begins so is one of these."""
    try:
        head = json.loads(beginning.split(b"\n", 1)[0])
    except ValueError:
        return False
    return isinstance(head, dict) and head.get("format") == _FORMAT


def read(knowledge: Knowledge, path: Path, progress: Callable[[int, int, str], None]) -> Iterator[Outcome]:
    """What became of each node of an export."""
    ids: dict[str, int] = {}
    total = sum(1 for _ in _lines(path))
    put_dimensions(
        knowledge,
        (
            Dimension(
                line["name"], line.get("description", ""), line.get("icon", ""), bool(line.get("is_priority"))
            )
            for line in _lines(path, "dimension")
        ),
    )
    nodes = ((str(line["id"]), _node(line)) for line in _lines(path, "node"))
    for key, node_id, state in put_nodes(knowledge, nodes, by_time=True):
        ids[key] = node_id
        progress(len(ids), total, "nodes")
        yield Outcome(f"node {key}", state, node_id)
    edges = (
        IncomingEdge(
            str(line["from_node_id"]),
            str(line["to_node_id"]),
            line["edge_type"],
            line["explanation"],
            float(line["confidence"]),
            line["source"],
            int(line["created_at"]),
        )
        for line in _lines(path, "edge")
    )
    put_edges(knowledge, edges, ids, lambda done: progress(len(ids) + done, total, "edges"))


def _node(line: dict[str, Any]) -> NewNode:
    names = (
        "title",
        "kind",
        "description",
        "notes",
        "source_text",
        "link",
        "event_date",
        "metadata",
        "origin",
    )
    return NewNode(
        **{name: line[name] for name in names},
        dimensions=tuple(line["dimensions"]),
        content_hash=line["content_hash"],
        created_at=line["created_at"],
        updated_at=line["updated_at"],
    )


def _lines(path: Path, type: str = "") -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, written in enumerate(file, 1):
            try:
                line = json.loads(written)
                if not type or line["type"] == type:
                    yield line
            except (ValueError, KeyError, TypeError) as error:
                raise DocumentError(
                    f"{path}: line {number} is damaged ({_name_of(error)})", hint="export it again"
                ) from error


def _name_of(error: Exception) -> str:
    return type(error).__name__

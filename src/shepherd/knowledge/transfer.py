"""Knowledge as JSON lines: dimensions, nodes with their text, edges.

Reading one's own export changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from shepherd.errors import DocumentError
from shepherd.escaping import storable
from shepherd.knowledge.incoming import IncomingEdge, put_dimensions, put_edges, put_nodes
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import Dimension, Outcome
from shepherd.transactions import Connection

__all__ = ["is_export", "read", "records"]

_Record = TypeVar("_Record")
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
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and head.get("format") == _FORMAT


def read(knowledge: Knowledge, path: Path, progress: Callable[[int, int, str], None]) -> Iterator[Outcome]:
    """What became of each node of an export. DocumentError names the line that is damaged."""
    ids: dict[str, int] = {}
    total = sum(1 for _ in _records_of(path, "", dict))
    put_dimensions(knowledge, _records_of(path, "dimension", _dimension))
    nodes = _records_of(path, "node", lambda line: (str(line["id"]), _node(line)))
    for key, node_id, state in put_nodes(knowledge, nodes, by_time=True):
        ids[key] = node_id
        progress(len(ids), total, "nodes")
        yield Outcome(f"node {key}", state, node_id)
    edges = _records_of(path, "edge", _edge)
    put_edges(knowledge, edges, ids, lambda done: progress(len(ids) + done, total, "edges"))


def _dimension(line: dict[str, Any]) -> Dimension:
    description, icon = (_text(line.get(name, "")) for name in ("description", "icon"))
    return Dimension(_words(line["name"]), description, icon, bool(line.get("is_priority")))


def _node(line: dict[str, Any]) -> NewNode:
    names = ("kind", "description", "notes", "source_text", "link", "event_date", "origin", "content_hash")
    return NewNode(
        title=_words(line["title"]),
        **{name: _text(line[name]) for name in names},
        metadata=dict(line["metadata"]),
        dimensions=tuple(map(_words, line["dimensions"])),
        created_at=_moment(line["created_at"]),
        updated_at=_moment(line["updated_at"]),
    )


def _edge(line: dict[str, Any]) -> IncomingEdge:
    return IncomingEdge(
        str(line["from_node_id"]),
        str(line["to_node_id"]),
        _text(line["edge_type"]),
        _words(line["explanation"]),
        float(line["confidence"]),
        _text(line["source"]),
        _moment(line["created_at"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return storable(value)


def _words(value: Any) -> str:
    if not _text(value).strip():
        raise ValueError
    return _text(value)


def _moment(value: Any) -> int:
    if not isinstance(value, int) or not -1 << 53 < value < 1 << 53:
        raise ValueError
    return value


def _records_of(path: Path, type: str, make: Callable[[dict[str, Any]], _Record]) -> Iterator[_Record]:
    """What `make` makes of each line of that type; of every line for ""."""
    with path.open("rb") as file:
        for number, written in enumerate(file, 1):
            try:
                line = json.loads(written)
                if type and line["type"] != type:
                    continue
                record = make(line)
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise DocumentError(
                    f"{path}: line {number} is damaged ({_name_of(error)})", hint="export it again"
                ) from error
            yield record


def _name_of(error: Exception) -> str:
    return type(error).__name__

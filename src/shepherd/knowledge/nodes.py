"""Rows of `nodes` with their dimensions and chunks. All functions run in the caller's transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.knowledge import chunks, dimensions, edges
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.records import Node
from shepherd.transactions import Connection

__all__ = [
    "CHANGEABLE",
    "LONGEST_TITLE",
    "NewNode",
    "add",
    "by_origin",
    "change",
    "content_hash",
    "delete",
    "focus",
    "focused",
    "get",
    "latest_change",
    "listed",
    "of_file",
    "read_metadata",
    "several",
    "texts_of",
]

_COLUMNS = (
    "id, title, kind, description, notes, link, event_date, n_edges, text_length, index_state,"
    " index_error, metadata, content_hash, created_at, updated_at, touched_at"
)
# Fields that can be changed.
CHANGEABLE = (
    "title",
    "kind",
    "description",
    "notes",
    "link",
    "event_date",
    "metadata",
    "source_text",
    "dimensions",
)
_TEXTS = ("title", "kind", "description", "notes", "link", "event_date")
# Titles are shown in lists, and those of hubs are in every prompt.
LONGEST_TITLE = 300


@dataclass(frozen=True)
class NewNode:
    """A node to store; an import recognises it by `origin`, which is unique for a user (default: random)."""

    title: str
    kind: str = ""
    description: str = ""
    notes: str = ""
    source_text: str = ""
    link: str = ""
    event_date: str = ""
    metadata: Mapping[str, Any] | None = None
    dimensions: tuple[str, ...] = ()
    origin: str = ""
    content_hash: str = ""
    created_at: int | None = None
    updated_at: int | None = None


def texts_of(new: NewNode) -> list[str]:
    """Return the parts of a new node that are cut into chunks."""
    return [
        new.source_text,
        chunks.card(" ".join(new.title.split())[:LONGEST_TITLE], new.description, new.notes),
    ]


def content_hash(text: str) -> str:
    """Return the SHA-256 of a text in hex; "" for an empty text."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def add(connection: Connection, shelf: Shelf, new: NewNode, now: int) -> int:
    """Store a node and return its id."""
    title = _title(new.title)
    [(node_id,)] = connection.execute(
        "UPDATE knowledge_sums SET next_node = next_node + 1 WHERE number = ? RETURNING next_node - 1",
        (shelf.number,),
    )
    created_at = now if new.created_at is None else new.created_at
    connection.execute(
        "INSERT INTO nodes(user_id, id, kind, title, link, event_date, created_at, updated_at, touched_at,"
        " text_length, content_hash, origin, metadata, description, notes, source_text)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            shelf.user_id,
            node_id,
            new.kind,
            title,
            new.link,
            new.event_date,
            created_at,
            created_at if new.updated_at is None else new.updated_at,
            now,
            len(new.source_text),
            new.content_hash or content_hash(new.source_text),
            new.origin or uuid4().hex,
            _stored_metadata(dict(new.metadata or {})),
            new.description,
            new.notes,
            new.source_text,
        ),
    )
    dimensions.set_of_node(connection, shelf.user_id, node_id, new.dimensions)
    chunks.add_part(connection, shelf, node_id, "text", new.source_text)
    chunks.add_part(connection, shelf, node_id, "card", chunks.card(title, new.description, new.notes))
    return int(node_id)


def change(
    connection: Connection,
    shelf: Shelf,
    node_id: int,
    values: Mapping[str, Any],
    now: int,
    *,
    content: str | None = None,
) -> bool:
    """Change fields of CHANGEABLE and the chunks made of them; False if there is no such node.

    `content` is the hash of an imported document; a user's change does not touch it, so that another import
    of the same document does not undo the change.
    """
    known = get(connection, shelf.user_id, node_id, with_text="source_text" in values)
    if known is None:
        return False
    columns: dict[str, Any] = {name: values[name] for name in _TEXTS if name in values}
    if "title" in columns:
        columns["title"] = _title(columns["title"])
    if "metadata" in values:
        columns["metadata"] = _stored_metadata(values["metadata"])
    if "source_text" in values:
        columns["source_text"] = values["source_text"]
        columns["text_length"] = len(values["source_text"])
    if content is not None:
        columns["content_hash"] = content
    columns |= {"updated_at": max(now, known.updated_at), "touched_at": now}
    connection.execute(
        f"UPDATE nodes SET {', '.join(f'{name} = ?' for name in columns)} WHERE user_id = ? AND id = ?",
        (*columns.values(), shelf.user_id, node_id),
    )
    if "dimensions" in values:
        dimensions.set_of_node(connection, shelf.user_id, node_id, values["dimensions"])
    if "source_text" in values and values["source_text"] != known.source_text:
        chunks.remove(connection, shelf, node_id, "text")
        chunks.add_part(connection, shelf, node_id, "text", values["source_text"])
    before = chunks.card(known.title, known.description, known.notes)
    after = chunks.card(
        *(columns.get(name, getattr(known, name)) for name in ("title", "description", "notes"))
    )
    if before != after:
        chunks.remove(connection, shelf, node_id, "card")
        chunks.add_part(connection, shelf, node_id, "card", after)
    return True


def delete(connection: Connection, shelf: Shelf, node_id: int) -> bool:
    """Remove a node with its edges, dimensions and chunks; False if there is none."""
    user_id = shelf.user_id
    if not connection.execute("SELECT 1 FROM nodes WHERE user_id = ? AND id = ?", (user_id, node_id)):
        return False
    edges.delete_of_node(connection, user_id, node_id)
    dimensions.set_of_node(connection, user_id, node_id, ())
    connection.execute("DELETE FROM focused_nodes WHERE user_id = ? AND node_id = ?", (user_id, node_id))
    chunks.remove(connection, shelf, node_id, "text")
    chunks.remove(connection, shelf, node_id, "card")
    connection.execute("DELETE FROM nodes WHERE user_id = ? AND id = ?", (user_id, node_id))
    return True


def get(connection: Connection, user_id: str, node_id: int, *, with_text: bool = False) -> Node | None:
    """Return a node of the user."""
    text = ", source_text" if with_text else ""
    rows = connection.execute(
        f"SELECT {_COLUMNS}{text} FROM nodes WHERE user_id = ? AND id = ?", (user_id, node_id)
    )
    return _nodes(connection, user_id, rows)[0] if rows else None


def listed(
    connection: Connection,
    user_id: str,
    *,
    kind: str | None = None,
    dimension: str | None = None,
    limit: int,
    offset: int = 0,
) -> list[Node]:
    """Return nodes, the latest changed first."""
    wanted, parameters = _wanted(user_id, kind, dimension)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE {wanted} ORDER BY updated_at DESC, id LIMIT ? OFFSET ?",
        (*parameters, limit, offset),
    )
    return _nodes(connection, user_id, rows)


def count(
    connection: Connection, user_id: str, *, kind: str | None = None, dimension: str | None = None
) -> int:
    """Return how many nodes `listed` has without a limit."""
    wanted, parameters = _wanted(user_id, kind, dimension)
    return int(connection.execute(f"SELECT count(*) FROM nodes WHERE {wanted}", parameters)[0][0])


def _wanted(user_id: str, kind: str | None, dimension: str | None) -> tuple[str, tuple[str, ...]]:
    wanted, parameters = ["user_id = ?"], [user_id]
    if kind is not None:
        wanted.append("kind = ?")
        parameters.append(kind)
    if dimension is not None:
        wanted.append("id IN (SELECT node_id FROM node_dimensions WHERE user_id = ? AND dimension = ?)")
        parameters += [user_id, dimension]
    return " AND ".join(wanted), tuple(parameters)


def by_origin(connection: Connection, user_id: str, origin: str) -> tuple[int, str] | None:
    """Return id and content hash of the node of an origin."""
    rows = connection.execute(
        "SELECT id, content_hash FROM nodes WHERE user_id = ? AND origin = ? AND origin <> ''",
        (user_id, origin),
    )
    return rows[0] if rows else None


def of_file(connection: Connection, user_id: str, name: str, digest: str) -> int | None:
    """Return the id of the node of a file on this machine with this name and these bytes (SHA-256 in hex).

    It goes through all nodes of the user.
    """
    rows = connection.execute(
        "SELECT id, link, metadata FROM nodes WHERE user_id = ? AND content_hash = ? ORDER BY id",
        (user_id, digest),
    )
    found = (
        int(node_id)
        for node_id, link, metadata in rows
        if link.startswith("file:") and read_metadata(metadata).get("file") == name
    )
    return next(found, None)


def of_files(connection: Connection, user_id: str) -> list[tuple[int, str, str, str]]:
    """Return id, link, origin and content hash of imported files' nodes, by id; it goes through all nodes."""
    return connection.execute(
        "SELECT id, link, origin, content_hash FROM nodes"
        " WHERE user_id = ? AND origin <> '' AND substr(link, 1, 5) = 'file:' ORDER BY id",
        (user_id,),
    )


def several(connection: Connection, user_id: str, node_ids: Iterable[int]) -> list[Node]:
    """Return the nodes that exist, in the order given."""
    found = (get(connection, user_id, node_id) for node_id in node_ids)
    return [node for node in found if node is not None]


def latest_change(connection: Connection, user_id: str) -> tuple[int, int] | None:
    """Return the id and the time of the last change of a node."""
    rows = connection.execute(
        "SELECT id, updated_at FROM nodes WHERE user_id = ? ORDER BY updated_at DESC, id LIMIT 1", (user_id,)
    )
    return (int(rows[0][0]), int(rows[0][1])) if rows else None


def focus(connection: Connection, user_id: str, node_ids: Iterable[int], now: int) -> list[Node]:
    """Open these nodes and no others, in this order; return those that exist."""
    found = several(connection, user_id, node_ids)
    connection.execute("DELETE FROM focused_nodes WHERE user_id = ?", (user_id,))
    for place, node in enumerate(found):
        connection.execute(
            "INSERT INTO focused_nodes(user_id, place, node_id) VALUES(?, ?, ?)", (user_id, place, node.id)
        )
        connection.execute(
            "UPDATE nodes SET touched_at = ? WHERE user_id = ? AND id = ?", (now, user_id, node.id)
        )
    return found


def focused(connection: Connection, user_id: str) -> list[Node]:
    """Return the open nodes, the primary one first."""
    rows = connection.execute(
        "SELECT node_id FROM focused_nodes WHERE user_id = ? ORDER BY place", (user_id,)
    )
    return several(connection, user_id, [node_id for (node_id,) in rows])


def _nodes(connection: Connection, user_id: str, rows: Sequence[tuple[Any, ...]]) -> list[Node]:
    tags = dimensions.of_nodes(connection, user_id, [row[0] for row in rows])
    # The columns are the fields of a node in order, with the text if it was requested.
    return [
        Node(*(*row[:7], tags.get(row[0], ()), *row[7:11], read_metadata(row[11]), *row[12:])) for row in rows
    ]


def _stored_metadata(metadata: Any) -> str:
    return storable(json.dumps(metadata, ensure_ascii=False, sort_keys=True))


def read_metadata(text: str) -> dict[str, Any]:
    """Return the metadata of a row; {} if they are damaged."""
    try:
        found = json.loads(text)
    except ValueError:  # a damaged row is still a node
        return {}
    return found if isinstance(found, dict) else {}


def _title(title: str) -> str:
    cleaned = " ".join(title.split())
    if not cleaned:
        raise UsageError("a node needs a title")
    return cleaned[:LONGEST_TITLE]

"""Rows of `edges`, and their count in each node. All functions run in the caller's transaction."""

from __future__ import annotations

from typing import Any

from shepherd.errors import UsageError
from shepherd.knowledge.records import EDGE_TYPES, SOURCES, Edge, Hub
from shepherd.transactions import Connection

__all__ = ["add", "change", "delete", "delete_of_node", "find", "get", "hubs", "of_node"]

_EDGES = (
    "SELECT e.id, e.from_node_id, e.to_node_id, e.type, e.explanation, e.confidence, e.source, e.created_at,"
    " f.title, t.title FROM edges e"
    " JOIN nodes f ON f.user_id = e.user_id AND f.id = e.from_node_id"
    " JOIN nodes t ON t.user_id = e.user_id AND t.id = e.to_node_id WHERE e.user_id = ?"
)


def add(
    connection: Connection,
    user_id: str,
    number: int,
    from_node_id: int,
    to_node_id: int,
    *,
    type: str,
    explanation: str,
    confidence: float,
    source: str,
    now: int,
) -> tuple[int, bool]:
    """Return the id of the edge, and True if it is new; an existing edge of that type stays as it is."""
    _check(type, explanation, confidence, source)
    if from_node_id == to_node_id:
        raise UsageError(f"node {from_node_id} cannot be connected with itself")
    for node_id in (from_node_id, to_node_id):
        if not connection.execute("SELECT 1 FROM nodes WHERE user_id = ? AND id = ?", (user_id, node_id)):
            raise UsageError(f"there is no node {node_id}", hint="shepherd knowledge list shows all nodes")
    known = find(connection, user_id, from_node_id, to_node_id, type)
    if known is not None:
        return known, False
    [(edge_id,)] = connection.execute(
        "UPDATE knowledge_sums SET next_edge = next_edge + 1 WHERE number = ? RETURNING next_edge - 1",
        (number,),
    )
    connection.execute(
        "INSERT INTO edges(user_id, id, from_node_id, to_node_id, type, explanation, confidence, source,"
        " created_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (user_id, edge_id, from_node_id, to_node_id, type, explanation.strip(), confidence, source, now),
    )
    _count(connection, user_id, from_node_id, to_node_id, 1)
    return int(edge_id), True


def find(connection: Connection, user_id: str, from_node_id: int, to_node_id: int, type: str) -> int | None:
    """Return the id of the edge of that type between two nodes."""
    rows = connection.execute(
        "SELECT id FROM edges WHERE user_id = ? AND from_node_id = ? AND to_node_id = ? AND type = ?",
        (user_id, from_node_id, to_node_id, type),
    )
    return rows[0][0] if rows else None


def change(
    connection: Connection,
    user_id: str,
    edge_id: int,
    *,
    type: str | None = None,
    explanation: str | None = None,
    confidence: float | None = None,
) -> bool:
    """Change the values that are not None; UsageError if the nodes have an edge of the new type already."""
    known = get(connection, user_id, edge_id)
    if known is None:
        return False
    type = known.type if type is None else type
    explanation = known.explanation if explanation is None else explanation
    confidence = known.confidence if confidence is None else confidence
    _check(type, explanation, confidence, "user")
    other = find(connection, user_id, known.from_node_id, known.to_node_id, type)
    if other not in (None, edge_id):
        raise UsageError(
            f"edge {other} connects these nodes as {type} already", hint="change or remove that one"
        )
    connection.execute(
        "UPDATE edges SET type = ?, explanation = ?, confidence = ? WHERE user_id = ? AND id = ?",
        (type, explanation.strip(), confidence, user_id, edge_id),
    )
    return True


def delete(connection: Connection, user_id: str, edge_id: int) -> bool:
    """Remove an edge; False if there is none."""
    rows = connection.execute(
        "DELETE FROM edges WHERE user_id = ? AND id = ? RETURNING from_node_id, to_node_id",
        (user_id, edge_id),
    )
    for from_node_id, to_node_id in rows:
        _count(connection, user_id, from_node_id, to_node_id, -1)
    return bool(rows)


def delete_of_node(connection: Connection, user_id: str, node_id: int) -> None:
    """Remove all edges of a node."""
    rows = connection.execute(
        "SELECT id FROM edges WHERE user_id = ?1 AND from_node_id = ?2"
        " UNION SELECT id FROM edges WHERE user_id = ?1 AND to_node_id = ?2",
        (user_id, node_id),
    )
    for (edge_id,) in rows:
        delete(connection, user_id, edge_id)


def get(connection: Connection, user_id: str, edge_id: int) -> Edge | None:
    """Return an edge of the user."""
    rows = connection.execute(f"{_EDGES} AND e.id = ?", (user_id, edge_id))
    return Edge(*rows[0]) if rows else None


def of_node(
    connection: Connection, user_id: str, node_id: int | None, *, type: str | None = None, limit: int
) -> list[Edge]:
    """Return edges at either end of a node, or all, the newest first."""
    wanted, parameters = "", [user_id]
    arguments: list[Any] = [*parameters]
    if node_id is not None:
        wanted += " AND (e.from_node_id = ? OR e.to_node_id = ?)"
        arguments += [node_id, node_id]
    if type is not None:
        wanted += " AND e.type = ?"
        arguments.append(type)
    rows = connection.execute(
        f"{_EDGES}{wanted} ORDER BY e.created_at DESC, e.id DESC LIMIT ?", (*arguments, limit)
    )
    return [Edge(*row) for row in rows]


def hubs(connection: Connection, user_id: str, limit: int) -> list[Hub]:
    """Return the nodes with the most edges, ties to the latest changed, then to the smaller id.

    Nodes of kind `memory` are left out. An index has this order: the time does not depend on the number of
    nodes.
    """
    rows = connection.execute(
        "SELECT id, title, n_edges FROM nodes WHERE user_id = ? AND kind <> 'memory'"
        " ORDER BY n_edges DESC, updated_at DESC, id LIMIT ?",
        (user_id, limit),
    )
    return [Hub(*row) for row in rows]


def _count(connection: Connection, user_id: str, from_node_id: int, to_node_id: int, by: int) -> None:
    connection.execute(
        "UPDATE nodes SET n_edges = n_edges + ? WHERE user_id = ? AND id IN (?, ?)",
        (by, user_id, from_node_id, to_node_id),
    )


def _check(type: str, explanation: str, confidence: float, source: str) -> None:
    if type not in EDGE_TYPES:
        raise UsageError(f"there is no edge type {type!a}", hint="types: " + ", ".join(EDGE_TYPES))
    if not explanation.strip():
        raise UsageError(
            "an edge needs an explanation", hint="a sentence that reads from the first node to the second"
        )
    if not 0.0 <= confidence <= 1.0:
        raise UsageError(f"confidence must be from 0 to 1, not {confidence}")
    if source not in SOURCES:
        raise UsageError(f"there is no source {source!a}", hint="sources: " + ", ".join(SOURCES))

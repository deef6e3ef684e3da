"""Gives what was kept under one user's id to another: `local`'s nodes to the one who made them.

In one transaction: at every moment each node belongs to exactly one of the two. What both have imported from
the same place stays as the one who claims has it.
"""

from __future__ import annotations

from shepherd.knowledge import dimensions, edges, nodes
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.nodes import NewNode
from shepherd.transactions import Connection

__all__ = ["move"]

_NODE = (
    "title, kind, description, notes, source_text, link, event_date, origin, content_hash, created_at,"
    " updated_at"
)


def move(connection: Connection, source: Shelf, target: Shelf, now: int) -> int:
    """How many nodes are the other's now that were not before."""
    for dimension in dimensions.all_of(connection, source.user_id):
        known = connection.execute(
            "SELECT 1 FROM dimensions WHERE user_id = ? AND name = ?", (target.user_id, dimension.name)
        )
        dimensions.ensure(connection, target.user_id, dimension.name)
        if not known:
            dimensions.change(
                connection,
                target.user_id,
                dimension.name,
                description=dimension.description,
                icon=dimension.icon,
                is_priority=dimension.is_priority,
            )
    ids, n_new = _move_nodes(connection, source, target, now)
    for edge in edges.of_node(connection, source.user_id, None, limit=1 << 40):
        if ids[edge.from_node_id] != ids[edge.to_node_id]:
            edges.add(
                connection,
                target.user_id,
                target.number,
                ids[edge.from_node_id],
                ids[edge.to_node_id],
                type=edge.type,
                explanation=edge.explanation,
                confidence=edge.confidence,
                source=edge.source,
                now=edge.created_at,
            )
    for node_id in ids:
        nodes.delete(connection, source, node_id)
    for dimension in dimensions.all_of(connection, source.user_id):
        dimensions.delete(connection, source.user_id, dimension.name)
    return n_new


def _move_nodes(connection: Connection, source: Shelf, target: Shelf, now: int) -> tuple[dict[int, int], int]:
    """The new number of each node, and how many are new."""
    ids: dict[int, int] = {}
    n_new = 0
    numbers = connection.execute("SELECT id FROM nodes WHERE user_id = ? ORDER BY id", (source.user_id,))
    for (node_id,) in numbers:
        [row] = connection.execute(
            f"SELECT {_NODE} FROM nodes WHERE user_id = ? AND id = ?", (source.user_id, node_id)
        )
        fields = dict(zip(_NODE.split(", "), row, strict=True))
        known = nodes.by_origin(connection, target.user_id, fields["origin"])
        if known is not None:
            ids[node_id] = known[0]
            continue
        [node] = nodes.several(connection, source.user_id, [node_id])
        new = NewNode(**fields, metadata=node.metadata, dimensions=node.dimensions)
        ids[node_id] = nodes.add(connection, target, new, now)
        n_new += 1
    return ids, n_new

"""Rows of `dimensions` and `node_dimensions`, the tags of nodes; all in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shepherd.errors import UsageError
from shepherd.knowledge.records import Dimension
from shepherd.transactions import Connection

__all__ = ["all_of", "change", "cleaned", "delete", "ensure", "of_nodes", "set_of_node"]

_MOST_IDS = 60  # a statement has at most 64 parameters
_LONGEST_NAME = 100


def cleaned(name: str) -> str:
    """Return a name as it is stored; UsageError for an empty one."""
    name = " ".join(name.split())[:_LONGEST_NAME]
    if not name:
        raise UsageError("a dimension needs a name")
    return name


def ensure(connection: Connection, user_id: str, name: str) -> None:
    """Add the dimension if it is missing."""
    connection.execute(
        "INSERT INTO dimensions(user_id, name) VALUES(?, ?) ON CONFLICT(user_id, name) DO NOTHING",
        (user_id, name),
    )


def change(
    connection: Connection,
    user_id: str,
    name: str,
    *,
    new_name: str | None = None,
    description: str | None = None,
    icon: str | None = None,
    is_priority: bool | None = None,
) -> None:
    """Change the values that are not None; a dimension that gets the name of another is merged into it."""
    values = {
        "description": description,
        "icon": icon,
        "is_priority": None if is_priority is None else int(is_priority),
    }
    for column, value in values.items():
        if value is not None:
            connection.execute(
                f"UPDATE dimensions SET {column} = ? WHERE user_id = ? AND name = ?", (value, user_id, name)
            )
    if new_name is not None and new_name != name:
        _rename(connection, user_id, name, new_name)


def _rename(connection: Connection, user_id: str, name: str, new_name: str) -> None:
    connection.execute(
        "INSERT INTO dimensions(user_id, name, description, icon, is_priority)"
        " SELECT user_id, ?, description, icon, is_priority FROM dimensions WHERE user_id = ? AND name = ?"
        " ON CONFLICT(user_id, name) DO NOTHING",
        (new_name, user_id, name),
    )
    connection.execute(
        "INSERT INTO node_dimensions(user_id, node_id, dimension)"
        " SELECT user_id, node_id, ? FROM node_dimensions WHERE user_id = ? AND dimension = ?"
        " ON CONFLICT(user_id, node_id, dimension) DO NOTHING",
        (new_name, user_id, name),
    )
    delete(connection, user_id, name)


def delete(connection: Connection, user_id: str, name: str) -> bool:
    """Remove a dimension and take it off all nodes; False if there is none."""
    connection.execute("DELETE FROM node_dimensions WHERE user_id = ? AND dimension = ?", (user_id, name))
    return bool(
        connection.execute(
            "DELETE FROM dimensions WHERE user_id = ? AND name = ? RETURNING name", (user_id, name)
        )
    )


def all_of(connection: Connection, user_id: str) -> list[Dimension]:
    """Return a user's dimensions, priority ones first, then by name."""
    rows = connection.execute(
        "SELECT d.name, d.description, d.icon, d.is_priority, count(n.node_id) FROM dimensions d"
        " LEFT JOIN node_dimensions n ON n.user_id = d.user_id AND n.dimension = d.name"
        " WHERE d.user_id = ? GROUP BY d.name, d.description, d.icon, d.is_priority"
        " ORDER BY d.is_priority DESC, d.name",
        (user_id,),
    )
    return [Dimension(name, text, icon, bool(priority), n) for name, text, icon, priority, n in rows]


def set_of_node(connection: Connection, user_id: str, node_id: int, names: Iterable[str]) -> None:
    """Give a node these dimensions and no others, and add new ones."""
    connection.execute("DELETE FROM node_dimensions WHERE user_id = ? AND node_id = ?", (user_id, node_id))
    for name in dict.fromkeys(map(cleaned, names)):
        ensure(connection, user_id, name)
        connection.execute(
            "INSERT INTO node_dimensions(user_id, node_id, dimension) VALUES(?, ?, ?)",
            (user_id, node_id, name),
        )


def of_nodes(connection: Connection, user_id: str, node_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the sorted dimensions by node, without nodes that have none."""
    found: dict[int, tuple[str, ...]] = {}
    for start in range(0, len(node_ids), _MOST_IDS):
        ids = node_ids[start : start + _MOST_IDS]
        for node_id, name in connection.execute(
            "SELECT node_id, dimension FROM node_dimensions WHERE user_id = ?"
            f" AND node_id IN ({', '.join('?' * len(ids))}) ORDER BY dimension",
            (user_id, *ids),
        ):
            found[node_id] = (*found.get(node_id, ()), name)
    return found

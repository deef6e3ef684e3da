"""Looks after the traces of turns where conversations go, on both engines.

What a trace says is the trace room's; here is only that it goes with its session and its user. A session's id
is the memory's own, hexadecimal, and stands in a path as it is. Inside the caller's transaction.
"""

from __future__ import annotations

from shepherd.memory.connection import Connection

__all__ = ["are_any", "clear_some", "forget_session", "move"]


def forget_session(connection: Connection, user_id: str, session_id: str) -> None:
    """Removes what is known of the turns of a conversation."""
    root = f"/context/{session_id}"
    connection.execute(
        "DELETE FROM trace WHERE user_id = ? AND path >= ? AND path < ?", (user_id, f"{root}/", f"{root}0")
    )


def are_any(connection: Connection) -> bool:
    """Whether anybody has traces."""
    return bool(connection.execute("SELECT 1 FROM trace LIMIT 1"))


def clear_some(connection: Connection, user_id: str) -> bool:
    """Removes all traces of this user, or of another one if this one has none; whether there were any.

    What explains old answers goes before anything that an answer is made of, whoever it is of.
    """
    rows = connection.execute("SELECT user_id FROM trace WHERE user_id = ? LIMIT 1", (user_id,))
    rows = rows or connection.execute("SELECT user_id FROM trace LIMIT 1")
    if rows:
        connection.execute("DELETE FROM trace WHERE user_id = ?", rows[0])
    return bool(rows)


def move(connection: Connection, from_user: str, user_id: str) -> None:
    """Gives a user's traces to another; of what both have, the other's stays."""
    connection.execute(
        "INSERT INTO trace(user_id, path, value, kind)"
        " SELECT ?, path, value, kind FROM trace WHERE user_id = ? ON CONFLICT(user_id, path) DO NOTHING",
        (user_id, from_user),
    )
    connection.execute("DELETE FROM trace WHERE user_id = ?", (from_user,))

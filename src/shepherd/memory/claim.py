"""Gives what was stored under one user's id to another: the rows of `local` to the one who made them.

Numbers of users never change hands, so memories are stored anew under the other's number, a page at a
time. At every moment each row belongs to exactly one of the two: what an interruption leaves is claimed
by claiming again.
"""

from __future__ import annotations

from shepherd._native.store import Connection
from shepherd.memory import facts, memories, tenants
from shepherd.memory.database import Database
from shepherd.memory.records import ClaimCounts

__all__ = ["claim"]


def claim(database: Database, from_user: str, user_id: str) -> ClaimCounts:
    """Moves everything of `from_user` to `user_id`; of what both have, that of `user_id` stays."""
    with database.write() as connection:
        n_facts = _move_facts(connection, from_user, user_id)
        n_sessions = _move_sessions(connection, from_user, user_id)
    n_new = n_known = 0
    while True:
        with database.write() as connection:
            moved = _move_page(connection, from_user, user_id)
        if not moved:
            return ClaimCounts(n_new, n_facts, n_sessions, n_known)
        n_new += sum(moved)
        n_known += len(moved) - sum(moved)


def _move_facts(connection: Connection, from_user: str, user_id: str) -> int:
    """How many were newer than what the other has, or new to him."""
    n_taken = facts.merge(
        connection,
        user_id,
        facts.of_user(connection, from_user),
        facts.history(connection, from_user, None),
    )
    for table in ("facts", "fact_history"):
        connection.execute(f"DELETE FROM {table} WHERE user_id = ?", (from_user,))
    return n_taken


def _move_sessions(connection: Connection, from_user: str, user_id: str) -> int:
    rows = connection.execute("SELECT message_bytes FROM tenants WHERE user_id = ?", (from_user,))
    size = rows[0][0] if rows else 0
    connection.execute("UPDATE sessions SET user_id = ? WHERE user_id = ?", (user_id, from_user))
    n_sessions = connection.changes
    if size:
        tenants.ensure(connection, user_id)
        tenants.add_message_bytes(connection, from_user, -size)
        tenants.add_message_bytes(connection, user_id, size)
    return n_sessions


def _move_page(connection: Connection, from_user: str, user_id: str) -> list[bool]:
    """For each of the next few memories, whether it was new to the other; empty at the end."""
    source = tenants.find(connection, from_user)
    page = [] if source is None else memories.page(connection, source, 0)
    if source is None or not page:
        return []
    target = tenants.ensure(connection, user_id)
    moved = []
    for _, memory in page:
        memory_id, is_new = memories.add(connection, user_id, target, memory)
        if memory.pinned and not is_new:
            memories.pin(connection, target, memory_id, True)
        moved.append(is_new)
    memories.delete(connection, source, [memory_id for memory_id, _ in page])
    return moved

"""Transfer of one user's rows to another: those of `local` to the user who made them.

The id of a memory contains its user's number, so memories are stored anew under the other's, a page at a
time. At every moment each row belongs to exactly one of the two; after an interruption, claim again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from shepherd.memory import extraction_jobs, facts, learned, ledger, memories, sessions, tenants
from shepherd.memory.memories import TermIndex
from shepherd.memory.records import ClaimCounts, NewMemory
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import Connection

__all__ = ["Engine", "claim", "users_with_memories"]

_Result = TypeVar("_Result")
_AnyConnection = Any  # of the engine


class Engine(Protocol):
    """Operations that differ between the engines."""

    terms: TermIndex

    def write(self, work: Callable[[_AnyConnection], _Result]) -> _Result:
        """Return the result of `work` once it is committed; other writers of the two users wait."""

    def add(
        self, connection: _AnyConnection, user_id: str, new: Sequence[NewMemory]
    ) -> list[tuple[int, bool]]:
        """Store memories; return for each its id, and True if it is new."""


def claim(engine: Engine, from_user: str, user_id: str) -> ClaimCounts:
    """Move everything of `from_user` to `user_id`; where both have the same, the row of `user_id` stays."""

    def move_small(connection: Connection) -> tuple[int, int, int]:
        extraction_jobs.move(connection, from_user, user_id)
        ledger.clear(connection, from_user)  # the notes are only a cache
        sessions.move_traces(connection, from_user, user_id)
        n_facts = facts.move(connection, from_user, user_id)
        learned.move(connection, from_user, user_id)
        n_sessions = _move_sessions(connection, from_user, user_id)
        return n_facts, n_sessions, _last_id(connection, from_user)

    def move_page(connection: Connection) -> list[bool]:
        return _move_page(engine, connection, from_user, user_id, last_id)

    n_facts, n_sessions, last_id = engine.write(move_small)
    n_new = n_known = 0
    while moved := engine.write(move_page):
        n_new += sum(moved)
        n_known += len(moved) - sum(moved)
    return ClaimCounts(n_new, n_facts, n_sessions, n_known)


def users_with_memories(connection: Connection) -> dict[str, int]:
    """Return the number of memories by user, most first."""
    rows = connection.execute("SELECT user_id, n FROM tenants WHERE n > 0 ORDER BY n DESC, user_id")
    return dict(rows)


def _move_sessions(connection: Connection, from_user: str, user_id: str) -> int:
    rows = connection.execute("SELECT message_bytes FROM tenants WHERE user_id = ?", (from_user,))
    size = rows[0][0] if rows else 0
    moved = connection.execute(
        "UPDATE sessions SET user_id = ? WHERE user_id = ? RETURNING id", (user_id, from_user)
    )
    if size:
        tenants.ensure(connection, user_id)
        tenants.add_message_bytes(connection, from_user, -size)
        tenants.add_message_bytes(connection, user_id, size)
    return len(moved)


def _last_id(connection: Connection, user_id: str) -> int:
    """Return the largest id to move: without a limit, two users who claim from each other would never end."""
    rows = connection.execute(
        f"SELECT (number << {SEQUENCE_BITS}) + next_sequence - 1 FROM tenants WHERE user_id = ?", (user_id,)
    )
    return rows[0][0] if rows else 0


def _move_page(
    engine: Engine, connection: Connection, from_user: str, user_id: str, last_id: int
) -> list[bool]:
    """Move a page of memories; return for each if it was new to the other user, [] at the end."""
    source = tenants.find(connection, from_user)
    if source is None:
        return []
    page = [found for found in memories.page(connection, source, 0) if found[0] <= last_id]
    if not page:
        return []
    target = tenants.ensure(connection, user_id)
    moved = engine.add(connection, user_id, [memory for _, memory in page])
    for (old_id, memory), (memory_id, is_new) in zip(page, moved, strict=True):
        learned.move_memory(connection, old_id, memory_id if is_new else 0)
        if memory.pinned and not is_new:
            memories.pin(connection, target, memory_id, True)
    memories.delete(connection, source, [memory_id for memory_id, _ in page], engine.terms)
    return [is_new for _, is_new in moved]

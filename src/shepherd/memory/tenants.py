"""Users as the tables know them: a number, and sums that ranking and fair shares are made of.

Inside the caller's transaction.
"""

from __future__ import annotations

from shepherd.memory.connection import Connection
from shepherd.memory.records import MemoryStats
from shepherd.memory.schema import memory_range

__all__ = [
    "MEMORY_BYTES_SQL",
    "MESSAGE_BYTES_SQL",
    "ROW_BYTES",
    "add_message_bytes",
    "counts",
    "ensure",
    "find",
]

# What a row takes beside its text, in headers and indexes. Only the shares of users depend on it.
ROW_BYTES = 256
# length() of a text counts characters, and SQLite's stops at a NUL.
MEMORY_BYTES_SQL = f"octet_length(user_message) + octet_length(assistant_response) + {ROW_BYTES}"
MESSAGE_BYTES_SQL = (
    "octet_length(raw) + coalesce(octet_length(sent), 0)"
    " + coalesce(length(injected), 0) + coalesce(length(token_ids), 0)"
    f" + coalesce(octet_length(tool_calls), 0) + octet_length(thought) + {ROW_BYTES}"
)


def find(connection: Connection, user_id: str) -> int | None:
    """The number of a user who has stored something."""
    rows = connection.execute("SELECT number FROM tenants WHERE user_id = ?", (user_id,))
    return rows[0][0] if rows else None


def ensure(connection: Connection, user_id: str) -> int:
    """The number of a user, from now on. Numbers never change and are never given again."""
    number = find(connection, user_id)
    if number is None:
        rows = connection.execute("INSERT INTO tenants(user_id) VALUES(?) RETURNING number", (user_id,))
        number = int(rows[0][0])
    return number


def add_message_bytes(connection: Connection, user_id: str, size: int) -> None:
    """Counts what the user's conversations take."""
    connection.execute(
        "UPDATE tenants SET message_bytes = message_bytes + ? WHERE user_id = ?", (size, user_id)
    )


def counts(connection: Connection, user_id: str) -> MemoryStats:
    """What a user has; the sizes of the whole are the engine's to fill in."""
    number = find(connection, user_id)
    first, last = memory_range(number) if number is not None else (0, -1)
    [(n, pinned, oldest, newest)] = connection.execute(
        "SELECT count(*), coalesce(sum(pinned), 0), coalesce(min(timestamp), 0),"
        " coalesce(max(timestamp), 0) FROM context WHERE id BETWEEN ? AND ?",
        (first, last),
    )
    [(n_facts,)] = connection.execute("SELECT count(*) FROM facts WHERE user_id = ?", (user_id,))
    [(n_sessions,)] = connection.execute(
        "SELECT count(*) FROM sessions s WHERE user_id = ?"
        " AND EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)",
        (user_id,),
    )
    return MemoryStats(
        memories=n,
        pinned=pinned,
        facts=n_facts,
        sessions=n_sessions,
        oldest_timestamp=oldest,
        newest_timestamp=newest,
    )

"""Users in the tables: their numbers, the sums that ranking and fair shares need, and their statistics.

Inside the caller's transaction.
"""

from __future__ import annotations

from shepherd.errors import UsageError
from shepherd.memory.records import Activity, MemoryStats
from shepherd.memory.schema import memory_range
from shepherd.transactions import Connection
from shepherd.types import SECONDS_PER_DAY

__all__ = [
    "MEMORY_BYTES_SQL",
    "MESSAGE_BYTES_SQL",
    "NO_OWNER",
    "REMOVED",
    "ROW_BYTES",
    "activity",
    "add_message_bytes",
    "counts",
    "ensure",
    "find",
    "is_reserved",
    "require_usable",
]

# Before the number of a user who was removed: numbers are never given again, so their rows stay.
REMOVED = "removed/"
# Owner of the keys of users who were removed.
NO_OWNER = "removed user"
# Bytes of a row beside its text, in headers and indexes. Only the shares of users depend on it.
ROW_BYTES = 256
# length() of a text counts characters, and SQLite's stops at a NUL.
MEMORY_BYTES_SQL = f"octet_length(user_message) + octet_length(assistant_response) + {ROW_BYTES}"
MESSAGE_BYTES_SQL = (
    "octet_length(raw) + coalesce(octet_length(sent), 0)"
    " + coalesce(length(injected), 0) + coalesce(length(token_ids), 0)"
    f" + coalesce(octet_length(tool_calls), 0) + octet_length(thought) + {ROW_BYTES}"
)


def is_reserved(user_id: str) -> bool:
    """Return whether a name is kept for users who were removed, so that nobody can be called that."""
    return user_id == NO_OWNER or user_id.startswith(REMOVED)


def require_usable(user_id: str) -> None:
    """Raise UsageError for a name that is reserved."""
    if is_reserved(user_id):
        raise UsageError(
            f"user: names that begin with {REMOVED!r}, and {NO_OWNER!r}, are kept for users who were deleted",
            hint="choose another name",
        )


def find(connection: Connection, user_id: str) -> int | None:
    """Return the number of a user, None if the user has stored nothing yet."""
    rows = connection.execute("SELECT number FROM tenants WHERE user_id = ?", (user_id,))
    return rows[0][0] if rows else None


def ensure(connection: Connection, user_id: str) -> int:
    """Return the number of a user; a new user gets one. Numbers never change and are never given again."""
    number = find(connection, user_id)
    if number is None:
        rows = connection.execute("INSERT INTO tenants(user_id) VALUES(?) RETURNING number", (user_id,))
        number = int(rows[0][0])
    return number


def add_message_bytes(connection: Connection, user_id: str, size: int) -> None:
    """Add to the size of the user's conversations."""
    connection.execute(
        "UPDATE tenants SET message_bytes = message_bytes + ? WHERE user_id = ?", (size, user_id)
    )


def counts(connection: Connection, user_id: str) -> MemoryStats:
    """Return the counts of a user; the engine adds the sizes of the whole database."""
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


def activity(connection: Connection, tenant: int, n_recalled: int) -> Activity:
    """Return the memories of each UTC day and source, and the most recalled ones, of equals the latest."""
    day = SECONDS_PER_DAY
    days = connection.execute(
        # Rounded down also before 1970, where division does not.
        f"SELECT (timestamp - ((timestamp % {day}) + {day}) % {day}) / {day}, source, count(*)"
        " FROM context WHERE id BETWEEN ? AND ? GROUP BY 1, 2 ORDER BY 1, 2",
        memory_range(tenant),
    )
    recalled = connection.execute(
        "SELECT id, n, last FROM recalls WHERE id BETWEEN ? AND ? ORDER BY n DESC, last DESC, id LIMIT ?",
        (*memory_range(tenant), n_recalled),
    )
    [(unused,)] = connection.execute(
        "SELECT count(*) FROM context WHERE id BETWEEN ? AND ?"
        " AND NOT EXISTS (SELECT 1 FROM recalls r WHERE r.id = context.id)",
        memory_range(tenant),
    )
    return Activity(
        tuple((day, source, n) for day, source, n in days),
        tuple((id_, n, last) for id_, n, last in recalled),
        unused,
    )

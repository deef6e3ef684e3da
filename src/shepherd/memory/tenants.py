"""Users as the tables know them: a number, and sums that ranking and fair shares are made of.

Inside the caller's transaction.
"""

from __future__ import annotations

from shepherd._native.store import Connection

__all__ = ["MEMORY_BYTES_SQL", "MESSAGE_BYTES_SQL", "ROW_BYTES", "add_message_bytes", "ensure", "find"]

# What a row takes beside its text, in headers and indexes. Only the shares of users depend on it.
ROW_BYTES = 256
# length() of a text counts characters, and stops at a NUL.
MEMORY_BYTES_SQL = (
    f"length(CAST(user_message AS BLOB)) + length(CAST(assistant_response AS BLOB)) + {ROW_BYTES}"
)
MESSAGE_BYTES_SQL = (
    "length(CAST(raw AS BLOB)) + coalesce(length(CAST(sent AS BLOB)), 0)"
    f" + coalesce(length(injected), 0) + coalesce(length(token_ids), 0) + {ROW_BYTES}"
)


def find(connection: Connection, user_id: str) -> int | None:
    """The number of a user who has stored something."""
    rows = connection.execute("SELECT number FROM tenants WHERE user_id = ?", (user_id,))
    return rows[0][0] if rows else None


def ensure(connection: Connection, user_id: str) -> int:
    """The number of a user, from now on. Numbers never change and are never given again."""
    number = find(connection, user_id)
    if number is None:
        connection.execute("INSERT INTO tenants(user_id) VALUES(?)", (user_id,))
        number = connection.last_insert_rowid
    return number


def add_message_bytes(connection: Connection, user_id: str, size: int) -> None:
    """Counts what the user's conversations take."""
    connection.execute(
        "UPDATE tenants SET message_bytes = message_bytes + ? WHERE user_id = ?", (size, user_id)
    )

"""Keys that let others use a server: who owns each, what it may do, and only the hash of it.

SHA-256 once, and no salt: a key is 256 random bits, which nobody guesses or has in a table. Slow hashes are
for passwords that people choose, and would cost each request a tenth of a second.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shepherd.errors import UsageError
from shepherd.memory.connection import Connection
from shepherd.memory.records import ApiKey
from shepherd.types import ANONYMOUS_USERS

if TYPE_CHECKING:
    from shepherd.memory.store import MemoryStore

__all__ = ["ApiKeys", "add", "are_any", "find", "is_good", "listed", "revoke"]

PREFIX = "shepherd_"
_COLUMNS = "id, owner, scopes, label, created_at, revoked_at"
_LONGEST_OWNER = 128
_LONGEST_LABEL = 200


class ApiKeys:
    """The keys of a memory's database; `Memory.keys` is one. Thread-safe; every look is at the table itself.

    Rows of revoked keys stay: a server that had keys once never becomes open to everybody.
    """

    def __init__(self, store: MemoryStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock

    def create(self, owner: str, scopes: Sequence[str], *, label: str = "") -> tuple[str, ApiKey]:
        """A new key, which is stored nowhere, and what is stored of it.

        A slash is no part of an owner's name: it begins the names of his own users.
        """
        require_owner(owner)
        if not scopes:
            raise UsageError("a key that may do nothing is of no use", hint="give it a scope")
        if len(label) > _LONGEST_LABEL or not label.isprintable():
            raise UsageError(f"label: at most {_LONGEST_LABEL} printable characters")
        key = PREFIX + secrets.token_hex(32)
        record = ApiKey(secrets.token_hex(4), owner, tuple(scopes), label, int(self._clock()), 0)
        self._store.add_key(hash_of(key), record)
        return key, record

    def find(self, key: str) -> ApiKey | None:
        """What is stored of this key, also if it was revoked; None for one that never was."""
        # The prefix and the length first: not every header is worth a look at the table.
        if not key.startswith(PREFIX) or len(key) != len(PREFIX) + 64:
            return None
        return self._store.find_key(hash_of(key))

    def is_good(self, key_id: str) -> bool:
        """Whether the key of this id is there and was not revoked."""
        return self._store.is_good_key(key_id)

    @property
    def are_in_file(self) -> bool:
        """Whether a look takes microseconds; else it is a question to a server, which may not answer soon."""
        return self._store.is_in_file

    def are_any(self) -> bool:
        """Whether there ever was a key."""
        return self._store.has_keys()

    def list(self) -> list[ApiKey]:
        """All of them, in the order they were made."""
        return self._store.list_keys()

    def revoke(self, key_id: str) -> ApiKey | None:
        """Ends a key, in every running server with its next request; what it was, None without such a key."""
        return self._store.revoke_key(key_id, int(self._clock()))


def require_owner(owner: str) -> None:
    """UsageError for what cannot be an owner."""
    is_word = 0 < len(owner) <= _LONGEST_OWNER and owner.isprintable() and " " not in owner
    if not is_word or "/" in owner or owner in ANONYMOUS_USERS:
        raise UsageError(
            "owner: not a name that can own keys",
            hint=f"up to {_LONGEST_OWNER} printable characters without blanks and slashes, and not 'unknown'",
        )


def hash_of(key: str) -> str:
    """What the table has of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


# ---- inside the caller's transaction


def add(connection: Connection, key_hash: str, key: ApiKey) -> None:
    """Stores a key."""
    connection.execute(
        "INSERT INTO api_keys(hash, id, owner, scopes, label, created_at) VALUES(?, ?, ?, ?, ?, ?)",
        (key_hash, key.id, key.owner, " ".join(key.scopes), key.label, key.created_at),
    )


def find(connection: Connection, key_hash: str) -> ApiKey | None:
    """The key of this hash."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM api_keys WHERE hash = ?", (key_hash,))
    return _record(rows[0]) if rows else None


def are_any(connection: Connection) -> bool:
    """Whether there are keys, revoked ones too."""
    return bool(connection.execute("SELECT 1 FROM api_keys LIMIT 1"))


def is_good(connection: Connection, key_id: str) -> bool:
    """Whether there is such a key, and it was not revoked."""
    return bool(connection.execute("SELECT 1 FROM api_keys WHERE id = ? AND revoked_at = 0", (key_id,)))


def listed(connection: Connection) -> list[ApiKey]:
    """All keys, in the order they were made."""
    return [
        _record(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_at, id")
    ]


def revoke(connection: Connection, key_id: str, now: int) -> ApiKey | None:
    """Ends a key; one that had ended before keeps its time."""
    rows = connection.execute(
        "UPDATE api_keys SET revoked_at = CASE WHEN revoked_at = 0 THEN ? ELSE revoked_at END"
        f" WHERE id = ? RETURNING {_COLUMNS}",
        (now, key_id),
    )
    return _record(rows[0]) if rows else None


def _record(row: tuple[Any, ...]) -> ApiKey:
    key_id, owner, scopes, *rest = row
    return ApiKey(key_id, owner, tuple(scopes.split()), *rest)

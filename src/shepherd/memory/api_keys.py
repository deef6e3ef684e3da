"""API keys of a server: the owner and the scopes of each, and its hash instead of the key.

SHA-256 without a salt is enough: a key is 256 random bits, which nobody guesses or has in a table. Slow
hashes are for passwords that people choose, and would cost each request a tenth of a second.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from shepherd.errors import UsageError
from shepherd.memory import tenants
from shepherd.memory.records import ApiKey
from shepherd.memory.store import MemoryStore
from shepherd.transactions import Connection
from shepherd.types import ANONYMOUS_USERS

__all__ = ["PREFIX", "ApiKeys", "hash_of", "require_owner"]

PREFIX = "shepherd_"
_COLUMNS = "id, owner, scopes, label, created_at, revoked_at"
_LONGEST_OWNER = 128
_LONGEST_LABEL = 200


class ApiKeys:
    """The keys of a memory's database, `Memory.keys`. Thread-safe; nothing is cached.

    Rows of revoked keys stay, so that revoking the last one opens no server to everybody; only `clear` does.
    """

    def __init__(self, store: MemoryStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock

    def create(self, owner: str, scopes: Sequence[str], *, label: str = "") -> tuple[str, ApiKey]:
        """Create a key; return it, since it is stored nowhere, and its record.

        An owner's name has no slash: `owner/…` are the names of the owner's own users.
        """
        require_owner(owner)
        if not scopes:
            raise UsageError("a key needs at least one scope", hint="name a scope")
        if len(label) > _LONGEST_LABEL or not label.isprintable():
            raise UsageError(f"label: at most {_LONGEST_LABEL} printable characters")
        key = PREFIX + secrets.token_hex(32)
        record = ApiKey(secrets.token_hex(4), owner, tuple(scopes), label, int(self._clock()), 0)
        self._store.write(owner, lambda connection: _add(connection, hash_of(key), record))
        return key, record

    def find(self, key: str) -> ApiKey | None:
        """Return the record of a key, also of a revoked one; None if there never was such a key."""
        # The prefix and the length first: not every header is worth a query.
        if not key.startswith(PREFIX) or len(key) != len(PREFIX) + 64:
            return None
        return self._store.read(lambda connection: _find(connection, hash_of(key)))

    def is_good(self, key_id: str) -> bool:
        """Return whether there is a key of this id that was not revoked."""
        return self._store.read(lambda connection: _is_good(connection, key_id))

    @property
    def are_in_file(self) -> bool:
        """True if reading a key takes microseconds; False if a database server is asked."""
        return self._store.is_in_file

    def are_any(self) -> bool:
        """Return whether there is a key, valid or revoked."""
        return self._store.read(_are_any)

    def clear(self) -> int:
        """Delete all keys, revoked ones too, and return how many: servers on this machine then need none."""
        return self._store.write("", _clear)

    def list(self) -> list[ApiKey]:
        """Return all keys, in the order they were created."""
        return self._store.read(_list)

    def revoke(self, key_id: str) -> ApiKey | None:
        """Revoke a key for every running server; return its record, None without such a key.

        A key that was revoked before keeps its time.
        """
        now = int(self._clock())
        return self._store.write("", lambda connection: _revoke(connection, key_id, now))


def require_owner(owner: str) -> None:
    """Raise UsageError for a name that cannot own keys."""
    is_word = 0 < len(owner) <= _LONGEST_OWNER and owner.isprintable() and " " not in owner
    # Users of an owner begin with the name and a slash.
    is_taken = owner in ANONYMOUS_USERS or tenants.is_reserved(f"{owner}/")
    if not is_word or "/" in owner or is_taken:
        raise UsageError(
            "owner: not a name that can own keys",
            hint=f"up to {_LONGEST_OWNER} printable characters without spaces and slashes, and not 'unknown'"
            " or 'removed'",
        )


def hash_of(key: str) -> str:
    """Return the hash that the table has of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


# ---- inside the caller's transaction


def _add(connection: Connection, key_hash: str, key: ApiKey) -> None:
    connection.execute(
        "INSERT INTO api_keys(hash, id, owner, scopes, label, created_at) VALUES(?, ?, ?, ?, ?, ?)",
        (key_hash, key.id, key.owner, " ".join(key.scopes), key.label, key.created_at),
    )


def _find(connection: Connection, key_hash: str) -> ApiKey | None:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM api_keys WHERE hash = ?", (key_hash,))
    return _record(rows[0]) if rows else None


def _are_any(connection: Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM api_keys LIMIT 1"))


def _is_good(connection: Connection, key_id: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM api_keys WHERE id = ? AND revoked_at = 0", (key_id,)))


def _list(connection: Connection) -> list[ApiKey]:
    return [
        _record(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_at, id")
    ]


def _revoke(connection: Connection, key_id: str, now: int) -> ApiKey | None:
    rows = connection.execute(
        "UPDATE api_keys SET revoked_at = CASE WHEN revoked_at = 0 THEN ? ELSE revoked_at END"
        f" WHERE id = ? RETURNING {_COLUMNS}",
        (now, key_id),
    )
    return _record(rows[0]) if rows else None


def _clear(connection: Connection) -> int:
    return len(connection.execute("DELETE FROM api_keys RETURNING id"))


def _record(row: tuple[Any, ...]) -> ApiKey:
    key_id, owner, scopes, *rest = row
    return ApiKey(key_id, owner, tuple(scopes.split()), *rest)

"""Keys of users for backups of an encrypted file, and the file that has these keys apart from the backups.

A user gets a random key with the first backup that is made with keys (see backup_by_user). When the user is
removed, the key is destroyed, so that nobody can read the user in older backups; its tag stays. The file with
the keys is an encrypted database as well. Each backup replaces it. It keeps the keys that the memory doesn't
know, if that was restored from an older backup.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator

from shepherd._native.store import Connection, SQLiteError
from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import UserCipher
from shepherd.encryption.key_file import read_entries, refuse_foreign, write_entries
from shepherd.errors import StoreCorruptError, StoreError, StoreKeyError, UsageError
from shepherd.memory import failures, new_files
from shepherd.memory.database import connect_to_copy, is_encrypted, key_of_file
from shepherd.memory.overwriting import overwrite
from shepherd.memory.schema import BACKUP_KEYS_ID

__all__ = ["TABLE", "Key", "destroy", "ensure", "give", "memory_id", "read", "rows_of", "store", "write"]

_log = logging.getLogger(__name__)

TABLE = "backup_keys"
# secret: NULL once it is destroyed, when nobody needs the user's name any more. A user who has taken over the
# memory of another one has that one's keys, too; the newest is used.
_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE}(
        number INTEGER PRIMARY KEY,
        user_id TEXT NOT NULL,
        tag BLOB NOT NULL UNIQUE,
        secret BLOB)"""
_SECRET_BYTES = 32
# Key in `meta` of a random number by which the keys of several memories are told apart.
_MEMORY = "backup_memory"
_OTHER = "name another file after --keys"
_NAME_A_FILE = "name the newest file that shepherd memory backup --keys has written"

Key = tuple[str, bytes, bytes | None]
"""User, tag, and secret, None if it was destroyed."""


def ensure(connection: Connection, key: MemoryKey, users: Iterable[str]) -> dict[str, UserCipher]:
    """Return the ciphers of users, in a transaction that writes; who has no key gets one."""
    connection.execute(_CREATE)
    connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT DO NOTHING", (_MEMORY, secrets.randbits(63))
    )
    known = {user: secret for user, _, secret in rows_of(connection) if secret is not None}
    ciphers = {}
    for user in users:
        secret = known.get(user) or secrets.token_bytes(_SECRET_BYTES)
        cipher = ciphers[user] = UserCipher(key, secret, user_id=user)
        if user not in known:
            store(connection, [(user, cipher.tag, secret)])
    return ciphers


def rows_of(connection: Connection) -> list[Key]:
    """Return the keys that are stored, the oldest first; none if the table isn't there."""
    if not _is_there(connection):
        return []
    return connection.execute(f"SELECT user_id, tag, secret FROM {TABLE} ORDER BY number")


def store(connection: Connection, keys: Iterable[Key]) -> None:
    """Add keys, also destroyed ones; those that are there stay."""
    connection.execute(_CREATE)
    connection.execute_many(
        f"INSERT INTO {TABLE}(user_id, tag, secret) VALUES(?, ?, ?) ON CONFLICT(tag) DO NOTHING", list(keys)
    )


def destroy(connection: Connection, user_id: str) -> None:
    """Destroy the keys of a user who is removed, in the same transaction."""
    if _is_there(connection):
        connection.execute(f"UPDATE {TABLE} SET secret = NULL, user_id = '' WHERE user_id = ?", (user_id,))


def give(connection: Connection, from_user: str, user_id: str) -> None:
    """Let a user who takes over another one's memory have the keys of older backups of it, too."""
    if _is_there(connection):
        connection.execute(f"UPDATE {TABLE} SET user_id = ? WHERE user_id = ?", (user_id, from_user))


def memory_id(connection: Connection) -> int:
    """Return the number that a memory and its file of keys have in common; 0 if it has none."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_MEMORY,))
    return int(rows[0][0]) if rows else 0


def _is_there(connection: Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)))


# ---- the file


def write(path: str, database: str, key: MemoryKey, connection: Connection) -> None:
    """Put the keys that `connection` sees into the file at `path`, for the memory at `database`.

    Raises UsageError for a file that is something else, or has the keys of another memory.
    """
    refuse_foreign(path)
    own = memory_id(connection)
    keys = rows_of(connection)
    if os.path.lexists(path):
        known = {tag for _, tag, _ in keys}
        # Those of a memory before it was restored from an older backup.
        keys = [*(one for one in read(path, own) if one[1] not in known), *keys]
    with failures.blamed_on(path, _OTHER):
        with _overwriting(path), new_files.writing(path, _OTHER) as part:
            with Connection(part, create=False, key=key.database) as file:
                file.script("BEGIN; CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL)")
                file.execute("INSERT INTO meta VALUES(?, ?)", (_MEMORY, own))
                store(file, keys)
                file.script(f"PRAGMA application_id = {BACKUP_KEYS_ID}; PRAGMA user_version = 1; COMMIT")
            # While the file is replaced, the key of either can be found.
            entry = read_entries(database).get(key.salt)
            entries = read_entries(path)
            write_entries(path, {**entries, **({} if entry is None else {entry.salt: entry})}.values())
        write_entries(path, () if entry is None else (entry,))


def read(path: str, memory: int) -> list[Key]:
    """Return the keys in a file, which must be those of the memory with this number."""
    if os.path.isdir(path):
        raise UsageError(f"{path}: this is a folder", hint=_NAME_A_FILE)
    if not os.path.isfile(path):
        raise UsageError(f"{path}: there is no such file", hint=_NAME_A_FILE)
    try:
        if not is_encrypted(path):
            raise _foreign(path)
        key_of_file(path)
        with connect_to_copy(path) as file:
            if file.execute("PRAGMA application_id") != [(BACKUP_KEYS_ID,)]:
                raise _foreign(path)
            if memory_id(file) != memory:
                raise UsageError(f"{path}: these are the keys of another memory", hint=_NAME_A_FILE)
            return rows_of(file)
    except StoreKeyError as error:
        error.hint = f"{error.hint}; {_NAME_A_FILE}" if error.hint else _NAME_A_FILE
        raise
    except OSError as error:
        raise failures.from_os_error(path, error) from error
    except SQLiteError as error:
        raise StoreCorruptError(f"{path}: the file with the keys is damaged", hint=_NAME_A_FILE) from error


def _foreign(path: str) -> StoreError:
    return StoreError(f"{path}: this file has no keys of users; it was left untouched", hint=_NAME_A_FILE)


@contextlib.contextmanager
def _overwriting(path: str) -> Iterator[None]:
    """Overwrite the bytes of a file that the block replaces; OSError, before the block, if it can't be."""
    if not os.path.lexists(path):
        yield
        return
    old = os.open(path, os.O_RDWR)
    try:
        yield
        if not overwrite(old):
            _log.warning(
                "%s: the keys of users who were deleted since could not be overwritten: the older file has"
                " another name (a hard link), or the disk refused it",
                path,
            )
    finally:
        os.close(old)

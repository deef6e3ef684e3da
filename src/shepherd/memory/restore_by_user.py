"""Reads backups whose users' keys are in a file of their own: makes a database of those that can be read."""

from __future__ import annotations

import json
import os
import time
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shepherd._native.store import Connection, SQLiteError
from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import BlindError, UserCipher
from shepherd.errors import StoreCorruptError, StoreError, StoreKeyError
from shepherd.memory import backup_keys, failures, new_files, removal, tenants
from shepherd.memory.backup_by_user import KIND, NOBODY, SYNCED, VERSION, indexes_of_words
from shepherd.memory.database import Database, connect_to_copy, copy_key_entry, is_encrypted, key_of_file
from shepherd.memory.maintenance import refresh_index
from shepherd.memory.overwriting import remove_copy
from shepherd.memory.schema import APPLICATION_ID, BACKUP_ID, BACKUP_KEYS_ID, USER_VERSION

__all__ = ["has_keys", "is_by_user", "unsealed"]


def is_by_user(path: str) -> bool:
    """Return whether a file is a backup with the users' keys apart. Raises StoreKeyError without its key."""
    return _application_of(path) == BACKUP_ID


def has_keys(path: str) -> bool:
    """Return whether a file has the users' keys of backups. Raises StoreKeyError without its key."""
    return _application_of(path) == BACKUP_KEYS_ID


def _application_of(path: str) -> int:
    """Return what an encrypted database says it is; 0 for any other file."""
    try:
        if not os.path.isfile(path) or not is_encrypted(path):
            return 0
        key_of_file(path)
        with connect_to_copy(path) as connection:
            return int(connection.execute("PRAGMA application_id")[0][0])
    except OSError as error:
        raise failures.from_os_error(path, error) from error
    except SQLiteError:
        return 0


def unsealed(backup: str, keys: str, target: str) -> list[str]:
    """Make a database of a backup and the file with the users' keys; return the users who couldn't be read.

    `target` is a new file, encrypted as the backup is. Raises StoreError; then there is no new file.
    """
    try:
        key = key_of_file(backup)
        if key is None:
            raise StoreKeyError(f"{backup}: it is not encrypted", hint="name another backup")
        with connect_to_copy(backup) as source:
            left = _Reader(source, backup, key).read(keys, target)
        copy_key_entry(backup, target, key)
        # The index of words, and the tables of an older version.
        database = Database(target)
        try:
            refresh_index(database)
        finally:
            database.close()
        return left
    except (OSError, SQLiteError, StoreError) as error:
        remove_copy(target)
        if isinstance(error, StoreError):
            raise
        if isinstance(error, OSError):
            raise failures.from_os_error(target, error) from error
        raise _damaged(backup) from error


class _Reader:
    """Makes a database of the pieces of a backup."""

    def __init__(self, source: Connection, path: str, key: MemoryKey) -> None:
        self._source, self._path, self._key = source, path, key
        if source.execute("PRAGMA quick_check(1)") != [("ok",)]:
            raise _damaged(path)
        if source.execute("PRAGMA user_version")[0][0] > VERSION:
            raise StoreError(f"{path}: made by a newer Shepherd", hint="upgrade shepherd-llm")
        self._contents = {
            name: json.loads(value) for name, value in source.execute("SELECT name, value FROM contents")
        }
        if self._contents["user_version"] > USER_VERSION:
            raise StoreError(f"{path}: made by a newer Shepherd", hint="upgrade shepherd-llm")

    def read(self, keys: str, target: str) -> list[str]:
        """Write the database; return the users whose keys aren't in the file."""
        known = backup_keys.read(keys, self._contents["memory"])
        secrets = {tag: secret for _, tag, secret in known if secret is not None}
        owners = self._source.execute("SELECT number, user_id, tag, tenant, n_pieces FROM owners")
        ciphers = {
            number: UserCipher(self._key, secrets[tag]) for number, _, tag, _, _ in owners if tag in secrets
        }
        left = [(user, tag, tenant) for number, user, tag, tenant, _ in owners if number not in ciphers]
        new_files.create(target)
        with Connection(target, create=False, key=self._key.database) as copy:
            copy.execute("BEGIN")
            statements = self._contents["statements"]
            for statement in statements["table"]:
                copy.execute(statement)
            for name in indexes_of_words(copy):
                # Made again when the database is opened: no tokenizer has made it.
                copy.execute(f"INSERT INTO {name}({name}, rank) VALUES('secure-delete', 1)")
            self._insert(copy, ciphers, {number: n_pieces for number, _, _, _, n_pieces in owners})
            for statement in (*statements["index"], *statements["trigger"]):
                copy.execute(statement)
            _without(copy, left)
            _leave_folder(copy)
            backup_keys.store(copy, [*known, *(("", tag, None) for _, tag, _ in left)])
            copy.execute("DELETE FROM meta WHERE key = 'tokenizer_version'")
            copy.execute("DELETE FROM sqlite_sequence")
            copy.execute_many(
                "INSERT INTO sqlite_sequence(name, seq) VALUES(?, ?)", self._contents["sequences"]
            )
            copy.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            copy.execute(f"PRAGMA user_version = {self._contents['user_version']}")
            copy.execute("COMMIT")
        return sorted(user for user, _, _ in left)

    def _insert(
        self, copy: Connection, ciphers: Mapping[int, UserCipher], n_pieces: Mapping[int, int]
    ) -> None:
        tables = self._contents["tables"]
        inserts = [
            f"INSERT OR REPLACE INTO {name}({', '.join(columns)}) VALUES({', '.join('?' * len(columns))})"
            for name, columns in tables
        ]
        n_read = dict.fromkeys(ciphers, 0)
        # The rows of nobody first: those of users replace some.
        pieces = self._source.execute("SELECT number, owner FROM pieces ORDER BY owner <> 0, number")
        for number, owner in pieces:
            if owner != NOBODY and owner not in ciphers:
                continue
            [(data,)] = self._source.execute("SELECT data FROM pieces WHERE number = ?", (number,))
            if owner != NOBODY:
                data = self._opened(ciphers[owner], data, number)
                n_read[owner] += 1
            for place, rows in _by_table(json.loads(data)):
                copy.execute_many(inserts[place], rows)
        if any(n_read[owner] != n_pieces[owner] for owner in ciphers):
            raise _damaged(self._path)

    def _opened(self, cipher: UserCipher, data: bytes, number: int) -> bytes:
        try:
            return cipher.data_of(data, KIND, (number,))
        except BlindError as error:
            raise _damaged(self._path) from error


def _by_table(records: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[list[Any]]]]:
    """Yield rows of one table after the other."""
    found: dict[int, list[list[Any]]] = {}
    for place, row in records:
        found.setdefault(place, []).append([_decoded(value) for value in row])
    yield from found.items()


def _without(copy: Connection, left: Iterable[tuple[str, bytes, int]]) -> None:
    """Do what removing users does to the rows that aren't theirs alone."""
    for user, _, tenant in left:
        if tenant:
            # Numbers are never given again.
            copy.execute(
                "INSERT INTO tenants(number, user_id) VALUES(?, ?)", (tenant, f"{tenants.REMOVED}{tenant}")
            )
        removal.revoke(copy, user, int(time.time()))


def _leave_folder(copy: Connection) -> None:
    """Remove the tables of a sync folder if the user whose memory is synced was left out."""
    tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables.issuperset(SYNCED) or copy.execute("SELECT 1 FROM sync_state LIMIT 1"):
        return
    for name, sql in copy.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"):
        if any(table in sql for table in SYNCED):
            copy.execute(f"DROP TRIGGER {name}")
    for table in SYNCED:
        copy.execute(f"DROP TABLE {table}")


def _damaged(path: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path}: the backup is damaged; nothing was changed", hint="restore an older one"
    )


def _decoded(value: Any) -> Any:
    return b64decode(value[0]) if isinstance(value, list) else value

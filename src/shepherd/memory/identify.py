"""Owner of a database file, found out before SQLite may write to it.

The file must stay as it is: SQLite's read-only open of another program's database in WAL mode makes files
beside it, and rolls its journal back. So the header is read here (sqlite.org/fileformat2.html, 1.3), and
SQLite reads the schema in immutable mode, or in a copy where a log or a journal completes the file.

POSIX drops all locks that a process has on a file when it closes any descriptor of it: `identify` must not be
called for a file that this process has open through SQLite. Database sees to that.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from enum import Enum

from shepherd._native.store import Connection, SQLiteError
from shepherd.encryption import MemoryKey, looks_encrypted, unlock
from shepherd.encryption.key_file import key_file_of, read_entries
from shepherd.errors import ForeignDatabaseError, StoreCorruptError
from shepherd.memory.migration import MEMORIES, is_original
from shepherd.memory.schema import APPLICATION_ID, BACKUP_ID, BACKUP_KEYS_ID, USER_VERSION

__all__ = ["Owner", "foreign", "identify", "key_of", "refuse_lost", "refuse_version"]

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100

_ELSEWHERE = "point memory_database (or --memory-db) at another file; this one was left untouched"


class Owner(Enum):
    """Owner of a file: nobody, this program, or its predecessor."""

    NOBODY = "new or empty"
    SHEPHERD = "ours"
    ORIGINAL = "the original Shepherd's, to be migrated"
    ENCRYPTED = "encrypted, so that only its key shows whose it is"


def identify(path: str) -> Owner:
    """Return the owner of an existing file; ForeignDatabaseError for any other program.

    Raises OSError, and SQLiteError for a damaged schema. The answer ORIGINAL is preliminary: the schema is
    checked again in the migration's transaction.
    """
    with open(path, "rb") as file:
        head = file.read(_HEADER_BYTES)
    if not head:
        return Owner.NOBODY
    if looks_encrypted(head) and len(head) == _HEADER_BYTES:
        return Owner.ENCRYPTED
    if not head.startswith(_MAGIC) and key_file_of(path).exists():
        raise StoreCorruptError(
            f"{path}: the database is damaged: its beginning is neither plain nor encrypted",
            hint="shepherd memory restore puts a backup in its place",
        )
    if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
        raise ForeignDatabaseError(f"{path}: this file is not a database", hint=_ELSEWHERE)
    (user_version,) = struct.unpack_from(">I", head, 60)
    (application_id,) = struct.unpack_from(">I", head, 68)
    if application_id == APPLICATION_ID:
        refuse_version(path, user_version)
        return Owner.SHEPHERD
    if application_id == 0:
        owner = _owner_by_schema(path)
        if owner is Owner.ORIGINAL or (owner is Owner.NOBODY and user_version == 0):
            return owner
    raise foreign(path)


def refuse_lost(path: str) -> None:
    """Raise StoreCorruptError where a database is missing or empty that its key file calls encrypted.

    A new one in its place would store in the open what was encrypted before.
    """
    size = os.path.getsize(path) if os.path.exists(path) else None
    if not size and read_entries(path):
        raise StoreCorruptError(
            f"{path}: the encrypted database is {'missing' if size is None else 'empty'}",
            hint="shepherd memory restore puts a backup in its place, or what a restore has left beside it"
            f" ({os.path.basename(path)}.before-restore); to begin a new memory, delete {key_file_of(path)}",
        )


def key_of(path: str) -> MemoryKey | None:
    """Return the key of an existing file, None if it is not encrypted; raises StoreKeyError, OSError.

    As `identify`, not for a file that this process has open.
    """
    with open(path, "rb") as file:
        head = file.read(_HEADER_BYTES)
    return unlock(path, head) if looks_encrypted(head) else None


def foreign(path: str, application_id: int = 0) -> ForeignDatabaseError:
    """Return the error for a database of another program, or for a backup, which is none."""
    if application_id == BACKUP_ID:
        return ForeignDatabaseError(
            f"{path}: this is a backup with its users' keys in another file",
            hint="shepherd memory restore reads it, with --keys",
        )
    if application_id == BACKUP_KEYS_ID:
        return ForeignDatabaseError(
            f"{path}: this file has the users' keys of backups, and nothing else",
            hint="name it after --keys where shepherd memory restore reads a backup",
        )
    return ForeignDatabaseError(f"{path}: this database belongs to another program", hint=_ELSEWHERE)


def refuse_version(path: str, user_version: int) -> None:
    """Raise ForeignDatabaseError for a database of ours that is newer than this build."""
    if user_version > USER_VERSION:
        raise ForeignDatabaseError(
            f"{path}: made by a newer Shepherd: format {user_version}, this build reads up to {USER_VERSION}",
            hint="upgrade shepherd-llm, or " + _ELSEWHERE,
        )


def _owner_by_schema(path: str) -> Owner | None:
    """Return NOBODY for a database without tables, ORIGINAL for its predecessor's, else None."""
    unfinished = [
        path + end
        for end in ("-wal", "-journal")
        if os.path.exists(path + end) and os.path.getsize(path + end) > 0
    ]
    try:
        with Connection(path, immutable=True) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if is_original(connection):
                return Owner.ORIGINAL
    except SQLiteError:
        if not unfinished:
            raise
        tables = set()
    if not unfinished:
        return None if tables else Owner.NOBODY
    if tables and tables.isdisjoint(MEMORIES):
        return None  # however large it is, it need not be copied
    with tempfile.TemporaryDirectory(prefix="shepherd-") as folder:
        copy = os.path.join(folder, "copy.db")
        for name in (path, *unfinished):
            shutil.copyfile(name, copy + name.removeprefix(path))
        with Connection(copy, create=False) as connection:
            return Owner.ORIGINAL if is_original(connection) else None

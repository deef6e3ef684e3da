"""Restore of a backup: the current database is moved aside, and never deleted."""

from __future__ import annotations

import os

from shepherd._native.store import Connection, SQLiteError
from shepherd.encryption import looks_encrypted
from shepherd.errors import ForeignDatabaseError, StoreError, StoreKeyError, StoreLockedError, UsageError
from shepherd.memory import failures
from shepherd.memory.conversion import is_locked
from shepherd.memory.database import (
    connect,
    copy_key_entry,
    copy_to,
    free_name,
    is_open,
    key_of_file,
)
from shepherd.memory.identify import Owner, foreign, identify, refuse_version
from shepherd.memory.schema import APPLICATION_ID
from shepherd.overwriting import remove_tree

__all__ = ["aside_of", "check_backup", "restore"]

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_BACKUP = "name a file that shepherd memory backup wrote"
_QUIT = "quit every chat and server that uses it, then restore again"
# Milliseconds that another process may take to finish a write.
_PATIENCE_MS = 500


def check_backup(backup: str | os.PathLike[str]) -> None:
    """Raise UsageError or StoreError if a file is not an undamaged database of Shepherd."""
    path = os.path.abspath(backup)
    if not os.path.isfile(path):
        raise UsageError(f"{path}: there is no such file", hint=_BACKUP)
    try:
        owner = Owner.SHEPHERD if is_open(path) else identify(path)
    except ForeignDatabaseError as error:
        hint = "shepherd memory import FILE reads exports"
        if "newer" in str(error):
            hint = "upgrade shepherd-llm"
        raise UsageError(str(error), hint=hint) from error
    except OSError as error:
        raise failures.from_os_error(path, error) from error
    except SQLiteError as error:
        raise _damaged(path) from error
    if owner is Owner.NOBODY:
        raise UsageError(f"{path}: it is empty", hint=_BACKUP)
    try:
        with connect(path, read_only=True) as connection:
            if owner is Owner.ENCRYPTED:
                _refuse_foreign(path, connection)
            if connection.execute("PRAGMA quick_check(1)") != [("ok",)]:
                raise _damaged(path)
    except SQLiteError as error:
        raise _damaged(path) from error


def _refuse_foreign(path: str, connection: Connection) -> None:
    """Check what `identify` could not see."""
    [(application_id,)] = connection.execute("PRAGMA application_id")
    if application_id != APPLICATION_ID:
        error = foreign(path, application_id)
        raise UsageError(str(error), hint=_BACKUP)
    refuse_version(path, connection.execute("PRAGMA user_version")[0][0])


def _damaged(path: str) -> StoreError:
    return StoreError(f"{path}: the backup is damaged; nothing was changed", hint="restore an older one")


def aside_of(database: str | os.PathLike[str]) -> str:
    """Return the path that the present database gets."""
    return free_name(f"{os.path.abspath(database)}.before-restore")


def restore(backup: str | os.PathLike[str], database: str | os.PathLike[str]) -> str:
    """Put a copy of a backup in the place of a database; return where that is now, "" if there was none.

    Raises StoreLockedError while another process has the database open, and what check_backup raises.
    """
    source, target = os.path.abspath(backup), os.path.abspath(database)
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
        raise UsageError(f"{target}: this is the database itself", hint="name a copy of it")
    check_backup(source)
    aside = ""
    try:
        if os.path.exists(target):
            _refuse_in_use(target)
            aside = aside_of(target)
            _move(target, aside)
        else:
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        # Saved indexes of the other contents.
        remove_tree(f"{target}-hot")
    except OSError as error:
        raise failures.from_os_error(target, error) from error
    try:
        key = key_of_file(source)
        with connect(source, read_only=True) as connection:
            copy_to(connection, target, key)
        copy_key_entry(source, target, key)
    except BaseException:
        if aside:
            _move(aside, target)
        raise
    return aside


def _refuse_in_use(path: str) -> None:
    """Raise StoreLockedError if the database is open anywhere; a damaged one cannot be asked."""
    if is_open(path):
        raise StoreLockedError(f"{path}: this process has it open", hint=_QUIT)
    with open(path, "rb") as file:
        head = file.read(_HEADER_BYTES)
    if not head.startswith(_MAGIC) and not looks_encrypted(head):
        return
    try:
        identify(path)
        key_of_file(path)
    except StoreKeyError:
        # Who has lost the key can restore another backup. Those who have it hold this lock.
        if is_locked(path):
            raise StoreLockedError(f"{path}: another program has the memory open", hint=_QUIT) from None
        return
    except SQLiteError:
        return
    try:
        with connect(path, busy_timeout_ms=_PATIENCE_MS) as connection:
            # Leaving the WAL needs the file alone; it also moves the rest of the log into the file.
            [(mode,)] = connection.execute("PRAGMA journal_mode = DELETE")
    except SQLiteError as error:
        failure = failures.from_sqlite_error(path, error)
        if isinstance(failure, StoreLockedError):
            mode = "wal"
        else:
            return  # damaged, which may be why it is replaced
    if mode == "wal":
        raise StoreLockedError(f"{path}: another program has the memory open", hint=_QUIT)


def _move(path: str, target: str) -> None:
    for end in ("-key", "-wal", "-shm", "-journal", ""):
        if os.path.exists(path + end):
            os.rename(path + end, target + end)

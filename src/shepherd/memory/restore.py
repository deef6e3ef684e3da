"""Restore of a backup: the current database is moved aside, and never deleted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shepherd._native.store import Connection, SQLiteError
from shepherd.encryption import looks_encrypted
from shepherd.encryption.key_file import read_entries, refuse_foreign, write_entries
from shepherd.errors import ForeignDatabaseError, StoreError, StoreKeyError, StoreLockedError, UsageError
from shepherd.memory import failures
from shepherd.memory.conversion import is_locked
from shepherd.memory.database import (
    connect,
    connect_to_copy,
    copy_to,
    free_name,
    is_open,
    key_of_file,
)
from shepherd.memory.identify import Owner, foreign, identify, refuse_version
from shepherd.memory.overwriting import COMING, LOGS, remove_copy
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
    if os.path.isdir(path):
        raise UsageError(f"{path}: this is a folder", hint=_BACKUP)
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
        with connect_to_copy(path) as connection:
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
    coming, aside = target + COMING, ""
    try:
        if os.path.exists(target):
            _refuse_in_use(target)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        key = key_of_file(source)
        entry = None if key is None else read_entries(source).get(key.salt)
        before = read_entries(target)
        if entry is not None:
            refuse_foreign(target)
        remove_copy(coming)
        try:
            with connect_to_copy(source) as connection:
                copy_to(connection, coming, key)
            # Whichever of the two has the name when the process is killed can be opened.
            if entry is not None:
                write_entries(target, {**before, entry.salt: entry}.values())
            if os.path.exists(target):
                _refuse_in_use(target)  # it may have been opened meanwhile
                aside = aside_of(target)
                write_entries(aside, before.values())
            with _kept(target, aside):
                os.replace(coming, target)
        except BaseException:
            remove_copy(coming)
            raise
        write_entries(target, () if entry is None else (entry,))
        # Saved indexes of the other contents.
        remove_tree(f"{target}-hot")
    except OSError as error:
        raise failures.from_os_error(target, error) from error
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


@contextlib.contextmanager
def _kept(path: str, aside: str) -> Iterator[None]:
    """Give a database another name, for good unless the block fails; "" for none.

    Where the disk has hard links it keeps its own name as well, until the block gives that to another file.
    """
    if not aside:
        yield
        return
    logs = [end for end in LOGS if os.path.exists(path + end)]
    for end in logs:
        os.rename(path + end, aside + end)
    try:
        os.link(path, aside)
    except OSError:
        os.rename(path, aside)
    try:
        yield
    except BaseException:
        if os.path.exists(path):
            os.unlink(aside)
        else:
            os.rename(aside, path)
        for end in logs:
            os.rename(aside + end, path + end)
        write_entries(aside, ())
        raise

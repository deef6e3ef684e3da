"""Encryption of a database in place: a complete copy takes its place in one step.

    1  alone with the file (SQLite's exclusive lock), its log moved into it and gone
    2  the key file has the old and the new entry
    3  a copy, encrypted or plain, is written beside it, checked and synced
    4  the copy is renamed over the file                 before: the old database, after: the new one
    5  the old bytes are overwritten, if no other name leads to them
    6  the key file has the new entry alone

After a crash at any moment one of the two databases has the name, complete, and the key file opens it. Who
waited for the lock meanwhile has the old file open: it is overwritten before the lock is released, and
Database notices that its file has moved.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from shepherd._native.store import Connection, SQLiteError
from shepherd.encryption import KeyEntry, MemoryKey
from shepherd.encryption.key import master_key
from shepherd.encryption.key_file import read_entries, refuse_foreign, write_entries
from shepherd.encryption.unlocking import text_of_file
from shepherd.errors import StoreCorruptError, StoreError, StoreLockedError, StoreMissingError, UsageError
from shepherd.memory import failures, new_files
from shepherd.memory.database import is_open, key_of_file
from shepherd.memory.identify import Owner, identify
from shepherd.memory.overwriting import UNFINISHED, is_locked, overwrite, overwriting, remove_copy
from shepherd.memory.schema import APPLICATION_ID
from shepherd.overwriting import remove_tree
from shepherd.paths import sync_folder

__all__ = ["convert", "database_to_convert", "is_locked", "require_alone"]

# Milliseconds that another process may take to finish a write.
_PATIENCE_MS = 500


def database_to_convert(path: str | os.PathLike[str]) -> tuple[str, MemoryKey | None]:
    """Return the file behind a path and its key, None without one; StoreError if it is not ours."""
    file = os.path.realpath(path)
    if not os.path.exists(file):
        raise StoreMissingError(
            f"{file}: there is no such database", hint="it is created when something is remembered"
        )
    if not os.path.isfile(file):
        raise UsageError(f"{file}: this is not a regular file", hint="name the file of a memory")
    try:
        if is_open(file):
            raise _in_use(file, "this process has it open")
        owner = identify(file)
        key = key_of_file(file)
    except OSError as error:
        raise failures.from_os_error(file, error) from error
    except SQLiteError as error:
        raise failures.from_sqlite_error(file, error) from error
    if owner in (Owner.NOBODY, Owner.ORIGINAL):
        what = "it is empty" if owner is Owner.NOBODY else "an older Shepherd made it"
        raise StoreError(f"{file}: {what}", hint="shepherd memory stats brings it up to date; then try again")
    return file, key


def require_alone(file: str) -> None:
    """Raise StoreLockedError while somebody else has the database open; call it before the user is asked.

    It changes no byte. `convert` checks again, and then keeps the lock.
    """
    # To close the file, as is_locked does, drops the locks that this process has on it.
    if is_open(file):
        raise _in_use(file, "this process has it open")
    try:
        is_used = is_locked(file)
    except OSError as error:
        raise failures.from_os_error(file, error) from error
    if is_used:
        raise _in_use(file, "another program has the memory open")


def convert(
    file: str,
    old: MemoryKey | None,
    new: MemoryKey | None,
    entry: KeyEntry | None,
    *,
    prepare: Callable[[], object] = lambda: None,
) -> bool:
    """Encrypt a database with `new`, or decrypt it if that is None; `entry` says where the key comes from.

    `file` and `old` as database_to_convert returned them. `prepare` is called before the database changes,
    when nobody else can open it any more. Returns whether the old bytes were overwritten.
    Raises StoreLockedError while somebody has the database open, StoreFullError without space for a copy;
    then nothing has changed.
    """
    part = file + UNFINISHED
    if new is not None:
        refuse_foreign(file)
    entries = read_entries(file)
    try:
        with _alone(file, old) as connection:
            write_entries(file, {**entries, **({entry.salt: entry} if entry else {})}.values())
            remove_copy(part)
            try:
                new_files.create(part)
                connection.write_copy(part, key=None if new is None else new.database)
                _finish(connection, part, new)
                os.chmod(part, os.stat(file).st_mode & 0o777)
                prepare()
                _require_kept(entry)
            except BaseException:
                remove_copy(part)
                write_entries(file, entries.values())
                raise
            is_gone = _replace(part, file)
        with contextlib.suppress(OSError):  # an entry too many does no harm
            write_entries(file, () if entry is None else (entry,))
    except OSError as error:
        raise failures.from_os_error(file, error) from error
    except SQLiteError as error:
        raise failures.from_sqlite_error(file, error) from error
    # Saved indexes that the other key had sealed, or none.
    remove_tree(f"{file}-hot")
    return is_gone


def _require_kept(entry: KeyEntry | None) -> None:
    """Raise UsageError if the key in a file is not there any more, before the old bytes are overwritten."""
    if entry is None or entry.source != "file":
        return
    text = text_of_file(Path(entry.place))
    if not entry.fits(MemoryKey(master_key(text, entry.salt, entry.cost), entry.salt)):
        raise UsageError(
            f"{entry.place}: the key in this file has changed meanwhile; nothing was encrypted",
            hint="name another file, which no other program writes",
        )


@contextlib.contextmanager
def _alone(file: str, key: MemoryKey | None) -> Iterator[Connection]:
    """Give a connection that nobody else can read or write beside; the log is in the file."""
    with Connection(
        file, create=False, busy_timeout_ms=_PATIENCE_MS, key=None if key is None else key.database
    ) as connection:
        try:
            if connection.execute("PRAGMA application_id")[0][0] != APPLICATION_ID:
                raise StoreError(
                    f"{file}: this is not a memory of Shepherd", hint="name the file of a memory"
                )
            # In this mode a lock is kept once it is taken, also when the log is left and after a COMMIT.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.script("BEGIN EXCLUSIVE; COMMIT")
            with overwriting(f"{file}-wal"):
                [(mode,)] = connection.execute("PRAGMA journal_mode = DELETE")
            connection.script("BEGIN EXCLUSIVE; COMMIT")
        except SQLiteError as error:
            if (error.code & 0xFF) in (5, 6):
                raise _in_use(file, "another program has the memory open") from error
            raise
        if mode != "delete" or connection.has_moved():
            raise _in_use(file, "another program has the memory open")
        yield connection


def _finish(connection: Connection, part: str, key: MemoryKey | None) -> None:
    """Check a copy, let it have a log from the first moment on, and sync it."""
    numbers = "PRAGMA user_version"
    with Connection(part, create=False, key=None if key is None else key.database) as copy:
        is_sound = copy.execute("PRAGMA quick_check(1)") == [("ok",)]
        is_same = copy.execute(numbers) == connection.execute(numbers)
        if not is_sound or not is_same or copy.execute("PRAGMA application_id") != [(APPLICATION_ID,)]:
            raise StoreCorruptError(
                f"{connection.path}: the database is damaged, and cannot be copied; nothing was changed",
                hint="run `shepherd memory check`, or `shepherd memory restore` a backup",
            )
        # Whoever opens it takes a lock that lasts, which `_alone` relies on.
        copy.execute("PRAGMA journal_mode = WAL")
        copy.execute("PRAGMA user_version")
    descriptor = os.open(part, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(part: str, file: str) -> bool:
    """Rename the copy over the file and overwrite what was there; return whether that is gone."""
    # Closing it drops SQLite's lock, so it is closed when the old bytes are gone.
    old = os.open(file, os.O_RDWR)
    try:
        try:
            os.rename(part, file)
        except OSError:
            remove_copy(part)
            raise
        sync_folder(Path(file).parent)
        return overwrite(old)
    finally:
        os.close(old)


def _in_use(file: str, what: str) -> StoreLockedError:
    return StoreLockedError(f"{file}: {what}", hint="quit every chat and server that uses it, then try again")

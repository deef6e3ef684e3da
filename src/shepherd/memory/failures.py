"""SQLite's result codes as Shepherd's errors: what happened, to which file, and the remedy."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator

from shepherd._native.store import SQLiteError
from shepherd.errors import (
    InternalError,
    ShepherdError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
)

__all__ = ["blamed_on", "corrupt", "from_os_error", "from_sqlite_error", "full", "locked", "read_only"]

# Primary result codes, the low byte of the extended ones (sqlite.org/rescode.html).
_PERM, _BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _MISUSE, _NOTADB = (
    3, 5, 6, 8, 10, 11, 13, 14, 21, 26,
)  # fmt: skip

# With fewer free bytes, an I/O error means a full disk: the shared-memory file grows by 32 KiB.
_NEARLY_FULL_BYTES = 64 * 1024


def from_sqlite_error(path: str, error: SQLiteError) -> ShepherdError:
    """Return the error to raise instead of `error`, about the database at `path`."""
    primary = error.code & 0xFF
    if primary in (_IOERR, _CANTOPEN) and _is_disk_full(path):
        return full(path)
    if primary in _KNOWN:
        return _KNOWN[primary](path)
    if primary in _UNCLEAR:
        what, hint = _UNCLEAR[primary]
        return StoreError(f"{path}: {what} ({error.message}, SQLite code {error.code})", hint=hint)
    return InternalError(f"{path}: {error.message} (SQLite code {error.code})", hint="please report this")


def from_os_error(path: str, error: OSError) -> ShepherdError:
    """Return the error to raise when the operating system refuses `path`."""
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return StoreError(f"{path}: a file is in the place of its folder", hint="name another path")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return read_only(path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return full(path)
    return StoreError(f"{path}: {error.strerror or error}", hint="check the path of memory_database")


@contextlib.contextmanager
def blamed_on(path: str, hint: str = "") -> Iterator[None]:
    """Raise the errors of the block as those about `path`, with `hint` instead of that about the memory."""
    try:
        yield
    except (OSError, SQLiteError) as error:
        failure = from_os_error(path, error) if isinstance(error, OSError) else from_sqlite_error(path, error)
        failure.hint = hint or failure.hint
        raise failure from error


def locked(path: str) -> StoreLockedError:
    """Return the error for a lock of another process."""
    return StoreLockedError(
        f"{path}: another process has held the database locked for too long",
        hint="wait for it to finish, or find it with: fuser -v " + path,
    )


def full(path: str) -> StoreFullError:
    """Return the error for a full disk."""
    return StoreFullError(
        f"{path}: no space left on the disk; nothing of this change was stored",
        hint="free some disk space, or move the database with memory_database",
    )


def read_only(path: str) -> StoreReadOnlyError:
    """Return the error for missing permissions."""
    return StoreReadOnlyError(
        f"{path}: the database or its folder cannot be written",
        hint="give yourself write permission, or point memory_database elsewhere",
    )


def corrupt(path: str) -> StoreCorruptError:
    """Return the error for damaged pages."""
    return StoreCorruptError(
        f"{path}: the database is damaged",
        hint="run `shepherd memory check`, or `shepherd memory restore` a backup",
    )


_KNOWN = {
    _BUSY: locked,
    _LOCKED: locked,
    _FULL: full,
    _READONLY: read_only,
    _PERM: read_only,
    _CORRUPT: corrupt,
    _NOTADB: corrupt,
}
_UNCLEAR = {
    _CANTOPEN: (
        "the database or a file beside it cannot be opened",
        "check that its folder exists and that you may write to it",
    ),
    _IOERR: ("reading or writing failed", "check the disk; what was acknowledged is still there"),
    _MISUSE: ("the database is closed", "open a new Memory"),
}


def _is_disk_full(path: str) -> bool:
    try:
        if shutil.disk_usage(os.path.dirname(path)).free < _NEARLY_FULL_BYTES:
            return True
        largest = max(os.path.getsize(file) for file in (path, path + "-wal") if os.path.exists(file))
        return largest + _NEARLY_FULL_BYTES > _file_size_limit()
    except (OSError, ValueError):  # deleted, or never created
        return False


def _file_size_limit() -> float:
    """Return the size limit of this process's files (ulimit -f), in bytes."""
    try:
        import resource
    except ImportError:
        return float("inf")
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return float("inf") if soft == resource.RLIM_INFINITY else soft

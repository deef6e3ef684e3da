"""Removal of databases with their logs, so that their bytes cannot be read again either."""

from __future__ import annotations

import contextlib
import os

from shepherd.overwriting import overwrite, overwriting, remove

__all__ = [
    "COMING",
    "LOGS",
    "PART",
    "UNFINISHED",
    "is_locked",
    "overwrite",
    "overwriting",
    "remove_copy",
    "remove_unfinished",
]

LOGS = ("-wal", "-shm", "-journal")
# Ends of names: of the copy that a conversion makes, of what a restore puts into place, and of any copy until
# it is complete.
UNFINISHED = ".converting"
COMING = ".restoring"
PART = ".part"
# SQLite's PENDING, RESERVED and SHARED bytes (sqlite.org/src/file/src/os.h).
_LOCK_START, _LOCK_BYTES = 0x40000000, 512


def is_locked(path: str) -> bool:
    """Return whether another process has the database open, by the bytes that SQLite locks."""
    try:
        import fcntl
    except ImportError:
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES, _LOCK_START)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def remove_copy(path: str) -> None:
    """Remove a copy of a database that nobody has open, with its logs."""
    for name in (path, *(path + end for end in LOGS)):
        remove(name)


def remove_unfinished(database: str) -> None:
    """Remove what a killed conversion or restore has left: perhaps a readable copy of an encrypted memory.

    The caller has the database open: then neither is under way.
    """
    for part in (database + UNFINISHED, database + COMING, database + COMING + PART, database + PART):
        # A copy that is being written is locked. What cannot be removed is left to the next one.
        if os.path.exists(part):
            with contextlib.suppress(OSError):
                if not is_locked(part):
                    remove_copy(part)

"""Removal of databases with their logs, so that their bytes cannot be read again either."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator

from shepherd.encryption.key_file import write_entries
from shepherd.errors import UsageError
from shepherd.overwriting import overwrite, overwriting, remove

__all__ = [
    "COMING",
    "DECRYPTING",
    "LOGS",
    "PART",
    "UNFINISHED",
    "in_use",
    "is_locked",
    "overwrite",
    "overwriting",
    "remove_copy",
    "remove_unfinished",
]

LOGS = ("-wal", "-shm", "-journal")
# Ends of names: of the copy that a conversion makes, of what a restore puts into place, of any copy until it
# is complete, and of what a restore of a backup with users' keys decrypts, perhaps with a number behind it.
UNFINISHED = ".converting"
COMING = ".restoring"
PART = ".part"
DECRYPTING = ".decrypting"
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


@contextlib.contextmanager
def in_use(path: str) -> Iterator[None]:
    """Keep other processes from removing a copy as unfinished while nobody has it open as a database."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _is_in_use(path: str) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    for part in _decrypted(database):
        with contextlib.suppress(OSError, UsageError):
            if not os.path.exists(part) or not (_is_in_use(part) or is_locked(part)):
                remove_copy(part)
                write_entries(part, ())
    for part in (database + UNFINISHED, database + COMING, database + COMING + PART, database + PART):
        # A copy that is being written is locked. What cannot be removed is left to the next one.
        if os.path.exists(part):
            with contextlib.suppress(OSError):
                if not is_locked(part):
                    remove_copy(part)


def _decrypted(database: str) -> list[str]:
    """Return the copies that restores have decrypted, also where only a log or the key file is left."""
    start = database + DECRYPTING
    ends = "|".join((*LOGS, "-key"))
    found = [
        re.fullmatch(rf"((?:-[0-9]+)?)(?:{ends})?", path.removeprefix(start))
        for path in glob.iglob(f"{glob.escape(start)}*")
    ]
    return sorted({start + one[1] for one in found if one})

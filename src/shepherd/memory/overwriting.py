"""Removal of files with memories in them, so that their bytes cannot be read again either."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["COMING", "LOGS", "UNFINISHED", "overwrite", "overwriting", "remove_copy", "remove_unfinished"]

LOGS = ("-wal", "-shm", "-journal")
# Ends the name of the copy that a conversion makes.
UNFINISHED = ".converting"
# The same of the one that a restore makes.
COMING = ".restoring"
_PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def overwriting(log: str) -> Iterator[None]:
    """Overwrite what is in a log that the block deletes. SQLite has no lock on it, so it can be closed."""
    try:
        descriptor = os.open(log, os.O_RDWR)
    except OSError:  # there is none
        yield
        return
    try:
        yield
        overwrite(descriptor)
    finally:
        os.close(descriptor)


def overwrite(descriptor: int) -> bool:
    """Overwrite an open file; return False if a name still leads to it, or the disk refuses."""
    status = os.fstat(descriptor)
    if status.st_nlink > 0:
        return False
    try:
        for start in range(0, status.st_size, _PIECE_BYTES):
            os.pwrite(descriptor, bytes(min(_PIECE_BYTES, status.st_size - start)), start)
        os.fsync(descriptor)
    except OSError:
        return False
    return True


def remove_copy(path: str) -> None:
    """Remove a copy of a database that nobody has open, with its logs."""
    for name in (path, *(path + end for end in LOGS)):
        with overwriting(name):
            Path(name).unlink(missing_ok=True)


def remove_unfinished(database: str) -> None:
    """Remove the copy that a killed conversion or restore has left: it may be readable, and the memory not.

    The caller has the database open: then neither is under way.
    """
    for copy in (database + UNFINISHED, database + COMING, f"{database}{COMING}.part"):
        if os.path.exists(copy):
            with contextlib.suppress(OSError):  # the next one tries again
                remove_copy(copy)

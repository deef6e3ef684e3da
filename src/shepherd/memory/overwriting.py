"""Removal of databases with their logs, so that their bytes cannot be read again either."""

from __future__ import annotations

import contextlib
import os

from shepherd.overwriting import overwrite, overwriting, remove

__all__ = ["LOGS", "UNFINISHED", "overwrite", "overwriting", "remove_copy", "remove_unfinished"]

LOGS = ("-wal", "-shm", "-journal")
# Ends the name of the copy that a conversion makes.
UNFINISHED = ".converting"


def remove_copy(path: str) -> None:
    """Remove a copy of a database that nobody has open, with its logs."""
    for name in (path, *(path + end for end in LOGS)):
        remove(name)


def remove_unfinished(database: str) -> None:
    """Remove the copy that a killed conversion has left, which may be a readable one of an encrypted memory.

    The caller has the database open: then no conversion is under way.
    """
    if os.path.exists(database + UNFINISHED):
        with contextlib.suppress(OSError):  # the next one tries again
            remove_copy(database + UNFINISHED)

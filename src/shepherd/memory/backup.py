"""Copies of a whole database file, made while it is in use."""

from __future__ import annotations

import filecmp
import os

from shepherd._native.store import Connection, SQLiteError
from shepherd.memory import failures

__all__ = ["copy_database", "free_name", "keep_copy"]


def copy_database(connection: Connection, target: str) -> None:
    """Copies what `connection` sees to `target`, which appears when it is whole. Raises StoreError."""
    part = target + ".part"
    try:
        # Private from its first byte, and only called a backup when it is whole.
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        connection.backup(part)
        os.replace(part, target)
    except OSError as error:
        raise failures.from_os_error(target, error) from error
    except SQLiteError as error:
        raise failures.from_sqlite_error(target, error) from error
    finally:
        for leftover in (part, part + "-wal", part + "-shm", part + "-journal"):
            if os.path.exists(leftover):
                os.remove(leftover)


def keep_copy(connection: Connection, target: str) -> tuple[str, bool]:
    """Copy to `target` or a free name like it; return the copy, and False if an older one was identical.

    A killed migration leaves its copy, and the next one needs no other.
    """
    copy = free_name(target)
    copy_database(connection, copy)
    number = 1
    older = target
    while older != copy:
        if os.path.isfile(older) and filecmp.cmp(older, copy, shallow=False):
            os.remove(copy)
            return older, False
        number += 1
        older = f"{target}-{number}"
    return copy, True


def free_name(path: str) -> str:
    """`path`, or with -2, -3 … at its end: a name at which there is nothing yet."""
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{path}-{number}"
    return name

"""New files with copies of a memory: private from the first byte, and only named when they are complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shepherd.encryption import looks_encrypted
from shepherd.errors import UsageError
from shepherd.memory import failures
from shepherd.memory.overwriting import PART, remove_copy

__all__ = ["create", "place_of", "writing"]

_HEAD_BYTES = 100


def place_of(path: str) -> str:
    """Return where the file goes that a user has named; raises UsageError unless there is a folder for it."""
    place = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(place) or path.endswith(os.sep):
        raise UsageError(f"{path or place}: this names a folder", hint="name a file in it")
    folder = os.path.dirname(place)
    if not os.path.exists(folder):
        raise UsageError(
            f"{folder}: there is no such folder", hint="create it, or name a file in another one"
        )
    return place


def create(path: str) -> None:
    """Create an empty file that only this user can read; FileExistsError if anything has the name."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@contextlib.contextmanager
def writing(target: str, hint: str = "") -> Iterator[str]:
    """Yield an empty file that takes the place of `target` at the end of the block.

    Raises StoreError about `target`, with `hint` if there is one.
    """
    part = f"{target}{PART}"
    with failures.blamed_on(target, hint):
        if os.path.lexists(part):
            if not os.path.islink(part):
                _refuse_foreign(part)
            remove_copy(part)  # a killed process has left it
        create(part)
        try:
            yield part
            os.replace(part, target)
        finally:
            remove_copy(part)


def _refuse_foreign(part: str) -> None:
    """Raise UsageError for a file that is no beginning of a copy of a memory."""
    with open(part, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.strip(b"\0") and not head.startswith(b"SQLite format 3\0") and not looks_encrypted(head):
        raise UsageError(
            f"{part}: Shepherd needs this name, and has not written this file", hint="rename it, or the copy"
        )

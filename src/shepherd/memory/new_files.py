"""New files with copies of a memory: private from the first byte, and only named when they are complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shepherd.errors import UsageError
from shepherd.memory import failures
from shepherd.memory.overwriting import remove_copy

__all__ = ["create", "place_of", "writing"]


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
    part = f"{target}.part"
    with failures.blamed_on(target, hint):
        try:
            remove_copy(part)  # a killed process has left it
            create(part)
            yield part
            os.replace(part, target)
        finally:
            remove_copy(part)

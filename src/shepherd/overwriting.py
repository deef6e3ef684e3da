"""Removal of files so that their bytes cannot be read again either.

A file that is only unlinked leaves its bytes on the disk. These functions write zeros over them, unless
another name leads to the file (a hard link) or the disk refuses. Whoever has the file open reads the zeros.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["overwrite", "overwriting", "remove", "remove_tree", "replace", "temporary_file"]

_PIECE_BYTES = 1 << 20
# A path that leads to a pipe must not block.
_FLAGS = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@contextlib.contextmanager
def overwriting(path: str | os.PathLike[str]) -> Iterator[None]:
    """Overwrite a file that the block deletes or replaces, whether it succeeds or not.

    The file must have no lock of this process: closing it would drop that.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:  # there is none
        yield
        return
    try:
        yield
    finally:
        overwrite(descriptor)
        os.close(descriptor)


def overwrite(descriptor: int) -> bool:
    """Overwrite an open file; return False if a name still leads to it, or the disk refuses."""
    status = os.fstat(descriptor)
    if status.st_nlink > 0 or not stat.S_ISREG(status.st_mode):
        return False
    try:
        for start in range(0, status.st_size, _PIECE_BYTES):
            os.pwrite(descriptor, bytes(min(_PIECE_BYTES, status.st_size - start)), start)
        os.fsync(descriptor)
    except OSError:
        return False
    return True


def remove(path: str | os.PathLike[str]) -> bool:
    """Delete and overwrite a file; return whether there was one. Raises OSError if it cannot be deleted."""
    with overwriting(path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
    return True


@contextlib.contextmanager
def temporary_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a new file, mode 0600, for the block to write and rename; otherwise delete and overwrite it.

    Also if somebody else deletes it meanwhile, who overwrites only what it has by then. Raises OSError.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            yield file
        finally:
            with contextlib.suppress(OSError):  # a full disk
                file.flush()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            overwrite(file.fileno())


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Delete a folder and overwrite the files in it. What cannot be deleted stays."""
    with contextlib.suppress(OSError):
        if os.path.islink(folder):
            return
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                with contextlib.suppress(OSError):
                    remove(entry.path)
        Path(folder).rmdir()


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file, and overwrite the one whose place it takes. Raises OSError."""
    with overwriting(target):
        os.replace(source, target)

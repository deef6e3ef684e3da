"""Folder of the conversations that engines keep on disk: whose files they are, and how they are forgotten.

    ~/.cache/shepherd/conversations      mode 0700
    in it      a folder per owner, named by a digest of database and user
    in that    <random>.state     what the engine has read of a conversation, mode 0600; never changed
               <random>.part      one that is being written
               forgotten          its time is that of the last deletion

Whoever deletes words of an owner deletes all files that were written since those words were there, and sets
the time of the last deletion: an engine, in this process or another one, then writes nothing that it read
before. Deleted files are overwritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from shepherd import overwriting
from shepherd.paths import cache_dir, locked

__all__ = [
    "KeptFile",
    "Usage",
    "all_files",
    "folder",
    "forget",
    "owner_of",
    "owners",
    "paths_of",
    "put",
    "remove",
    "touch",
    "usage",
]

_SUFFIX, _PART, _FORGOTTEN = ".state", ".part", "forgotten"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file, as its folder lists it. `used_at` is in unix seconds."""

    path: Path
    size_bytes: int
    used_at: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Number and size of kept conversations."""

    n: int
    size_bytes: int


def folder() -> Path:
    """Return the folder of all owners."""
    return cache_dir() / "conversations"


@lru_cache(maxsize=1024)
def owner_of(database: str, user_id: str) -> str:
    """Return the name of a user of a database, which is also the name of the folder."""
    if "://" not in database:
        database = os.path.realpath(database)
    return hashlib.sha256(f"{database}\0{user_id}".encode("utf-8", "surrogateescape")).hexdigest()[:32]


def owners(root: Path) -> list[str]:
    """Return all who have a folder."""
    try:
        return [entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def paths_of(root: Path, owner: str) -> list[Path]:
    """Return the paths of an owner's files, in no order."""
    own = root / owner
    try:
        return [own / entry.name for entry in os.scandir(own) if entry.name.endswith(_SUFFIX)]
    except OSError:
        return []


def all_files(root: Path) -> list[KeptFile]:
    """Return the files of all owners, the least recently used first, unfinished ones included."""
    found = [file for owner in owners(root) for file in _files(root / owner, _SUFFIX, _PART)]
    return sorted(found, key=lambda file: file.used_at)


def usage(root: Path | None = None) -> Usage:
    """Return how many conversations are kept, and the bytes that they take."""
    files = all_files(root or folder())
    n = sum(file.path.suffix == _SUFFIX for file in files)
    return Usage(n, sum(file.size_bytes for file in files))


def put(root: Path, owner: str, write: Callable[[BinaryIO], object], *, asked_at: float) -> Path | None:
    """Write a new file; return its path, None if the owner has deleted something since `asked_at`.

    Raises OSError, and leaves nothing.
    """
    own = root / owner
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    own.mkdir(mode=0o700, exist_ok=True)
    part = own / f"{secrets.token_hex(8)}{_PART}"
    target = part.with_suffix(_SUFFIX)
    with overwriting.temporary_file(part) as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
        with locked(own):
            if _forgotten_at(own) >= asked_at or not part.exists():
                return None
            os.replace(part, target)
        return target


def forget(owner: str, since: float = 0.0, *, root: Path | None = None) -> list[str]:
    """Delete an owner's files that may hold words of `since` or later (unix seconds); return their paths."""
    root = root or folder()
    deleted: list[str] = []
    if not root.is_dir():  # no engine keeps anything: it makes the folder before it reads
        return deleted
    own = root / owner
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        with locked(own):
            now_ns = time.time_ns()
            marker = own / _FORGOTTEN
            marker.touch(mode=0o600)
            os.utime(marker, ns=(now_ns, now_ns))
            for file in _files(own, _SUFFIX, _PART):
                if file.used_at >= since:
                    overwriting.remove(file.path)
                    deleted.append(str(file.path))
    except OSError as error:
        _log.warning("kept conversations in %s could not be deleted: %s", own, error.strerror)
    return deleted


def touch(path: Path) -> None:
    """Note that a file was used."""
    with contextlib.suppress(OSError):
        os.utime(path)


def remove(path: Path) -> None:
    """Delete and overwrite a file, if it is there and can be deleted."""
    with contextlib.suppress(OSError):
        overwriting.remove(path)


def _forgotten_at(own: Path) -> float:
    try:
        return (own / _FORGOTTEN).stat().st_mtime
    except OSError:
        return 0.0


def _files(own: Path, *suffixes: str) -> Iterator[KeptFile]:
    with contextlib.suppress(OSError), os.scandir(own) as entries:
        for entry in entries:
            if entry.name.endswith(suffixes):
                with contextlib.suppress(OSError):  # another process has just deleted it
                    found = entry.stat(follow_symlinks=False)
                    yield KeptFile(Path(entry.path), found.st_size, found.st_mtime)

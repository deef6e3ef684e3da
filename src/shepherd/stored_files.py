"""All files that Shepherd keeps, with the settings of this process: the list that an audit goes through.

Whole folders, so that a new kind of file is found without being listed here. Models are in the cache of the
hub, which other programs share; files that a command was told to write (exports, backups, saved
conversations) are the user's own.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd.config import Config
from shepherd.paths import cache_dir, config_file, data_dir, default_database, from_home, state_dir

__all__ = [
    "StoredFile",
    "copies_of_database",
    "database_file",
    "leftovers",
    "readable_copies",
    "stored_files",
]

_ASIDE = (".before-restore", ".before-migration", ".converting", ".part")
# What a write that was killed leaves begins with a dot; the others may quote what was said.
_LEFTOVERS = (".history.*", "mcp-*.log", "crash-*.log")
_MAGIC = b"SQLite format 3\0"
# Where a database says which program it belongs to (sqlite.org/fileformat2.html, 1.3), and what ours says.
_OWNER_AT, _OWNER = 68, b"SHEP"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file, and what it has in a few words."""

    path: Path
    what: str


def database_file(config: Config) -> Path | None:
    """Return the file of the database; None for PostgreSQL."""
    named = config.memory_database
    if "://" in named:
        return None
    return (from_home(named, "memory_database") if named else default_database()).absolute()


def copies_of_database(config: Config) -> list[Path]:
    """Return the copies of the database that Shepherd itself has put beside it, without their logs."""
    database = database_file(config)
    if database is None:
        return []
    beside = sorted(database.parent.glob(f"{glob.escape(database.name)}.before-*"))
    return [path for path in beside if not path.name.endswith(("-wal", "-shm", "-journal"))]


def leftovers(config: Config) -> list[Path]:
    """Return the files of this account and this database that may have the user's words, and nobody needs."""
    found = [path for pattern in _LEFTOVERS for path in sorted(state_dir().glob(pattern))]
    database = database_file(config)
    if database is not None:
        real = database.resolve()
        found += sorted(real.parent.glob(f".{glob.escape(real.name)}-history.*"))
        found += [Path(f"{real}.part{end}") for end in ("", "-wal", "-shm", "-journal")]
    return [path for path in found if path.is_file()]


def readable_copies(config: Config) -> list[Path]:
    """Return the databases that are not encrypted, among the files of Shepherd and beside its database.

    The database itself is not looked at: this process may have locks on it.
    """
    database = database_file(config)
    if database is None:
        return []
    real = database.resolve()
    paths = {file.path.resolve() for file in stored_files(config)}
    with contextlib.suppress(OSError):  # a folder that can be entered, but not listed
        paths |= {path for path in real.parent.iterdir() if path.is_file() and not path.is_symlink()}
    return sorted(path for path in paths - {real} if _is_readable(path, real.name))


def _is_readable(path: Path, name: str) -> bool:
    """Return whether a file is a plain database of Shepherd, or of an older one with this name."""
    try:
        with open(path, "rb") as file:
            head = file.read(_OWNER_AT + len(_OWNER))
    except OSError:
        return False
    is_own = head[_OWNER_AT:] == _OWNER or path.name.startswith(name)
    return head.startswith(_MAGIC) and is_own


def stored_files(config: Config) -> list[StoredFile]:
    """Return every file that there is, each once, the database first."""
    found: dict[Path, StoredFile] = {}
    for path, what in _all(config):
        if path.is_file():
            found.setdefault(path.resolve(), StoredFile(path, what))
    return list(found.values())


def _all(config: Config) -> Iterator[tuple[Path, str]]:
    database = database_file(config)
    if database is not None:
        yield database, "database"
        yield from _of_database(database)
    for folder, what in (
        (state_dir(), "state"),
        (config_file().parent, "configuration"),
        (cache_dir(), "cache"),
        (data_dir(), "data"),
    ):
        for path in sorted(folder.rglob("*")):
            yield path, _kind(path, what)


def _of_database(database: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(database.parent.glob(f"{glob.escape(database.name)}[-.]*")):
        if path.is_dir():
            for index in sorted(path.rglob("*")):
                yield index, "saved search index"
        elif path.name.startswith(tuple(database.name + end for end in _ASIDE)):
            yield path, "copy of the database"
        elif path.name.startswith(f"{database.name}-history"):
            yield path, "lines typed at the prompt"
        elif path.name == f"{database.name}-key":
            yield path, "where the key of the memory comes from"
        else:
            yield path, "log of the database"


def _kind(path: Path, otherwise: str) -> str:
    if path.parent.name == "hot-indexes" or path.parent.parent.name == "hot-indexes":
        return "saved search index"
    if path.name.removeprefix(".").startswith("history"):
        return "lines typed at the prompt"
    if path.suffix in (".state", ".part"):
        return "kept conversation"
    if path.suffix == ".log":
        return "log"
    return otherwise

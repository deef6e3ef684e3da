"""All files that Shepherd keeps, with the settings of this process: the list that an audit goes through.

Whole folders, so that a new kind of file is found without being listed here. Models are in the cache of the
hub, which other programs share; files that a command was told to write (exports, backups, saved
conversations) are the user's own.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd.config import Config
from shepherd.paths import cache_dir, config_file, data_dir, default_database, from_home, state_dir

__all__ = ["StoredFile", "copies_of_database", "database_file", "stored_files"]

_ASIDE = (".before-restore", ".before-migration", ".converting")


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

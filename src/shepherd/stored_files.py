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
    "note_session_cache",
    "session_caches",
    "stored_files",
]

_ASIDE = (".before-restore", ".before-migration")


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


def session_caches(config: Config) -> list[Path]:
    """Return the session cache of the settings, and those that chats and servers were told to use."""
    named = [from_home(config.session_cache, "session_cache").absolute()] if config.session_cache else []
    with contextlib.suppress(OSError):
        noted = _noted_caches().read_text(encoding="utf-8").splitlines()
        named += [Path(line) for line in noted if Path(line) not in named]
    return named


def note_session_cache(path: Path) -> None:
    """Note a session cache, so that a forgetting finds it whatever the settings are then."""
    line, file = str(path.absolute()), _noted_caches()
    with contextlib.suppress(OSError, UnicodeError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(file, "a+", encoding="utf-8") as opened:
            opened.seek(0)
            if line not in opened.read().splitlines():
                opened.write(f"{line}\n")


def _noted_caches() -> Path:
    return state_dir() / "session-caches"


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
    for cache in session_caches(config):
        yield cache, "session cache"
        for path in sorted(cache.parent.glob(f".{glob.escape(cache.name)}.*")):
            yield path, "interrupted save of the session cache"
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
        else:
            yield path, "log of the database"


def _kind(path: Path, otherwise: str) -> str:
    if path.parent.name == "hot-indexes" or path.parent.parent.name == "hot-indexes":
        return "saved search index"
    if path.name.removeprefix(".").startswith("history"):
        return "lines typed at the prompt"
    if path.suffix == ".log":
        return "log"
    return otherwise

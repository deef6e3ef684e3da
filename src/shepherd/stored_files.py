"""All files that Shepherd keeps, with the settings of this process: the list that an audit goes through.

Whole folders, so that a new kind of file is found without being listed here. Models are in the cache of the
hub, which other programs share; files that a command was told to write (exports, backups, saved
conversations) are the user's own.
"""

from __future__ import annotations

import codecs
import contextlib
import glob
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd.config import Config
from shepherd.paths import cache_dir, config_file, data_dir, default_database, from_home, state_dir

__all__ = [
    "StoredFile",
    "copies_of_database",
    "database_file",
    "is_plain",
    "leftovers",
    "readable_copies",
    "stored_files",
]

# SQLite's own files beside a database.
_LOGS = ("-wal", "-shm", "-journal")
# What a restore of a backup with users' keys decrypts into, with the logs and the key file of that.
_DECRYPTING = re.compile(r"\.decrypting(-[0-9]+)?(-wal|-shm|-journal|-key)?")
_TEXT_BYTES = 1 << 13
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
    """Return what is beside the database and may be a copy of it, also of the user; without logs."""
    database = database_file(config)
    if database is None:
        return []
    return [
        path
        for path, what in _of_database(database)
        if what == "copy of the database"
        and path.is_file()
        and not path.name.endswith(_LOGS)
        and (path.name.startswith(f"{database.name}.before-") or not _is_text(path))
    ]


def leftovers(config: Config) -> list[Path]:
    """Return the files of this account and this database that may have the user's words, and nobody needs."""
    found = [path for pattern in _LEFTOVERS for path in sorted(state_dir().glob(pattern))]
    database = database_file(config)
    if database is not None:
        real = database.resolve()
        found += sorted(real.parent.glob(f".{glob.escape(real.name)}-history.*"))
        found += [Path(f"{real}.part{end}") for end in ("", *_LOGS)]
        found += [
            path
            for one in dict.fromkeys((database, real))
            for path in sorted(one.parent.glob(f"{glob.escape(one.name)}.decrypting*"))
            if _DECRYPTING.fullmatch(path.name.removeprefix(one.name))
        ]
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
    name = glob.escape(database.name)
    for path in sorted([*database.parent.glob(f"{name}[-.]*"), *database.parent.glob(f".{name}-history.*")]):
        end = path.name.removeprefix(".").removeprefix(database.name)
        if path.is_dir():
            what = "saved search index" if end == "-hot" else "copy of the database"
            for inside in sorted(path.rglob("*")):
                yield inside, what
        elif end in _LOGS:
            yield path, "log of the database"
        elif end == "-history" or end.startswith("-history."):
            yield path, "lines typed at the prompt"
        elif end.endswith("-key") and _is_text(path):
            yield path, "where the key of the memory comes from"
        else:
            yield path, "copy of the database"


def is_plain(path: Path) -> bool:
    """Return whether the bytes of a file beside the database show its words: a plain database, or a text."""
    base = path
    for end in _LOGS:
        if path.name.endswith(end):
            # Its pages are as those of its database; -shm has only their numbers.
            base = path.with_name(path.name.removesuffix(end))
            if end == "-shm" or not path.stat().st_size:
                return True
    try:
        with open(base, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC or _is_text(path)
    except OSError:
        return _is_text(path)


def _is_text(path: Path) -> bool:
    """Return whether a file begins with readable text, or is empty."""
    try:
        with open(path, "rb") as file:
            head = file.read(_TEXT_BYTES)
        # A letter may be cut off.
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(head)
    except (OSError, UnicodeDecodeError):
        return False


def _kind(path: Path, otherwise: str) -> str:
    if path.parent.name == "hot-indexes" or path.parent.parent.name == "hot-indexes":
        return "saved search index"
    if path.name.removeprefix(".").startswith("history"):
        return "lines typed at the prompt"
    if path.suffix in (".state", ".part") and path.parent.parent == cache_dir() / "conversations":
        return "kept conversation"
    if path.suffix == ".log":
        return "log"
    return otherwise

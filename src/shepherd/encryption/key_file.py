"""The key file beside an encrypted database, `memory.db-key`: where its key comes from, never the key itself.

JSON, an entry per salt. While a memory is converted it has two: whichever database a crash leaves can be
opened. It can be lost without harm if the passphrase was made with the costs that are usual today.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from shepherd.encryption.key import SALT_BYTES, USUAL_COST, Argon2, MemoryKey
from shepherd.errors import UsageError
from shepherd.paths import (
    cache_dir,
    config_file,
    default_database,
    mcp_file,
    state_dir,
    write_atomically,
)

__all__ = [
    "KeyEntry",
    "Source",
    "key_file_of",
    "read_entries",
    "refuse_foreign",
    "refuse_own_names",
    "write_entries",
]

Source = Literal["keyring", "passphrase", "file", "command"]
_VERSION = 1


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """Source of the key of one salt; `place` is the path of a file, `check` recognizes the key."""

    salt: bytes
    source: Source
    check: str = ""
    place: str = ""
    cost: Argon2 = USUAL_COST

    def fits(self, key: MemoryKey) -> bool:
        """Return whether this is the key that the memory was encrypted with."""
        return key.check == self.check


def key_file_of(database: str) -> Path:
    """Return the path of the key file: beside the database itself, also if `database` is a link."""
    return Path(f"{os.path.realpath(database)}-key")


def read_entries(database: str) -> dict[bytes, KeyEntry]:
    """Return the entries of the key file by salt; none if it is missing or damaged."""
    try:
        whole = json.loads(key_file_of(database).read_bytes())
        entries = [_entry(item) for item in whole["keys"]]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {entry.salt: entry for entry in entries}


def write_entries(database: str, entries: Collection[KeyEntry]) -> None:
    """Replace the key file, mode 0600; without entries it is deleted.

    Raises OSError, and UsageError for a file of this name that is no key file: it may be somebody's key.
    """
    path = key_file_of(database)
    if entries:
        refuse_foreign(database)
    elif not _is_ours(path):
        return
    items = [
        {**asdict(entry), "salt": entry.salt.hex(), "kdf": "argon2id", "cost": asdict(entry.cost)}
        for entry in entries
    ]
    if items:
        text = json.dumps({"version": _VERSION, "keys": items}, indent=1)
        write_atomically(path, text.encode())
        return
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def refuse_foreign(database: str) -> None:
    """Raise UsageError if there is a file with the name of the key file that Shepherd has not written."""
    path = key_file_of(database)
    if not _is_ours(path):
        raise UsageError(
            f"{path}: Shepherd needs this name, and has not written this file; nothing was changed",
            hint="rename it; if it is a key file of Shepherd that was damaged, delete it",
        )


def refuse_own_names(place: Path, database: str | os.PathLike[str]) -> None:
    """Raise UsageError if a key would lie where Shepherd writes files, of this memory or others."""
    databases = _names_of(database) | _names_of(default_database())
    others = _names_of(config_file()) | _names_of(mcp_file()) | databases
    folders = _names_of(state_dir()) | _names_of(cache_dir())
    begins = (
        *(f"{name}{mark}" for name in databases for mark in "-."),
        *(f"{folder}/" for folder in folders),
    )
    if any(name in others or name.startswith(begins) for name in _names_of(place)):
        raise UsageError(
            f"{place}: Shepherd writes its own files there, and would lose the key",
            hint="name a file in another folder",
        )


def _names_of(path: str | os.PathLike[str]) -> set[str]:
    """Return a path as it is given, and where it leads."""
    return {os.path.abspath(path), os.path.realpath(path)}


def _is_ours(path: Path) -> bool:
    """Return whether the file is a key file, or there is none to lose."""
    try:
        data = path.read_bytes()
        return not data or "keys" in json.loads(data)
    except FileNotFoundError:
        return True
    except (ValueError, TypeError):
        return False


def _entry(item: dict[str, object]) -> KeyEntry:
    salt, source = bytes.fromhex(str(item["salt"])), item["source"]
    if len(salt) != SALT_BYTES or source not in ("keyring", "passphrase", "file", "command"):
        raise ValueError
    if source == "file" and not item["place"]:
        raise ValueError
    return KeyEntry(salt, source, str(item["check"]), str(item["place"]), Argon2.of(item["cost"]))

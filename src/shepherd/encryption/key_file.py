"""The key file beside an encrypted database, `memory.db-key`: where its key comes from, never the key itself.

JSON, an entry per salt. While a memory is converted it has two: whichever database a crash leaves can be
opened. It can be lost without harm if the passphrase was made with the costs that are usual today.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from shepherd.encryption.key import SALT_BYTES, USUAL_COST, Argon2, MemoryKey
from shepherd.paths import write_atomically

__all__ = ["KeyEntry", "Source", "key_file_of", "read_entries", "write_entries"]

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


def write_entries(database: str, entries: Iterable[KeyEntry]) -> None:
    """Replace the key file, mode 0600; without entries it is deleted. Raises OSError."""
    items = [
        {**asdict(entry), "salt": entry.salt.hex(), "kdf": "argon2id", "cost": asdict(entry.cost)}
        for entry in entries
    ]
    if items:
        text = json.dumps({"version": _VERSION, "keys": items}, indent=1)
        write_atomically(key_file_of(database), text.encode())
        return
    with contextlib.suppress(FileNotFoundError):
        os.remove(key_file_of(database))


def _entry(item: dict[str, object]) -> KeyEntry:
    salt, source = bytes.fromhex(str(item["salt"])), item["source"]
    if len(salt) != SALT_BYTES or source not in ("keyring", "passphrase", "file", "command"):
        raise ValueError
    return KeyEntry(salt, source, str(item["check"]), str(item["place"]), Argon2.of(item["cost"]))

"""The folder of a sync: its key, sealed with a passphrase, and the names of the segment files.

    shepherd-sync.json          version, id of the folder, salt and cost of the passphrase, the sealed key
    MACHINE-NUMBER.shpseg       segments, each written by one machine alone

The key is random and seals everything else; a passphrase that is stretched by Argon2id seals the key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shepherd.encryption import MemoryKey, Sealer, SealError, new_salt
from shepherd.encryption.key import SALT_BYTES, USUAL_COST, Argon2, new_master_text
from shepherd.encryption.unlocking import spellings
from shepherd.errors import StoreError, StoreKeyError, UsageError
from shepherd.paths import write_atomically

__all__ = ["KEY_NAME", "Folder", "create", "exists", "id_of", "unlock"]

KEY_NAME = "shepherd-sync.json"
_SEGMENT = re.compile(r"([0-9a-f]{12})-(\d{6})\.shpseg")
_VERSION = 1


class Folder:
    """A folder whose key is known. `key` is the text that `opened` takes."""

    def __init__(self, path: Path, folder_id: str, key: str) -> None:
        self.path, self.id, self.key = path, folder_id, key
        self._secret = MemoryKey(bytes.fromhex(key), bytes.fromhex(folder_id))
        self.sealer = Sealer(self._secret)

    def digest(self, *parts: str) -> str:
        """Return an id that is the same on all machines, and says nothing to those without the key."""
        whole = json.dumps(parts).encode()
        return hashlib.blake2b(whole, key=bytes(self._secret.files), digest_size=16).hexdigest()

    def segment(self, machine: str, number: int) -> Path:
        """Return the path of a segment."""
        return self.path / f"{machine}-{number:06}.shpseg"

    def segments(self) -> dict[str, list[int]]:
        """Return the numbers of the segments by machine, both in order. Raises StoreError."""
        found: dict[str, list[int]] = {}
        try:
            names = sorted(os.listdir(self.path))
        except OSError as error:
            raise StoreError(
                f"{self.path}: the folder cannot be read: {error.strerror}", hint="is the disk connected?"
            ) from error
        for name in names:
            if match := _SEGMENT.fullmatch(name):
                found.setdefault(match[1], []).append(int(match[2]))
        return found


def exists(path: Path) -> bool:
    """Return whether a folder has the key of a sync. Raises UsageError if there is no such folder."""
    if not path.is_dir():
        raise UsageError(
            f"{path}: there is no such folder",
            hint="is the disk connected? For the first sync, make a folder, and name it again",
        )
    return (path / KEY_NAME).is_file()


def create(path: Path, passphrase: str) -> Folder:
    """Make the key of a new folder and seal it. Raises StoreError, UsageError."""
    folder_id, salt, key = secrets.token_hex(16), new_salt(), new_master_text()
    sealed = Sealer.of_passphrase(passphrase, salt, USUAL_COST).seal(key.encode(), _purpose(folder_id))
    document = {
        "version": _VERSION,
        "id": folder_id,
        "kdf": "argon2id",
        "salt": salt.hex(),
        "cost": asdict(USUAL_COST),
        "key": sealed.hex(),
    }
    try:
        write_atomically(path / KEY_NAME, (json.dumps(document, indent=1) + "\n").encode())
    except OSError as error:
        raise StoreError(
            f"{path}: the folder cannot be written: {error.strerror}", hint="name a folder that you can write"
        ) from error
    return Folder(path, folder_id, key)


def unlock(path: Path, passphrase: str) -> Folder:
    """Open the key of a folder with its passphrase. Raises StoreKeyError, StoreError."""
    document = _read(path)
    try:
        salt, cost = bytes.fromhex(document["salt"]), Argon2.of(document["cost"])
        sealed, folder_id = bytes.fromhex(document["key"]), str(document["id"])
        if len(salt) != SALT_BYTES or len(bytes.fromhex(folder_id)) != SALT_BYTES:
            raise ValueError
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(path) from error
    for spelling in spellings(passphrase):
        with contextlib.suppress(SealError):
            key = Sealer.of_passphrase(spelling, salt, cost).open(sealed, _purpose(folder_id))
            return Folder(path, folder_id, key.decode())
    raise StoreKeyError(
        f"{path}: that is not the passphrase of this folder; nothing was changed",
        hint="use the passphrase that was chosen at the first sync, on the other machine",
    )


def id_of(path: Path) -> str:
    """Return the id of a folder. Raises StoreError."""
    return str(_read(path).get("id", ""))


def _read(path: Path) -> dict[str, Any]:
    file = path / KEY_NAME
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise StoreError(f"{file}: cannot be read: {error.strerror}", hint="") from error
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(document, dict):
        raise _damaged(path)
    if document.get("version") != _VERSION:
        raise StoreError(
            f"{file}: a newer Shepherd has written this folder", hint="update Shepherd on this machine"
        )
    return document


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"{path / KEY_NAME}: the file is damaged",
        hint="wait until the folder is copied completely, or copy this file from another machine",
    )


def _purpose(folder_id: str) -> str:
    return f"sync key {folder_id}"

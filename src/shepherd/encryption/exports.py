"""Encrypted exports: a line that says what the file is, and the export, sealed with a passphrase.

    {"type": "shepherd-encrypted-export", "version": 1, "of": "memory", "kdf": …, "salt": …, "cost": …}
    a sealed file                   its key by Argon2id, its purpose "export of memory"; see sealing.py

The first line is JSON as in every other export, so that any program can tell what the file is.
"""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, BinaryIO, TextIO

from shepherd.encryption.key import SALT_BYTES, USUAL_COST, Argon2, new_salt
from shepherd.encryption.sealing import SealedReader, SealedWriter, Sealer, SealError
from shepherd.errors import StoreError, StoreKeyError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["decrypted", "encrypted", "kind_of"]

_TYPE = "shepherd-encrypted-export"
_VERSION = 1
_BEGINNING = b'{"type": "%s"' % _TYPE.encode()
_LONGEST_HEAD_BYTES = 4096
_BUFFER_BYTES = 1 << 16


def kind_of(beginning: bytes) -> str | None:
    """Return what an encrypted export that begins with these bytes holds: memory, knowledge or trace.

    None if it is no encrypted export; "" if its first line is damaged or a newer version's.
    """
    if not beginning.startswith(_BEGINNING):
        return None
    try:
        return _Head.read(beginning.partition(b"\n")[0]).kind
    except ValueError:
        return ""


@contextmanager
def encrypted(target: BinaryIO, kind: str, passphrase: str) -> Iterator[TextIO]:
    """Give a text file; what is written to it goes encrypted to `target`, complete when the block ends."""
    head = _Head(kind, new_salt(), USUAL_COST)
    sealer = head.sealer(passphrase)
    target.write(head.line())
    sealed = SealedWriter(target, sealer, head.purpose)
    text = io.TextIOWrapper(
        io.BufferedWriter(_RawWriter(sealed), _BUFFER_BYTES), encoding="utf-8", newline="\n"
    )
    yield text
    text.flush()
    sealed.finish()
    target.flush()


def decrypted(source: BinaryIO, name: str, passphrase: str) -> io.BufferedReader:
    """Return the export in `source`, which stands at its beginning; errors call it `name`.

    Raises StoreKeyError for a wrong passphrase, and StoreError, also while it is read, for a damaged file.
    """
    try:
        head = _Head.read(source.readline(_LONGEST_HEAD_BYTES))
        reader = SealedReader(source, head.sealer(passphrase), head.purpose)
    except (ValueError, SealError):
        raise StoreError(
            f"{name}: this encrypted export is damaged, or a newer Shepherd has made it",
            hint="export again, or update Shepherd",
        ) from None
    raw = _RawReader(reader, name)
    text: io.BufferedReader = io.BufferedReader(raw, _BUFFER_BYTES)
    try:
        text.peek(1)  # decrypts the first piece
    except StoreError:
        raise StoreKeyError(
            f"{name}: that is not its passphrase, or the file is damaged; nothing was imported",
            hint="try again with the passphrase that was chosen for the export",
        ) from None
    return text


class _Head:
    """The first line: what is exported, and how the passphrase becomes a key."""

    def __init__(self, kind: str, salt: bytes, cost: Argon2) -> None:
        self.kind, self.salt, self.cost = kind, salt, cost
        self.purpose = f"export of {kind}"

    def sealer(self, passphrase: str) -> Sealer:
        """Return the sealer, which is the same however a system types accents."""
        return Sealer.of_passphrase(unicodedata.normalize("NFC", passphrase), self.salt, self.cost)

    def line(self) -> bytes:
        value = {
            "type": _TYPE,
            "version": _VERSION,
            "of": self.kind,
            "kdf": "argon2id",
            "salt": self.salt.hex(),
            "cost": asdict(self.cost),
        }
        return json.dumps(value).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> _Head:
        """Read the line; raises ValueError."""
        try:
            value = json.loads(line)
            salt = bytes.fromhex(value["salt"])
            if value["type"] != _TYPE or value["version"] != _VERSION or len(salt) != SALT_BYTES:
                raise ValueError("not the first line of an encrypted export")
            return cls(str(value["of"]), salt, Argon2.of(value["cost"]))
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError("not the first line of an encrypted export") from error


class _RawWriter(io.RawIOBase):
    def __init__(self, sealed: SealedWriter) -> None:
        self._sealed = sealed

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        self._sealed.write(view)
        return view.nbytes


class _RawReader(io.RawIOBase):
    def __init__(self, sealed: SealedReader, name: str) -> None:
        self._sealed, self._name = sealed, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            part = self._sealed.read(len(view))
        except SealError:
            raise StoreError(
                f"{self._name}: the file is damaged or incomplete; a part of it may be imported already",
                hint="import another copy of it, or export again: nothing is imported twice",
            ) from None
        view[: len(part)] = part
        return len(part)

"""Sealed files: what is kept beside an encrypted memory, encrypted with its key.

    b"SHPSEAL1"                 what it is
    16 bytes                    random: the key of this file is BLAKE2b of the memory's, with this as salt
    pieces of at most 1 MiB     each with its tag, by ChaCha20-Poly1305; nonce: number of the piece, and 1 for
                                the last one. The purpose of the file is authenticated, too.

Pieces cannot be changed, reordered or cut off without being noticed.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import struct
from typing import TYPE_CHECKING, BinaryIO

from shepherd.encryption.key import Argon2, MemoryKey, master_key, needs_package
from shepherd.errors import StoreKeyError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

__all__ = ["MAGIC", "SealError", "SealedReader", "SealedWriter", "Sealer"]

MAGIC = b"SHPSEAL1"
_SALT_BYTES, _TAG_BYTES, _PIECE_BYTES = 16, 16, 1 << 20
_NONCE = struct.Struct("<QI")


class SealError(Exception):
    """Bytes were not sealed with this key for this purpose, or are damaged."""


class Sealer:
    """Seals and opens what belongs to one memory, or to one passphrase. Thread-safe."""

    def __init__(self, key: MemoryKey) -> None:
        self._key = key

    @classmethod
    def of_passphrase(cls, passphrase: str, salt: bytes, cost: Argon2) -> Sealer:
        """Return the sealer of what belongs to no memory; the text of a key will do as well."""
        return cls(MemoryKey(master_key(passphrase, salt, cost), salt))

    def seal(self, data: bytes, purpose: str) -> bytes:
        """Return the sealed bytes, which only `open` with the same purpose reads."""
        target = io.BytesIO()
        writer = SealedWriter(target, self, purpose)
        writer.write(data)
        writer.finish()
        return target.getvalue()

    def open(self, data: bytes, purpose: str) -> bytes:
        """Return what was sealed; raises SealError."""
        return SealedReader(io.BytesIO(data), self, purpose).read()

    def cipher(self, salt: bytes) -> ChaCha20Poly1305:
        """Return the cipher of one file. Raises StoreKeyError in a forked process, which has no key."""
        if self._key.is_wiped:
            raise StoreKeyError(
                "the key of the memory is not in this process, which was forked or has closed it",
                hint="open the memory again in this process",
            )
        try:
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        except ImportError as error:
            raise needs_package() from error
        return ChaCha20Poly1305(
            hashlib.blake2b(key=self._key.files, digest_size=32, salt=salt, person=b"shepherd file").digest()
        )


class SealedWriter:
    """Writes a sealed file piece by piece; without `finish` it counts as damaged."""

    def __init__(self, target: BinaryIO, sealer: Sealer, purpose: str) -> None:
        salt = secrets.token_bytes(_SALT_BYTES)
        self._target, self._purpose = target, purpose.encode()
        self._cipher = sealer.cipher(salt)
        self._waiting = bytearray()
        self._number = 0
        target.write(MAGIC + salt)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        self._waiting += data
        # A full piece waits until it is known not to be the last one.
        while len(self._waiting) > _PIECE_BYTES:
            self._write_piece(bytes(self._waiting[:_PIECE_BYTES]), is_last=False)
            del self._waiting[:_PIECE_BYTES]

    def finish(self) -> None:
        """Write the last piece."""
        self._write_piece(bytes(self._waiting), is_last=True)
        self._waiting.clear()

    def _write_piece(self, piece: bytes, *, is_last: bool) -> None:
        self._target.write(self._cipher.encrypt(_NONCE.pack(self._number, is_last), piece, self._purpose))
        self._number += 1


class SealedReader:
    """Reads a sealed file piece by piece; every byte that it returns was authenticated."""

    def __init__(self, source: BinaryIO, sealer: Sealer, purpose: str) -> None:
        head = source.read(len(MAGIC) + _SALT_BYTES)
        if len(head) < len(MAGIC) + _SALT_BYTES or not head.startswith(MAGIC):
            raise SealError("this is not a sealed file")
        self._source, self._purpose = source, purpose.encode()
        self._cipher = sealer.cipher(head[len(MAGIC) :])
        self._number = 0
        self._piece = io.BytesIO()
        self._sealed = source.read(_PIECE_BYTES + _TAG_BYTES)
        self._is_done = False

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, fewer only at the end; all that follow if `size` is negative."""
        parts = []
        while size != 0:
            part = self._piece.read(size)
            if part:
                parts.append(part)
                size -= len(part) if size > 0 else 0
            elif self._is_done:
                break
            else:
                self._next_piece()
        return b"".join(parts)

    def _next_piece(self) -> None:
        from cryptography.exceptions import InvalidTag

        following = self._source.read(_PIECE_BYTES + _TAG_BYTES)
        nonce = _NONCE.pack(self._number, not following)
        try:
            self._piece = io.BytesIO(self._cipher.decrypt(nonce, self._sealed, self._purpose))
        except (InvalidTag, ValueError) as error:
            raise SealError("the file is damaged, or sealed with another key") from error
        self._number += 1
        self._sealed, self._is_done = following, not following

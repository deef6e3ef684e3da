"""The session cache: what an engine holds of its conversations, in a file, so that a new process goes on.

    b"SHPSESS1"                                   what it is
    32 bytes                                      SHA-256 of all that follows
    32 bytes                                      whose it is: model, settings that shape a state, llama.cpp
    for each record:
        uint32 n, uint64 size, uint8 checkpoint   little-endian
        n times int32                             token ids
        size bytes                                llama.cpp's state of a sequence

The ids are what was said, so only its owner may read the file. It is written beside its place, then renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from shepherd._native import engine as native
from shepherd.errors import SessionCacheError
from shepherd.paths import replacing

__all__ = ["identity_of", "load_session", "save_session"]

_MAGIC = b"SHPSESS1"
_RECORD = struct.Struct("<IQB")
_DIGEST_BYTES = 32
_BODY = len(_MAGIC) + _DIGEST_BYTES
_PIECE_BYTES = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 64, 1 << 12
_REFUSED_HINT = "it will be written anew at the end; remove it to be rid of this message"


def identity_of(model_path: str, *settings: object) -> bytes:
    """Return a digest of a model's file, by 256 KiB from all over it, and of what else shapes its states."""
    digest = hashlib.sha256(repr(settings).encode())
    size = os.path.getsize(model_path)
    digest.update(str(size).encode())
    with open(model_path, "rb") as file:
        for i in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * i // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.digest()


def save_session(decoder: native.Decoder, path: Path, identity: bytes) -> int:
    """Write what the decoder holds and what it has parked; how many conversations. It must be idle.

    Raises SessionCacheError when the disk refuses, or when there is another sort of file at `path`.
    """
    decoder.park()
    conversations = 0
    with _as_session_error(path):
        _check_ours(path)
        with replacing(path) as file:
            digest = hashlib.sha256(identity)
            file.write(_MAGIC + bytes(_DIGEST_BYTES) + identity)
            for ids, state, is_checkpoint in decoder.snapshots():
                conversations += not is_checkpoint
                for part in (_RECORD.pack(len(ids) // 4, len(state), is_checkpoint), ids, state):
                    digest.update(part)
                    file.write(part)
            file.seek(len(_MAGIC))
            file.write(digest.digest())
    return conversations


def load_session(decoder: native.Decoder, path: Path, identity: bytes) -> int:
    """Take over what `save_session` wrote; how many conversations. 0 when there is no such file.

    Raises SessionCacheError, and takes nothing, when the file is damaged, of another model, or no such cache.
    """
    if not path.exists():
        return 0
    with _as_session_error(path), open(path, "rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise _foreign(path)
        expected, digest = file.read(_DIGEST_BYTES), hashlib.sha256()
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
        if digest.digest() != expected:
            raise SessionCacheError(f"session cache '{path}' is damaged", hint=_REFUSED_HINT)
        file.seek(_BODY)
        if file.read(_DIGEST_BYTES) != identity:
            raise SessionCacheError(
                f"session cache '{path}' belongs to another model or other settings", hint=_REFUSED_HINT
            )
        return sum(
            decoder.adopt(ids, state, is_checkpoint) and not is_checkpoint
            for ids, state, is_checkpoint in _records(file, path)
        )


def _records(file: BinaryIO, path: Path) -> Iterator[tuple[array[int], bytes, bool]]:
    while head := file.read(_RECORD.size):
        try:
            n, size, is_checkpoint = _RECORD.unpack(head)
            ids = array("i", file.read(4 * n))
            state = file.read(size)
        except (struct.error, ValueError, OverflowError, MemoryError):
            raise SessionCacheError(f"session cache '{path}' is damaged", hint=_REFUSED_HINT) from None
        if len(ids) != n or len(state) != size:
            raise SessionCacheError(f"session cache '{path}' is damaged", hint=_REFUSED_HINT)
        yield ids, state, bool(is_checkpoint)


def _check_ours(path: Path) -> None:
    if path.exists() and path.stat().st_size > 0:
        with open(path, "rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise _foreign(path)


def _foreign(path: Path) -> SessionCacheError:
    return SessionCacheError(
        f"'{path}' is not a session cache, and stays unchanged", hint="name another file with --session-cache"
    )


@contextlib.contextmanager
def _as_session_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SessionCacheError(
            f"session cache '{path}': {error.strerror or type(error).__name__}",
            hint="name a file in a folder that you can write, or free some space",
        ) from error

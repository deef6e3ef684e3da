"""A conversation's state in a file, with which another process continues it without reading it again.

    b"SHPCONV1"                               what it is
    32 bytes                                  SHA-256 of the front
    uint32                                    bytes of the front, little-endian as all numbers
    front:  32 bytes                          what the states belong to: model, cache settings, llama.cpp
            32 bytes                          SHA-256 of the states
            uint32 head, uint32 parts         leading tokens that others share; number of states
            for each part: uint32 n, uint64 size
                                              tokens and bytes; the whole sequence, then checkpoints of it
            n times int32                     ids of the whole sequence's tokens
    states, one after the other               in llama.cpp's own format

The ids are what was said. All bytes pass `write_state`, `read_front` and `read_states`: to encrypt the files,
wrap the files that these are given.
"""

from __future__ import annotations

import hashlib
import os
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

from shepherd._native import engine as native

__all__ = ["Front", "StateFileError", "identity_of", "read_front", "read_states", "size_of", "write_state"]

_MAGIC = b"SHPCONV1"
_START = struct.Struct("<8s32sI")
_HEAD = struct.Struct("<32s32sII")
_PART = struct.Struct("<IQ")
_MOST_FRONT_BYTES = 1 << 26
_PIECE_BYTES = 1 << 22
_SAMPLES, _SAMPLE_BYTES = 64, 1 << 12

Part = tuple[Any, Any, bool]  # ids, state, is_checkpoint


class StateFileError(Exception):
    """The file is damaged, or no file of ours."""


@dataclass(frozen=True, slots=True)
class Front:
    """Header of a file, in front of its states. `parts` has the tokens and bytes of each state."""

    identity: bytes
    digest: bytes
    head: int
    parts: tuple[tuple[int, int], ...]
    ids: array[int]
    states_at: int

    @property
    def states_bytes(self) -> int:
        """Bytes of all states."""
        return sum(size for _, size in self.parts)


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


def size_of(parts: Sequence[Part]) -> int:
    """Return the bytes of a file with these parts."""
    states = sum(len(state) for _, state, _ in parts)
    return _START.size + _HEAD.size + _PART.size * len(parts) + 4 * len(parts[0][0]) + states


def write_state(file: BinaryIO, identity: bytes, head: int, parts: Sequence[Part]) -> None:
    """Write a sequence and then checkpoints of it."""
    digest = hashlib.sha256()
    for _, state, _ in parts:
        digest.update(state)
    front = b"".join(
        (
            _HEAD.pack(identity, digest.digest(), head, len(parts)),
            *(_PART.pack(len(ids), len(state)) for ids, state, _ in parts),
            bytes(parts[0][0]),
        )
    )
    file.write(_START.pack(_MAGIC, hashlib.sha256(front).digest(), len(front)))
    file.write(front)
    for _, state, _ in parts:
        for start in range(0, len(state), _PIECE_BYTES):
            file.write(state[start : start + _PIECE_BYTES])


def read_front(file: BinaryIO, size_bytes: int) -> Front:
    """Return what a file of that size says before its states; StateFileError if it cannot be right."""
    start = file.read(_START.size)
    if len(start) != _START.size:
        raise StateFileError
    magic, digest, length = _START.unpack(start)
    if magic != _MAGIC or not _HEAD.size <= length <= min(_MOST_FRONT_BYTES, size_bytes):
        raise StateFileError
    front = file.read(length)
    if len(front) != length or hashlib.sha256(front).digest() != digest:
        raise StateFileError
    identity, states_digest, head, n_parts = _HEAD.unpack_from(front)
    ids_at = _HEAD.size + n_parts * _PART.size
    if not 1 <= n_parts <= native.MOST_WRITTEN or ids_at > length:
        raise StateFileError
    parts = tuple(_PART.unpack_from(front, _HEAD.size + i * _PART.size) for i in range(n_parts))
    lengths = [n for n, _ in parts]
    is_descending = all(before > after for before, after in pairwise(lengths[1:]))
    if lengths[0] < 1 or min(lengths) < 1 or max(lengths) > lengths[0] or not is_descending:
        raise StateFileError
    if length - ids_at != 4 * lengths[0] or any(size < 1 for _, size in parts):
        raise StateFileError
    found = Front(identity, states_digest, head, parts, array("i", front[ids_at:]), _START.size + length)
    if found.states_at + found.states_bytes != size_bytes:
        raise StateFileError
    return found


def read_states(file: BinaryIO, front: Front) -> list[tuple[array[int], native.State, bool]]:
    """Return the parts of a file whose front was read; StateFileError if they are not those written."""
    file.seek(front.states_at)
    digest = hashlib.sha256()
    parts = []
    for i, (n, size) in enumerate(front.parts):
        state = native.State(size)
        with state.view() as view:
            at = 0
            while at < size:
                n_read = file.readinto(view[at : at + _PIECE_BYTES])  # type: ignore[attr-defined]
                if not n_read:
                    raise StateFileError
                digest.update(view[at : at + n_read])
                at += n_read
        parts.append((front.ids[:n], state, i > 0))
    if digest.digest() != front.digest:
        raise StateFileError
    return parts

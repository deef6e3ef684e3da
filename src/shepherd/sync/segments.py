"""Segments: files of frames, each sealed by itself and bound to its place.

    b"SHPSYNC1"
    4 bytes, little-endian      length of the frame
    a sealed frame              zlib of JSON: version, number among all frames of the machine, the machine's
                                name, how far it had read of the others, and operations

A frame can be read when it is whole, whatever a sync tool has copied of what follows. Its number stays when
its segment is rewritten.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from shepherd.encryption import SealError
from shepherd.errors import StoreError
from shepherd.paths import replacing
from shepherd.sync.folder import Folder
from shepherd.sync.records import Operation

__all__ = [
    "MAGIC",
    "Frame",
    "MissingError",
    "NewerError",
    "check",
    "count",
    "only",
    "open_frame",
    "read",
    "rewrite",
    "seal_frame",
    "sealed_part",
    "write",
]

MAGIC = b"SHPSYNC1"
VERSION = 1
_LENGTH = struct.Struct("<I")
_LEVEL = 1  # of zlib: text takes a third, and a higher one saves little of it


class NewerError(StoreError):
    """A newer Shepherd has written the frame."""

    def __init__(self) -> None:
        super().__init__(
            "a newer Shepherd has written files of this sync", hint="update Shepherd on this machine"
        )


class MissingError(StoreError):
    """An own segment has lost frames that were written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: the file has lost what was written to it", hint="sync again")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: its number among those of its machine, and what the machine had read when it wrote it."""

    number: int
    name: str
    seen: dict[str, int]
    operations: tuple[Operation, ...]


def seal_frame(folder: Folder, machine: str, segment: int, index: int, frame: Frame) -> bytes:
    """Return a frame with its length, for this place in a segment of this machine alone."""
    operations = [list(one) if one.digest else list(one[:5]) for one in frame.operations]
    whole = {"v": VERSION, "n": frame.number, "name": frame.name, "seen": frame.seen, "ops": operations}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    sealed = folder.sealer.seal(
        zlib.compress(text.encode(), _LEVEL), _purpose(folder, machine, segment, index)
    )
    return _LENGTH.pack(len(sealed)) + sealed


def sealed_part(data: bytes) -> bytes:
    """Return what seal_frame returned without its length."""
    return data[_LENGTH.size :]


def open_frame(folder: Folder, machine: str, segment: int, index: int, sealed: bytes) -> Frame:
    """Return the frame; raises SealError if it is damaged or belongs elsewhere, NewerError."""
    data = folder.sealer.open(sealed, _purpose(folder, machine, segment, index))
    whole: dict[str, Any] = json.loads(zlib.decompress(data))
    if whole["v"] != VERSION:
        raise NewerError
    return Frame(
        whole["n"], whole["name"], whole["seen"], tuple(Operation(*operation) for operation in whole["ops"])
    )


def read(folder: Folder, machine: str, segment: int, first: int = 0) -> Iterator[Frame]:
    """Yield the frames of a segment from index `first` on, up to the last whole one.

    Raises SealError at a damaged one, NewerError, StoreError.
    """
    for index, sealed in enumerate(_sealed(folder.segment(machine, segment))):
        if index >= first:
            yield open_frame(folder, machine, segment, index, sealed)


def count(path: Path) -> int:
    """Return the number of whole frames of a segment, which are not opened."""
    return sum(1 for _ in _sealed(path))


def check(folder: Folder, machine: str, segment: int) -> tuple[int, bool]:
    """Return the number of whole frames of a segment, and whether it ends behind the last one.

    Raises SealError at a damaged one; what is in them is not decoded, which takes most of the time.
    """
    path = folder.segment(machine, segment)
    n_frames, size = 0, len(MAGIC)
    for sealed in _sealed(path):
        folder.sealer.open(sealed, _purpose(folder, machine, segment, n_frames))
        n_frames, size = n_frames + 1, size + _LENGTH.size + len(sealed)
    return n_frames, path.stat().st_size == size


def _sealed(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            if not MAGIC.startswith(head):
                raise SealError("this is not a segment")
            while len(length := file.read(_LENGTH.size)) == _LENGTH.size:
                sealed = file.read(_LENGTH.unpack(length)[0])
                if len(sealed) < _LENGTH.unpack(length)[0]:
                    return
                yield sealed
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error


def write(path: Path, index: int, data: bytes) -> None:
    """Write sealed frames from this index on into the own segment, synced.

    What is there is of a run that was killed, and replaced. Raises OSError, MissingError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if index == 0:
            file.write(MAGIC)
        else:
            file.seek(_end(file, path, index))
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _end(file: BinaryIO, path: Path, index: int) -> int:
    """Return where the frame before this index ends; raises MissingError if it is not whole."""
    size = os.fstat(file.fileno()).st_size
    place = len(MAGIC)
    for _ in range(index):
        file.seek(place)
        length = file.read(_LENGTH.size)
        if len(length) < _LENGTH.size:
            raise MissingError(path)
        place += _LENGTH.size + _LENGTH.unpack(length)[0]
        if place > size:
            raise MissingError(path)
    return place


def rewrite(folder: Folder, machine: str, segment: int, frames: Iterable[Frame]) -> None:
    """Replace the own segment in one step; it has as many frames as before. Raises OSError.

    The bytes of the former one are overwritten: who reads it just then finds it damaged, and reads again.
    """
    with replacing(folder.segment(machine, segment), overwrites=True) as file:
        file.write(MAGIC)
        for index, frame in enumerate(frames):
            file.write(seal_frame(folder, machine, segment, index, frame))


def _purpose(folder: Folder, machine: str, segment: int, index: int) -> str:
    return f"sync {folder.id} {machine} {segment} {index}"


def only(frame: Frame, operations: Sequence[Operation]) -> Frame:
    """Return the frame with these operations alone."""
    return Frame(frame.number, frame.name, frame.seen, tuple(operations))

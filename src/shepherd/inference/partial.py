"""A file that is being received: appended to, hashed on the way, and kept when it is interrupted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from shepherd.errors import ModelError

__all__ = ["Partial", "disk_errors"]

_READ_BYTES = 1 << 20


class Partial:
    """Opens or makes `path`; what is there already is read once, for the digest. A context manager."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes
        self.digest = hashlib.sha256()
        self.done_bytes = 0
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what was counted as received is in the file, whatever happens next.
            self._stream: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115  (closed in __exit__)

    @property
    def missing_bytes(self) -> int:
        """How much is still to come."""
        return self.size_bytes - self.done_bytes

    def __enter__(self) -> Partial:
        with disk_errors(self.path):
            self._stream.seek(0)
            while chunk := self._stream.read(_READ_BYTES):
                self.digest.update(chunk)
                self.done_bytes += len(chunk)
            if self.done_bytes > self.size_bytes:
                self.restart()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        if self.done_bytes == 0:
            self.path.unlink(missing_ok=True)  # a refused download leaves nothing behind

    def append(self, chunk: bytes) -> None:
        """Write a piece; ModelError when it is more than there should be, or the disk refuses."""
        if len(chunk) > self.missing_bytes:
            self.restart()
            raise ModelError(
                f"{self.path}: more arrived than the {self.size_bytes:,} bytes that were announced",
                hint="the file on the hub, or the mirror, is broken",
            )
        view = memoryview(chunk)
        with disk_errors(self.path):
            while view:
                written = self._stream.write(view)  # a raw file may take less than it is given
                self.digest.update(view[:written])
                self.done_bytes += written
                view = view[written:]

    def restart(self) -> None:
        """Forget what was received."""
        with disk_errors(self.path):
            self._stream.truncate(0)
        self.digest = hashlib.sha256()
        self.done_bytes = 0

    def sync(self) -> None:
        """Onto the disk: a final name must not survive a power cut that its contents did not."""
        with disk_errors(self.path):
            os.fsync(self._stream.fileno())


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns OSError into ModelError; nothing that talks to the network belongs inside."""
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{path}: {error.strerror or type(error).__name__}",
            hint="make room, or name another folder with HF_HUB_CACHE; a download goes on where it stopped",
        ) from error

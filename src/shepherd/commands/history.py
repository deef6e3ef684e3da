"""History file of the lines typed at a prompt, without private lines and those that the user took back.

Beside an encrypted memory each line is sealed with the memory's key, and written as a line of base64.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import io
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from prompt_toolkit.history import FileHistory, History

from shepherd.encryption import Sealer, SealError
from shepherd.paths import replacing

__all__ = [
    "LineHistory",
    "open_history",
    "remove_lines",
    "reseal_history",
    "seal_history",
    "unseal_history",
]

_PURPOSE = "prompt history"


def open_history(
    path: Path | None,
    is_private: Callable[[], bool],
    warn: Callable[[str], None],
    sealer: Sealer | None = None,
) -> LineHistory:
    """Open the history file, readable by its owner only; without a file, a history in memory."""
    if path is None:
        return LineHistory(None, is_private)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        warn(f"{path}: the history is not saved: {error.strerror}")
        return LineHistory(None, is_private)
    return LineHistory(path, is_private, sealer)


def seal_history(plain: Path, sealed: Path, sealer: Sealer) -> None:
    """Move the lines of a plain file behind those of a sealed one. Raises OSError."""
    lines = list(FileHistory(str(plain)).load_history_strings())[::-1] if plain.exists() else []
    if lines:
        target = _SealedFile(sealed, sealer)  # raises where a LineHistory goes on without the file
        for line in lines:
            target.store_string(line)
        os.chmod(sealed, 0o600)
    plain.unlink(missing_ok=True)


def unseal_history(sealed: Path, sealer: Sealer, plain: Path) -> None:
    """Move the lines of a sealed file behind those of a plain one. Raises OSError."""
    lines = list(LineHistory(sealed, lambda: False, sealer).load_history_strings())[::-1]
    if lines:
        plain.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(plain, os.O_RDWR | os.O_CREAT, 0o600))
        target = FileHistory(str(plain))
        for line in lines:
            target.store_string(line)
    sealed.unlink(missing_ok=True)


def reseal_history(sealed: Path, old: Sealer, new: Sealer) -> None:
    """Seal the lines of a file with another key. Raises OSError."""
    lines = list(LineHistory(sealed, lambda: False, old).load_history_strings())[::-1]
    part = sealed.with_name(f"{sealed.name}.part")
    part.unlink(missing_ok=True)
    target = _SealedFile(part, new)
    for line in lines:
        target.store_string(line)
    if lines:
        os.replace(part, sealed)
    else:
        sealed.unlink(missing_ok=True)


class LineHistory(History):
    """The lines of this run, and those of a file, which gets no private ones.

    Failures to read and write the file are ignored: the lines of this run remain.
    """

    def __init__(
        self, path: Path | None, is_private: Callable[[], bool], sealer: Sealer | None = None
    ) -> None:
        super().__init__()
        self._path, self._sealer = path, sealer
        self._file: History | None = None
        if path is not None:
            self._file = FileHistory(str(path)) if sealer is None else _SealedFile(path, sealer)
        self._is_private = is_private

    def load_history_strings(self) -> Iterator[str]:
        """Yield the lines of the file, the newest first."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                yield from self._file.load_history_strings()

    def store_string(self, string: str) -> None:
        """Append a line to the file, unless it is private."""
        if self._file is None or self._is_private():
            return
        try:
            self._file.store_string(string)
        except (OSError, UnicodeEncodeError):
            return  # a full disk, or a lone surrogate: the history in memory still has the line

    def remove(self, lines: Collection[str]) -> None:
        """Delete these lines, wherever they are, from this run and from the file."""
        self._loaded_strings = [line for line in self._loaded_strings if line not in lines]
        if self._path is not None:
            with contextlib.suppress(OSError):
                remove_lines(self._path, lambda line: line in lines, self._sealer)


def remove_lines(path: Path, is_meant: Callable[[str], bool], sealer: Sealer | None = None) -> int:
    """Delete the lines that are meant from a history file; return how many. Raises OSError."""
    data = path.read_bytes()
    line_of: Callable[[bytes], str | None] = _line_of
    if sealer is None:
        before = list(_entries(data))
    else:
        before, line_of = data.splitlines(keepends=True), _SealedFile(path, sealer).opened
    after = [entry for entry in before if (line := line_of(entry)) is None or not is_meant(line)]
    if len(after) < len(before):
        # A link is kept: the history may be among other files of the user.
        with replacing(path.resolve()) as file:
            file.write(b"".join(after))
    return len(before) - len(after)


class _SealedFile(History):
    """Lines of base64, each a sealed line of the user. Others, such as those of another key, are skipped."""

    def __init__(self, path: Path, sealer: Sealer) -> None:
        super().__init__()
        self._path, self._sealer = path, sealer

    def load_history_strings(self) -> Iterator[str]:
        """Yield the lines, the newest first."""
        for row in reversed(self._path.read_bytes().splitlines()):
            if (line := self.opened(row)) is not None:
                yield line

    def store_string(self, string: str) -> None:
        """Append a line."""
        row = base64.b64encode(self._sealer.seal(string.encode(), _PURPOSE)) + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.write(descriptor, row) < len(row):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)

    def opened(self, row: bytes) -> str | None:
        """Return the line of a row of the file, None for one of another key."""
        try:
            return self._sealer.open(base64.b64decode(row, validate=False), _PURPOSE).decode()
        except (SealError, binascii.Error, UnicodeDecodeError):
            return None


def _entries(data: bytes) -> Iterator[bytes]:
    """Yield the parts of the file, each with one line: whatever is before it, and it, behind plus signs."""
    entry, has_line = b"", False
    for row in io.BytesIO(data):
        if has_line and not row.startswith(b"+"):
            yield entry
            entry, has_line = b"", False
        entry += row
        has_line |= row.startswith(b"+")
    yield entry


def _line_of(entry: bytes) -> str | None:
    rows = [row[1:] for row in io.BytesIO(entry) if row.startswith(b"+")]
    return b"".join(rows).decode("utf-8", "replace").removesuffix("\n") if rows else None

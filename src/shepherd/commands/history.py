"""History file of the lines typed at a prompt, without private lines and those that the user took back.

Beside an encrypted memory each line is sealed with the memory's key, and written as a line of base64.

Before the memory gets another key or none, `copy_history` writes what the file will be after that beside it:
once the memory is converted, nobody has its former key. `adopt_copy` completes what a kill has left.
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
from shepherd.overwriting import remove, replace
from shepherd.paths import locked, replacing

__all__ = [
    "LineHistory",
    "adopt_copy",
    "copy_history",
    "count_foreign_lines",
    "drop_copies",
    "open_history",
    "remove_lines",
    "seal_history",
    "sealed_lines",
]

_PURPOSE = "prompt history"
# Copies beside a sealed file: for a memory that will be plain, and for one with another key. Beside a plain
# one, the other copy has the lines of a third key, which stay sealed.
_COPIES = (".plain", ".resealed")


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
    with locked(sealed.parent):  # two programs may begin at once
        target = _SealedFile(sealed, sealer)  # raises where a LineHistory goes on without the file
        if lines := _not_yet(target, _lines(FileHistory(str(plain)))):
            for line in lines:
                target.store_string(line)
            os.chmod(sealed, 0o600)
        if plain.is_file():  # not where it is a link to /dev/null
            # Where it is a link to a file among others of the user, that file has the lines.
            remove(plain.resolve())
        remove(plain)


def copy_history(sealed: Path, old: Sealer, new: Sealer | None) -> None:
    """Copy the lines of a sealed file: sealed with another key, or plain. A file without any is deleted.

    Lines of yet another key, such as that of an older backup, stay sealed as they are. Raises OSError.
    """
    drop_copies(sealed)
    source, rows = _SealedFile(sealed, old), _rows(sealed)
    lines = [source.opened(row) for row in rows]
    if not any(line is not None for line in lines):
        if not rows:
            remove(sealed)
        return
    foreign = [row for row, line in zip(rows, lines, strict=True) if line is None]
    try:
        with _created(_copy_of(sealed, new)) as copy:
            target = FileHistory(str(copy)) if new is None else _SealedFile(copy, new)
            for row, line in zip(rows, lines, strict=True):
                if line is not None:
                    target.store_string(line)
                elif isinstance(target, _SealedFile):
                    target.store_row(row)
        if new is None and foreign:
            with _created(_copy_of(sealed, old)) as copy:
                for row in foreign:
                    _SealedFile(copy, old).store_row(row)
    except BaseException:
        drop_copies(sealed)
        raise


@contextlib.contextmanager
def _created(path: Path) -> Iterator[Path]:
    """Create a file for the block to append to, and write that to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield path
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def adopt_copy(sealed: Path, sealer: Sealer | None, plain: Path) -> None:
    """Let the lines be those of a copy that was made for the memory as it is now. Raises OSError.

    `sealer`: that of the memory, None if it is not encrypted.
    """
    copy = _copy_of(sealed, sealer)
    with locked(copy.parent):  # two programs may begin at once
        if sealer is None and copy.exists():
            _add_plain(_lines(FileHistory(str(copy))), plain)
            foreign = sealed.with_name(f"{sealed.name}{_COPIES[True]}")
            if foreign.exists():
                replace(foreign, sealed)
            else:
                remove(sealed)
            remove(copy)
        elif sealer is not None and _lines(_SealedFile(copy, sealer)):
            replace(copy, sealed)


def drop_copies(sealed: Path) -> None:
    """Delete the copies for a conversion that came to nothing, or is complete. Raises OSError."""
    for suffix in _COPIES:
        remove(sealed.with_name(f"{sealed.name}{suffix}"))


def sealed_lines(path: Path, sealer: Sealer) -> list[str]:
    """Return the lines of a sealed file, without those of another key. Raises OSError."""
    return _lines(_SealedFile(path, sealer))


def count_foreign_lines(path: Path, sealer: Sealer | None) -> int:
    """Return how many lines of a sealed file have another key; without a sealer all. Raises OSError."""
    rows = _rows(path)
    return len(rows) if sealer is None else sum(_SealedFile(path, sealer).opened(row) is None for row in rows)


def _rows(path: Path) -> list[bytes]:
    """Return the rows of a sealed file, the oldest first; none without the file. Raises OSError."""
    try:
        return [row for row in path.read_bytes().splitlines() if row.strip()]
    except FileNotFoundError:
        return []


def _copy_of(sealed: Path, sealer: Sealer | None) -> Path:
    return sealed.with_name(f"{sealed.name}{_COPIES[sealer is not None]}")


def _lines(history: History) -> list[str]:
    """Return the lines of a file, the oldest first; none without the file. Raises OSError."""
    try:
        return list(history.load_history_strings())[::-1]
    except FileNotFoundError:
        return []


def _add_plain(lines: list[str], plain: Path) -> None:
    if lines:
        plain.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(plain, os.O_RDWR | os.O_CREAT, 0o600))
        target = FileHistory(str(plain))
        for line in _not_yet(target, lines):
            target.store_string(line)


def _not_yet(target: History, lines: list[str]) -> list[str]:
    """Return the lines without those that a killed run has added to a file."""
    there = _lines(target)
    for n in range(min(len(there), len(lines)), 0, -1):
        if there[-n:] == lines[:n]:
            return lines[n:]
    return lines


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
        with replacing(path.resolve(), overwrites=True) as file:
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
        self.store_row(base64.b64encode(self._sealer.seal(string.encode(), _PURPOSE)))

    def store_row(self, row: bytes) -> None:
        """Append a line that is sealed already."""
        row += b"\n"
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

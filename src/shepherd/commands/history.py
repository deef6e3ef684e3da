"""History file of the lines typed at a prompt, without private lines and those that the user took back."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from prompt_toolkit.history import FileHistory, History

from shepherd.paths import replacing

__all__ = ["LineHistory", "open_history", "remove_lines"]


def open_history(path: Path, is_private: Callable[[], bool], warn: Callable[[str], None]) -> LineHistory:
    """Open the history file, readable by its owner only; without a file, a history in memory."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        warn(f"{path}: the history is not saved: {error.strerror}")
        return LineHistory(None, is_private)
    return LineHistory(path, is_private)


class LineHistory(History):
    """The lines of this run, and those of a file, which gets no private ones.

    Failures to read and write the file are ignored: the lines of this run remain.
    """

    def __init__(self, path: Path | None, is_private: Callable[[], bool]) -> None:
        super().__init__()
        self._path = path
        self._file = None if path is None else FileHistory(str(path))
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
                remove_lines(self._path, lambda line: line in lines)


def remove_lines(path: Path, is_meant: Callable[[str], bool]) -> int:
    """Delete the lines that are meant from a history file; return how many. Raises OSError."""
    before = list(_entries(path.read_bytes()))
    after = [entry for entry in before if (line := _line_of(entry)) is None or not is_meant(line)]
    if len(after) < len(before):
        # A link is kept: the history may be among other files of the user.
        with replacing(path.resolve()) as file:
            file.write(b"".join(after))
    return len(before) - len(after)


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

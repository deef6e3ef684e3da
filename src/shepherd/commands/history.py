"""The file of lines that were typed, for the next process; private ones are not written to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

__all__ = ["open_history"]


def open_history(path: Path, is_private: Callable[[], bool], warn: Callable[[str], None]) -> History:
    """The history in that file, readable by its owner alone; without a file, one of this process."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        warn(f"{path}: lines are not kept for next time: {error.strerror}")
        return InMemoryHistory()
    return _PrivateHistory(path, is_private)


class _PrivateHistory(FileHistory):
    """A history file that does not get to see private lines, and whose failure costs nothing."""

    def __init__(self, path: Path, is_private: Callable[[], bool]) -> None:
        super().__init__(str(path))
        self._is_private = is_private

    def store_string(self, string: str) -> None:
        """Append a line to the file, unless it is private."""
        if self._is_private():
            return
        try:
            super().store_string(string)
        except (OSError, UnicodeEncodeError):
            return  # a full disk, or half a character: the line is still in this process's history

"""History file of the lines typed at a prompt; private lines are not written to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

__all__ = ["open_history"]


def open_history(path: Path, is_private: Callable[[], bool], warn: Callable[[str], None]) -> History:
    """Open the history file, readable by its owner only; without a file, a history in memory."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        warn(f"{path}: the history is not saved: {error.strerror}")
        return InMemoryHistory()
    return _PrivateHistory(path, is_private)


class _PrivateHistory(FileHistory):
    """History file without private lines. Failures to write are ignored."""

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
            return  # a full disk, or a lone surrogate: the history in memory still has the line

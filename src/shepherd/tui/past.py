"""The lines that were typed before, in the file that `shepherd chat` keeps them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shepherd.paths import history_file

if TYPE_CHECKING:
    from prompt_toolkit.history import History

__all__ = ["Past"]

_MOST_LINES = 1000


class Past:
    """The history file; private lines are not written to it. From one thread."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.is_private = False
        self._warn = warn
        self._history: History | None = None

    def lines(self) -> list[str]:
        """The latest lines, the oldest first."""
        newest_first = self._opened().load_history_strings()
        return [line for line, _ in zip(newest_first, range(_MOST_LINES), strict=False)][::-1]

    def add(self, line: str) -> None:
        """Keep a line for the next time."""
        self._opened().store_string(line)

    def _opened(self) -> History:
        if self._history is None:
            # Here, since it brings the libraries of the other prompt with it.
            from shepherd.cli.history import open_history

            self._history = open_history(history_file(), lambda: self.is_private, self._warn)
        return self._history

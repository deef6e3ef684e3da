"""An editor that types given lines by itself, through the same keys as a person."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from prompt_toolkit.input import PipeInput

from shepherd.cli.editor import Editor
from shepherd.commands.screen import Screen
from shepherd.commands.slash import COMMANDS
from shepherd.paths import history_file

__all__ = ["Typist"]

_KEY_S, _PAUSE_S = 0.025, 0.7


class Typist(Editor):
    """Types the next line whenever the prompt waits; after the last one, the conversation ends.

    `fast` leaves out the pauses.
    """

    def __init__(self, screen: Screen, keys: PipeInput, lines: Iterable[str], *, fast: bool = False) -> None:
        super().__init__(screen, history_file(), COMMANDS, keys=keys)
        self._keys = keys
        self._lines = iter(lines)
        self._key_s, self._pause_s = (0.0, 0.0) if fast else (_KEY_S, _PAUSE_S)

    def read(self) -> str | None:
        """The next line, as it was typed; None behind the last."""
        line = next(self._lines, None)
        if line is None:
            return None
        if not self._screen.err_is_terminal and not self._screen.out_is_terminal:
            self._screen.print(f"> {line}")  # nobody watches a prompt being typed at
            return line
        # The prompt reads in this thread, so the keys are pressed in another.
        typing = threading.Thread(target=self._type, args=(line,), daemon=True)
        typing.start()
        text = super().read()
        typing.join()
        return text

    def _type(self, line: str) -> None:
        time.sleep(self._pause_s)
        for key in line:
            self._keys.send_text(key)
            time.sleep(self._key_s)
        time.sleep(self._pause_s)
        self._keys.send_text("\r")

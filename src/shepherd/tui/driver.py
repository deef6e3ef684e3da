"""Reading of keys from the terminal."""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import Any, TextIO, cast

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

__all__ = ["TerminalDriver"]

_PAUSE_S = 0.1  # after it, an Escape was the key, and not the beginning of another
_MOST_BYTES = 4096


class TerminalDriver(LinuxDriver):
    """Textual's driver, but neither input that isn't UTF-8 nor a closed window ends with a traceback.

    The former arrives as U+FFFD.
    """

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast(Any, _Output(cast(TextIO, self._file)))

    def start_application_mode(self) -> None:
        """Take over the terminal, unless that is done: SIGCONT follows a SIGHUP, and not only a pause.

        The threads of the first time would never end.
        """
        if self._key_thread is None or not self._key_thread.is_alive():
            super().start_application_mode()  # type: ignore[no-untyped-call]

    def run_input_thread(self) -> None:
        """Dispatch what is typed until the application ends, or the terminal is gone."""
        try:
            self._dispatch()
        except OSError:
            self._app.call_later(self._app.exit, None, 1)

    def _dispatch(self) -> None:
        parser = XTermParser(self._debug)
        decoder = getincrementaldecoder("utf-8")(errors="replace")
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)

            def read() -> None:
                if selector.select(_PAUSE_S):
                    text = decoder.decode(os.read(self.fileno, _MOST_BYTES))
                    for event in parser.feed(text) if text else ():  # an empty text would end the parser
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

            while not self.exit_event.is_set():
                read()
            read()  # an answer of the terminal to what it was asked must not get into the shell


class _Output:
    """The terminal's output, also where that is gone: an error would end the thread that others wait for."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write it if that can be done."""
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Flush what can be."""
        with suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._file.fileno()

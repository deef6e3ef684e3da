"""Reading of keys from the terminal."""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

__all__ = ["TerminalDriver"]

_PAUSE_S = 0.1  # after it, an Escape was the key, and not the beginning of another
_MOST_BYTES = 4096


class TerminalDriver(LinuxDriver):
    """Textual's driver, but input that isn't UTF-8 arrives as U+FFFD; Textual's ends with a traceback."""

    def run_input_thread(self) -> None:
        """Dispatch what is typed until the application ends."""
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

"""The command line: parses arguments, calls other packages and prints. It contains no rules.

Modules import nothing heavy before a command runs, so that `shepherd --help` is quick.

A KeyboardInterrupt during an import would end with a traceback, or be lost in a destructor: until a command
runs, Ctrl-C ends the process at once.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from types import FrameType

__all__ = ["INTERRUPTED", "Terminated", "exit_on_interrupt", "raise_on_interrupt"]

INTERRUPTED = 130
_STDERR = 2


class Terminated(SystemExit):
    """A signal has asked for the end; `code` is the exit code for it."""


def exit_on_interrupt(message: str = "interrupted\n") -> None:
    """Let Ctrl-C end the process without clean-up, after this message; not if it is ignored (`nohup`)."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, partial(_exit, message))


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, if `exit_on_interrupt` has changed that."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, partial) and handler.func is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(message: str, signal_number: int, frame: FrameType | None) -> None:
    try:
        os.write(_STDERR, message.encode())
    finally:
        os._exit(INTERRUPTED)

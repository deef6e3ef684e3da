"""The end by a signal: SIGHUP when the window is closed, and SIGTERM. What was said is kept before it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from shepherd.cli import Terminated

__all__ = ["TERMINATING", "ending_by_signal"]

# Windows has no SIGHUP.
TERMINATING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))
_STREAMS = (0, 1, 2)


@contextmanager
def ending_by_signal(end: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Call `end` on SIGHUP and SIGTERM, so that the block ends; Terminated ends the program after it.

    Gives a function that returns whether there was one. A signal that is ignored stays so (`nohup`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    terminals = [number for number in _STREAMS if _is_terminal(number)]
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        # Shells send a second SIGHUP: it must not end what the first one began.
        received.append(number)
        if number != signal.SIGTERM:
            _give_up(terminals)
        end()

    ours = [number for number in TERMINATING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, receive)
    try:
        yield lambda: bool(received)
    finally:
        for number in ours:
            is_closing = received and number != signal.SIGTERM
            signal.signal(number, signal.SIG_IGN if is_closing else signal.SIG_DFL)
        if received:
            raise Terminated(128 + received[0])


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


def _give_up(terminals: list[int]) -> None:
    """Let nothing be read from or written to terminals that are gone: an error would end the answer."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        for number in terminals:
            os.dup2(null, number)
        os.close(null)

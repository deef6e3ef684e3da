"""Echo of keys. Unless it is off, the terminal writes what is typed into an answer that is being printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["echoing"]


@contextmanager
def echoing(is_on: bool) -> Iterator[None]:
    """Let the terminal behind stdin show what is typed, or not, until the block ends; elsewhere, do nothing.

    The terminal keeps what is typed for the next who reads. While it does not show it, Ctrl-C keeps it, too.
    """
    try:
        import termios
    except ImportError:  # Windows, where the console does not echo between two prompts
        yield
        return
    try:
        keys = sys.stdin.fileno()
        before = termios.tcgetattr(keys)
    except (AttributeError, OSError, ValueError, termios.error):  # closed, a pipe, a file
        yield
        return
    flags = [*before]
    flags[3] = before[3] | termios.ECHO if is_on else before[3] & ~termios.ECHO | termios.NOFLSH
    # TCSANOW: the other ways wait for the output, or drop what was typed.
    with suppress(termios.error):  # the terminal is gone
        termios.tcsetattr(keys, termios.TCSANOW, flags)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSANOW, before)

"""Threads that run native code, which must have ended before what they use is freed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["NativeThread"]


class NativeThread(threading.Thread):
    """A daemon thread. `wait` is true to its end where Ctrl-C interrupted an earlier wait.

    `join` isn't: up to CPython 3.12, a thread counts as ended once Ctrl-C has interrupted a `join` of it.
    """

    def __init__(self, target: Callable[..., object], *arguments: Any, name: str) -> None:
        super().__init__(target=target, args=arguments, name=name, daemon=True)
        self._has_ended = threading.Event()
        self._pid = os.getpid()

    def run(self) -> None:
        """Run the target."""
        try:
            super().run()
        finally:
            self._has_ended.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the target has returned; return whether it has. The thread must have been started.

        A forked process does not have the thread: True.
        """
        return os.getpid() != self._pid or self._has_ended.wait(timeout_s)

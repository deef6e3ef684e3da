"""What a worker needs of a model, whether it is here or elsewhere: one call, which can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from shepherd.errors import ModelError

__all__ = ["Cancellation", "CancelledError", "Extractor", "UnavailableError"]


class UnavailableError(ModelError):
    """The model cannot be had now: unreachable, overloaded, out of memory. `retry_after_s` if it said so."""

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class CancelledError(Exception):
    """The call was stopped; nothing is known about its answer."""


class Cancellation:
    """Stops the call under way, from any thread, and for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._stop: Callable[[], object] | None = None

    @property
    def is_set(self) -> bool:
        """Whether it was stopped."""
        return self._cancelled

    def set(self) -> None:
        """Stop what is under way, and everything that begins later."""
        with self._lock:
            self._cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def attach(self, stop: Callable[[], object] | None) -> None:
        """Name what ends the call that now begins (None: it is over). Raises CancelledError when too late."""
        with self._lock:
            self._stop = stop
            if stop is not None and self._cancelled:
                raise CancelledError


class Extractor(Protocol):
    """Something that answers the extraction request."""

    # Whether a value that is not in the lines is taken for invented: small models copy, large ones reword.
    copies: bool

    def answers(self, lines: Sequence[str], cancellation: Cancellation) -> list[str]:
        """The raw answers, one for each part that the lines had to be cut into.

        Raises UnavailableError for what may pass, another ShepherdError for what will not, CancelledError.
        """

    def close(self) -> None:
        """Let go of what it holds. May be called twice."""

"""When a program with a person at its keyboard looks for garbage: not while that person waits.

Python counts references; only what refers to itself in a circle has to be searched for, and a search through
everything takes 100 to 300 ms here: 90,000 objects are there once the first prompt stands, most of them code.
"""

from __future__ import annotations

import gc
from types import TracebackType
from typing import TypeAlias

__all__ = ["Garbage"]

_Thresholds: TypeAlias = tuple[int, int, int]
# More objects than the start makes: nothing is searched meanwhile, unless a download takes its time.
_STARTING: _Thresholds = (200_000, 50, 1000)
# The young are looked at, 2,000 at once in 0.2 ms. All of them 2,000,000 later, should no sweep come before.
_TALKING: _Thresholds = (2000, 10, 100)


class Garbage:
    """Within it, nothing is searched for while the program starts.

    `keep()` when it has started: what is there by then stays to the end, and is never looked at again.
    """

    def __init__(self) -> None:
        self._before: _Thresholds = gc.get_threshold()
        self._is_kept = False

    def __enter__(self) -> Garbage:
        self._before = gc.get_threshold()
        gc.set_threshold(*_STARTING)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.set_threshold(*self._before)
        if self._is_kept:
            gc.unfreeze()
        self._is_kept = False

    def keep(self) -> None:
        """The program has started; a second time changes nothing."""
        if not self._is_kept:
            self._is_kept = True
            gc.freeze()
            gc.set_threshold(*_TALKING)

    def sweep(self) -> None:
        """Collect what came since and is garbage now: a moment in which nobody waits."""
        gc.collect()

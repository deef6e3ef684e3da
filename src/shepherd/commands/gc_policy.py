"""Garbage collection of an interactive program: never while the user waits.

Only reference cycles need it, and a full collection takes 100 to 300 ms here: 90,000 objects exist at the
first prompt, most of them code.
"""

from __future__ import annotations

import gc
from types import TracebackType
from typing import TypeAlias

__all__ = ["GCPolicy"]

_Thresholds: TypeAlias = tuple[int, int, int]
# More objects than the start allocates, so that only a long download sees a collection.
_STARTING: _Thresholds = (200_000, 50, 1000)
# 2,000 young objects take 0.2 ms. A full collection comes after 2,000,000, unless collect() comes first.
_TALKING: _Thresholds = (2000, 10, 100)


class GCPolicy:
    """Context manager that postpones collections while a program starts, and restores the policy at its end.

    Call `freeze` after the start: existing objects then are never examined again.
    """

    def __init__(self) -> None:
        self._before: _Thresholds = gc.get_threshold()
        self._is_frozen = False

    def __enter__(self) -> GCPolicy:
        self._before = gc.get_threshold()
        gc.set_threshold(*_STARTING)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.set_threshold(*self._before)
        if self._is_frozen:
            gc.unfreeze()
        self._is_frozen = False

    def freeze(self) -> None:
        """Exempt existing objects from collection. Can be called twice."""
        if not self._is_frozen:
            self._is_frozen = True
            gc.freeze()
            gc.set_threshold(*_TALKING)

    def collect(self) -> None:
        """Collect garbage among newer objects, at a moment when nobody waits."""
        gc.collect()

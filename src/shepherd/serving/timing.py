"""What memory adds to a request before the model has it: on the clock, and of a processor."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["InjectionTime", "Stopwatch"]


@dataclass(frozen=True, slots=True)
class InjectionTime:
    """Seconds from the bare conversation to the one with old tails restored and the new one appended.

    `wall_s` holds the waits as well: for a thread, for Python's lock, for a processor. `cpu_s` is what was
    computed.
    """

    wall_s: float
    cpu_s: float


class Stopwatch:
    """Runs from when it is made, on the thread that made it; `waited_s` was spent before that."""

    def __init__(self, waited_s: float = 0.0) -> None:
        self._wall = time.perf_counter() - waited_s
        self._cpu = time.thread_time()

    def read(self) -> InjectionTime:
        """What has passed since."""
        return InjectionTime(time.perf_counter() - self._wall, time.thread_time() - self._cpu)

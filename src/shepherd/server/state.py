"""What memory adds to a request before the model has it: on the clock, and of a processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shepherd.config import Config
from shepherd.memory import ApiKeys, Memory

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.server.conversations import Conversations
    from shepherd.server.embedding_api import Embeddings
    from shepherd.types import TurnStats

__all__ = ["Gated", "InjectionTime", "Served", "ServerState", "Stopwatch"]


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


class Gated(Protocol):
    """What those who stand before an app know of it."""

    config: Config
    memory: Memory | None
    is_writable: bool
    needs_key: bool
    started_at: float
    observers: list[Callable[[Served], None]]
    keys: ApiKeys | None


@dataclass(frozen=True, slots=True)
class Served:
    """One answer, when it has ended; for counting. `error` is the code of what it failed with, or "".

    `injection_time`: what memory took before the model had the request, None for one without memory.
    """

    route: str
    stats: TurnStats | None
    injected: bool = False
    error: str = ""
    injection_time: InjectionTime | None = None


@dataclass(slots=True)
class ServerState:
    """The parts of one server process.

    `memory` is None where there is none; it may be read-only (`is_writable`). Writing, and everything else
    that waits for a disk, belongs on a worker thread (`anyio.to_thread.run_sync`), not into the event loop.
    `keys` are the memory's own unless others are named: a server without memory still asks for keys.
    `observers` are told of every answer, on the event loop. `under_way` are what ends the answers that are
    made now.
    """

    config: Config
    memory: Memory | None
    is_writable: bool
    conversations: Conversations
    worker: ExtractionWorker | None = None
    embeddings: Embeddings | None = None
    # Bound to loopback and without keys: `user` of the request counts. See identity.
    needs_key: bool = False
    started_at: float = field(default_factory=time.time)
    observers: list[Callable[[Served], None]] = field(default_factory=list)
    under_way: set[Callable[[], None]] = field(default_factory=set)
    keys: ApiKeys | None = None

    def __post_init__(self) -> None:
        if self.keys is None and self.memory is not None:
            self.keys = self.memory.keys

    def cut(self) -> None:
        """End all answers; what was said stays said."""
        for cancel in list(self.under_way):
            cancel()

    def served(self, event: Served) -> None:
        """Tell all observers."""
        for observer in self.observers:
            observer(event)

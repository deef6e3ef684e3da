"""Reading of a conversation by a model that runs here, while the user writes the next message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy

from shepherd.inference import Engine, Generation
from shepherd.prompt import Compaction, Draft, Exchange, Snapshot, Summary, WindowBudget
from shepherd.prompt.overflow import prepare_prompt
from shepherd.types import Message, Tool

__all__ = ["ReadAhead", "ReadingsAhead", "foresee"]

# Users of a server whose conversation is being read.
_MOST_READINGS = 64
# Characters of the message after which it may let more turns leave.
_STEP = 32


class ReadAhead:
    """The reading ahead of one conversation. For one thread at a time."""

    def __init__(self) -> None:
        self.reading: Generation | None = None
        self._read: list[str] = []
        self._due_at = 0

    def is_due(self, text: str) -> bool:
        """Return whether a message that begins like this may change what is to be read; True once for it."""
        if len(text) < self._due_at:
            return False
        self._due_at = len(text) + _STEP
        return True

    def read(self, engine: Engine, messages: Sequence[Message], tools: Sequence[Tool], owner: str) -> None:
        """Begin to read these messages in place of others. Raises ShepherdError; see Engine.read_ahead."""
        texts = [message.sent for message in messages]
        if texts == self._read:
            return
        self._cancel()
        self._read = texts
        self.reading = engine.read_ahead(messages, tools, owner=owner)

    def stop(self) -> None:
        """End it, since the conversation goes on or changes. What was read stays in the cache."""
        self._cancel()
        self._read, self._due_at = [], 0

    def _cancel(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None


class ReadingsAhead:
    """The readings of a server: one conversation of each user. Thread-safe."""

    def __init__(self) -> None:
        self._readings: dict[str, Generation] = {}
        self._lock = threading.Lock()

    def put(self, user_id: str, reading: Generation | None) -> bool:
        """Keep a reading in place of the user's last one; whether there is one."""
        self.stop(user_id)
        if reading is None:
            return False
        with self._lock:
            # Those of most users have ended long ago.
            while len(self._readings) >= _MOST_READINGS:
                self._readings.pop(next(iter(self._readings))).cancel()
            self._readings[user_id] = reading
        return True

    def stop(self, user_id: str) -> None:
        """End it within a micro-batch, since the user sent something. What was read stays in the cache."""
        with self._lock:
            reading = self._readings.pop(user_id, None)
        if reading is not None:
            reading.cancel()


def foresee(
    draft: Draft,
    exchanges: Sequence[Exchange],
    budget: WindowBudget,
    compaction: Compaction,
    *,
    plan: Callable[[], None],
    take_snapshot: Callable[[Summary], Snapshot],
) -> None:
    """Remove from the draft what leaves before the next answer, whatever the message still gets.

    Its message is what was written so far. Compaction and conversation stay as they are; tails that are
    stripped have to be restored.
    """
    coming = copy(compaction)
    # What memory knows about half a message may not be shown with the whole one.
    draft.private = True
    prepare_prompt(
        draft, budget, plan=plan, compact=lambda: coming.compact(draft, exchanges, budget, take_snapshot)
    )

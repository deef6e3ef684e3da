"""Who answers: the engine in this process, or a provider's model for each answer that is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shepherd.inference import Engine
from shepherd.providers import ChatModel, ProviderSettings, RemoteModel

__all__ = ["Models"]

# Idle connections to a provider that are kept for the next answer.
_KEPT = 8


class Models:
    """The model that a server offers, lent to one answer at a time. Thread-safe.

    The engine is one for all: it has slots. A remote model has one conversation, so each answer has its own.
    """

    def __init__(
        self,
        provider: ProviderSettings,
        *,
        name: str,
        engine: Engine | None = None,
        open_remote: Callable[[], RemoteModel] | None = None,
    ) -> None:
        self.provider = provider
        self.name = name
        self.engine = engine
        self._open_remote = open_remote
        self._lock = threading.Lock()
        self._idle: list[RemoteModel] = []
        self._is_closed = False

    def take(self) -> ChatModel:
        """A model for one answer; give it back when that has ended."""
        if self.engine is not None:
            return self.engine
        with self._lock:
            if self._idle:
                return self._idle.pop()
        assert self._open_remote is not None
        return self._open_remote()

    def give_back(self, model: ChatModel) -> None:
        """The answer has ended."""
        if not isinstance(model, RemoteModel):
            return
        with self._lock:
            if len(self._idle) < _KEPT and not self._is_closed:
                self._idle.append(model)
                return
        model.close()

    @contextmanager
    def lent(self) -> Iterator[ChatModel]:
        """A model for the time of the block."""
        model = self.take()
        try:
            yield model
        finally:
            self.give_back(model)

    def close(self) -> None:
        """Let go of idle connections; the engine is its opener's. May be called twice."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for model in idle:
            model.close()

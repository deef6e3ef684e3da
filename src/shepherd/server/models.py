"""Who answers: the engine in this process, or a provider's model for each answer that is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

from shepherd.inference import Engine
from shepherd.providers import ChatModel, ProviderSettings, RemoteModel

__all__ = ["Models"]

_Kind: TypeAlias = tuple[frozenset[str], bool]

# Idle connections to a provider that are kept for the next answer.
_KEPT = 8
# Names for whatever model the server has.
_ANY = ("shepherd", "default")


class Models:
    """The model that a server offers, lent to one answer at a time. Thread-safe.

    The engine is one for all: it has slots. A remote model has one conversation, so each answer has its own;
    `open_remote` makes one, told which settings of the sampling it is to send, and whether it may use the
    memory of another Shepherd.
    """

    def __init__(
        self,
        provider: ProviderSettings,
        *,
        name: str,
        engine: Engine | None = None,
        open_remote: Callable[[frozenset[str], bool], RemoteModel] | None = None,
    ) -> None:
        self.provider = provider
        self.name = name
        self.engine = engine
        self._open_remote = open_remote
        self._lock = threading.Lock()
        self._idle: list[tuple[_Kind, RemoteModel]] = []
        self._lent: dict[int, _Kind] = {}
        self._is_closed = False
        self.n_lent = 0  # answers under way, those that wait for a slot among them

    @property
    def names(self) -> tuple[str, ...]:
        """What clients may call it: its name, or that they do not care."""
        return tuple(dict.fromkeys((self.name, *_ANY)))

    def take(self, sends: Iterable[str] = (), *, uses_memory: bool = True) -> ChatModel:
        """A model for one answer; give it back when that has ended."""
        model = self.engine or self._taken((frozenset(sends), uses_memory))
        with self._lock:
            self.n_lent += 1
        return model

    def _taken(self, kind: _Kind) -> RemoteModel:
        assert self._open_remote is not None
        with self._lock:
            i = next((i for i, (other, _) in enumerate(self._idle) if other == kind), -1)
            model = self._idle.pop(i)[1] if i >= 0 else None
        model = model or self._open_remote(*kind)
        self._lent[id(model)] = kind
        return model

    def give_back(self, model: ChatModel) -> None:
        """The answer has ended."""
        with self._lock:
            self.n_lent -= 1
        if not isinstance(model, RemoteModel):
            return
        with self._lock:
            self._idle.append((self._lent.pop(id(model)), model))
            gone = self._idle if self._is_closed else self._idle[:-_KEPT]
            self._idle = [] if self._is_closed else self._idle[-_KEPT:]
        for _, old in gone:
            old.close()

    def close(self) -> None:
        """Let go of idle connections; the engine is its opener's. May be called twice."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, model in idle:
            model.close()

"""The models that a server offers: their list over HTTP, and lending them to answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from fastapi import APIRouter, Request

from shepherd.inference import Engine
from shepherd.providers import ChatModel, ProviderSettings, RemoteModel
from shepherd.server.errors import Denied
from shepherd.server.state import ServerState

__all__ = ["Models", "router"]

router = APIRouter(prefix="/v1")

_Kind: TypeAlias = tuple[frozenset[str], bool]

# Idle connections to a provider that are kept for the next answer.
_KEPT = 8
# Names for the server's model, whatever it is.
_ANY = ("shepherd", "default")


class Models:
    """The model of a server, lent to answers. Thread-safe.

    All answers share the engine, which has slots. A remote model has one conversation, so each answer has its
    own, made by `open_remote(names of the sampling settings to send, may it use another Shepherd's memory)`.
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
        self.n_lent = 0  # answers in progress, including those that wait for a slot

    @property
    def names(self) -> tuple[str, ...]:
        """Names that clients may use: the model's own and its aliases."""
        return tuple(dict.fromkeys((self.name, *_ANY)))

    def take(self, sends: Iterable[str] = (), *, uses_memory: bool = True) -> ChatModel:
        """Return a model for one answer; give it back when the answer has ended."""
        model = self.engine or self._take_remote((frozenset(sends), uses_memory))
        with self._lock:
            self.n_lent += 1
        return model

    def _take_remote(self, kind: _Kind) -> RemoteModel:
        assert self._open_remote is not None
        with self._lock:
            i = next((i for i, (other, _) in enumerate(self._idle) if other == kind), -1)
            model = self._idle.pop(i)[1] if i >= 0 else None
        model = model or self._open_remote(*kind)
        self._lent[id(model)] = kind
        return model

    def give_back(self, model: ChatModel) -> None:
        """Take back the model of an answer that has ended."""
        with self._lock:
            self.n_lent -= 1
        if not isinstance(model, RemoteModel):
            return
        with self._lock:
            self._idle.append((self._lent.pop(id(model)), model))
            old = self._idle if self._is_closed else self._idle[:-_KEPT]
            self._idle = [] if self._is_closed else self._idle[-_KEPT:]
        for _, idle in old:
            idle.close()

    def close(self) -> None:
        """Close idle connections, not the engine. May be called twice."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, model in idle:
            model.close()


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """List the models: the chat model, and the embedder if there is one."""
    state: ServerState = request.app.state.shepherd
    listed = [_model(state, name) for name in _names(state)]
    ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"], "has_more": False}
    return {"object": "list", "data": listed, **ends}


@router.get("/models/{name:path}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """Return one of the models."""
    state: ServerState = request.app.state.shepherd
    if name not in (*_names(state), *state.conversations.models.names):
        raise Denied(404, "model_not_found", "there is no such model here", param="model")
    return _model(state, name)


def _names(state: ServerState) -> list[str]:
    embedder = state.embeddings.name if state.embeddings is not None else ""
    return [state.conversations.models.name, *([embedder] if embedder else [])]


def _model(state: ServerState, name: str) -> dict[str, Any]:
    started = int(state.started_at)
    return {
        "id": name,
        "object": "model",
        "created": started,
        "owned_by": state.conversations.models.provider.name,
        # Anthropic's names of these fields.
        "type": "model",
        "display_name": name,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
    }

"""The models that a server offers, lending them to answers, and settings that can change while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import APIRouter, Request

from shepherd.config import SETTINGS
from shepherd.inference import Engine
from shepherd.providers import LOCAL, ChatModel, ProviderSettings, RemoteModel
from shepherd.server.description import described
from shepherd.server.errors import Denied, invalid
from shepherd.server.identity import caller_of
from shepherd.server.state import ServerState

if TYPE_CHECKING:
    from shepherd.server.served_model import ServedModel

__all__ = ["Models", "router"]

router = APIRouter(prefix="/v1")

_Kind: TypeAlias = tuple[frozenset[str], bool]

# Idle connections to a provider that are kept for the next answer.
_KEPT = 8


class Models:
    """The model of a server, lent to answers. Thread-safe.

    All answers share the engine, which has slots. A remote model has one conversation, so each answer has its
    own, made by `open_remote(names of the sampling settings to send, may it use another Shepherd's memory)`.
    A local model's `engine` is None while it is not loaded.
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
    def is_local(self) -> bool:
        """True for a model of this machine."""
        return self._open_remote is None

    def take(self, sends: Iterable[str] = (), *, uses_memory: bool = True) -> ChatModel:
        """Return a model for one answer; give it back when the answer has ended."""
        model = self.engine or self._take_remote((frozenset(sends), uses_memory))
        with self._lock:
            self.n_lent += 1
        return model

    def _take_remote(self, kind: _Kind) -> RemoteModel:
        assert self._open_remote is not None
        with self._lock:
            idle = next((entry for entry in self._idle if entry[0] == kind), None)
            if idle is not None:
                self._idle.remove(idle)
        model = self._open_remote(*kind) if idle is None else idle[1]
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
@described("ModelList")
async def models(request: Request) -> dict[str, Any]:
    """List the models that chat, with their state, and the embedder if there is one."""
    state: ServerState = request.app.state.shepherd
    listed = [_model(state, name) for name in _names(state)]
    ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"], "has_more": False}
    return {"object": "list", "data": listed, **ends}


@router.get("/models/{name:path}")
@described("ModelEntry", 404)
async def model(request: Request, name: str) -> dict[str, Any]:
    """Return one of the models."""
    state: ServerState = request.app.state.shepherd
    if name not in (*_names(state), *state.pool.names):
        raise Denied(404, "model_not_found", "there is no such model here", param="model")
    return _model(state, name)


def _names(state: ServerState) -> list[str]:
    embedder = state.embeddings.name if state.embeddings is not None else ""
    return [*(model.name for model in state.pool.models), *([embedder] if embedder else [])]


def _model(state: ServerState, name: str) -> dict[str, Any]:
    started = int(state.started_at)
    found = state.pool.find(name) if name in state.pool.names else None
    return {
        "id": name,
        "object": "model",
        "created": started,
        "owned_by": LOCAL if found is None else found.provider.name,
        # Anthropic's names of these fields.
        "type": "model",
        "display_name": name,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        # Shepherd's own: what it is good for.
        "task": "chat" if found is not None else "embedding",
        **({} if found is None else {"state": found.state, "memory": _uses_memory(state, found)}),
    }


def _uses_memory(state: ServerState, model: ServedModel) -> bool:
    """Return whether something is recalled for the model, and learned from what it is told."""
    return state.memory is not None and model.provider.uses_memory


# ---- settings

# Read anew for each request; all others are built into the parts of a server when it starts.
_OF_ANSWERS = ("temperature", "max_tokens")
_OF_RECALL = {
    "rag_max_results": "max_results",
    "rag_relevance_threshold": "relevance_threshold",
    "rag_recency_floor": "recency_floor",
}


@router.get("/settings")
@described("Settings")
async def settings(request: Request) -> dict[str, Any]:
    """List the settings that can change while the server runs, with their values and what is allowed."""
    state: ServerState = request.app.state.shepherd
    names = [*_OF_ANSWERS, *(_OF_RECALL if state.memory is not None else ())]
    data = [_described(state, name) for name in names]
    return {"data": data, "is_changeable": not state.needs_key}


@router.patch("/settings")
@described("Settings", 403)
async def change_settings(request: Request, values: dict[str, float | int | str]) -> dict[str, Any]:
    """Change settings for all users until the server stops, all of them or none.

    Only a server without keys takes changes: its callers are on this machine, and it is theirs.
    """
    state: ServerState = request.app.state.shepherd
    caller_of(request, None)
    if state.needs_key:
        raise Denied(403, "settings_fixed", "a server with keys has the settings that it was started with")
    known = {one["name"] for one in (await settings(request))["data"]}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise invalid("settings", "there is no such setting that can change while the server runs")
        try:
            checked[name] = SETTINGS[name].check(value)
        except ValueError:
            raise invalid(name, f"expected {SETTINGS[name].expected}") from None
    of_answers = {name: value for name, value in checked.items() if name in _OF_ANSWERS}
    state.pool.change_settings(of_answers)
    for name, attribute in _OF_RECALL.items():
        if name in checked:
            setattr(state.memory, attribute, checked[name])
    return await settings(request)


def _described(state: ServerState, name: str) -> dict[str, Any]:
    setting = SETTINGS[name]
    holder, attribute = (
        (state.memory, _OF_RECALL[name]) if name in _OF_RECALL else (state.conversations.config, name)
    )
    return {
        "name": name,
        "value": getattr(holder, attribute),
        "default": setting.default,
        "kind": setting.kind,
        "choices": list(setting.choices),
        "minimum": setting.least,
        "maximum": setting.most,
        "help": setting.help,
    }

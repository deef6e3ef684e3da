"""Whatever becomes of a request, its model is given back, and nothing of it counts as under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests.server.running import Running

CHAT = {"messages": [{"role": "user", "content": "Hello"}]}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {**CHAT, "session": "talk", "user": "anna"},
    "/v1/messages": {**CHAT, "max_tokens": 9},
    "/v1/responses": {"input": "Hello"},
    "/api/chat": CHAT,
    "/v1/completions": {"prompt": "Hello", "max_tokens": 4},
    "/completion": {"prompt": "Hello", "n_predict": 4},
    "/api/generate": {"prompt": "Hello"},
}
LONG = "words " * 2000


@pytest.fixture(scope="module")
def state(scripted_model, tmp_path_factory) -> Iterator[ServerState]:
    config = Config(temperature=0.0)
    with (
        Engine(scripted_model, settings=EngineSettings(n_ctx=512, n_threads=1, slots=2)) as engine,
        Memory(tmp_path_factory.mktemp("leases") / "memory.db") as memory,
    ):
        models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        yield ServerState(config, memory, True, Conversations(models, memory=memory, config=config))


@pytest.fixture(scope="module")
def client(state) -> Iterator[httpx.Client]:
    with Running(create_app(state)) as running, running.client() as client:
        yield client


def longer(body: dict[str, Any]) -> dict[str, Any]:
    """The same with a text that no window holds."""
    if "messages" in body:
        return {**body, "messages": [{"role": "user", "content": LONG}]}
    return {**body, "input" if "input" in body else "prompt": LONG}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("path", ROUTES)
def test_a_model_is_given_back_after_every_answer_and_every_refusal(path, streams, client, state) -> None:
    body = {**ROUTES[path], "model": "default", "stream": streams}
    answered = client.post(path, json=body)
    refused = client.post(path, json=longer(body))

    assert answered.status_code == 200, answered.text
    assert "shepherd" in answered.text
    assert refused.status_code == 400, refused.text
    assert state.pool.default.n_leases == 0
    assert not state.in_progress
    assert not state.running
    assert state.conversations.models.n_lent == 0


def test_a_count_that_is_refused_keeps_no_model(client, state) -> None:
    refused = client.post("/v1/responses/input_tokens", json={"input": "hi", "user": "x" * 257})

    assert refused.status_code == 400, refused.text
    assert state.pool.default.n_leases == 0

"""Settings that change while a server runs: they hold for the next request, and are fixed with keys."""

from __future__ import annotations

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
from tests import models
from tests.server.processes import ServerProcess
from tests.server.running import Running


@pytest.fixture(scope="module")
def server(serve) -> ServerProcess:
    """A server of its own: the settings of others stay."""
    return serve()


def values(client: httpx.Client) -> dict[str, object]:
    return {one["name"]: one["value"] for one in client.get("/v1/settings").json()["data"]}


def test_a_change_holds_for_the_next_request_and_can_be_taken_back(server):
    user = "a setter"
    with Memory(server.database) as memory:
        for n in range(4):
            memory.store_memory(f"Which boat was number {n}?", f"Ketch {n}", user)
        for n in range(20):
            memory.store_memory(f"What was for lunch on day {n}?", f"Soup {n}", user)

    def recalled(client: httpx.Client) -> int:
        asked = {
            "model": "default",
            "user": user,
            "messages": [{"role": "user", "content": "Which boat was it?"}],
        }
        answer = client.post("/v1/chat/completions", json={**asked, "stream": True, "recalled": True}).text
        return answer.count('"relevance"')

    with server.http() as client:
        before, n_before = values(client), recalled(client)
        changed = client.patch("/v1/settings", json={"rag_max_results": 1, "temperature": 0, "max_tokens": 3})
        after, n_after = values(client), recalled(client)
        hello = {"model": "default", "messages": [{"role": "user", "content": "Hello, who are you?"}]}
        short = client.post("/v1/chat/completions", json=hello).json()
        client.patch("/v1/settings", json={name: before[name] for name in after})

        assert values(client) == before

    assert changed.status_code == 200
    assert (after["rag_max_results"], after["temperature"], after["max_tokens"]) == (1, 0.0, 3)
    assert (n_before, n_after) == (3, 1)
    assert short["usage"]["completion_tokens"] <= 3


def test_a_bad_value_or_name_changes_nothing(server):
    with server.http() as client:
        before = values(client)
        for wrong in ({"rag_max_results": -1}, {"temperature": "hot"}, {"model": "x"}, {"max_tokens": 2.5}):
            answer = client.patch("/v1/settings", json={"rag_recency_floor": 0.1, **wrong})
            assert answer.status_code == 400
        assert values(client) == before


def test_a_server_with_keys_keeps_its_settings(tmp_path):
    models.scripted(tmp_path / "tiny.gguf", ("Yes.",), n_ctx=256)
    config = Config()
    with (
        Engine(tmp_path / "tiny.gguf", settings=EngineSettings(n_threads=1, slots=1)) as engine,
        Memory(tmp_path / "memory.db") as memory,
    ):
        offered = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        conversations = Conversations(offered, memory=memory, config=config)
        app = create_app(ServerState(config, memory, True, conversations, needs_key=True))
        key, _ = memory.keys.create("anna", ["chat", "memory", "metrics"])
        with Running(app) as server, server.client(key) as client, server.client() as anybody:
            listed = client.get("/v1/settings").json()
            refused = client.patch("/v1/settings", json={"temperature": 0})
            closed = anybody.patch("/v1/settings", json={"temperature": 0})

    assert listed["is_changeable"] is False
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "settings_fixed")
    assert closed.status_code == 401
    assert conversations.config.temperature == config.temperature

"""Lending of models to answers, the list of models, and the settings that can change while a server runs."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from shepherd.config import SETTINGS, Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings, RemoteModel
from shepherd.providers.chat_completions import ChatCompletions
from shepherd.providers.keys import require_key
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests.server.running import Running

LOCAL = ProviderSettings("local", "llamacpp")
WORK = ProviderSettings("work", "openai", model="m", base_url="http://127.0.0.1:9/v1", api_key="k")


class Remote(RemoteModel):
    """Knows what it was opened with, and whether it was closed. Nothing is sent to it."""

    def __init__(self, sends: frozenset[str], asks_memory: bool) -> None:
        super().__init__(WORK, ChatCompletions(WORK, require_key(WORK)))
        self.opened_with = sends, asks_memory
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        super().close()


@pytest.fixture
def lender(tmp_path, monkeypatch) -> Models:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Models(WORK, name="m", open_remote=Remote)


def test_an_answer_gets_a_connection_that_is_idle_and_of_its_kind(lender):
    hot, cool = lender.take(["temperature"]), lender.take()
    private = lender.take(["temperature"], uses_memory=False)
    assert lender.n_lent == 3
    for model in (hot, cool, private):
        lender.give_back(model)

    again = [
        lender.take(),
        lender.take(["temperature"], uses_memory=False),
        lender.take(["temperature"]),
        lender.take(["temperature"]),
    ]

    assert [model is known for model, known in zip(again, (cool, private, hot), strict=False)] == [True] * 3
    assert again[3] not in (hot, cool, private)
    assert [model.opened_with for model in again] == [
        (frozenset(), True),
        (frozenset({"temperature"}), False),
        (frozenset({"temperature"}), True),
        (frozenset({"temperature"}), True),
    ]
    assert lender.n_lent == 4
    assert not lender.is_local


def test_eight_idle_connections_are_kept_and_the_oldest_are_closed(lender):
    models = [lender.take() for _ in range(10)]
    for model in models:
        lender.give_back(model)

    assert [model.is_closed for model in models] == [True, True, *[False] * 8]
    assert {id(lender.take()) for _ in range(8)} == {id(model) for model in models[2:]}


def test_connections_are_closed_at_the_end_and_those_in_use_as_soon_as_they_come_back(lender):
    idle, busy = lender.take(), lender.take()
    lender.give_back(idle)

    lender.close()
    lender.close()
    was_closed = idle.is_closed, busy.is_closed
    lender.give_back(busy)

    assert was_closed == (True, False)
    assert busy.is_closed
    assert lender.n_lent == 0
    assert lender.take() is not busy


# ---- over HTTP


@pytest.fixture(scope="module")
def state(scripted_model, tmp_path_factory) -> Iterator[ServerState]:
    with (
        Engine(scripted_model, settings=EngineSettings(n_ctx=256, n_threads=1, slots=1)) as engine,
        Memory(tmp_path_factory.mktemp("models") / "memory.db") as memory,
    ):
        offered = Models(LOCAL, name="tiny", engine=engine)
        config = Config(temperature=0.5, rag_max_results=7)
        yield ServerState(config, memory, True, Conversations(offered, memory=memory, config=config))


@pytest.fixture(scope="module")
def client(state) -> Iterator[httpx.Client]:
    with Running(create_app(state)) as running, running.client() as client:
        yield client


def test_a_model_is_described_in_openais_words_and_in_anthropics(client, state):
    listed = client.get("/v1/models").json()
    one = client.get("/v1/models/tiny").json()
    unknown = client.get("/v1/models/huge")

    began = one.pop("created_at")
    assert one == {
        "id": "tiny",
        "object": "model",
        "created": int(state.started_at),
        "owned_by": "local",
        "type": "model",
        "display_name": "tiny",
        "task": "chat",
        "state": "loaded",
        "memory": True,
    }
    assert began.startswith("20")
    assert began.endswith("Z")
    assert listed == {
        "object": "list",
        "data": [{**one, "created_at": began}],
        "first_id": "tiny",
        "last_id": "tiny",
        "has_more": False,
    }
    assert state.conversations.models.is_local
    assert unknown.status_code == 404
    assert unknown.json()["error"] | {"message": ""} == {
        "message": "", "type": "not_found_error", "param": "model", "code": "model_not_found",
    }  # fmt: skip


def test_settings_are_listed_with_their_bounds_and_what_holds_now(client, state):
    found = client.get("/v1/settings").json()

    by_name = {one["name"]: one for one in found["data"]}
    assert list(by_name) == [
        "temperature", "max_tokens", "rag_max_results", "rag_relevance_threshold", "rag_recency_floor",
    ]  # fmt: skip
    assert found["is_changeable"] is True
    temperature = SETTINGS["temperature"]
    assert by_name["temperature"] == {
        "name": "temperature",
        "value": 0.5,
        "default": temperature.default,
        "kind": temperature.kind,
        "choices": ["auto"],
        "minimum": temperature.least,
        "maximum": temperature.most,
        "help": temperature.help,
    }
    assert by_name["rag_max_results"]["value"] == state.memory.max_results
    assert by_name["rag_recency_floor"]["value"] == state.memory.recency_floor


def test_a_change_of_settings_is_all_or_nothing(client, state):
    wrong = client.patch("/v1/settings", json={"temperature": 0.25, "rag_recency_floor": 9})
    unknown = client.patch("/v1/settings", json={"temperature": 0.25, "model": "x"})
    kept = state.conversations.config.temperature
    right = client.patch(
        "/v1/settings",
        json={"temperature": 0.25, "max_tokens": 5, "rag_max_results": 2, "rag_relevance_threshold": 0.125},
    ).json()

    assert [one.status_code for one in (wrong, unknown)] == [400, 400]
    assert wrong.json()["error"]["param"] == "rag_recency_floor"
    assert SETTINGS["rag_recency_floor"].expected in wrong.json()["error"]["message"]
    assert unknown.json()["error"]["param"] == "settings"
    assert kept == 0.5
    assert [one["value"] for one in right["data"]][:4] == [0.25, 5, 2, 0.125]
    assert (state.memory.max_results, state.memory.relevance_threshold) == (2, 0.125)
    config = state.conversations.config
    assert (config.temperature, config.max_tokens) == (0.25, 5)


def test_without_a_memory_its_settings_are_not_offered(scripted_model):
    with Engine(scripted_model, settings=EngineSettings(n_ctx=256, n_threads=1, slots=1)) as engine:
        conversations = Conversations(Models(LOCAL, name="tiny", engine=engine), memory=None, config=Config())
        state = ServerState(Config(), None, False, conversations)
        with Running(create_app(state)) as running, running.client() as client:
            listed = client.get("/v1/settings").json()
            refused = client.patch("/v1/settings", json={"rag_max_results": 1})

    assert [one["name"] for one in listed["data"]] == ["temperature", "max_tokens"]
    assert refused.status_code == 400

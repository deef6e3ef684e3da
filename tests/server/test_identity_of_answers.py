"""The chat endpoints and identity: whoever asks, an answer has only its own user's memory in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderTable
from shepherd.server import page
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.served_model import ServedModel
from shepherd.server.state import AppState, Served, ServerState
from shepherd.server.turns import Conversations
from tests.server.running import Running
from tests.server.test_identity import ODD_NAMES, REFUSED, everything_of

QUESTION = "What is my secret?"
CHATS = {
    # With the prompt in the answer, so that words of others in it are seen.
    "/v1/chat/completions": {
        "model": "default",
        "messages": [{"role": "user", "content": QUESTION}],
        "verbose": True,
    },
    "/v1/messages": {
        "model": "default",
        "max_tokens": 8,
        "messages": [{"role": "user", "content": QUESTION}],
    },
    "/api/chat": {
        "model": "default",
        "stream": False,
        "messages": [{"role": "user", "content": QUESTION}],
    },
    "/v1/responses": {"model": "default", "input": QUESTION},
    "/api/generate": {"model": "default", "stream": False, "prompt": QUESTION},
}
# The newest message is still being written.
AHEAD = {
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": QUESTION},
    ]
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("answers") / "memory.db") as memory:
        for user in ("bob", "admin", *(f"bob/{name}" for name in ODD_NAMES)):
            memory.set_fact("secret", "the sheep sleep", user)
        yield memory


@pytest.fixture(scope="module")
def keys(memory) -> dict[str, str]:
    made = {owner: memory.keys.create(owner, ["chat", "memory", "metrics"])[0] for owner in ("anna", "bob")}
    made["revoked"], record = memory.keys.create("bob", ["chat"])
    memory.keys.revoke(record.id)
    return {**made, "none": "", "wrong": "shepherd_" + "0" * 64, "foreign": "sk-" + "0" * 20}


@pytest.fixture(scope="module")
def answers() -> list[Served]:
    """Those that the server has made."""
    return []


@pytest.fixture(scope="module")
def engines() -> list[Engine]:
    """The engines of the server, the default model's first."""
    return []


@pytest.fixture(scope="module")
def server(memory, keys, answers, engines, scripted_model) -> Iterator[Running]:
    config = Config(user_id="admin", temperature=0.0)
    settings = EngineSettings(n_threads=1, slots=2)
    with (
        Engine(scripted_model, settings=settings) as engine,
        Engine(scripted_model, settings=settings) as other,
    ):
        engines += [engine, other]
        models = Models(ProviderTable().get(""), name="scripted", engine=engine)
        conversations = Conversations(models, memory=memory, config=config)
        state = ServerState(config, memory, True, conversations)
        second = Models(ProviderTable().get(""), name="second", engine=other)
        talks = Conversations(second, memory=memory, config=config)
        state.pool.add(ServedModel("second", conversations=talks, engine=other, state="loaded"))
        state.observers.append(answers.append)
        with Running(create_app(state)) as running:
            yield running


# Whether the server runs, what it can do, and the page: nothing in them is about anybody.
OPEN = {"/health", "/openapi.json", "/docs", *page.PATHS}


def test_every_endpoint_but_the_public_ones_is_closed_without_a_good_key(server, keys, memory, answers):
    routes = create_app(AppState(Config(), None, False)).routes
    paths = {
        (route.path, method.lower())
        for route in routes
        for method in getattr(route, "methods", None) or ()
        if method != "HEAD"
    }
    before, n_answers = everything_of(memory, "bob"), len(answers)

    for who in ("none", "wrong", "foreign", "revoked"):
        with server.client(keys[who]) as client:
            for path, method in sorted(paths):
                body = None if method in ("get", "delete") else {**CHATS.get(path, {}), "user": "bob"}
                answer = client.request(method, re.sub(r"{[^}]*}", "1", path), json=body)
                assert answer.status_code == (200 if path in OPEN else 401), (who, method, path)

    assert {(path, "post") for path in (*CHATS, "/completion", "/infill")} | {("/docs", "get")} <= paths
    assert len(paths) >= 60
    assert (everything_of(memory, "bob"), len(answers)) == (before, n_answers)


def of_others(memory: Memory) -> dict[str, list[object]]:
    """All that anna may neither see nor change."""
    theirs = ["bob", "admin", *(f"bob/{name}" for name in ODD_NAMES)]
    return {name: everything_of(memory, name) for name in theirs}


# All users in one test: to look at everything of all others takes ten times as long as an answer.
@pytest.mark.parametrize("model", ["default", "second"])
@pytest.mark.parametrize("path", CHATS)
def test_an_answer_has_nothing_of_another_owner_in_it_and_leaves_nothing_there(
    path, model, server, keys, memory, answers
):
    before = of_others(memory)

    with server.client(keys["anna"]) as client:
        for user in (None, "", "unknown", *ODD_NAMES, *REFUSED):
            answers.clear()
            body = {**CHATS[path], "model": model, **({} if user is None else {"user": user})}
            answer = client.post(path, json=body)

            assert answer.status_code == (400 if user in REFUSED else 200), (user, answer.text)
            injected = [served.injected for served in answers]
            assert injected == ([] if user in REFUSED else [False]), user
            assert "the sheep sleep" not in answer.text, user

    assert of_others(memory) == before


def test_reading_ahead_reads_nothing_of_another_owner_and_leaves_nothing_there(
    server, keys, memory, answers, engines
):
    before = of_others(memory)
    answers.clear()
    engine = engines[0]

    with server.client(keys["anna"]) as client:
        for user in (None, "", "unknown", *ODD_NAMES):
            body = {**AHEAD, **({} if user is None else {"user": user})}
            answer = client.post("/v1/chat/read_ahead", json=body)

            assert (answer.status_code, set(answer.json())) == (200, {"reading"}), (user, answer.text)
            engine.decoder.wait_idle()
            assert "the sheep sleep" not in engine.text_of(engine.decoder.mirror_ids), user

    assert answers == []
    assert of_others(memory) == before


@pytest.mark.parametrize("model", ["default", "second"])
@pytest.mark.parametrize("user", [None, "", *ODD_NAMES], ids=lambda user: ascii(user)[:20])
def test_an_answer_has_the_memory_of_the_owners_own_user_in_it(user, model, server, keys, answers):
    answers.clear()

    with server.client(keys["bob"]) as client:
        for path, body in CHATS.items():
            named = {} if user is None else {"user": user}
            answer = client.post(path, json={**body, "model": model, **named})
            assert answer.status_code == 200, answer.text
            assert ("the sheep sleep" in answer.text) == ("verbose" in body)

    assert [served.injected for served in answers] == [True] * len(CHATS)


def test_metadata_of_anthropics_clients_names_the_user_as_user_does(server, keys, answers):
    name = ODD_NAMES[0]
    answers.clear()

    with server.client(keys["bob"]) as client:

        def status(user_id: str, **fields: str) -> int:
            body = {**CHATS["/v1/messages"], "metadata": {"user_id": user_id}, **fields}
            return client.post("/v1/messages", json=body).status_code

        accepted = [status(name), status("stranger"), status(name, user=name), status("unknown"), status("")]
        accepted.append(status("user_1_account_2_session_3"))  # no person's name
        refused = [status(name, user="stranger"), status("x" * 257)]

    assert (accepted, refused) == ([200] * 6, [400] * 2)
    assert [served.injected for served in answers] == [True, False, True, False, True, True]


def test_nobody_has_nothing_in_it(server, keys, answers):
    answers.clear()

    with server.client(keys["bob"]) as client:
        client.post("/v1/chat/completions", json={**CHATS["/v1/chat/completions"], "user": "unknown"})

    assert [served.injected for served in answers] == [False]


def figures_of(client):
    text = client.get("/metrics").text
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    }


@pytest.mark.parametrize("path", CHATS)
def test_the_injection_is_timed_once_for_each_answer_with_memory_and_for_no_other(path, server, keys):
    timed = ("shepherd_injection_seconds", "shepherd_injection_cpu_seconds", "shepherd_recall_seconds")

    with server.client(keys["bob"]) as client:
        before = figures_of(client)
        for fields in ({}, {"user": "anna"}, {"memory": False}, {"user": "unknown"}):
            client.post(path, json={**CHATS[path], **fields})
        after = figures_of(client)

    assert [after[f"{name}_count"] - before[f"{name}_count"] for name in timed] == [2, 2, 2]
    spent = [after[f"{name}_sum"] - before[f"{name}_sum"] for name in timed]
    assert spent[0] > spent[2] > 0
    assert spent[1] > 0


def test_the_log_says_what_memory_took_of_a_request_that_has_it(server, keys, caplog):
    with (
        caplog.at_level("INFO", logger="shepherd.server.request_record"),
        server.client(keys["bob"]) as client,
    ):
        for fields in ({}, {"memory": False}):
            client.post("/v1/messages", json={**CHATS["/v1/messages"], **fields})
        client.get("/health")  # the lines of the others are written before that is served

    logged = [record.fields for record in caplog.records if record.fields["route"] == "/v1/messages"]
    assert [0 < fields.get("injection_cpu_ms", 0) <= fields.get("injection_ms", 0) for fields in logged] == [
        True,
        False,
    ]
    assert "injection_ms" not in logged[1]


def test_the_figures_have_tokens_and_slots(server, keys):
    with server.client(keys["bob"]) as client:
        client.get("/v1/facts/secret")
        client.post("/v1/chat/completions", json=CHATS["/v1/chat/completions"])
        text = client.get("/metrics").text

    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures['shepherd_tokens_total{kind="generated"}']) > 0
    assert float(figures['shepherd_tokens_total{kind="decoded"}']) > 0
    assert float(figures["shepherd_slots"]) == 4  # of both models
    assert float(figures['shepherd_answers_under_way{state="waiting"}']) == 0
    assert 'shepherd_requests_total{method="GET",route="/v1/facts/{key:path}",status="200"}' in figures
    assert "secret" not in text
    assert "sheep" not in text

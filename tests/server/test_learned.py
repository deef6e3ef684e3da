"""What was learned, over HTTP: listed, decided, sent at the end of a stream; and facts at a date."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from shepherd.config import Config
from shepherd.inference import Engine
from shepherd.memory import Claim, Memory
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.chat import ChatRequest, LearnedNews
from shepherd.server.models import Models
from shepherd.server.state import AppState, ServerState
from shepherd.server.turns import Conversations
from shepherd.types import Message
from tests.learned import LIVED, MOVED, learn, propose, remember
from tests.server.running import Running

# Enough answers for what a worker on a busy machine learns late.
_MOST_ANSWERS = 20


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def client(memory) -> Iterator[httpx.Client]:
    app = create_app(AppState(Config(user_id="steve"), memory, True))
    with Running(app) as running, running.client() as client:
        yield client


def listed(client: httpx.Client, **query: object) -> list[dict[str, Any]]:
    answer = client.get("/v1/learned", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def decide(client: httpx.Client, item: dict[str, Any], decision: str, **query: str) -> httpx.Response:
    return client.post(f"/v1/learned/{item['id']}/{decision}", params=query)


def test_what_was_learned_is_listed_newest_first_with_its_sentence(client, memory):
    first, second = remember(memory, "steve")

    items = listed(client)

    assert [(i["kind"], i["key"], i["value"], i["before"], i["statement"]) for i in items] == [
        ("changed", "location", "Paris", "Köln", MOVED),
        ("learned", "location", "Köln", None, LIVED),
    ]
    assert [i["session"] for i in items] == [second.session, first.session]
    assert listed(client, before=items[0]["id"]) == [items[1]]
    assert listed(client, limit=1) == [items[0]]
    assert listed(client, waiting=True) == []


def test_undo_restores_what_was_known_and_cannot_be_done_twice(client, memory):
    remember(memory, "steve")
    newest, oldest = listed(client)

    undone = decide(client, newest, "undo")
    again = decide(client, newest, "undo")
    kept = decide(client, oldest, "keep").json()

    assert [newest["undoable"], oldest["undoable"]] == [True, False]
    assert undone.json() == {**newest, "state": "undone", "undoable": False}
    assert memory.get_fact("location", "steve") == "Köln"
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_decided")
    assert (kept["state"], kept["undoable"]) == ("kept", True)


def test_what_changed_since_is_not_undone(client, memory):
    remember(memory, "steve")
    client.put("/v1/facts/location", json={"value": "Rome"})

    answer = decide(client, listed(client)[0], "undo")

    assert answer.status_code == 409
    assert memory.get_fact("location", "steve") == "Rome"


def test_proposals_are_accepted_and_rejected(client, memory):
    propose(memory, "steve")
    [proposal] = listed(client, waiting=True)

    rejected = decide(client, proposal, "reject").json()
    sentence = "I live in Rome."
    learn(memory, "steve", sentence, Claim("location", "Rome", sentence, 0))
    [other] = listed(client, waiting=True)
    accepted = decide(client, other, "accept").json()

    assert (proposal["value"], proposal["before"], rejected["state"]) == ("Berlin", "Texas", "rejected")
    assert (accepted["state"], memory.get_fact("location", "steve")) == ("accepted", "Rome")
    assert listed(client, waiting=True) == []


def test_nobody_decides_for_another_and_ids_tell_nothing_of_others(client, memory, tmp_path):
    remember(memory, "anna")
    remember(memory, "steve")
    with Memory(tmp_path / "alone.db", clock=lambda: 0) as alone:
        remember(alone, "steve")
    own, others = listed(client)[0], listed(client, user="anna")[0]

    answer = decide(client, own, "undo", user="anna")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert own["id"] != others["id"]
    assert memory.get_fact("location", "anna") == memory.get_fact("location", "steve") == "Paris"
    assert not own["id"].isdecimal() or len(own["id"]) == 16


@pytest.mark.parametrize("wanted", ["1", "0" * 16, "x" * 500, "%00"])
def test_an_odd_id_is_not_found(wanted, client, memory):
    remember(memory, "steve")

    assert client.post(f"/v1/learned/{wanted}/undo").status_code == 404
    assert memory.get_fact("location", "steve") == "Paris"


def test_facts_have_their_periods_and_are_told_as_of_a_date(client, tmp_path):
    for value, at in (("Köln", "2024-03-01"), ("Paris", "2025-06-01")):
        seconds = time.mktime(time.strptime(at, "%Y-%m-%d"))
        with Memory(tmp_path / "memory.db", clock=lambda now=seconds: now) as then:
            then.set_fact("location", value, "steve")

    def at(date: str) -> list[str]:
        return [fact["value"] for fact in client.get("/v1/facts", params={"at": date}).json()["data"]]

    periods = client.get("/v1/facts/location").json()["periods"]
    refused = client.get("/v1/facts", params={"at": "someday"})

    assert (at("2024-02"), at("2024-03-01"), at("2026")) == ([], ["Köln"], ["Paris"])
    assert [period["value"] for period in periods] == ["Köln", "Paris"]
    assert (periods[0]["until"], periods[1]["until"]) == (periods[1]["since"], None)
    assert client.get("/v1/facts", params={"history": True}).json()["periods"] == periods
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "at")


def test_a_forgotten_memory_is_restored_exactly(client, memory):
    session = memory.start_session("steve")
    memory_id = memory.store_memory(
        "Which dog?", "Rex", "steve", source="turn", timestamp=1_000, session=session
    )
    assert memory_id is not None
    memory.pin_memory(memory_id, True, "steve")
    before = memory.get_memory(memory_id, "steve")
    [shown] = client.get("/v1/memory").json()["data"]

    client.delete(f"/v1/memory/{shown['id']}")
    gone = client.get("/v1/memory").json()["data"]
    other = client.post(f"/v1/memory/{shown['id']}/restore", params={"user": "anna"})
    restored = client.post(f"/v1/memory/{shown['id']}/restore")

    assert gone == []
    assert other.status_code == 404
    assert restored.json() == shown
    assert memory.get_memory(memory_id, "steve") == before
    assert client.post(f"/v1/memory/{shown['id']}/restore").status_code == 404


# ---- at the end of a stream


def events(server: Any, path: str, **body: Any) -> list[tuple[str, str]]:
    """The names and data of the events of a stream."""
    found = []
    with server.http() as client, client.stream("POST", path, json={"stream": True, **body}) as answer:
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                found.append((name, line[6:]))
                name = ""
    return found


def said(text: str) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": text}], "max_tokens": 20}


def test_a_stream_ends_with_what_was_learned_when_that_is_asked_for(mini):
    news: list[dict[str, Any]] = []
    for n in range(_MOST_ANSWERS):
        text = "My name is Steve." if n == 0 else f"hello {n}"
        told = events(mini, "/v1/chat/completions", **said(text), user="learner", learned=True)
        *_, (_, last), (_, done) = told
        chunk = json.loads(last)
        assert (done, chunk["choices"], chunk["object"]) == ("[DONE]", [], "chat.completion.chunk")
        assert sum("learned" in json.loads(data) for _, data in told[:-1]) == 1
        news += chunk["learned"]
        if news:
            break

    [item] = news
    assert (item["kind"], item["key"], item["value"]) == ("learned", "name", "Steve")
    assert item["statement"] == "My name is Steve."
    again = events(mini, "/v1/chat/completions", **said("hello again"), user="learner", learned=True)
    assert json.loads(again[-2][1])["learned"] == []
    with mini.http() as client:
        undone = client.post(f"/v1/learned/{item['id']}/undo", params={"user": "learner"})
    assert undone.json()["state"] == "undone"


def test_streams_that_end_together_tell_each_thing_once(plain_model, memory):
    with Engine(plain_model) as engine:
        models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        state = ServerState(Config(), memory, True, Conversations(models, memory=memory, config=Config()))

        async def told_by_both() -> list[list[str]]:
            request = ChatRequest((Message("user", LIVED),), "steve")
            streams = [await LearnedNews.of(state, request) for _ in range(2)]
            learn(memory, "steve", LIVED, Claim("location", "Köln", LIVED, 0))
            news = await asyncio.gather(*(stream.wait() for stream in streams))
            return [[item["value"] for item in items] for items in news]

        assert sorted(asyncio.run(told_by_both())) == [[], ["Köln"]]


def test_anthropics_stream_has_an_event_of_its_own_for_it(mini):
    told = events(mini, "/v1/messages", **said("hello"), user="pupil", learned=True)

    assert [name for name, _ in told][-3:] == ["message_delta", "learned", "message_stop"]
    assert json.loads(told[-2][1]) == {"type": "learned", "learned": []}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_without_the_field_a_stream_says_nothing_of_it(path, mini):
    told = events(mini, path, **said("hello"), user="nobody special")

    assert "learned" not in str(told)


def test_published_clients_read_such_a_stream(mini):
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(
            **said("hello"), user="reader", stream=True, extra_body={"learned": True}
        )
        chunks = list(stream)
    fields = {"user": "reader", "learned": True}
    with (
        anthropic.Anthropic(base_url=mini.url, api_key="none", max_retries=0) as client,
        client.messages.stream(**said("hello"), extra_body=fields) as stream,
    ):
        text = "".join(stream.text_stream)
        final = stream.get_final_message()

    assert chunks[-1].model_extra == {"learned": []}
    assert any(chunk.choices and chunk.choices[0].finish_reason for chunk in chunks)
    assert final.content[0].text == text


def test_a_whole_answer_is_refused_with_the_other_way(mini):
    with mini.http() as client:
        answer = client.post("/v1/chat/completions", json={**said("hello"), "learned": True})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "learned")
    assert "/v1/learned" in answer.json()["error"]["message"]

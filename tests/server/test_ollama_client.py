"""Ollama's published client against a real server: chats, streams, tools, thoughts, models, errors."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import ollama
import pytest

from shepherd.server.ollama_api import ChatBody
from tests.server.conftest import THOUGHT
from tests.vision_models import png

PNG = base64.b64encode(png("red")).decode()

HELLO = [{"role": "user", "content": "Hello, who are you?"}]
GREEDY = {"temperature": 0, "num_predict": 50, "num_ctx": 4096, "num_gpu": 1}


def get_weather(city: str) -> str:
    """
    The weather of a city.

    Args:
      city: its name
    """
    return f"sunny in {city}"


@contextmanager
def client_of(url: str) -> Iterator[ollama.Client]:
    with ollama.Client(url, trust_env=False) as client:
        yield client


@pytest.fixture
def client(mini):
    with client_of(mini.url) as client:
        yield client


@pytest.fixture
def endless_client(endless):
    with client_of(endless.url) as client:
        yield client


@pytest.fixture
def calling_client(calling):
    with client_of(calling.url) as client:
        yield client


def test_answer_says_something_and_what_it_cost(client):
    answer = client.chat("shepherd-mini", HELLO, options=GREEDY)

    assert (answer.message.role, answer.done, answer.done_reason) == ("assistant", True, "stop")
    assert answer.message.content
    assert answer.prompt_eval_count > answer.eval_count > 0
    assert answer.total_duration >= answer.eval_duration > 0


def test_stream_says_the_same_piece_by_piece(client):
    whole = client.chat("default:latest", HELLO, options=GREEDY)
    parts = list(client.chat("default", HELLO, options=GREEDY, stream=True))

    assert len(parts) > 2
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == whole.eval_count


def test_a_request_without_a_word_about_streams_gets_one(mini):
    with mini.http() as http:
        answer = http.post("/api/chat", json={"model": "default", "messages": HELLO})

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["done"] for line in answer.text.splitlines()][-1] is True


def test_one_message_is_a_conversation_with_its_instructions(client):
    asked = {"system": "The user's name is Olaf.", "options": GREEDY}
    by_prompt = client.generate("default", "Hello, who are you?", **asked)
    by_chat = client.chat("default", [{"role": "system", "content": asked["system"]}, *HELLO], options=GREEDY)
    parts = list(client.generate("default", "Hello, who are you?", stream=True, **asked))

    assert by_prompt.response == by_chat.message.content == "".join(part.response for part in parts)
    assert by_prompt.prompt_eval_count == by_chat.prompt_eval_count


def test_what_was_said_is_remembered_for_the_user_of_the_request(mini):
    def said(text: str) -> str:
        body = {"model": "default", "user": "olga", "stream": False, "options": GREEDY}
        with mini.http() as http:
            return http.post("/api/generate", json={**body, "prompt": text}).json()["response"]

    with mini.http() as http:
        http.put("/v1/facts/name", params={"user": "olga"}, json={"value": "Olga"})

    assert "Olga" in said("What is my name?")


def test_answer_ends_at_the_limit_and_at_a_stop_string(endless_client):
    short = endless_client.chat("default", HELLO, options={"temperature": 0, "num_predict": 5})
    stop = short.message.content[2:4]
    stopped = endless_client.chat(
        "default", HELLO, options={"temperature": 0, "num_predict": 5, "stop": [stop]}
    )

    assert (short.eval_count, short.done_reason) == (5, "length")
    assert (stopped.message.content, stopped.done_reason) == (short.message.content[:2], "stop")


def test_answer_follows_a_schema(endless_client):
    schema = {
        "type": "object",
        "properties": {"age": {"type": "integer", "maximum": 99}},
        "required": ["age"],
    }
    by_schema = endless_client.chat("default", HELLO, format=schema, options={"seed": 1, "num_predict": 200})
    as_json = endless_client.generate(
        "default", "Who?", format="json", options={"seed": 1, "num_predict": 30}
    )

    assert isinstance(json.loads(by_schema.message.content)["age"], int)
    assert as_json.response.lstrip().startswith("{")


@pytest.mark.parametrize("stream", [False, True])
def test_tool_call_comes_with_its_arguments_and_the_thought_apart(calling_client, stream):
    asked = calling_client.chat("default", HELLO, tools=[get_weather], stream=stream)
    parts = list(asked) if stream else [asked]
    [call] = [call for part in parts for call in part.message.tool_calls or ()]

    assert (call.function.name, dict(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    assert "".join(part.message.thinking or "" for part in parts).strip() == THOUGHT
    assert not "".join(part.message.content for part in parts)
    assert parts[-1].done_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_are_left_out_where_they_are_not_wanted(calling_client, stream):
    asked = calling_client.chat("default", HELLO, tools=[get_weather], think=False, stream=stream)

    assert not any(part.message.thinking for part in (asked if stream else [asked]))


@pytest.mark.parametrize("has_ids", [True, False])
def test_tools_result_goes_back_to_the_model(calling, calling_client, has_ids):
    first = calling_client.chat("default", HELLO, tools=[get_weather])
    called = first.message.model_dump(exclude_none=True)
    result = {"role": "tool", "content": "sunny", "tool_name": "get_weather"}
    with calling.http() as http:
        raw = http.post(
            "/api/chat",
            json={"model": "default", "messages": HELLO, "tools": [_offered()], "stream": False},
        ).json()["message"]
        if has_ids:
            called, result = raw, {**result, "tool_call_id": raw["tool_calls"][0]["id"]}
        body = {
            "model": "default",
            "messages": [*HELLO, called, result],
            "tools": [_offered()],
            "stream": False,
        }
        second = http.post("/api/chat", json=body)

    assert second.status_code == 200, second.text
    assert second.json()["prompt_eval_count"] > first.prompt_eval_count


def test_results_without_ids_answer_the_calls_of_their_tools_in_order():
    def call(name: str) -> dict[str, object]:
        return {"function": {"name": name, "arguments": {}}}

    def result(**fields: str) -> dict[str, str]:
        return {"role": "tool", "content": "", **fields}

    body = ChatBody.model_validate(
        {
            "model": "default",
            "messages": [
                {"role": "user", "content": "Weather and time?"},
                {"role": "assistant", "tool_calls": [call("weather"), call("clock"), call("clock")]},
                *(result(tool_name=name) for name in ("clock", "weather", "clock")),
                {"role": "assistant", "tool_calls": [call("clock")]},
                result(),
            ],
        }
    )
    messages = body.request("steve").messages
    ids = [[call.id for call in message.tool_calls] for message in messages if message.tool_calls]

    assert len({*ids[0], *ids[1]}) == 4
    assert [message.tool_call_id for message in messages if message.role == "tool"] == [
        *(ids[0][1], ids[0][0], ids[0][2], ids[1][0])
    ]


def _offered() -> dict[str, object]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}


def test_models_are_listed_shown_and_running(client):
    names = [model.model for model in client.list().models]
    shown = client.show("shepherd-mini:latest")
    [running] = client.ps().models

    assert names == ["shepherd-mini:latest", "tiny-bert:latest"]
    assert (shown.details.family, shown.details.quantization_level) == ("llama", "Q8_0")
    assert re.fullmatch(r"\d+\.\d[KMB]", shown.details.parameter_size)
    assert shown.modelinfo["llama.context_length"] >= 1024
    assert {"completion", "tools"} <= set(shown.capabilities)
    assert running.model == "shepherd-mini:latest"
    assert running.context_length >= 1024


def test_a_request_that_asks_nothing_finds_the_model_loaded(client):
    assert client.generate("default", "").done_reason == "load"
    assert client.chat("default", []).done_reason == "load"
    assert client.generate("default", "", keep_alive=0).done_reason == "unload"


def test_texts_are_embedded(client):
    two = client.embed("tiny-bert", ["the dog", "hello world"])
    one = client.embeddings("tiny-bert:latest", "the dog")

    assert len(two.embeddings) == 2
    assert list(one.embedding) == pytest.approx(list(two.embeddings[0]), abs=1e-6)
    assert sum(x * x for x in one.embedding) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("path", "fields", "status", "said"),
    [
        ("chat", {"messages": [{**HELLO[0], "images": [PNG]}]}, 400, "no pictures"),
        ("chat", {"messages": [{**HELLO[0], "images": ["aGk="]}]}, 400, "messages.0.images"),
        ("generate", {"prompt": "a", "images": [PNG]}, 400, "no pictures"),
        ("chat", {"messages": [{"role": "assistant", "content": "I"}]}, 400, "messages"),
        ("chat", {"messages": HELLO, "options": {"presence_penalty": 1000}}, 400, "options.presence_penalty"),
        ("chat", {"messages": HELLO, "options": {"stop": ["x"] * 17}}, 400, "options.stop"),
        ("chat", {"messages": HELLO, "options": {"temperature": "hot"}}, 400, "temperature"),
        ("generate", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
        ("generate", {"prompt": "a", "learned": True}, 400, "learned"),
        ("embed", {"model": "shepherd-mini", "input": "a"}, 404, "no such model for embeddings"),
        ("create", {}, 404, "Not Found"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_in_ollamas_shape(mini, path, fields, status, said):
    with mini.http() as http:
        answer = http.post(f"/api/{path}", json={"model": "default", **fields})

    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert said in answer.json()["error"]


@pytest.mark.parametrize("stream", [True, False])
def test_prompt_that_does_not_fit_is_refused_before_anything_is_sent(client, stream):
    with pytest.raises(ollama.ResponseError, match="context_length_exceeded"):
        list(client.chat("default", [{"role": "user", "content": "long " * 4000}], stream=stream))


def test_a_second_port_serves_who_looks_for_ollama(serve):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server = serve(SHEPHERD_SERVER_OLLAMA_PORT=str(port))

    assert server.url != f"http://127.0.0.1:{port}"
    with client_of(f"http://127.0.0.1:{port}") as client:
        assert client.list().models
    with server.http() as http:
        assert http.get("/api/version").json()["version"]

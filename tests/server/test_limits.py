"""Requests that would take long are refused by their size, with the limit in the message, and never a 5xx."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.config import Config
from shepherd.inference import Engine
from shepherd.providers import ProviderSettings
from shepherd.server import limits
from shepherd.server.anthropic_api import MessagesBody
from shepherd.server.chat import ChatRequest
from shepherd.server.conversations import Conversations
from shepherd.server.errors import Denied
from shepherd.server.limits import problem_of_json
from shepherd.server.models import Models
from shepherd.types import Message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},:é\n'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='k"\\{[,'), inner, max_size=4)
    ),
    max_leaves=30,
)


def depth_of(value: Any) -> int:
    if not isinstance(value, (list, dict)):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inner), default=0)


def values_of(value: Any) -> int:
    """Count as the limit does: an empty object or list is one value, as others' brackets and commas are."""
    if not isinstance(value, (list, dict)):
        return 0
    inner = list(value.values() if isinstance(value, dict) else value)
    return 1 + max(len(inner) - 1, 0) + sum(map(values_of, inner))


@given(JSON, st.integers(0, 6), st.integers(0, 20), st.booleans())
def test_structure_of_a_body_is_counted_without_parsing_it(value, most_nested, most_values, is_ascii):
    body = json.dumps(value, ensure_ascii=is_ascii).encode()

    problem = problem_of_json(body, most_values=most_values, most_nested=most_nested)

    status = None if problem is None else problem.status
    if values_of(value) > most_values:
        assert status == 413
    else:
        assert status == (400 if depth_of(value) > most_nested else None)


@given(st.binary(max_size=200))
def test_any_bytes_are_counted(body):
    problem_of_json(body, most_values=3, most_nested=2)


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "default", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}], **fields}


def tools(n: int, description: str = "") -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": f"tool_{i}", "description": description}} for i in range(n)
    ]


def messages(n: int) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": "x"} for i in range(n)]


def nested(depth: int) -> Any:
    value: Any = "the end"
    for _ in range(depth):
        value = {"a": value}
    return value


LONG = "x" * (limits.MOST_TEXT_CHARS + 1)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["x" * 300_000]}}}
OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
REFUSED = {
    "100,000 tools": (OPENAI, chat(tools=tools(100_000)), 413, "100,000 values"),
    "too many tools": (OPENAI, chat(tools=tools(513)), 400, "512 items"),
    "tools of Anthropic's API": (
        ANTHROPIC,
        chat(tools=[{"name": f"tool_{i}", "input_schema": {}} for i in range(513)]),
        400,
        "512 items",
    ),
    "long tools": (OPENAI, chat(tools=tools(2, "x" * 600_000)), 413, "1,000,000 characters"),
    "380,001 messages": (OPENAI, chat(messages=messages(380_001)), 413, "100,000 values"),
    "too many messages": (OPENAI, chat(messages=messages(10_001)), 400, "10000 items"),
    "messages of Anthropic's API": (ANTHROPIC, chat(messages=messages(10_001)), 400, "10000 items"),
    "tokens to count": (ANTHROPIC + "/count_tokens", chat(messages=messages(10_001)), 400, "10000 items"),
    "long text to count": (
        ANTHROPIC + "/count_tokens",
        {"model": "default", "messages": [{"role": "user", "content": LONG}]},
        413,
        "2,000,000 characters",
    ),
    "long message": (OPENAI, chat(messages=[{"role": "user", "content": LONG}]), 413, "2,000,000 characters"),
    "long prompt": ("/v1/completions", {"model": "default", "prompt": LONG}, 413, "2,000,000 characters"),
    "token ids": ("/v1/completions", {"model": "default", "prompt": [1] * 100_001}, 413, "100,000 values"),
    "long stop": (OPENAI, chat(stop=["x" * 1001]), 400, "1,000 characters"),
    "long schema": (OPENAI, chat(response_format=SCHEMA), 413, "250,000 characters"),
    "nested tool": (
        OPENAI,
        chat(tools=[{"type": "function", "function": {"name": "t", "parameters": nested(900)}}]),
        400,
        "64 levels",
    ),
    "nested metadata": ("/v1/knowledge/nodes", {"title": "t", "metadata": nested(900)}, 400, "64 levels"),
    "nested fact": ("/v1/facts/a", {"value": nested(900)}, 400, "64 levels"),
    "nested search": ("/v1/memory/search", {"query": nested(900)}, 400, "64 levels"),
    "nested edge": ("/v1/knowledge/edges", nested(900), 400, "64 levels"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_request_that_is_too_large_is_refused_with_the_limit(mini, what):
    path, body, status, limit = REFUSED[what]
    method = "PUT" if path.startswith("/v1/facts") else "POST"

    with mini.http() as client:
        answer = client.request(
            method, path, json=body, params={"user": "tess"} if "chat" not in path else {}
        )

    assert (answer.status_code, limit in answer.text) == (status, True), answer.text[:300]
    assert "xxxx" not in answer.text


def test_what_is_just_within_the_limits_is_served(mini):
    long = mini.ask("hi", messages=messages(9_999))
    deep = {"title": "t", "metadata": nested(limits.MOST_NESTED - 2)}

    with mini.http() as client:
        node = client.post("/v1/knowledge/nodes?user=tess", json=deep)

    assert long["usage"]["completion_tokens"] > 0
    assert (node.status_code, node.json()["metadata"]) == (201, deep["metadata"])


def test_json_that_is_not_utf_8_is_refused(mini):
    body = json.dumps(chat()).encode("utf-16")

    with mini.http(**{"Content-Type": "application/json"}) as client:
        assert client.post(OPENAI, content=body).status_code == 400


def test_neighbours_of_one_role_are_joined_however_many_there_are():
    body = MessagesBody(
        model="default",
        max_tokens=1,
        messages=[
            *({"role": "user", "content": str(i)} for i in range(5_000)),
            {"role": "assistant", "content": ""},
            *({"role": "user", "content": str(i)} for i in range(4_000)),
        ],
    )

    joined = body.conversation()

    assert [(message.role, message.raw.count("\n")) for message in joined] == [
        ("user", 4_999),
        ("assistant", 0),
        ("user", 3_999),
    ]


@pytest.mark.parametrize("n_checks", [0, 1])
def test_a_request_whose_client_has_left_does_not_begin(plain_model, n_checks):
    checks = iter([False] * n_checks)

    with Engine(plain_model) as engine:
        models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        conversations = Conversations(models, memory=None, config=Config())
        with pytest.raises(Denied) as caught:
            conversations.begin(ChatRequest((Message("user", "hi"),)), is_gone=lambda: next(checks, True))

    assert (caught.value.status, models.n_lent) == (499, 0)

"""Whatever number stands in a request, it is answered or refused: never an error of ours."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shepherd.inference import Engine, EngineSettings
from shepherd.inference.embedding import Embedder
from shepherd.memory import Memory
from shepherd.server.retrieval_api import Embeddings
from tests import models
from tests.examples import examples
from tests.server.in_process import running

HELLO = [{"role": "user", "content": "hello"}]
SAMPLED = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "repeat_penalty", "repeat_last_n")
CHAT = {"model": "default", "messages": HELLO}
# A body that is answered, and the fields that numbers are tried in.
ROUTES = {
    "/v1/chat/completions": (
        CHAT,
        (*SAMPLED, "max_completion_tokens", "n", "frequency_penalty", "presence_penalty", "top_logprobs"),
    ),
    "/v1/completions": (
        {"model": "default", "prompt": "hello", "max_tokens": 4},
        (*SAMPLED, "n", "best_of", "logprobs", "prompt"),
    ),
    "/v1/messages": ({**CHAT, "max_tokens": 4}, ("max_tokens", "temperature", "top_p", "top_k")),
    "/v1/responses": (
        {"model": "default", "input": "hello"},
        ("max_output_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "top_logprobs"),
    ),
    "/api/chat": (
        {**CHAT, "stream": False},
        (*SAMPLED[1:], "num_predict", "presence_penalty", "frequency_penalty", "stop"),
    ),
    "/v1/embeddings": ({"model": "tiny-bert", "input": "hello"}, ("dimensions", "input")),
    "/v1/memory": ({"question": "a", "answer": "b"}, ("timestamp",)),
    "/v1/memory/search": ({"query": "a"}, ("max_results", "threshold", "since", "until")),
    "/v1/memory/batch": ({"action": "pin", "ids": [1]}, ("ids",)),
    "/v1/knowledge/search": ({"query": "a"}, ("max_results", "threshold")),
    "/v1/knowledge/edges": (
        {"from_node_id": 1, "to_node_id": 2, "explanation": "a"},
        ("from_node_id", "to_node_id", "confidence"),
    ),
}
PLACES = [(route, field) for route, (_, fields) in ROUTES.items() for field in fields]
BORDERS = [
    0, 1, -1, True, 0.5, 2**24, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63) - 1, 10**400,
    1e-300, 1e300, math.inf, -math.inf, math.nan,
]  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[httpx.Client]:
    path = tmp_path_factory.mktemp("numbers")
    models.scripted(path / "tiny.gguf", ("Yes.",), n_ctx=256)
    models.bert(path / "tiny-bert.gguf")
    embeddings = Embeddings("tiny-bert", lambda: Embedder(path / "tiny-bert.gguf"))
    with (
        Engine(path / "tiny.gguf", settings=EngineSettings(n_threads=1, slots=1)) as engine,
        Memory(path / "memory.db", user_id="steve") as memory,
        running(engine, memory=memory, embeddings=embeddings) as server,
        server.client() as client,
    ):
        yield client
    embeddings.close()


def status_of(client: httpx.Client, route: str, fields: dict[str, object]) -> int:
    body = json.dumps({**ROUTES[route][0], **fields})
    headers = {"Content-Type": "application/json"}
    return client.post(route, params={"user": "steve"}, content=body, headers=headers).status_code


def test_bodies_of_these_tests_are_answered(client):
    for title in ("Rope", "Knot"):
        assert (
            client.post("/v1/knowledge/nodes", params={"user": "steve"}, json={"title": title}).status_code
            == 201
        )

    assert {status_of(client, route, {}) for route in ROUTES} == {200, 201}


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), number=st.sampled_from(BORDERS) | st.integers() | st.floats())
@example(place=("/v1/chat/completions", "max_tokens"), number=2**31)
@example(place=("/v1/chat/completions", "top_k"), number=10**400)
@example(place=("/v1/messages", "max_tokens"), number=2**31)
@example(place=("/v1/memory", "timestamp"), number=2**63)
@example(place=("/api/chat", "num_predict"), number=-(2**63) - 1)
def test_no_number_is_an_error_of_the_server(client, place, number):
    route, field = place
    fields = {field: number, **({"logprobs": True} if field == "top_logprobs" else {})}
    if field == "prompt":
        fields[field] = [number]
    if route == "/api/chat":
        fields = {"options": fields}

    assert status_of(client, route, fields) < 500


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/messages"])
def test_most_tokens_that_may_be_asked_for_are_taken(client, route):
    assert status_of(client, route, {"max_tokens": 1 << 24}) == 200
    assert status_of(client, route, {"max_tokens": (1 << 24) + 1}) == 400

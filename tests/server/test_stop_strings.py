"""Stop strings end what the bundled model's answer shows, which can be another text than the model wrote."""

from __future__ import annotations

import httpx
import pytest

ASKED = [{"role": "user", "content": "What is my name?"}]
WHOLE = "Your name is Alice."


@pytest.fixture(scope="module")
def http(mini) -> httpx.Client:
    with mini.http() as http:
        assert http.put("/v1/facts/name", params={"user": "alice"}, json={"value": "Alice"}).is_success
        yield http


@pytest.mark.parametrize("stop", ["Alice", "Your", " is", "me", "no such words"])
def test_no_stop_string_is_in_an_answer(http, stop):
    body = {"messages": ASKED, "user": "alice", "stop": [stop], "session": f"whole {stop}"}

    choice = http.post("/v1/chat/completions", json=body).json()["choices"][0]

    assert choice["message"]["content"] == WHOLE.partition(stop)[0]
    assert choice["finish_reason"] == "stop"


def test_the_stop_string_that_came_is_named(http):
    body = {"messages": ASKED, "user": "alice", "max_tokens": 50, "stop_sequences": ["Bob", " Al"]}

    answer = http.post("/v1/messages", json=body).json()

    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", " Al")
    assert [part["text"] for part in answer["content"]] == ["Your name is"]

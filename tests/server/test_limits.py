"""Requests that would take long are refused by their size, with the limit in the message, and never a 5xx."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shepherd.server import limits
from shepherd.server.anthropic_api import MessagesBody
from shepherd.server.limits import problem_of_json
from tests.server.attacks import LARGEST, OPENAI, REFUSED, chat, messages, nested

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
@example(value="[", most_nested=0, most_values=0, is_ascii=False)
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


@pytest.mark.parametrize("what", LARGEST)
def test_what_no_limit_refuses_is_refused_with_the_window(mini, what):
    with mini.http() as client:
        answer = client.post(OPENAI, json=LARGEST[what] | {"user": "tess"})

    assert answer.status_code == 400
    assert "tokens, the window" in answer.text
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

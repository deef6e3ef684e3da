"""Log-probabilities as OpenAI's client reads them, whole and streamed, of both its APIs."""

from __future__ import annotations

import math

import openai
import pytest

from shepherd.server.completion_api import CompletionLogprobs
from shepherd.server.openai_answers import chat_logprobs
from shepherd.types import TokenLogprob

HELLO = [{"role": "user", "content": "Hello, who are you?"}]


@pytest.fixture
def client(mini):
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def chat(client, **fields):
    return client.chat.completions.create(
        **{"model": "default", "messages": HELLO, "temperature": 0, "logprobs": True, **fields}
    )


def complete(client, **fields):
    return client.completions.create(
        **{"model": "default", "prompt": "the quick", "max_tokens": 8, "temperature": 0, **fields}
    )


def test_chat_tells_each_token_and_the_likeliest_beside_it(client):
    answer = chat(client, top_logprobs=5)

    choice = answer.choices[0]
    tokens = choice.logprobs.content
    assert "".join(token.token for token in tokens) == choice.message.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    assert len(tokens) == answer.usage.completion_tokens
    for token in tokens:
        values = [one.logprob for one in token.top_logprobs]
        assert len(values) == 5
        assert values == sorted(values, reverse=True)
        assert sum(map(math.exp, values)) < 1.0001
        assert (token.top_logprobs[0].token, values[0]) == (token.token, token.logprob)


def test_streamed_chat_tells_the_same_in_step_with_its_text(client):
    whole = chat(client, top_logprobs=2).choices[0]
    chunks = [chunk.choices[0] for chunk in chat(client, top_logprobs=2, stream=True) if chunk.choices]

    text, tokens = "", []
    for chunk in chunks:
        text += chunk.delta.content or ""
        tokens += chunk.logprobs.content if chunk.logprobs else []
        assert text.startswith("".join(token.token for token in tokens))
    assert text == whole.message.content
    assert [token.bytes for token in tokens] == [token.bytes for token in whole.logprobs.content]
    assert [token.logprob for token in tokens] == pytest.approx(
        [token.logprob for token in whole.logprobs.content], abs=1e-3
    )


def test_chat_without_top_logprobs_tells_the_tokens_alone(client):
    tokens = chat(client).choices[0].logprobs.content

    assert tokens
    assert all(token.logprob <= 0 and token.top_logprobs == [] for token in tokens)


def test_who_does_not_ask_gets_null(client):
    chunks = chat(client, logprobs=False, stream=True)

    assert chat(client, logprobs=None).choices[0].logprobs is None
    assert all(chunk.choices[0].logprobs is None for chunk in chunks)
    assert complete(client).choices[0].logprobs is None


def test_tokens_of_thoughts_and_calls_are_told_as_well(calling):
    with openai.OpenAI(base_url=f"{calling.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
        answer = chat(client, tools=[tool])

    said = "".join(token.token for token in answer.choices[0].logprobs.content)
    assert answer.choices[0].message.tool_calls
    assert "<think>" in said
    assert "get_weather" in said


def test_completion_tells_tokens_and_where_they_begin(client):
    choice = complete(client, logprobs=3).choices[0]

    found = choice.logprobs
    assert "".join(found.tokens) == choice.text
    assert len(found.tokens) == len(found.token_logprobs) == len(found.top_logprobs) == 8
    for token, value, offset, top in zip(
        found.tokens, found.token_logprobs, found.text_offset, found.top_logprobs, strict=True
    ):
        assert choice.text[offset : offset + len(token)] == token
        assert top[token] == value == max(top.values())


def test_streamed_completion_tells_the_same(client):
    whole = complete(client, logprobs=1).choices[0].logprobs
    chunks = [chunk.choices[0].logprobs for chunk in complete(client, logprobs=1, stream=True)]

    told = [chunk for chunk in chunks if chunk is not None]
    assert [token for chunk in told for token in chunk.tokens] == whole.tokens
    assert [offset for chunk in told for offset in chunk.text_offset] == whole.text_offset


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 3, "logprobs": None}, "top_logprobs"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": -1}, "top_logprobs"),
    ],
)
def test_chat_refuses_what_openai_refuses(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields)

    assert (caught.value.code, caught.value.param) == ("invalid_request", param)


def test_completion_refuses_an_echo_because_the_prompt_has_none(client):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, logprobs=1, echo=True)

    assert caught.value.param == "echo"


def test_parts_of_characters_and_impossible_tokens_can_be_written():
    tokens = [TokenLogprob(1, b"\xc3", -0.5), TokenLogprob(2, b"\xa9", -math.inf), TokenLogprob(3, b"t", 0.0)]

    chat, legacy = chat_logprobs(tokens)["content"], CompletionLogprobs().of(tokens)

    assert [entry["token"] for entry in chat] == ["\\xc3", "\\xa9", "t"]
    assert [entry["bytes"] for entry in chat] == [[0xC3], [0xA9], [ord("t")]]
    assert [entry["logprob"] for entry in chat] == legacy["token_logprobs"] == [-0.5, -9999.0, 0.0]
    assert legacy["tokens"] == ["bytes:\\xc3", "bytes:\\xa9", "t"]
    assert legacy["text_offset"] == [0, 0, 1]

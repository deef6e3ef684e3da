"""Anthropic's published client against a real server: messages, streams, tools, thoughts, errors."""

from __future__ import annotations

import base64
import json

import anthropic
import pytest

from tests.server.conftest import THOUGHT
from tests.vision_models import png

PNG = base64.b64encode(png("red")).decode()

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
# The newest client has no argument for it.
GREEDY = {"temperature": 0}
HELLO = [{"role": "user", "content": "Hello, who are you?"}]


def client_of(server) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60)


def test_answer_says_something_and_what_it_cost(mini):
    with client_of(mini) as client:
        answer = client.messages.create(
            model="shepherd-mini", max_tokens=50, messages=HELLO, system="Be brief.", extra_body=GREEDY
        )

    assert (answer.type, answer.role, answer.model) == ("message", "assistant", "shepherd-mini")
    assert [block.type for block in answer.content] == ["text"]
    assert answer.content[0].text
    assert answer.stop_reason == "end_turn"
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0
    assert answer.usage.output_tokens > 0


def test_stream_says_the_same_piece_by_piece(mini):
    with client_of(mini) as client:
        whole = client.messages.create(model="default", max_tokens=50, messages=HELLO, extra_body=GREEDY)
        with client.messages.stream(
            model="default", max_tokens=50, messages=HELLO, extra_body=GREEDY
        ) as stream:
            pieces = list(stream.text_stream)
            final = stream.get_final_message()

    assert len(pieces) > 1
    assert "".join(pieces) == whole.content[0].text == final.content[0].text
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_limit_and_stop_sequence_end_the_answer(endless):
    with client_of(endless) as client:
        short = client.messages.create(model="default", max_tokens=5, messages=HELLO, extra_body=GREEDY)
        stopped = client.messages.create(
            model="default",
            max_tokens=5,
            messages=HELLO,
            extra_body=GREEDY,
            stop_sequences=[short.content[0].text[2:4]],
        )

    assert short.stop_reason == "max_tokens"
    assert stopped.stop_reason == "stop_sequence"
    assert stopped.stop_sequence == short.content[0].text[2:4]
    assert stopped.content[0].text == short.content[0].text[:2]


def test_thought_and_tool_call_are_blocks_of_their_own(calling):
    with client_of(calling) as client:
        answer = client.messages.create(model="default", max_tokens=90, messages=HELLO, tools=[WEATHER])
    thought, call = answer.content

    assert answer.stop_reason == "tool_use"
    assert (thought.type, thought.thinking.strip()) == ("thinking", THOUGHT)
    assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})


def test_streamed_tool_call_is_put_together_by_the_client(calling):
    with (
        client_of(calling) as client,
        client.messages.stream(model="default", max_tokens=90, messages=HELLO, tools=[WEATHER]) as stream,
    ):
        final = stream.get_final_message()

    assert [block.type for block in final.content] == ["thinking", "tool_use"]
    assert final.content[0].thinking.strip() == THOUGHT
    assert final.content[1].input == {"city": "Paris"}
    assert final.stop_reason == "tool_use"


def test_tools_result_goes_back_to_the_model(calling):
    with client_of(calling) as client:
        first = client.messages.create(model="default", max_tokens=90, messages=HELLO, tools=[WEATHER])
        result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "sunny"}
        messages = [
            *HELLO,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result, {"type": "text", "text": "And tomorrow?"}]},
        ]
        second = client.messages.create(model="default", max_tokens=90, messages=messages, tools=[WEATHER])

    assert second.usage.cache_read_input_tokens > first.usage.input_tokens


def test_tokens_are_counted_without_an_answer(mini):
    with client_of(mini) as client:
        short = client.messages.count_tokens(model="default", messages=HELLO)
        long = client.messages.count_tokens(model="default", messages=[*HELLO, *HELLO], system="Be brief.")

    assert long.input_tokens > short.input_tokens > 0


def test_answer_follows_a_json_schema(endless):
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    with client_of(endless) as client:
        answer = client.messages.create(
            model="default",
            max_tokens=200,
            messages=HELLO,
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )

    assert isinstance(json.loads(answer.content[0].text)["age"], int)


@pytest.mark.parametrize("stream", [False, True])
def test_prompt_that_does_not_fit_is_refused_before_anything_is_sent(mini, stream):
    with client_of(mini) as client, pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(
            model="default",
            max_tokens=50,
            messages=[{"role": "user", "content": "sheep " * 20_000}],
            stream=stream,
        )

    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert "context_length_exceeded" in caught.value.body["error"]["message"]


def test_pictures_and_tools_of_anthropics_own_are_refused(mini):
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    with client_of(mini) as client:
        with pytest.raises(anthropic.BadRequestError, match="no pictures"):
            client.messages.create(
                model="default", max_tokens=9, messages=[{"role": "user", "content": [picture]}]
            )
        with pytest.raises(anthropic.BadRequestError, match="tools"):
            client.messages.create(
                model="default",
                max_tokens=9,
                messages=HELLO,
                tools=[{"type": "web_search_20250305", "name": "web_search"}],
            )

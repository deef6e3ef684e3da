"""OpenAI's published client against a real server: chat, streams, tools, JSON schemas, errors."""

from __future__ import annotations

import base64
import json
from typing import Any

import openai
import pytest

from tests.server.conftest import THOUGHT
from tests.vision_models import png

PNG = base64.b64encode(png("red")).decode()

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
HELLO = [{"role": "user", "content": "Hello, who are you?"}]


def client_of(server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture
def client(mini):
    with client_of(mini) as client:
        yield client


def test_answer_says_something_and_what_it_cost(client):
    answer = client.chat.completions.create(model="shepherd-mini", messages=HELLO, temperature=0)

    assert answer.object == "chat.completion"
    assert answer.model == "shepherd-mini"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_says_the_same_piece_by_piece(client):
    whole = client.chat.completions.create(model="default", messages=HELLO, temperature=0)
    stream = client.chat.completions.create(
        model="default",
        messages=HELLO,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)

    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(said) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_second_turn_reads_only_what_is_new(client):
    messages = [{"role": "user", "content": "My dog is called Rex."}]
    first = client.chat.completions.create(model="default", messages=messages, user="cache", temperature=0)
    messages += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "What is my dog called?"},
    ]

    second = client.chat.completions.create(model="default", messages=messages, user="cache", temperature=0)

    # All of the first prompt and all of its answer, but for the template's text between the two turns.
    seen = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.prompt_tokens_details.cached_tokens >= seen


def test_answer_ends_at_the_limit_and_at_a_stop_string(endless):
    with client_of(endless) as client:
        short = client.chat.completions.create(
            model="default", messages=HELLO, max_tokens=5, temperature=0
        ).choices[0]
        stopped = client.chat.completions.create(
            model="default",
            messages=HELLO,
            max_completion_tokens=5,
            temperature=0,
            stop=[short.message.content[2:4]],
        ).choices[0]

    assert short.finish_reason == "length"
    assert stopped.finish_reason == "stop"
    assert short.message.content.startswith(stopped.message.content)
    assert len(stopped.message.content) == 2


def test_same_seed_gives_the_same_answer(endless):
    def said(seed):
        with client_of(endless) as client:
            answer = client.chat.completions.create(
                model="default", messages=HELLO, max_tokens=12, temperature=1.5, seed=seed
            )
        return answer.choices[0].message.content

    assert said(7) == said(7)
    assert said(7) != said(-8)


def test_penalties_and_biases_change_what_is_said(endless):
    def said(**fields: Any) -> list[bytes]:
        with client_of(endless) as client:
            answer = client.chat.completions.create(
                model="default", messages=HELLO, temperature=0, max_tokens=40, logprobs=True, **fields
            )
        return [bytes(entry.bytes) for entry in answer.choices[0].logprobs.content]

    plain = said()
    varied = said(frequency_penalty=2, presence_penalty=2, extra_body={"repeat_last_n": 4096})

    assert len(set(varied)) > len(set(plain))
    assert set(said(logit_bias={"70": 100})) == {b"F"}
    with client_of(endless) as client, pytest.raises(openai.BadRequestError, match="logit_bias names token"):
        client.chat.completions.create(model="default", messages=HELLO, logit_bias={"999999999": 1})


def test_biases_that_leave_nothing_to_json_end_this_answer_alone(endless):
    with client_of(endless) as client:

        def said(**fields: Any) -> str | None:
            answer = client.chat.completions.create(
                model="default", messages=HELLO, max_tokens=5, temperature=0, **fields
            )
            return answer.choices[0].message.content

        before = said()
        with pytest.raises(openai.BadRequestError, match="logit_bias allow here") as raised:
            said(response_format={"type": "json_object"}, logit_bias={str(ord("{")): -100})
        assert raised.value.param == "logit_bias"
        assert said() == before


def test_tool_call_comes_with_its_arguments_and_the_thought_apart(calling):
    with client_of(calling) as client:
        answer = client.chat.completions.create(model="default", messages=HELLO, tools=[WEATHER])
        [call] = answer.choices[0].message.tool_calls

    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    assert answer.choices[0].message.model_extra["reasoning_content"].strip() == THOUGHT
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}


def test_streamed_tool_call_is_put_together_by_the_client(calling):
    with (
        client_of(calling) as client,
        client.chat.completions.stream(model="default", messages=HELLO, tools=[WEATHER]) as stream,
    ):
        final = stream.get_final_completion()
    [call] = final.choices[0].message.tool_calls

    assert final.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}


def test_tools_result_goes_back_to_the_model(calling):
    with client_of(calling) as client:
        first = client.chat.completions.create(model="default", messages=HELLO, tools=[WEATHER])
        answered = first.choices[0].message
        result = {"role": "tool", "tool_call_id": answered.tool_calls[0].id, "content": "sunny"}
        messages = [*HELLO, answered.model_dump(exclude_none=True), result]
        second = client.chat.completions.create(model="default", messages=messages, tools=[WEATHER])

    assert second.usage.prompt_tokens > first.usage.prompt_tokens
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens


def tool(name, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


CITY = {"city": {"enum": ["Paris", "Rome"]}}
COLOUR = {"colour": {"$ref": "#/$defs/Colour"}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "paint"}}])
def test_tool_that_must_be_called_is_called(endless, stream, choice):
    paint = tool("paint", **COLOUR)
    paint["function"]["parameters"]["$defs"] = {"Colour": {"enum": ["red", "green"]}}
    tools = [tool("get_weather", **CITY), paint] if choice == "required" else [paint]
    with client_of(endless) as client:
        asked = {"model": "default", "messages": HELLO, "tools": tools, "tool_choice": choice}
        if stream:
            with client.chat.completions.stream(**asked) as pieces:
                answer = pieces.get_final_completion()
        else:
            answer = client.chat.completions.create(**asked)
        [call] = answer.choices[0].message.tool_calls

    assert answer.choices[0].finish_reason == "tool_calls"
    assert not answer.choices[0].message.content
    assert json.loads(call.function.arguments) in (
        [{"city": "Paris"}, {"city": "Rome"}] if call.function.name == "get_weather" else
        [{"colour": "red"}, {"colour": "green"}]
    )  # fmt: skip
    assert choice == "required" or call.function.name == "paint"


@pytest.mark.parametrize("stream", [False, True])
def test_answer_follows_a_json_schema(endless, stream):
    wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    with client_of(endless) as client:
        answer = client.chat.completions.create(
            model="default", messages=HELLO, response_format=wanted, max_tokens=200, stream=stream, seed=1
        )
        said = (
            "".join(chunk.choices[0].delta.content or "" for chunk in answer)
            if stream
            else answer.choices[0].message.content
        )
    person = json.loads(said)

    assert isinstance(person["name"], str)
    assert isinstance(person["age"], int)


def test_schema_that_is_none_is_refused(client):
    broken = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/nowhere"}}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="default", messages=HELLO, response_format=broken)

    assert caught.value.code == "invalid_schema"
    assert caught.value.param == "response_format"


@pytest.mark.parametrize("stream", [False, True])
def test_prompt_that_does_not_fit_is_refused_before_anything_is_sent(client, stream):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "sheep " * 20_000}], stream=stream
        )

    assert caught.value.code == "context_length_exceeded"
    assert caught.value.type == "exceed_context_size_error"  # llama.cpp's; the code is OpenAI's
    assert "sheep" not in str(caught.value)
    assert "start a new conversation" in str(caught.value)
    assert "/clear" not in str(caught.value)  # a command of the chat: an API client has none


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"n": 17}, "invalid_request", "n"),
        ({"top_logprobs": 3}, "invalid_request", "top_logprobs"),
        ({"frequency_penalty": 500}, "invalid_request", "frequency_penalty"),
        ({"logit_bias": {"one": 5}}, "invalid_request", "logit_bias"),
        ({"logit_bias": {"1": 101}}, "invalid_request", "logit_bias"),
        ({"temperature": -1}, "invalid_request", "temperature"),
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"extra_body": {"memmory": False}}, "invalid_request", "memmory"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"messages": [*HELLO, {"role": "assistant", "content": ""}]}, "invalid_request", "messages"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_had_is_refused_by_name(client, fields, code, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{"model": "default", "messages": HELLO, **fields})

    assert (caught.value.code, caught.value.param) == (code, param)


def test_pictures_are_refused_clearly(client):
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}],
        )

    assert caught.value.code == "unsupported_content"
    assert "no pictures" in caught.value.message


def test_half_a_surrogate_pair_is_read_as_a_replacement(mini):
    answer = mini.ask("half \ud800 a pair", "surrogate")

    assert answer["choices"][0]["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"model": "default", "messages": [{"role": "user", "content": "\xff\xfe"}]}',
        b'{"model": "default", "messages": "hello"}',
        b"",
    ],
)
def test_body_that_is_no_request_is_the_clients_mistake(mini, body):
    with mini.http() as http:
        headers = {"Content-Type": "application/json"}
        answer = http.post("/v1/chat/completions", content=body, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"


def test_models_are_listed(client):
    names = [model.id for model in client.models.list()]

    assert names == ["shepherd-mini", "tiny-bert"]
    assert client.models.retrieve("shepherd-mini").id == "shepherd-mini"


def test_text_goes_on(endless):
    with client_of(endless) as client:
        plain = client.completions.create(model="default", prompt="the quick", max_tokens=6, temperature=0)
        echoed = client.completions.create(
            model="default", prompt=["the quick", "hello"], max_tokens=6, temperature=0, echo=True
        )
        streamed = client.completions.create(
            model="default", prompt="the quick", max_tokens=6, temperature=0, stream=True
        )
        pieces = "".join(chunk.choices[0].text for chunk in streamed)

    assert plain.choices[0].finish_reason == "length"
    assert plain.usage.completion_tokens == 6
    assert pieces == plain.choices[0].text
    assert [choice.text[:9] for choice in echoed.choices] == [
        "the quick",
        "hello" + echoed.choices[1].text[5:9],
    ]


def test_tools_that_fill_the_window_are_named_by_the_refusal(client):
    said = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.BadRequestError) as tools:
        client.chat.completions.create(
            model="m", messages=said, user="toolsmith", extra_body={"memory_tools": True}
        )
    with pytest.raises(openai.BadRequestError) as message:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello " * 5000}])

    assert "the descriptions of the tools take about" in str(tools.value)
    assert "shorten the message" in str(message.value)
    assert "fewer tools" not in str(message.value)


def test_embeddings_have_length_one_in_both_encodings(client):
    # The client asks for base64 by itself.
    packed = client.embeddings.create(model="tiny-bert", input=["the dog", "hello world"])
    plain = client.embeddings.create(model="tiny-bert", input="the dog", encoding_format="float")

    assert [entry.index for entry in packed.data] == [0, 1]
    assert sum(x * x for x in plain.data[0].embedding) == pytest.approx(1)
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-5)
    assert packed.usage.prompt_tokens > plain.usage.prompt_tokens > 0


def test_text_too_long_for_the_embedder_and_token_ids_are_refused(client):
    with pytest.raises(openai.BadRequestError) as too_long:
        client.embeddings.create(model="tiny-bert", input="dog " * 5000)
    with pytest.raises(openai.BadRequestError) as ids:
        client.embeddings.create(model="tiny-bert", input=[1, 2, 3])

    assert too_long.value.code == "context_length_exceeded"
    assert ids.value.param == "input"


def test_server_without_an_embedder_says_which_setting(endless):
    with client_of(endless) as client, pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="default", input="the dog")

    assert "server_embeddings" in caught.value.message

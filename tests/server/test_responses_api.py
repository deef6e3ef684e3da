"""OpenAI's published client and the Responses API of a real server: chains, streams, tools, what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

from shepherd.server.responses_bodies import ResponseBody
from tests.server.conftest import THOUGHT
from tests.server.processes import ServerProcess

HELLO = "Hello, who are you?"
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


@contextmanager
def client_of(server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def client(mini):
    with client_of(mini) as client:
        yield client


def ask(client: openai.OpenAI, text: Any, user: str = "", **fields: Any) -> Any:
    return client.responses.create(
        model="default", input=text, temperature=0, user=user or openai.omit, **fields
    )


def test_answer_says_something_and_what_it_cost(client):
    answer = ask(client, HELLO, metadata={"a": "b"})
    [message] = answer.output

    assert (answer.status, answer.model, answer.metadata) == ("completed", "shepherd-mini", {"a": "b"})
    assert (message.type, message.role, message.status) == ("message", "assistant", "completed")
    assert answer.output_text
    assert answer.usage.input_tokens > answer.usage.output_tokens > 0
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


def test_stream_has_the_events_of_openai_in_their_order(client):
    whole = ask(client, HELLO)
    with client.responses.stream(model="default", input=HELLO, temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    deltas = [event for event in events if event.type == "response.output_text.delta"]

    assert [kind for kind in kinds if kind != "response.output_text.delta"] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert len(deltas) > 1
    assert "".join(event.delta for event in deltas) == whole.output_text == final.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert {event.item_id for event in deltas} == {final.output[0].id}
    assert events[0].response.id == final.id
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_a_chain_of_responses_reads_new_tokens_only(client):
    first = ask(client, "My name is Steve.", "chained", instructions="Be brief.")
    second = ask(
        client, "What is my name?", "chained", previous_response_id=first.id, instructions="Be brief."
    )
    third = ask(client, "Thanks.", "chained", previous_response_id=second.id, instructions="Be brief.")

    assert "Steve" in second.output_text
    for before, answer in ((first, second), (second, third)):
        assert answer.previous_response_id == before.id
        assert answer.usage.input_tokens_details.cached_tokens >= before.usage.total_tokens - 1


def test_a_response_can_be_continued_in_two_ways(client):
    first = ask(client, "My name is Steve.", "forked")
    one = ask(client, "What is my name?", "forked", previous_response_id=first.id)
    other = ask(client, "Thanks.", "forked", previous_response_id=first.id)
    sent = [
        {"role": "user", "content": "My name is Steve."},
        *(item.model_dump() for item in first.output),
        {"role": "user", "content": [{"type": "input_text", "text": "What is my name?"}]},
    ]
    by_hand = ask(client, sent, "forked")

    assert one.output_text == by_hand.output_text != other.output_text


@pytest.mark.parametrize("stream", [False, True])
def test_thought_and_call_are_items_of_their_own(calling, stream):
    with client_of(calling) as client:
        if stream:
            with client.responses.stream(model="default", input=HELLO, tools=[WEATHER]) as events:
                kinds = [event.type for event in events]
                answer = events.get_final_response()
            assert kinds.index("response.reasoning_text.done") < kinds.index(
                "response.function_call_arguments.done"
            )
        else:
            answer = ask(client, HELLO, tools=[WEATHER])
    thought, call = answer.output

    assert thought.type == "reasoning"
    assert thought.content[0].text.strip() == THOUGHT
    assert (call.type, call.name) == ("function_call", "get_weather")
    assert json.loads(call.arguments) == {"city": "Paris"}
    assert answer.status == "completed"


@pytest.mark.parametrize("is_chained", [True, False])
def test_output_of_a_function_goes_back_to_the_model(calling, is_chained):
    with client_of(calling) as client:
        first = ask(client, HELLO, tools=[WEATHER])
        result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "sunny"}
        if is_chained:
            second = ask(client, [result], tools=[WEATHER], previous_response_id=first.id)
        else:
            items = [item.model_dump(exclude_none=True) for item in first.output]
            sent = [{"role": "user", "content": HELLO}, *items, result]
            second = ask(client, sent, tools=[WEATHER])

    assert second.usage.input_tokens > first.usage.input_tokens
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 1


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=12)
    age: int


def test_answer_follows_a_schema(endless):
    with client_of(endless) as client:
        answer = client.responses.parse(
            model="default", input="Who?", text_format=Person, max_output_tokens=200, extra_body={"seed": 1}
        )

    assert isinstance(answer.output_parsed, Person)


@pytest.mark.parametrize("stream", [False, True])
def test_answer_that_is_cut_is_incomplete(endless, stream):
    with client_of(endless) as client:
        if stream:
            parts = list(
                client.responses.create(model="default", input=HELLO, max_output_tokens=16, stream=True)
            )
            assert parts[-1].type == "response.incomplete"
            answer = parts[-1].response
        else:
            answer = ask(client, HELLO, max_output_tokens=16)

    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.output[0].status == "incomplete"
    assert answer.usage.output_tokens == 16


def test_log_probabilities_come_with_the_text(endless):
    with client_of(endless) as client:
        answer = ask(client, HELLO, max_output_tokens=16, top_logprobs=2)
    entries = answer.output[0].content[0].logprobs

    assert len(entries) == 16
    assert "".join(entry.token for entry in entries) == answer.output_text
    assert all(len(entry.top_logprobs) == 2 for entry in entries)


def test_a_stored_response_is_read_listed_and_deleted(client):
    made = ask(client, [{"role": "user", "content": HELLO}], "keeper")
    query: dict[str, Any] = {"extra_query": {"user": "keeper"}}
    read = client.responses.retrieve(made.id, **query)
    [item] = client.responses.input_items.list(made.id, **query).data
    for user in ("other", ""):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id, extra_query={"user": user} if user else {})
        with pytest.raises(openai.BadRequestError, match="no such stored response"):
            ask(client, "And?", user, previous_response_id=made.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.delete(made.id, extra_query={"user": user} if user else {})
    client.responses.delete(made.id, **query)

    assert read == made
    assert (item.role, item.content[0].text) == ("user", HELLO)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id, **query)
    with pytest.raises(openai.BadRequestError, match="no such stored response"):
        ask(client, "And?", "keeper", previous_response_id=made.id)


def test_a_stored_response_is_deleted_with_its_conversation_or_message(mini, client):
    first = ask(client, "Hello there", "cleaner")
    second = ask(client, "What can you do?", "cleaner", previous_response_id=first.id)
    other = ask(client, "Do you like tea?", "cleaner")
    user = {"user": "cleaner"}

    def kept() -> list[bool]:
        with mini.http() as http:
            made = [http.get(f"/v1/responses/{one.id}", params=user) for one in (first, second, other)]
        return [answer.status_code == 200 for answer in made]

    with mini.http() as http:
        listed = http.get("/v1/conversations", params=user).json()["data"]
        [talk] = [one["id"] for one in listed if one["title"] == "Hello there"]
        assert http.delete(f"/v1/conversations/{talk}/messages/3", params=user).json()["deleted"] == 2
        assert kept() == [True, False, True]
        assert http.delete(f"/v1/conversations/{talk}", params=user).status_code == 200
    assert kept() == [False, False, True]


def test_what_is_not_to_be_stored_is_not(client):
    made = ask(client, HELLO, "keeper", store=False)

    assert made.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id, extra_query={"user": "keeper"})


def test_responses_outlive_the_server_unless_they_are_about_nobodys_memory(tmp_path):
    with ServerProcess(tmp_path / "home") as server, client_of(server) as client:
        kept = ask(client, "My name is Steve.", "keeper")
        private = ask(client, "My name is Olaf.", "keeper", extra_body={"memory": False})
        nobodys = ask(client, "My name is Anna.")
        for user, made in (("keeper", private), ("", nobodys)):
            assert ask(client, "And?", user, previous_response_id=made.id).status == "completed"
    stored = (tmp_path / "home/.local/share/shepherd").iterdir()

    assert not any(b"Olaf" in path.read_bytes() or b"Anna" in path.read_bytes() for path in stored)
    with ServerProcess(tmp_path / "home") as server, client_of(server) as client:
        answer = ask(client, "What is my name?", "keeper", previous_response_id=kept.id)
        assert "Steve" in answer.output_text
        for user, made in (("keeper", private), ("", nobodys)):
            with pytest.raises(openai.BadRequestError, match="no such stored response"):
                ask(client, "And?", user, previous_response_id=made.id)


def test_input_is_counted_as_it_would_be_read(client):
    made = ask(client, HELLO, "counted", extra_body={"memory": False})
    count = client.responses.input_tokens.count(model="default", input=HELLO)
    longer = client.responses.input_tokens.count(
        model="default", input="And?", previous_response_id=made.id, extra_body={"user": "counted"}
    )

    assert longer.input_tokens > count.input_tokens > 0


def test_what_was_learned_comes_before_the_end(mini):
    body = {"model": "default", "input": "I live in Lisbon.", "user": "pupil-r", "stream": True}
    with mini.http() as http:
        text = http.post("/v1/responses", json={**body, "learned": True}).text
    kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]

    assert kinds[-2:] == ["learned", "response.completed"]
    assert '"Lisbon"' in text


def test_words_and_calls_of_one_answer_are_one_message():
    body = ResponseBody.model_validate(
        {
            "model": "default",
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": "Weather and time?"},
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So:"}]},
                {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "clock", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "b", "output": "noon"},
                {
                    "type": "function_call_output",
                    "call_id": "a",
                    "output": [{"type": "input_text", "text": "sun"}],
                },
            ],
        }
    )
    system, user, answer, *results = body.request("steve").messages

    assert (system.role, system.raw, user.raw) == ("system", "Be brief.", "Weather and time?")
    assert (answer.raw, [call.id for call in answer.tool_calls]) == ("So:", ["a", "b"])
    assert [(result.role, result.tool_call_id, result.raw) for result in results] == [
        ("tool", "b", "noon"),
        ("tool", "a", "sun"),
    ]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"background": True, "store": False}, 400, "background"),
        ({"background": True, "stream": True, "learned": True}, 400, "learned"),
        ({"prompt": {"id": "pmpt_1"}}, 400, "prompt"),
        ({"conversation": "conv_1"}, 404, "conversation"),
        ({"conversation": {"id": "conv_1"}, "previous_response_id": "resp_0"}, 400, "conversation"),
        ({"previous_response_id": "resp_0"}, 400, "previous_response_id"),
        ({"previous_response_id": "0" * 32}, 400, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, 400, "tools"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "no"}}, 400, "tool_choice"),
        ({"text": {"format": {"type": "json_schema"}}}, 400, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {"type": 1}}}}, 400, "text.format"),
        ({"input": []}, 400, "input"),
        ({"input": [{"role": "assistant", "content": "I"}]}, 400, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, 400, "input.0.content.0"),
        ({"input": [{"type": "computer_call"}]}, 400, "input.0"),
        ({"learned": True}, 400, "learned"),
        ({"memroy_tools": True}, 400, "memroy_tools"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_name(mini, fields, status, param):
    with mini.http() as http:
        answer = http.post("/v1/responses", json={"model": "default", "input": HELLO, **fields})

    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == param


def test_prompt_that_does_not_fit_is_refused_before_anything_is_sent(client):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "long " * 4000, stream=True)

    assert refused.value.code == "context_length_exceeded"

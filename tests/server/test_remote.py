"""A server whose model runs elsewhere: the memory is here, the answers and the faults come from there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import openai
import pytest

from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings, open_remote
from shepherd.providers.accounting import RatioStore
from shepherd.providers.exchange import RetryPolicy
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests.providers import upstream
from tests.server.running import Running

HELLO = [{"role": "user", "content": "What is my name?"}]
NAMED = ("set_fact", {"key": "name", "value": "Stephen"})
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TOO_LONG = {"message": "maximum context length is 100 tokens", "code": "context_length_exceeded"}


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="nobody-by-default") as memory:
        memory.set_fact("name", "Steve", "steve")
        yield memory


@pytest.fixture
def served(memory, tmp_path):
    """Starts a server before a model that follows the steps; gives a client and the model."""

    def start(*steps, kind="openai", uses_memory=True, **settings):
        stack.append(upstream.running(*steps))
        model = stack[-1].__enter__()
        url = model.url if kind == "anthropic" else f"{model.url}/v1"
        provider = ProviderSettings("work", kind, model="m", base_url=url, memory=uses_memory, api_key="k")
        models = Models(
            provider,
            name="m",
            open_remote=lambda sends, asks: open_remote(
                provider,
                sends=sends,
                asks_memory=lambda: asks,
                policy=RetryPolicy(1, first_s=0.001, longest_s=0.1),
                ratios=RatioStore(tmp_path / "ratios.json"),
            ),
        )
        config = Config(**settings)
        in_use = memory if provider.uses_memory else None
        conversations = Conversations(models, memory=in_use, config=config)
        running = Running(create_app(ServerState(config, memory, True, conversations)))
        stack.append(running)
        running.__enter__()
        client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=60)
        stack.append(client)
        closing.append(models)
        return client, model

    stack, closing = [], []
    yield start
    for entered in reversed(stack):
        entered.__exit__(None, None, None)
    for models in closing:
        models.close()


def test_the_model_elsewhere_is_told_what_is_known_here(served, memory):
    client, model = served(upstream.says("You are ", "Steve.", counts=upstream.usage(40, 4, cached=30)))

    answer = client.chat.completions.create(model="m", messages=HELLO, user="steve", temperature=0.5)

    assert answer.choices[0].message.content == "You are Steve."
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (40, 4)
    assert answer.usage.prompt_tokens_details.cached_tokens == 30
    assert model.asked[0].said == "What is my name?\n\n[facts: name=Steve]"
    assert model.asked[0].body["temperature"] == 0.5
    assert "top_p" not in model.asked[0].body
    assert memory.list_sessions("steve")[0].n_messages == 2


def test_stream_of_thoughts_and_tool_calls_goes_through(served):
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"at": "it"}'}}
    client, model = served(
        upstream.says({"reasoning_content": "hm"}, {"tool_calls": [call]}, reason="tool_calls")
    )
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

    with client.chat.completions.stream(model="m", messages=HELLO, tools=[tool]) as stream:
        final = stream.get_final_completion().choices[0]

    assert final.finish_reason == "tool_calls"
    assert final.message.tool_calls[0].function.arguments == '{"at": "it"}'
    assert model.asked[0].body["tools"][0]["function"]["name"] == "look"


def test_what_the_model_signs_a_call_with_goes_to_the_client_and_back(served):
    signed = {"google": {"thought_signature": "c2ln"}}
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}, "extra_content": signed}
    step = upstream.says({"tool_calls": [call]}, reason="tool_calls")
    client, model = served(step, upstream.says("Found."))

    told = client.chat.completions.create(model="m", messages=HELLO, tools=[LOOK]).choices[0].message
    result = {"role": "tool", "tool_call_id": "c1", "content": "it"}
    client.chat.completions.create(model="m", messages=[*HELLO, told, result], tools=[LOOK])

    assert told.tool_calls[0].extra_content == signed
    assert model.asked[1].body["messages"][-2]["tool_calls"][0]["extra_content"] == signed


def test_a_thought_before_a_call_goes_to_the_client_and_back(served):
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}
    step = upstream.says({"reasoning_content": "hm"}, {"tool_calls": [call]}, reason="tool_calls")
    client, model = served(step, upstream.says("Found."))

    told = client.chat.completions.create(model="m", messages=HELLO, tools=[LOOK]).choices[0].message
    result = {"role": "tool", "tool_call_id": "c1", "content": "it"}
    client.chat.completions.create(model="m", messages=[*HELLO, told, result], tools=[LOOK])

    assert model.asked[1].body["messages"][-2]["reasoning_content"] == told.reasoning_content == "hm"


def test_a_thought_before_a_call_goes_back_through_the_messages_api(served):
    client, model = served(upstream.says("Found."))
    called = [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "c1", "name": "look"}]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "it"}
    messages = [*HELLO, {"role": "assistant", "content": called}, {"role": "user", "content": [result]}]

    with httpx.Client(base_url=str(client.base_url), timeout=60) as http:
        http.post("messages", json={"model": "m", "max_tokens": 9, "messages": messages}).raise_for_status()

    assert model.asked[0].body["messages"][-2]["reasoning_content"] == "hm"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_stop_sequence_that_ended_claudes_answer_is_told(served, is_streamed):
    step = upstream.claude_says({"text": ["One, "]}, reason="stop_sequence", stop="two")
    client, _ = served(step, kind="anthropic")
    asked = {"model": "m", "max_tokens": 9, "messages": HELLO, "stop_sequences": ["three", "two"]}

    with httpx.Client(base_url=str(client.base_url), timeout=60) as http:
        told = http.post("messages", json={**asked, "stream": is_streamed}).text

    assert '"stop_reason":"stop_sequence"' in told
    assert '"stop_sequence":"two"' in told


def test_provider_without_memory_is_told_nothing(served, memory):
    client, model = served(upstream.says("Who knows?"), uses_memory=False)

    client.chat.completions.create(model="m", messages=HELLO, user="steve")

    assert model.asked[0].said == "What is my name?"
    assert memory.list_sessions("steve") == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("step", "status", "code"),
    [
        (upstream.refuses(400, TOO_LONG), 400, "context_length_exceeded"),
        (upstream.refuses(400), 400, "invalid_request"),
        (upstream.refuses(422), 400, "invalid_request"),
        (upstream.refuses(401), 502, "upstream_refused"),
        (upstream.refuses(404), 502, "upstream_failed"),
        (upstream.refuses(500), 503, "upstream_unavailable"),
        (upstream.drops(), 503, "upstream_unavailable"),
    ],
)
def test_fault_before_the_first_word_is_an_http_error(served, memory, stream, step, status, code):
    client, _ = served(step)

    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="m", messages=HELLO, user="steve", stream=stream)

    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert memory.list_sessions("steve") == []


def test_refusal_comes_in_the_providers_own_words_and_is_not_logged(served, caplog):
    client, _ = served(upstream.refuses(400, {"message": "Hello is no question"}))

    with pytest.raises(openai.BadRequestError, match="Hello is no question") as caught:
        client.chat.completions.create(model="m", messages=HELLO)

    assert "it does not understand the request" in caught.value.message
    assert "no question" not in caplog.text


def test_fault_within_the_answer_is_an_error_in_the_stream_and_nothing_is_kept(served, memory):
    client, _ = served(upstream.breaks_off("You ", "are "))
    pieces = []

    def read():
        for chunk in client.chat.completions.create(model="m", messages=HELLO, user="steve", stream=True):
            pieces.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError):
        read()
    assert "".join(pieces) == "You are "
    assert memory.list_sessions("steve") == []


def test_client_that_goes_away_leaves_the_model_alone(served):
    client, model = served(upstream.never_ends(pause_s=0.01))

    stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
    next(iter(stream))
    stream.close()

    assert model.left.wait(60)


@pytest.mark.parametrize("stream", [False, True])
def test_client_that_goes_away_before_the_first_piece_leaves_the_model_alone(served, stream):
    client, model = served(upstream.hangs(keeps_alive=True))

    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="m", messages=HELLO, stream=stream, timeout=1)

    assert model.left.wait(60)


def test_what_the_answer_has_to_be_is_asked_of_the_provider(served):
    client, model = served(upstream.says('{"a": 1}'), upstream.says('{"a": 1}'))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "patternProperties": {"^b": {}}}
    format_ = {"type": "json_schema", "json_schema": {"name": "as", "strict": False, "schema": schema}}

    client.chat.completions.create(model="m", messages=HELLO, stop=["."], response_format=format_)
    client.chat.completions.create(model="m", messages=HELLO, response_format={"type": "json_object"})

    assert model.asked[0].body["stop"] == ["."]
    assert model.asked[0].body["response_format"] == format_
    assert model.asked[1].body["response_format"] == {"type": "json_object"}
    assert "stop" not in model.asked[1].body


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
def test_call_of_a_tool_is_demanded_of_the_provider(served, choice):
    client, model = served(call_of(("look", {"at": "it"})))

    answer = client.chat.completions.create(model="m", messages=HELLO, tools=[LOOK], tool_choice=choice)

    assert model.asked[0].body["tool_choice"] == choice
    assert answer.choices[0].message.tool_calls[0].function.name == "look"


def test_demanded_call_is_demanded_once(served, memory):
    client, model = served(call_of(NAMED), upstream.says("Done."))

    client.chat.completions.create(
        model="m",
        messages=HELLO,
        user="steve",
        tools=[LOOK],
        tool_choice="required",
        extra_body={"memory_tools": True},
    )

    assert [asked.body.get("tool_choice") for asked in model.asked] == ["required", None]


@pytest.mark.parametrize(
    ("kind", "field", "fields"),
    [
        ("openai", "logprobs", {"logprobs": True}),
        ("openai", "n", {"n": 2}),
        ("openai", "messages", {"messages": [*HELLO, {"role": "assistant", "content": "I"}]}),
        ("openai", "chat_template_kwargs", {"extra_body": {"chat_template_kwargs": {"style": "brief"}}}),
        ("openai", "grammar", {"extra_body": {"grammar": 'root ::= "a"'}}),
        ("anthropic", "response_format", {"response_format": {"type": "json_object"}}),
        ("ollama", "tool_choice", {"tools": [LOOK], "tool_choice": "required"}),
    ],
)
def test_what_a_kind_of_provider_cannot_be_asked_for_is_refused(served, kind, field, fields):
    client, model = served(upstream.says("No."), kind=kind)

    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{"model": "m", "messages": HELLO, **fields})

    assert caught.value.param == field
    assert model.asked == []


def call_of(*calls, text=""):
    """A whole answer that calls these tools, each a name and its arguments."""
    told = [
        {"index": i, "id": f"c{i}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls)
    ]
    return upstream.says(*([text] if text else []), {"tool_calls": told}, reason="tool_calls")


def test_memory_tools_are_called_here_for_a_model_elsewhere(served, memory):
    client, model = served(call_of(NAMED), upstream.says("Done.", counts=upstream.usage(60, 2)))

    answer = client.chat.completions.create(
        model="m", messages=HELLO, user="steve", extra_body={"memory_tools": True}
    )

    assert answer.choices[0].message.content == "Done."
    assert memory.get_fact("name", "steve") == "Stephen"
    assert [message["role"] for message in model.asked[1].body["messages"][-2:]] == ["assistant", "tool"]
    assert json.loads(model.asked[1].said) == {"set": True}


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_the_clients_tools_reach_it_and_those_of_memory_are_done(served, memory, stream):
    client, model = served(call_of(NAMED, ("look", {"at": "it"})))
    fields = {"model": "m", "messages": HELLO, "user": "steve", "tools": [LOOK]}

    if stream:
        with client.chat.completions.stream(**fields, extra_body={"memory_tools": True}) as streamed:
            [choice] = streamed.get_final_completion().choices
    else:
        [choice] = client.chat.completions.create(**fields, extra_body={"memory_tools": True}).choices

    [call] = choice.message.tool_calls
    assert (call.function.name, choice.finish_reason) == ("look", "tool_calls")
    assert memory.get_fact("name", "steve") == "Stephen"
    assert len(model.asked) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_client_that_takes_one_call_gets_the_first(served, stream):
    client, _ = served(call_of(("look", {"at": "it"}), ("look", {"at": "that"}), text="I look."))
    fields = {"model": "m", "messages": HELLO, "tools": [LOOK], "parallel_tool_calls": False}

    if stream:
        with client.chat.completions.stream(**fields) as streamed:
            [choice] = streamed.get_final_completion().choices
    else:
        [choice] = client.chat.completions.create(**fields).choices

    [call] = choice.message.tool_calls
    assert (call.function.arguments, choice.finish_reason) == ('{"at": "it"}', "tool_calls")
    assert choice.message.content == "I look."


def test_model_that_calls_without_end_is_stopped(served):
    client, model = served(*(call_of(NAMED, text=f"{i}.") for i in range(4)), tool_rounds=2)

    answer = client.chat.completions.create(
        model="m", messages=HELLO, user="steve", extra_body={"memory_tools": True}
    )

    assert answer.choices[0].message.content == "0.\n\n1.\n\n2."
    assert answer.choices[0].finish_reason == "length"
    assert len(model.asked) == 3


def test_fault_in_a_later_round_is_an_error_and_nothing_of_the_turn_is_kept(served, memory):
    client, _ = served(call_of(NAMED), upstream.refuses(401))

    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(
            model="m", messages=HELLO, user="steve", extra_body={"memory_tools": True}
        )

    assert caught.value.status_code == 502
    assert memory.list_sessions("steve") == []


def test_client_that_goes_away_in_a_later_round_leaves_the_model_alone(served):
    client, model = served(call_of(NAMED), upstream.never_ends(pause_s=0.01))

    stream = client.chat.completions.create(
        model="m", messages=HELLO, user="steve", stream=True, extra_body={"memory_tools": True}
    )
    next(chunk for chunk in stream if chunk.choices[0].delta.content)
    stream.close()

    assert model.left.wait(60)

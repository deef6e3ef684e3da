"""A model that calls two tools at once, for clients that take one call only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anthropic
import openai
import pytest

from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from tests import models
from tests.server.in_process import running
from tests.server.running import Running

HELLO = [{"role": "user", "content": "What is the weather?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
# What two calls have in common is cut differently: pieces of a script must differ.
CALLS = (
    "I look.",
    "<tool_", 'call>{"name": "get_weather", "arguments": ', '{"city": "Paris"}}', "</tool_", "call>",
    "<tool", '_call>{"name": "get_weather", "argu', 'ments": {"city": "Rome"}}', "</tool", "_call>",
)  # fmt: skip
FACT = {"name": "set_fact", "arguments": {"key": "name", "value": "Steve"}}
NOTED = ("<tool_", f"call>{json.dumps(FACT)}", "</tool_", "call>", *CALLS[6:], " and ", "more")


@pytest.fixture(scope="module")
def memory(tmp_path_factory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("memory") / "memory.db", user_id="nobody-by-default") as memory:
        yield memory


def served(path, script, memory) -> Iterator[Running]:
    models.scripted(path, script, template=models.TOOL_TEMPLATE)
    settings = EngineSettings(n_threads=1, slots=2)
    with Engine(path, settings=settings) as engine, running(engine, memory=memory) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory, memory) -> Iterator[Running]:
    yield from served(tmp_path_factory.mktemp("calling") / "calling.gguf", CALLS, memory)


@pytest.fixture(scope="module")
def noting_server(tmp_path_factory, memory) -> Iterator[Running]:
    """Of a model that notes something, calls a tool of the client's, and goes on."""
    yield from served(tmp_path_factory.mktemp("noting") / "noting.gguf", NOTED, memory)


def asked(server: Running, *, stream: bool = False, **fields):
    """The choice that OpenAI's client gets."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        fields = {"model": "default", "messages": HELLO, "tools": [TOOL], **fields}
        if not stream:
            return client.chat.completions.create(**fields).choices[0]
        with client.chat.completions.stream(**fields) as pieces:
            return pieces.get_final_completion().choices[0]


def cities(choice) -> list[str]:
    return [json.loads(call.function.arguments)["city"] for call in choice.message.tool_calls]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("parallel", "expected"), [(True, ["Paris", "Rome"]), (False, ["Paris"])])
def test_client_says_whether_it_takes_several_calls(server, stream, parallel, expected):
    choice = asked(server, stream=stream, parallel_tool_calls=parallel)

    assert cities(choice) == expected
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")


def test_anthropics_client_says_it_in_its_own_words(server):
    tool = {"name": "get_weather", "input_schema": CITY}

    def answered(**choice):
        with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
            return client.messages.create(
                model="default",
                max_tokens=100,
                messages=HELLO,
                tools=[tool],
                tool_choice={"type": "auto", **choice},
            )

    several, one = answered(), answered(disable_parallel_tool_use=True)

    assert [block.input for block in several.content if block.type == "tool_use"] == [
        {"city": "Paris"},
        {"city": "Rome"},
    ]
    assert [block.input for block in one.content if block.type == "tool_use"] == [{"city": "Paris"}]
    assert one.stop_reason == "tool_use"


def test_conversation_goes_on_after_the_only_call(server, memory):
    first = asked(server, parallel_tool_calls=False, user="steve")
    [call] = first.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    messages = [*HELLO, first.message.model_dump(exclude_none=True), result]

    asked(server, messages=messages, parallel_tool_calls=False, user="steve")

    [session] = memory.list_sessions("steve")
    kept = memory.load_session(session.id, "steve")
    assert next(len(message.tool_calls) for message in kept if message.role == "assistant") == 1


def test_call_of_the_memory_before_the_only_call_is_carried_out(noting_server, memory):
    choice = asked(noting_server, parallel_tool_calls=False, user="anna", extra_body={"memory_tools": True})

    assert cities(choice) == ["Rome"]
    assert memory.get_fact("name", "anna") == "Steve"
    assert not choice.message.content


@pytest.mark.parametrize("tools", [[], None])
def test_call_cannot_be_demanded_without_tools(server, tools):
    with pytest.raises(openai.BadRequestError) as of_openai:
        asked(server, tools=tools, tool_choice="required")
    with (
        anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError) as of_anthropic,
    ):
        client.messages.create(
            model="default", max_tokens=9, messages=HELLO, tools=tools or [], tool_choice={"type": "any"}
        )

    assert of_openai.value.param == "tool_choice"
    assert "no tools to call" in of_openai.value.message
    assert "no tools to call" in str(of_anthropic.value)

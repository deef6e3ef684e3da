"""What Codex sends: tools in namespaces, custom tools, and web search beside its own functions."""

from __future__ import annotations

import json

import openai
import pytest

from shepherd.server.errors import Denied
from shepherd.server.responses_bodies import ResponseBody
from shepherd.server.responses_tools import ToolBody, item_of, offered_by
from shepherd.types import ToolCall

PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Change files",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: PATCH"},
}


def tool(name: str, **fields: object) -> dict[str, object]:
    colour = {"type": "object", "properties": {"colour": {"enum": ["red"]}}, "required": ["colour"]}
    return {"type": "function", "name": name, "parameters": colour, **fields}


def offered(*tools: dict[str, object]) -> list[str]:
    body = ResponseBody.model_validate({"input": "Hello", "tools": tools})
    return [one.name for one in body.offered()]


def test_neighbours_of_one_role_are_one_message_without_notes_in_the_users_words():
    place = "<environment_context>\n<cwd>/home</cwd>\n</environment_context>"
    said = (("developer", "Be brief."), ("developer", "Ask first."), ("user", place), ("user", "I moved."))
    items = [{"role": role, "content": text} for role, text in said]
    body = ResponseBody.model_validate({"input": items, "instructions": "You write code."})
    system, user = body.request("").messages

    assert (system.role, system.raw) == ("system", "You write code.\nBe brief.\nAsk first.")
    assert (user.role, user.raw, user.content) == ("user", "I moved.", f"{place}\nI moved.")


def test_text_after_a_call_is_a_message_of_its_own():
    call = {"type": "function_call", "call_id": "1", "name": "paint", "arguments": "{}"}
    words = [{"role": "assistant", "content": text} for text in ("One", "Two", "Three")]
    items = [
        {"role": "user", "content": "Hello"},
        *words[:2],
        call,
        words[2],
        {"role": "user", "content": "So?"},
    ]
    messages = ResponseBody.model_validate({"input": items}).request("").messages

    assert [(message.role, message.raw, len(message.tool_calls)) for message in messages] == [
        ("user", "Hello", 0),
        ("assistant", "One\n\nTwo", 1),
        ("assistant", "Three", 0),
        ("user", "So?", 0),
    ]


def test_namespaces_are_part_of_the_names_that_the_model_reads():
    spaces = [
        {"type": "namespace", "name": name, "tools": [tool("paint")]} for name in ("art", "mcp__walls__")
    ]

    assert offered(tool("paint"), *spaces) == ["paint", "art__paint", "mcp__walls__paint"]


def test_tools_in_an_item_are_offered_beside_the_others():
    space = {"type": "namespace", "name": "functions", "tools": [tool("wait"), PATCH]}
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [space]},
        {"role": "user", "content": "Hi"},
    ]
    body = ResponseBody.model_validate({"input": items, "tools": [tool("paint")], "tool_choice": "required"})
    request = body.request("")

    assert [one.name for one in request.tools] == ["paint", "functions__wait", "functions__apply_patch"]
    assert [message.role for message in request.messages] == ["user"]

    body.follow(body.model_dump()["input"])
    assert [one.name for one in body.offered()] == [one.name for one in request.tools]


def test_tools_in_namespaces_count_too():
    spaces = [
        {"type": "namespace", "name": name, "tools": [tool(f"paint{i}") for i in range(300)]} for name in "ab"
    ]

    assert len(offered(spaces[0])) == 300
    with pytest.raises(Denied, match="more than 512"):
        offered(*spaces)


def test_web_search_is_passed_over_beside_the_clients_own_tools(mini):
    search = {"type": "web_search", "external_web_access": False}

    assert offered(tool("paint"), search) == ["paint"]
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0) as client:
        for tools in ([search], [tool("paint"), {"type": "file_search"}]):
            with pytest.raises(openai.BadRequestError, match="runs no tools of type"):
                client.responses.create(model="default", input="Hello", tools=tools)


@pytest.mark.parametrize("stream", [False, True])
def test_call_in_a_namespace_goes_there_and_back(endless, stream):
    tools = [tool("paint"), {"type": "namespace", "name": "art", "tools": [tool("paint")]}]
    asked = {
        "model": "default",
        "tools": tools,
        "input": "Hello",
        "tool_choice": {"type": "function", "name": "paint", "namespace": "art"},
    }
    with openai.OpenAI(base_url=f"{endless.url}/v1", api_key="none", max_retries=0) as client:
        if stream:
            *_, last = client.responses.create(**asked, stream=True)
            first = last.response
        else:
            first = client.responses.create(**asked)
        [call] = first.output
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
        answer = client.responses.create(
            model="default", tools=tools, input=[output], previous_response_id=first.id, max_output_tokens=5
        )

    assert (call.name, call.namespace, json.loads(call.arguments)) == ("paint", "art", {"colour": "red"})
    assert answer.usage.input_tokens_details.cached_tokens > first.usage.input_tokens


@pytest.mark.parametrize(
    ("arguments", "said"),
    [('{"input": "*** Begin"}', "*** Begin"), ('{"patch": 1}', '{"patch": 1}'), ("*** Begin", "*** Begin")],
)
def test_custom_tool_takes_the_text_of_its_one_argument(arguments, said):
    [(name, offered)] = offered_by([ToolBody.model_validate(PATCH)]).items()

    assert "start: PATCH" in offered.tool.description
    assert item_of(ToolCall("1", name, arguments), offered) == {
        "type": "custom_tool_call",
        "name": "apply_patch",
        "input": said,
    }


def test_call_of_a_custom_tool_goes_there_and_back(calling):
    tools = [{"type": "custom", "name": "get_weather", "description": "The weather"}]
    with openai.OpenAI(base_url=f"{calling.url}/v1", api_key="none", max_retries=0) as client:
        events = list(client.responses.create(model="default", input="Hello", tools=tools, stream=True))
        first = events[-1].response
        call = next(item for item in first.output if item.type == "custom_tool_call")
        output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "sunny"}
        asked = {"model": "default", "tools": tools}
        by_id = client.responses.create(**asked, input=[output], previous_response_id=first.id)
        items = [{"role": "user", "content": "Hello"}, *first.output, output]
        by_items = client.responses.create(**asked, input=items)

    assert (call.name, call.input) == ("get_weather", '{"city": "Paris"}')
    assert [event.type.removeprefix("response.") for event in events if "custom" in event.type] == [
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
    ]
    assert by_id.usage.input_tokens == by_items.usage.input_tokens > first.usage.input_tokens


def test_tool_that_must_be_called_is_one_that_is_offered():
    body = {"input": "Hello", "tools": [{"type": "namespace", "name": "art", "tools": [tool("paint")]}]}
    wanted = {"type": "function", "name": "paint"}

    with pytest.raises(Denied, match="among the tools"):
        ResponseBody.model_validate({**body, "tool_choice": wanted}).request("")
    named = ResponseBody.model_validate({**body, "tool_choice": {**wanted, "namespace": "art"}}).request("")
    assert named.tool_choice == "art__paint"

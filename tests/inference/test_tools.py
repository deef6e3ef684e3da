"""Tools, calls and results in the prompt, as each template takes them."""

from __future__ import annotations

import json

import pytest

from shepherd.errors import UsageError
from shepherd.inference.template import CHATML, ChatTemplate
from shepherd.inference.tools import ToolPrompt, check_tools, schema_of
from shepherd.replies import ReplyParser
from shepherd.types import Message, Tool, ToolCall

WEATHER = Tool(
    "get_weather", "Weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}}
)
CALL = ToolCall("abc123def", "get_weather", '{"city": "Café"}')
CONVERSATION = [
    Message("system", "Be brief."),
    Message("user", "Rain?"),
    Message("assistant", "", tool_calls=(CALL,)),
    Message("tool", "sunny", tool_call_id="abc123def"),
]

# In the manner of Qwen: arguments as an object, through tojson.
WITH_OBJECTS = (
    "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>'
    "{% endfor %}{% endfor %}"
)
# In the manner of DeepSeek: arguments as text, joined to other text; nothing about tools themselves.
WITH_TEXT = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}"
    "{{ '<call>' + c['function']['name'] + '\n' + c['function']['arguments'] + '</call>' }}"
    "{% endfor %}{% endfor %}"
)
# In the manner of Mistral: refuses other roles, and ids that are not nine characters long.
STRICT = (
    "{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}[TOOL_RESULTS]{{ m.content }}{{ m.tool_call_id }}[/TOOL_RESULTS]"
    "{% elif m.tool_calls %}[TOOL_CALLS]{% for c in m.tool_calls %}"
    "{% if c.id | length != 9 %}{{ raise_exception('an id has 9 characters') }}{% endif %}"
    "{{ c.function | tojson }}{% endfor %}"
    "{% elif m.role in ['user', 'system', 'assistant'] %}[{{ m.role }}]{{ m.content }}"
    "{% else %}{{ raise_exception('unknown role') }}{% endif %}{% endfor %}"
)
# Knows users and assistants alone, by turns.
ALTERNATING = (
    "{% for m in messages %}"
    "{% if m.role not in ['user', 'assistant', 'system'] %}{{ raise_exception('unknown role') }}{% endif %}"
    "{% if loop.index0 and m.role == messages[loop.index0 - 1].role %}"
    "{{ raise_exception('by turns') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
)


def rendered(source: str, messages=CONVERSATION, tools=(WEATHER,)) -> str:
    template = ChatTemplate(source)
    prepared = ToolPrompt(template).prepare(messages, tools)
    forms = [{"role": entry.role, "content": entry.text, **entry.more} for entry in prepared.entries]
    return template.render(forms, add_generation_prompt=True, tools=prepared.tools)


@pytest.mark.parametrize(
    ("source", "tools", "calls", "results"),
    [
        (WITH_OBJECTS, True, True, True),
        (WITH_TEXT, False, True, True),
        (STRICT, True, True, True),
        (CHATML, False, False, False),
        (ALTERNATING, False, False, False),
    ],
)
def test_what_a_template_takes_is_found_out(source: str, tools: bool, calls: bool, results: bool) -> None:
    prompt = ToolPrompt(ChatTemplate(source))

    assert (prompt.takes_tools, prompt.takes_calls, prompt.takes_results) == (tools, calls, results)


def test_arguments_are_an_object_where_the_template_makes_json_of_them() -> None:
    text = rendered(WITH_OBJECTS)

    assert '<tool_call>{"name": "get_weather", "arguments": {"city": "Café"}}</tool_call>' in text
    assert json.dumps(schema_of(WEATHER)) in text
    assert "[tool]sunny" in text


def test_arguments_are_text_where_the_template_joins_them() -> None:
    assert '<call>get_weather\n{"city": "Café"}</call>' in rendered(WITH_TEXT)


def test_strict_template_gets_ids_and_roles_as_it_wants_them() -> None:
    text = rendered(STRICT)

    assert "[TOOL_RESULTS]sunnyabc123def[/TOOL_RESULTS]" in text
    assert '[TOOL_CALLS]{"name": "get_weather", "arguments": {"city": "Café"}}' in text


@pytest.mark.parametrize("foreign", ["call_abc123DEF456", "toolu_01", "", "é" * 9, "\ud800", "123456789\n"])
def test_strict_template_takes_the_ids_of_others(foreign: str) -> None:
    call = ToolCall(foreign, "get_weather", '{"city": "Paris"}')
    told = [*CONVERSATION[:2], Message("assistant", "", tool_calls=(call,))]
    told.append(Message("tool", "sunny", tool_call_id=foreign))

    prepared = ToolPrompt(ChatTemplate(STRICT)).prepare(told, (WEATHER,))

    [shown] = prepared.entries[2].more["tool_calls"]
    assert len(shown["id"]) == 9
    assert shown["id"].isascii()
    assert shown["id"].isalnum()
    assert prepared.entries[3].more == {"tool_call_id": shown["id"], "name": "get_weather"}
    assert f"sunny{shown['id']}" in rendered(STRICT, told)


def test_other_templates_get_ids_as_they_are() -> None:
    call = ToolCall("call_abc123DEF456", "get_weather", "{}")

    prepared = ToolPrompt(ChatTemplate(WITH_OBJECTS)).prepare(
        [Message("user", "Rain?"), Message("assistant", "", tool_calls=(call,))], (WEATHER,)
    )

    assert prepared.entries[1].more["tool_calls"][0]["id"] == "call_abc123DEF456"


@pytest.mark.parametrize("source", [CHATML, ALTERNATING, WITH_TEXT])
def test_template_that_knows_no_tools_gets_instructions_that_the_parser_understands(source: str) -> None:
    prompt = ToolPrompt(ChatTemplate(source))
    text = rendered(source)
    assert "Be brief.\n\nYou can call these tools:" in text
    assert '"name": "get_weather"' in text

    parser = ReplyParser(source, family=prompt.family, tools=["get_weather"])
    reply = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    [event] = [*parser.feed(reply), *parser.end()]
    assert isinstance(event.piece, ToolCall)
    assert event.piece.name == "get_weather"


def test_results_that_have_no_role_of_their_own_go_to_one_user_message() -> None:
    two = [
        *CONVERSATION[:2],
        Message("assistant", "I look.", tool_calls=(CALL, ToolCall("xyz123abc", "get_weather", "{}"))),
        Message("tool", "sunny", tool_call_id="abc123def"),
        Message("tool", "rainy", tool_call_id="xyz123abc"),
    ]

    text = rendered(ALTERNATING, two)

    assert text.count("[user]") == 2
    assert "<tool_response>\nsunny\n</tool_response>\n<tool_response>\nrainy\n</tool_response>" in text
    assert '[assistant]I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Café"}}' in text


def test_instructions_stand_alone_without_a_system_message() -> None:
    assert rendered(CHATML, [Message("user", "Rain?")]).startswith("<|im_start|>system\nYou can call these")


def test_without_tools_nothing_changes() -> None:
    messages = [Message("user", "Hi"), Message("assistant", "Hello")]

    prepared = ToolPrompt(ChatTemplate(CHATML)).prepare(messages, ())

    assert prepared.tools is None
    assert [(entry.role, entry.text, entry.more) for entry in prepared.entries] == [
        ("user", "Hi", {}),
        ("assistant", "Hello", {}),
    ]


def test_same_tools_are_the_same_bytes() -> None:
    assert rendered(WITH_OBJECTS) == rendered(WITH_OBJECTS)


@pytest.mark.parametrize("name", ["", "a b", "1st", "x" * 65, "é", 3])
def test_tool_without_a_usable_name_is_refused(name) -> None:
    with pytest.raises(UsageError) as caught:
        check_tools([Tool("fine", "", {}), Tool(name, "", {})])

    assert str(caught.value) == f"tool 1 cannot be called {str(name)!a}"
    assert "64 letters" in caught.value.hint


@pytest.mark.parametrize("arguments", ["", "[1]", "no json", '"text"', "{" * 100_000])
def test_arguments_of_others_need_not_be_an_object(arguments: str) -> None:
    call = ToolCall("abc123def", "get_weather", arguments)
    messages = [*CONVERSATION[:2], Message("assistant", "", tool_calls=(call,)), CONVERSATION[3]]

    assert "get_weather" in rendered(WITH_OBJECTS, messages)


def test_tool_that_is_there_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        check_tools([WEATHER, WEATHER])

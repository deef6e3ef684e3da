# ruff: noqa: RUF001 (DeepSeek writes its markers with a fullwidth bar)
"""What a model says, told apart while it comes: text, thoughts, tool calls of every family."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.replies import ReplyEvent, ReplyParser, ends_in_thought, family_of, marks_of
from shepherd.replies.tool_calls import from_bracketed
from shepherd.types import ToolCall
from tests.examples import examples
from tests.replies.told import TEMPLATES, TOOLS, events_of, told

PARIS = '{"city": "Paris"}'
WEATHER = [("get_weather", {"city": "Paris"})]
BOTH = [*WEATHER, ("add", {"a": 1, "b": [2, 3]})]
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CODER = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
)
GLM = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"
ADD = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": [2, 3]}}</tool_call>'
BARE = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
TWO_BARE = BARE + '; {"name": "add", "parameters": {"a": 1, "b": [2, 3]}}'
DS_OLD = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    + PARIS
    + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DS_NEW = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
    + PARIS
    + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
HARMONY_CALL = (
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + PARIS + "<|call|>"
)
HARMONY = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + HARMONY_CALL

REPLIES = [
    ("hermes", "Hello.", "Hello.", "", []),
    ("hermes", "<think>\nHm.\n</think>\n\nHello.", "Hello.", "Hm.", []),
    ("hermes", "<think>\n\n</think>\n\nHello.", "Hello.", "", []),
    ("hermes", "Let me see.\n" + HERMES, "Let me see.\n", "", WEATHER),
    ("hermes", HERMES + "\n" + ADD, "", "", BOTH),
    ("hermes", "<think>Hm.</think>" + CODER, "", "Hm.", WEATHER),
    ("hermes", GLM, "", "", WEATHER),
    ("hermes", "<tool_call>get_weather</tool_call>", "", "", [("get_weather", {})]),
    ("hermes", "<tool_call>\nget_weather\n</tool_call>", "", "", [("get_weather", {})]),
    (
        "hermes",
        "<tool_call>add<arg_key>a</arg_key><arg_value>l1\nl2</arg_value></tool_call>",
        "",
        "",
        [("add", {"a": "l1\nl2"})],
    ),
    ("hermes", HERMES[:-12], "", "", WEATHER),  # the end of the turn ends the call
    (
        "hermes",
        '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>',
        "",
        "",
        [("add", {"a": 1})],
    ),
    ("hermes", f"<tool_call>\n```json\n{BARE}\n```\n</tool_call>", "", "", WEATHER),
    ("hermes", "The tag <think> begins a thought.", "The tag <think> begins a thought.", "", []),
    (
        "llama3",
        "<|python_tag|>" + '{"name": "get_weather", "parameters": {"city": "Paris"}}',
        "",
        "",
        WEATHER,
    ),
    ("llama3", '{"name": "get_weather", "parameters": {"city": "Paris"}}', "", "", WEATHER),
    (
        "llama3",
        '{"type": "function", "function": "get_weather", "parameters": {"city": "Paris"}}',
        "",
        "",
        WEATHER,
    ),
    ("llama3", '<|python_tag|>get_weather.call(city="Paris")', "", "", WEATHER),
    (
        "llama3",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}};'
        ' {"name": "add", "parameters": {"a": 1, "b": [2, 3]}}',
        "",
        "",
        BOTH,
    ),
    (
        "llama3",
        '{"name": "add", "parameters": {"a": "\\\\", "b": "\\"}} ["}}, and more',
        ", and more",
        "",
        [("add", {"a": "\\", "b": '"}} ['})],
    ),
    (
        "llama3",
        '{"name": "add", "parameters": {"a": "\\ud800"}}',
        "",
        "",
        [("add", {"a": "\ud800"})],
    ),
    ("llama3", TWO_BARE, "", "", BOTH),
    ("llama3", TWO_BARE.replace(";", ","), "", "", BOTH),
    ("llama3", TWO_BARE.replace("; ", " ;\n"), "", "", BOTH),
    ("llama3", TWO_BARE.replace("; ", "\n"), "", "", BOTH),
    ("llama3", BARE + "; and more", "; and more", "", WEATHER),
    ("llama3", BARE + '; {"a": 1}', '; {"a": 1}', "", WEATHER),
    ("llama3", BARE + ";; " + BARE, ";; " + BARE, "", WEATHER),
    ("llama3", BARE + "; ", "; ", "", WEATHER),
    ("mistral", '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]', "", "", WEATHER),
    ("mistral", "[TOOL_CALLS]get_weather[ARGS]" + PARIS, "", "", WEATHER),
    ("mistral", "[TOOL_CALLS]get_weather[CALL_ID]abc123def[ARGS]" + PARIS, "", "", WEATHER),
    (
        "mistral",
        "[TOOL_CALLS]get_weather[ARGS]" + PARIS + '[TOOL_CALLS]add[ARGS]{"a": 1, "b": [2, 3]}',
        "",
        "",
        BOTH,
    ),
    ("mistral", "[THINK]Hm.[/THINK]Hello.", "Hello.", "Hm.", []),
    ("harmony", HARMONY, "", "Hm.", WEATHER),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
        "Hello.",
        "Hm.",
        [],
    ),
    (
        "harmony",
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + HARMONY_CALL,
        "I look.",
        "",
        WEATHER,
    ),
    (
        "harmony",
        "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>" + PARIS,
        "",
        "",
        WEATHER,
    ),
    ("harmony", "Hello.", "Hello.", "", []),
    ("deepseek", "I look." + DS_OLD, "I look.", "", WEATHER),
    ("deepseek", "<think>Hm.</think>" + DS_NEW, "", "Hm.", WEATHER),
    (
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
        "",
        "",
        WEATHER,
    ),
    (
        "functiongemma",
        "<start_function_call>call:add{a:1,b:2}<end_function_call>",
        "",
        "",
        [("add", {"a": 1, "b": 2})],
    ),
    ("gemma", '```tool_code\nget_weather(city="Paris")\n```', "", "", WEATHER),
    ("gemma", '```json\n{"name": "get_weather", "parameters": {"city": "Paris"}}\n```', "", "", WEATHER),
    ("gemma", "```python\nprint(1)\n```", "```python\nprint(1)\n```", "", []),
    (
        "kimi",
        "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        + "<|tool_call_argument_begin|>"
        + PARIS
        + "<|tool_call_end|><|tool_calls_section_end|>",
        "I look.",
        "",
        WEATHER,
    ),
    ("lfm2", '<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>', "", "", WEATHER),
    (
        "lfm2",
        '<|tool_call_start|>```python\n[get_weather(city="Paris"), add(a=1, b=[2, 3])]\n```<|tool_call_end|>',
        "",
        "",
        BOTH,
    ),
    (
        "command",
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_weather", "parameters": '
        + PARIS
        + "}]<|END_ACTION|>",
        "",
        "",
        WEATHER,
    ),
    (
        "command",
        '<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", "tool_name":'
        f' "get_weather", "parameters": {PARIS}}}]<|END_ACTION|>',
        "",
        "I will look.",
        WEATHER,
    ),
    ("functionary", f"<function=get_weather>{PARIS}</function>", "", "", WEATHER),
    (
        "seed",
        "<seed:think>Hm.</seed:think>" + CODER.replace("tool_call>", "seed:tool_call>"),
        "",
        "Hm.",
        WEATHER,
    ),
    (
        "listed",
        '<tool_calls>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'
        '{"name": "add", "arguments": {"a": 1, "b": [2, 3]}}\n</tool_calls>',
        "",
        "",
        BOTH,
    ),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>', "", "", WEATHER),
    (
        "gemma4",
        '<|tool_call>call:add{a:[<|"|>x, ]<|"|>,<|"|>y<|"|>],b:1}<tool_call|>',
        "",
        "",
        [("add", {"a": ["x, ]", "y"], "b": 1})],
    ),
    (
        "gemma4",
        '<|tool_call>call:add{a:{k:<|"|>}<escape><|"|>,<|"|>a b<|"|>:[]},'
        "b:[[1,2.5],{},true,null]}<tool_call|>",
        "",
        "",
        [("add", {"a": {"k": "}<escape>", "a b": []}, "b": [[1, 2.5], {}, True, None]})],
    ),
    ("gemma4", "<|tool_call>call:add{}<tool_call|>", "", "", [("add", {})]),
    ("gemma4", "<|channel>thought\nHm.\n<channel|>Hello.", "Hello.", "Hm.", []),
    (
        "invoked",
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        "</invoke>\n"
        '<invoke name="add">\n<parameter name="a">1</parameter>\n<parameter name="b">[2, 3]</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
        "",
        "",
        BOTH,
    ),
    (
        "invoked",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "",
        "",
        WEATHER,
    ),
    ("json", '{"name": "get_weather", "arguments": {"city": "Paris"}}', "", "", WEATHER),
    (
        "json",
        '{"tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]}',
        "",
        "",
        WEATHER,
    ),
    ("json", '[{"name": "get_weather", "arguments": {"city": "Paris"}}]\nDone.', "Done.", "", WEATHER),
]


@pytest.mark.parametrize(("family", "reply", "said", "thought", "calls"), REPLIES)
def test_reply_is_told_apart(family: str, reply: str, said: str, thought: str, calls: list) -> None:
    assert told(family, reply) == (said, thought, calls)


@pytest.mark.parametrize(("family", "reply"), [(case[0], case[1]) for case in REPLIES])
def test_reply_in_single_characters_is_the_same(family: str, reply: str) -> None:
    assert events_of(family, reply) == events_of(family, [reply])


MALFORMED = [
    ("hermes", "<tool_call>not json</tool_call> and more"),
    ("hermes", '<tool_call>{"name": "add"}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": [1]}</tool_call>'),
    ("hermes", '<tool_call>{"name": "rm -rf /", "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": {"a": 1e999}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "arguments": {"a": ' + "[" * 100_000),
    ("hermes", "<tool_call>3</tool_call>"),
    ("hermes", '<tool_call>{"tool_calls": [3]}</tool_call>'),
    ("hermes", '<tool_call>{"name": "add", "argum'),
    ("hermes", "<tool_call>add"),  # the rest of the call may be missing
    ("hermes", "<tool_call>add\n<arg_key>a</tool_call>"),
    ("hermes", "<tool_call>unknown</tool_call>"),
    ("hermes", "<function=add>"),
    ("llama3", "<|python_tag|>import os; os.system('x')"),
    ("llama3", "<|python_tag|>add(a=open('x'))"),
    ("llama3", '{"name": "Bob", "age": 3}'),
    ("llama3", '{"city": "Paris"}'),
    ("mistral", "[TOOL_CALLS] are a marker"),
    ("mistral", '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}'),
    ("mistral", "[TOOL_CALLS]add[ARGS]{"),
    ("harmony", "<|channel|>commentary to=functions.add<|message|>not json<|call|>"),
    ("harmony", "<|channel|>" + "x" * 2000),
    ("harmony", "<|channel|>final"),
    ("deepseek", "<｜tool▁call▁begin｜>add<｜tool▁call▁end｜>"),
    ("functiongemma", "<start_function_call>add<end_function_call>"),
    ("gemma", "```tool_code\nimport os\n```"),
    ("kimi", "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>no<|tool_call_end|>"),
    ("lfm2", "<|tool_call_start|>import os<|tool_call_end|>"),
    ("lfm2", "<|tool_call_start|>add(1, 2)<|tool_call_end|>"),
    ("lfm2", '<|tool_call_start|>add(a=1, **{"b": 2})<|tool_call_end|>'),
    ("lfm2", "<|tool_call_start|>[add(a=1), 3]<|tool_call_end|>"),
    ("gemma4", "<|tool_call>add<tool_call|>"),
    ("gemma4", '<|tool_call>call:add{a:<|"|>x}<tool_call|>'),
    ("gemma4", "<|tool_call>call:add{a:[1,{b:2}<tool_call|>"),
    ("gemma4", "<|tool_call>call:add{a:[1{}}<tool_call|>"),
    ("gemma4", "<|tool_call>call:add{a b:1}<tool_call|>"),
    ("gemma4", "<|tool_call>call:add{a:1} and more<tool_call|>"),
    ("gemma4", "<|tool_call>call:add{a:" + "[" * 5000 + "]" * 5000 + "}<tool_call|>"),
    ("gemma4", "<|tool_call>call:add{a:" + "[" * 100_000 + "<tool_call|>"),
    ("invoked", '<minimax:tool_call><invoke name="add">1</invoke></minimax:tool_call>'),
    ("invoked", "<minimax:tool_call>add</minimax:tool_call>"),
    ("json", '{"name": "unknown", "arguments": {}}'),
    ("json", "{}"),
    ("json", "[1, 2]"),
    ("json", "{ braces }"),
]


@pytest.mark.parametrize(("family", "reply"), MALFORMED)
def test_malformed_call_is_text_and_never_lost(family: str, reply: str) -> None:
    events = events_of(family, [reply])

    assert "".join(event.raw for event in events) == reply
    assert "".join(event.piece for event in events) == reply


@pytest.mark.parametrize("reply", ["<tool_call>bad" + HERMES, "<tool_call>bad</tool_call>" + HERMES])
def test_call_behind_a_malformed_one_is_found(reply: str) -> None:
    said, _, calls = told("hermes", reply)

    assert calls == WEATHER
    assert said.startswith("<tool_call>bad")


def test_text_before_a_call_comes_at_once() -> None:
    parser = ReplyParser(TEMPLATES["hermes"], tools=TOOLS)

    assert parser.feed("Let me look") == [ReplyEvent("Let me look", "Let me look")]
    assert parser.feed(" <tool_c") == [ReplyEvent(" ", " ")]
    assert parser.feed("ake>") == [ReplyEvent("<tool_cake>", "<tool_cake>")]


def test_prompt_that_ends_inside_a_thought_begins_with_one() -> None:
    reply = "Hm.\n</think>\n\nHello."

    assert told("deepseek", reply, prompt="<｜Assistant｜><think>\n") == ("Hello.", "Hm.", [])
    assert told("deepseek", "Hm.", prompt="<think>\n") == ("", "Hm.", [])
    assert told("hermes", "Hello.", prompt="<think>\n\n</think>\n\n") == ("Hello.", "", [])
    assert told("harmony", "Hm.", prompt="<|channel|>analysis<|message|>") == ("", "Hm.", [])


def test_head_that_the_prompt_began_may_say_whom_it_is_to() -> None:
    begun = "<|start|>assistant"
    call = " to=functions.get_weather<|channel|>commentary json<|message|>" + PARIS

    assert told("harmony", call, prompt=begun) == ("", "", WEATHER)
    assert events_of("harmony", call, prompt=begun) == events_of("harmony", [call], prompt=begun)
    assert told("harmony", "to=be", prompt=begun) == ("to=be", "", [])
    assert told("harmony", "to", prompt=begun) == ("to", "", [])


def test_answer_in_json_is_an_answer_when_there_are_no_tools() -> None:
    reply = '{"name": "get_weather", "arguments": {"city": "Paris"}}'

    assert told("json", reply, tools=()) == (reply, "", [])
    parser = ReplyParser(TEMPLATES["json"])
    assert parser.feed('{"name": "ge') == [ReplyEvent('{"name": "ge', '{"name": "ge')]


def test_json_answer_is_not_held_back_when_its_first_key_is_none_of_a_call() -> None:
    parser = ReplyParser(TEMPLATES["json"], tools=TOOLS)

    assert parser.feed('{"city": ') != []


def test_endless_call_becomes_text_in_the_end() -> None:
    parser = ReplyParser(TEMPLATES["hermes"], tools=TOOLS)
    piece = "x" * 65_536

    events = (
        [event for _ in range(20) for event in parser.feed(piece)] if parser.feed("<tool_call>") == [] else []
    )

    assert sum(len(event.raw) for event in events) >= 1 << 20


def test_marks_are_those_that_a_vocabulary_may_have_as_tokens() -> None:
    assert {"<tool_call>", "</tool_call>", "<think>", "</think>"} <= {*marks_of(TEMPLATES["hermes"])}
    assert marks_of(TEMPLATES["hermes"], has_tools=False) == ("<think>", "<think>", "</think>")
    # The thought of Gemma 4 begins with a token and a word.
    assert {"<|channel>", "<channel|>", '<|"|>'} <= {*marks_of(TEMPLATES["gemma4"])}
    # All of harmony's messages have heads, whether there are tools or not.
    assert {"<|channel|>", "<|message|>", "<|end|>"} <= {*marks_of(TEMPLATES["harmony"], has_tools=False)}
    assert "<|python_tag|>" in marks_of("", family="llama3")


@pytest.mark.parametrize(
    ("family", "prompt", "is_thought"),
    [
        ("harmony", "<|start|>assistant<|channel|>analysis<|message|>", True),
        (
            "harmony",
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>",
            False,
        ),
        ("harmony", "<|start|>assistant", False),
        ("hermes", "<|im_start|>assistant\n<think>\n", True),
        ("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("hermes", "<|im_start|>assistant\n", False),
    ],
)
def test_prompt_may_end_in_a_thought(family: str, prompt: str, is_thought: bool) -> None:
    assert ends_in_thought(TEMPLATES[family], prompt) is is_thought
    assert told(family, "Hm.", prompt=prompt) == (("", "Hm.", []) if is_thought else ("Hm.", "", []))


def test_ids_are_what_every_template_takes() -> None:
    parser = ReplyParser(TEMPLATES["hermes"], tools=TOOLS)
    events = [*parser.feed(HERMES + ADD), *parser.end()]
    calls = [event.piece for event in events if isinstance(event.piece, ToolCall)]

    assert len({call.id for call in calls}) == 2
    assert all(len(call.id) == 9 and call.id.isalnum() for call in calls)


@pytest.mark.parametrize("family", TEMPLATES)
def test_family_is_known_by_its_template(family: str) -> None:
    assert family_of(TEMPLATES[family]) == family


FRAGMENTS = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "analysis",
    "final",
    "commentary to=functions.add ",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<start_function_call>",
    "<end_function_call>",
    "call:add{a:1}",
    "call:add{a:[",
    "k:",
    ",",
    "<|tool_call_begin|>",
    "functions.add:0",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_call>",
    '<|"|>',
    "<tool_call|>",
    "<|channel>thought",
    "<channel|>",
    '<invoke name="add">',
    "</invoke>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "```tool_code\n",
    "```json\n",
    "```",
    "add(a=1)",
    '{"name": "add", "arguments": {"a": 1}}',
    '{"a": "}"}',
    "; ",
    ", ",
    BARE,
    '{"name": "add", "argu',
    "add",
    " ",
    "\n",
    "Hello",
    "<",
    "{",
    "[",
    "}",
    "]",
    '"',
    "é",
    HERMES,
    CODER,
    GLM,
    DS_NEW,
]


@settings(max_examples=examples(200))
@given(
    family=st.sampled_from(sorted(TEMPLATES)),
    parts=st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=14),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    in_thought=st.booleans(),
    tools=st.sampled_from([(), TOOLS]),
)
def test_any_split_gives_the_same_events_and_loses_nothing(family, parts, cuts, in_thought, tools) -> None:
    text = "".join(parts)
    prompt = "<think>\n" if in_thought else ""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(places)]

    whole = events_of(family, [text], prompt=prompt, tools=tools)

    assert "".join(event.raw for event in whole) == text
    assert events_of(family, pieces, prompt=prompt, tools=tools) == whole
    assert events_of(family, text, prompt=prompt, tools=tools) == whole
    for event in whole:
        if isinstance(event.piece, ToolCall):
            assert tools
            assert isinstance(json.loads(event.piece.arguments), dict)


def test_bracketed_name_needs_no_marker_before_its_arguments():
    marked = from_bracketed('weather[ARGS]{"city": "Paris"}')

    assert marked is not None
    assert from_bracketed('weather{"city": "Paris"}') == marked
    assert from_bracketed("weather") is None

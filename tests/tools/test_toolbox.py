"""Calls are a model's text: what is wrong with one is told to the model, and nothing of it is believed."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.config import Config
from shepherd.errors import StoreLockedError, UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.tools import AssistantTool, Toolbox, conversation_tools, knowledge_tools, memory_tools
from shepherd.types import Tool, ToolCall
from tests.examples import examples

# Of JSON, and of what models write instead: halves of characters, numbers that no column holds.
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([2**63, -(2**63) - 1, 10**400, -1, 0, 1, "1", "\ud800", "\x00", "", "true", "idea"])
    | st.floats()
    | st.text(st.characters(), max_size=8)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)

PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["text"],
}


def box(run=lambda arguments: arguments) -> Toolbox:
    return Toolbox([AssistantTool(Tool("echo", "says it again", PARAMETERS), run)])


def called(arguments: str, run=lambda arguments: arguments, name: str = "echo"):
    """The result, and what its text says."""
    result = box(run).call(ToolCall("id1", name, arguments))
    return result, json.loads(result.text)


def test_arguments_reach_the_tool_and_its_result_the_model():
    result, told = called('{"text": "é", "count": 3}')

    assert (result.call_id, result.name, result.failed, told) == (
        "id1",
        "echo",
        False,
        {"text": "é", "count": 3},
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"text": 42}', {"text": "42"}),
        ('{"text": true}', {"text": "true"}),
        ('{"text": "a", "count": "3"}', {"text": "a", "count": 3}),
        ('{"text": "a", "count": 3.0}', {"text": "a", "count": 3}),
        (f'{{"text": "a", "count": {10**400}}}', {"text": "a", "count": 9}),
        ('{"text": "a", "count": 1000}', {"text": "a", "count": 9}),
        ('{"text": "a", "count": -5}', {"text": "a", "count": 1}),
        ('{"text": "a", "count": null}', {"text": "a"}),
        (f'{{"text": "a", "count": {2**63}}}', {"text": "a", "count": 9}),
    ],
)
def test_what_can_be_meant_is_taken(arguments, expected):
    assert called(arguments)[1] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        "", "{}", "null", "[1]", "no json", '"text"', '{"text": ["a"]}', '{"text": {"a": 1}}',
        '{"text": null}',
        '{"text": "a", "count": "many"}', '{"text": "a", "count": 1.5}', '{"text": "a", "count": true}',
        '{"text": "a", "user_id": "alice"}', "[" * 100_000, '{"text": "' + "x" * 100_000 + '"}',
    ],
)  # fmt: skip
def test_what_the_schema_does_not_know_is_refused_and_told(arguments):
    result, told = called(arguments)

    assert result.failed
    assert result.error is None
    assert "argument" in told["error"]
    assert "alice" not in result.text


def test_unknown_tool_is_told_with_those_that_there_are():
    result, told = called("{}", name="rm")

    assert result.failed
    assert told["hint"] == "there are: echo"


def test_errors_of_the_environment_are_for_the_user_and_not_for_the_model():
    def run(arguments):
        raise StoreLockedError("/home/steve/memory.db is locked", hint="wait")

    result, told = called('{"text": "a"}', run)

    assert told == {"error": "the tool failed, and the user was told why"}
    assert str(result.error) == "/home/steve/memory.db is locked"


@pytest.mark.parametrize(
    ("raised", "told_user"),
    [
        (ValueError("no such row\nin /home/steve"), "ValueError: no such row"),
        (KeyError("id"), "KeyError: 'id'"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_exception_of_a_tool_of_ones_own_is_for_the_user_and_ends_nothing(raised, told_user):
    def run(arguments):
        raise raised

    result, told = called('{"text": "a"}', run)

    assert told == {"error": "the tool failed, and the user was told why"}
    assert str(result.error) == told_user
    assert result.error.__cause__ is raised


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({"at": datetime(2026, 5, 3, 8, 30)}, {"at": "2026-05-03 08:30:00"}),
        (Path("notes.txt"), "notes.txt"),
        (b"Stra\xc3\x9fe \xff", "Stra\u00dfe \ufffd"),
        (["\ud800"], ["\ufffd"]),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_result_that_json_cannot_hold_is_text(returned, told):
    result, text = called('{"text": "a"}', lambda arguments: returned)

    assert (result.failed, text) == (False, told)
    result.text.encode()


def test_result_that_cannot_be_written_is_a_failure():
    endless = []
    endless.append(endless)

    result, _ = called('{"text": "a"}', lambda arguments: endless)

    assert result.failed
    assert str(result.error) == "ValueError: Circular reference detected"


def test_mistakes_are_for_the_model():
    def run(arguments):
        raise UsageError("too long", hint="be brief")

    result, told = called('{"text": "a"}', run)

    assert (result.failed, result.error, told) == (True, None, {"error": "too long", "hint": "be brief"})


def test_commands_for_the_model_can_be_run_as_they_are(program_at_home):
    def run(arguments):
        raise UsageError("no node 7, see shepherd trace", hint="shepherd knowledge list shows all nodes")

    _, told = called('{"text": "a"}', run)

    assert told == {
        "error": f"no node 7, see {program_at_home} trace",
        "hint": f"{program_at_home} knowledge list shows all nodes",
    }


def test_arguments_that_are_too_long_are_told_the_limit():
    _, told = called(json.dumps({"text": "x" * 70_000}))

    assert told["error"] == "the arguments have 70,012 characters, at most 65,536 are read"


def test_endless_error_is_cut():
    def run(arguments):
        raise UsageError("x" * 1_000_000)

    result, told = called('{"text": "a"}', run)

    assert result.failed
    assert len(result.text) < 10_000
    assert told["hint"] == "ask for less"


def test_endless_result_is_cut():
    result, told = called('{"text": "a"}', lambda arguments: ["x" * 100] * 1000)

    assert len(result.text) < 10_000
    assert told["hint"] == "ask for less"


@pytest.fixture(scope="module")
def whole_box(tmp_path_factory):
    """Every tool of ours, over a memory with a node and an edge in it."""
    with Memory(tmp_path_factory.mktemp("memory") / "memory.db", user_id="steve") as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        first, second = knowledge.add_node("Rope"), knowledge.add_node("Knot")
        knowledge.connect(first.id, second.id, "is made of it")
        memory.set_fact("name", "Steve")
        of_memory = memory_tools(memory, "steve", refusal=lambda: "", writes=True, keeps_secrets=False)
        yield Toolbox([*of_memory, *knowledge_tools(knowledge, refusal=lambda: "", writes=True)])


def needed(tool):
    """Arguments that the tool takes, as few as there can be."""
    of_kind = {"integer": 1, "number": 0.5, "boolean": True, "array": [1], "string": "Rope"}
    return {
        name: of_kind[tool.parameters["properties"][name]["type"]] for name in tool.parameters["required"]
    }


@settings(max_examples=examples(400))
@given(data=st.data())
def test_no_call_of_any_tool_raises(whole_box, data):
    tool = data.draw(st.sampled_from(whole_box.tools))
    names = st.sampled_from([*tool.parameters["properties"], "filters", "no_such_argument"])
    arguments = {**needed(tool), **data.draw(st.dictionaries(names, LEAVES | VALUES, min_size=1, max_size=3))}

    result = whole_box.call(ToolCall("1", tool.name, json.dumps(arguments)))

    assert isinstance(json.loads(result.text), dict)
    assert result.error is None


@pytest.mark.parametrize("value", [None, 2**63, -(2**63) - 1, 10**400, "\ud800", float("nan"), float("inf")])
def test_no_tool_raises_for_a_value_wherever_it_stands(whole_box, value):
    assert len(whole_box.tools) > 10
    for tool in whole_box.tools:
        for name in tool.parameters["properties"]:
            arguments = {**needed(tool), name: value}
            result = whole_box.call(ToolCall("1", tool.name, json.dumps(arguments)))

            assert isinstance(json.loads(result.text), dict)
            assert result.error is None


@pytest.mark.parametrize(
    ("wanted", "is_room", "are_there"),
    [
        (True, False, True),
        (True, True, True),
        ("auto", True, True),
        ("auto", False, False),
        (False, True, False),
    ],
)
def test_knowledge_tools_that_nobody_asked_for_need_room(tmp_path, wanted, is_room, are_there):
    config = Config(knowledge_tools=wanted, auto_context_enabled=True, memory_tools=False)
    asked = []

    def fits(tools):
        asked.append([tool.name for tool in tools])
        return is_room

    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        opened = conversation_tools(config, memory, knowledge, "steve", refusal=str, writes=True, fits=fits)

    assert (opened is not None) == are_there
    assert bool(asked) == (wanted == "auto")

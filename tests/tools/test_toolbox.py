"""Calls are a model's text: what is wrong with one is told to the model, and nothing of it is believed."""

from __future__ import annotations

import json

import pytest

from shepherd.errors import StoreLockedError, UsageError
from shepherd.tools import AssistantTool, Toolbox
from shepherd.types import Tool, ToolCall

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
        ('{"text": "a", "count": 1000}', {"text": "a", "count": 9}),
        ('{"text": "a", "count": -5}', {"text": "a", "count": 1}),
        ('{"text": "a", "count": null}', {"text": "a"}),
    ],
)
def test_what_can_be_meant_is_taken(arguments, expected):
    assert called(arguments)[1] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        "", "{}", "null", "[1]", "no json", '"text"', '{"text": ["a"]}', '{"text": {"a": 1}}',
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


def test_mistakes_are_for_the_model():
    def run(arguments):
        raise UsageError("too long", hint="be brief")

    result, told = called('{"text": "a"}', run)

    assert (result.failed, result.error, told) == (True, None, {"error": "too long", "hint": "be brief"})


def test_endless_result_is_cut():
    result, told = called('{"text": "a"}', lambda arguments: ["x" * 100] * 1000)

    assert len(result.text) < 10_000
    assert told["hint"] == "ask for less"

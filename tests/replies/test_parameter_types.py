"""A value in tags is read as the type that the tool's schema gives its parameter."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.replies import parameter_types, types_of_arguments
from tests.replies.told import told

TEXT = "write"
TYPED = {
    TEXT: parameter_types(
        {
            "properties": {
                "content": {"type": "string"},
                "zip": {"type": ["string"]},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "size": {"type": ["string", "number"]},
                "n": {"type": "integer"},
                "any": {"description": "anything"},
            }
        }
    )
}
# What is written, and what is meant.
VALUES = {
    "content": ('{"a": 1}\n  x: "y"', '{"a": 1}\n  x: "y"'),
    "zip": ("12345", "12345"),
    "note": ("null", None),
    "size": ("7", 7),
    "n": ("3", 3),
    "any": ("[1]", [1]),
}
OTHERS = {
    "content": ('{"a": 1}', '{"a": 1}'),
    "zip": ('"12"', '"12"'),
    "note": ("12", "12"),
    "size": ("[]", "[]"),
}


def in_tags(written: dict) -> list[tuple[str, str]]:
    """A call with these values, in each manner of tags, by the family."""
    coder = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in written.items())
    glm = "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in written.items())
    invoked = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in written.items())
    function = f"<function={TEXT}>\n{coder}</function>"
    return [
        ("hermes", f"<tool_call>\n{function}\n</tool_call>"),
        ("seed", f"<seed:tool_call>{function}</seed:tool_call>"),
        ("hermes", f"<tool_call>{TEXT}\n{glm}</tool_call>"),
        ("invoked", f'<minimax:tool_call><invoke name="{TEXT}">{invoked}</invoke></minimax:tool_call>'),
    ]


@pytest.mark.parametrize("values", [VALUES, OTHERS])
def test_text_for_a_parameter_that_is_a_string_stays_as_it_was_written(values: dict) -> None:
    written = {key: text for key, (text, _) in values.items()}
    meant = {key: value for key, (_, value) in values.items()}

    for family, reply in in_tags(written):
        assert told(family, reply, tools=TYPED) == ("", "", [(TEXT, meant)])


@given(st.dictionaries(st.sampled_from("abc"), st.text(st.characters(exclude_characters="<>\n"), max_size=9)))
def test_any_text_for_a_string_is_that_text(written: dict) -> None:
    tools = {TEXT: parameter_types({"properties": {key: {"type": "string"} for key in written}})}

    for family, reply in in_tags(written):
        assert told(family, reply, tools=tools) == ("", "", [(TEXT, written)])


@given(
    written=st.dictionaries(
        st.sampled_from("abc"), st.sampled_from(["1", "1.5", "true", "null", "[]", "{}", "x"]), min_size=1
    ),
    types=st.dictionaries(
        st.sampled_from("abc"),
        st.sampled_from(["string", "integer", ["number", "string"], ["string", "null"], None]),
    ),
)
def test_call_is_read_the_same_by_the_types_of_its_own_arguments(written: dict, types: dict) -> None:
    known = {TEXT: parameter_types({"properties": {key: {"type": kind} for key, kind in types.items()}})}

    for family, reply in in_tags(written):
        calls = told(family, reply, tools=known)[2]
        own = types_of_arguments([(name, json.dumps(arguments)) for name, arguments in calls])
        assert told(family, reply, tools=own)[2] == calls


@pytest.mark.parametrize(
    "parameters",
    [None, [], {"properties": []}, {"properties": {"a": 1}}, {"properties": {"a": {"type": {}}}}],
)
def test_schema_that_tells_no_types_is_no_mistake(parameters: object) -> None:
    assert parameter_types(parameters) == {}

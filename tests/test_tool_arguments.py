"""Arguments of tool calls: what can only mean one thing is converted, and the rest refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shepherd.errors import UsageError
from shepherd.tool_arguments import checked_argument

LIMITED = {"type": "integer", "minimum": 1, "maximum": 5}
CHOICE = {"type": "string", "enum": ["a", "b"]}
REFUSED = object()


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ("integer", 3, 3),
        ("integer", "3", 3),
        ("integer", 3.0, 3),
        *(("integer", value, REFUSED) for value in (True, 3.5, "3.0", "x", None, [3], math.inf, math.nan)),
        ("integer", (1 << 63) - 1, (1 << 63) - 1),
        ("integer", -(1 << 63), -(1 << 63)),
        ("integer", 1 << 63, REFUSED),
        ("integer", -(1 << 63) - 1, REFUSED),
        *((LIMITED, value, limited) for value, limited in ((0, 1), (1, 1), (5, 5), (6, 5), (1 << 70, 5))),
        ("number", 3, 3.0),
        ("number", "2.5", 2.5),
        *(("number", value, REFUSED) for value in (False, "x", None, [1], 10**400)),
        *(("boolean", value, value in (True, "true")) for value in (True, False, "true", "false")),
        *(("boolean", value, REFUSED) for value in ("True", "yes", 2, None)),
        ("string", "é", "é"),
        ("string", 3, "3"),
        ("string", 2.5, "2.5"),
        ("string", True, "true"),
        ("string", "a\ud800", "a\ufffd"),
        *(("string", value, REFUSED) for value in (None, ["a"], {})),
        (CHOICE, "b", "b"),
        (CHOICE, "c", REFUSED),
        ("object", {"a": 1}, {"a": 1}),
        ("object", "{}", REFUSED),
        ("array", [1, "x"], [1, "x"]),
        ("array", "x", ["x"]),
        ({"type": "array", "items": LIMITED}, ["2", 9], [2, 5]),
        ({"type": "array", "items": LIMITED}, 2, [2]),
        ({"type": "array", "items": LIMITED}, ["x"], REFUSED),
        ({}, 1, REFUSED),
    ],
)
def test_an_argument_has_the_type_of_its_schema(schema: Any, value: object, expected: object) -> None:
    schema = {"type": schema} if isinstance(schema, str) else schema
    if expected is REFUSED:
        with pytest.raises(UsageError, match=r"^the argument x is not"):
            checked_argument("the argument x", schema, value)
    else:
        found = checked_argument("the argument x", schema, value)
        assert (found, type(found)) == (expected, type(expected))


def test_a_wrong_choice_names_the_choices() -> None:
    with pytest.raises(UsageError) as caught:
        checked_argument("x", CHOICE, "c")

    assert caught.value.hint == "values: a, b"

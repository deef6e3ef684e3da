"""Items of a LangGraph store: their names, values and filters, without a store."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shepherd.adapters.items import checked_namespace, is_taken, origin_of, storable_value, text_of
from shepherd.errors import UsageError

VALUE = {"n": 3, "text": "2026-05", "list": [1, {"a": 2}], "below": {"n": 5, "none": None}, "flag": True}


@pytest.mark.parametrize(
    ("condition", "is_good"),
    [
        (None, True),
        ({}, True),
        ({"n": 3}, True),
        ({"n": 4}, False),
        ({"n": 3, "text": "x"}, False),
        ({"other": None}, True),
        ({"other": 1}, False),
        ({"list": [1, {"a": 2}]}, True),
        ({"list": (1, {"a": {"$gt": 1}})}, True),
        ({"list": [1]}, False),
        ({"list": [1, {"a": 3}]}, False),
        ({"n": [3]}, False),
        ({"below": {"n": 5}}, True),
        ({"below": {"n": {"$lt": 5}}}, False),
        ({"n": {"n": 3}}, False),
        *(({"n": {operator: limit}}, good) for operator, limit, good in (
            ("$eq", 3, True), ("$eq", 4, False), ("$ne", 3, False), ("$ne", 4, True),
            ("$gt", 2, True), ("$gt", 3, False), ("$gte", 3, True), ("$gte", 4, False),
            ("$lt", 4, True), ("$lt", 3, False), ("$lte", 3, True), ("$lte", 2, False),
            ("$gt", "2", False), ("$lte", "9", False),
        )),
        ({"n": {"$gt": 2, "$lt": 4}}, True),
        ({"n": {"$gt": 2, "$lt": 3}}, False),
        ({"text": {"$gt": "2026-04", "$lt": "2026-06"}}, True),
        ({"text": {"$gt": "2026-05"}}, False),
        ({"text": {"$gte": "2026-05"}}, True),
        ({"other": {"$lt": 9}}, False),
    ],
)  # fmt: skip
def test_an_item_is_taken_if_all_conditions_hold(condition: Any, is_good: bool) -> None:
    assert is_taken(VALUE, condition) is is_good


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown operator"):
        is_taken(VALUE, {"n": {"$like": 3}})


def test_a_value_is_a_line_for_each_leaf() -> None:
    assert text_of(VALUE).splitlines() == [
        "n: 3",
        "text: 2026-05",
        "list: 1",
        "list.a: 2",
        "below.n: 5",
        "flag: True",
    ]
    assert text_of(VALUE["below"], "x") == "x.n: 5"
    assert (text_of("a"), text_of(None), text_of(["a", "b"])) == ("a", "", "a\nb")


def test_a_value_is_kept_as_json_keeps_it() -> None:
    assert storable_value({"a": (1, "b\ud800"), 2: None}) == {"a": [1, "b\ufffd"], "2": None}
    for value, message in (
        ([1], "a value is a dict, not a list"),
        ({"a": {1}}, "what JSON cannot"),
        ({"a": math.nan}, "what JSON cannot"),
    ):
        with pytest.raises(UsageError, match=message):
            storable_value(value)  # type: ignore[arg-type]
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(UsageError, match="nested too deeply"):
        storable_value(deep)


def test_labels_of_a_namespace_are_texts_without_a_full_stop() -> None:
    assert checked_namespace(["a", "b c"]) == ("a", "b c")
    assert checked_namespace(()) == ()
    assert origin_of(("a", "b"), "key.x") == "langgraph:a.b..key.x"
    bad: list[tuple[Any, str]] = [
        ("abc", "not a text"),
        (("a", ""), "label 1 of a namespace is empty"),
        (("a.b",), "label 0 of a namespace is a text with a full stop"),
        ((1,), "label 0 of a namespace is a int, not a text"),
    ]
    for namespace, message in bad:
        with pytest.raises(UsageError, match=message):
            checked_namespace(namespace)

"""Paths hold any name, sort as the turns went, and refuse what would not come back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given

from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.trace.paths import (
    checked_path,
    decode_segment,
    diff,
    encode_segment,
    shown_path,
    turn_path,
)
from tests.trace.turns import names


def test_slash_percent_and_star_are_encoded_and_nothing_else_that_is_visible():
    assert encode_segment("50% of a/b*") == "50%25 of a%2Fb%2A"
    assert encode_segment("Grüße (x).") == "Grüße (x)."


def test_line_break_in_a_name_is_encoded():
    assert encode_segment("a\nb\x7f") == "a%0Ab%7F"


@given(names)
def test_any_name_comes_back_from_its_segment_unless_it_was_cut(name):
    segment = encode_segment(name)

    assert segment
    assert not {"/", "*"} & set(segment)
    assert encode_segment(decode_segment(segment)) == segment
    if len(storable(name).encode()) <= 256:
        assert decode_segment(segment) == storable(name)


def test_names_that_are_cut_stay_apart():
    one, other = encode_segment("x" * 300), encode_segment("x" * 301)

    assert one != other
    assert len(one) == len(other) == 256


def test_turns_sort_by_their_numbers():
    assert turn_path("s", 9) < turn_path("s", 10) < turn_path("s", 200)


def test_turn_that_does_not_fit_its_digits_is_refused():
    with pytest.raises(UsageError, match="numbered from 0"):
        turn_path("s", 10**6)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/context/s/000001",
        "/other/s/000001/model",
        "/context/s/1/model",
        "/context/s/000001//model",
        "/context/s/000001/a*",
        "/context/s/000001/a%2f",
        "/context/s/000001/a%41",
        "/context/s/000001/a\tb",
        "/context/s/000001/" + "x" * 300,
        "/context/s/000001" + "/x" * 1100,
        "context/s/000001/model",
    ],
)
def test_path_that_nobody_would_write_is_refused(path):
    with pytest.raises(UsageError, match="not a path of a trace"):
        checked_path(path)


def test_path_that_was_written_is_accepted():
    path = f"{turn_path('a/b', 3)}/tail/facts/{encode_segment('50%')}"

    assert checked_path(path) == path


def test_short_path_is_completed():
    assert shown_path("s/3/budget") == "/context/s/000003/budget"
    assert shown_path("") == "/context"
    assert shown_path("/context/s/000003/budget") == "/context/s/000003/budget"
    assert shown_path("*/*/model") == "/context/*/*/model"
    assert shown_path("last/last/model", last_session="s", last_turn=4) == "/context/s/000004/model"


def test_path_of_something_else_is_refused():
    with pytest.raises(UsageError, match="not with /other"):
        shown_path("/other/s")


def test_diff_names_each_path_that_came_went_or_changed_even_in_its_kind_alone():
    before = [("/a/same", 1), ("/a/kind", 1), ("/a/gone", "x"), ("/a/number", 1.0), ("/a/changed", "x")]
    after = [("/b/same", 1), ("/b/kind", True), ("/b/new", ""), ("/b/number", 1), ("/b/changed", "y")]

    changes = diff(before, after, before_root="/a", after_root="/b")

    assert [(change.path, change.before, change.after) for change in changes] == [
        ("changed", "x", "y"),
        ("gone", "x", None),
        ("kind", 1, True),
        ("new", None, ""),
        ("number", 1.0, 1),
    ]
    assert type(changes[2].after) is bool

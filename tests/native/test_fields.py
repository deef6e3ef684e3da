"""Fields that are read where they lie are those that Python reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.fields import FieldReader


@dataclass(slots=True)
class Pair:
    left: Any
    right: Any
    other: int = 0


@dataclass(slots=True)
class Triple(Pair):
    third: int = 0


READER = FieldReader(Pair, "right", "left")
VALUES = st.one_of(st.integers(0, 2), st.text("ab", max_size=2), st.tuples(st.integers(0, 1)), st.floats())
PAIRS = st.lists(st.builds(Pair, VALUES, VALUES, st.integers(0, 2)), max_size=5)


@given(PAIRS, PAIRS)
def test_any_objects_begin_with_the_values_of_equal_ones(objects: list[Pair], others: list[Pair]) -> None:
    values = [(one.right, one.left) for one in others]

    assert READER.values(others) == values
    first = [(one.right, one.left) for one in objects[: len(others)]]
    assert READER.begin_with(objects, values) is (first == values)
    assert READER.begin_with([*others, *objects], values)


def test_an_object_of_a_subclass_has_the_same_fields() -> None:
    assert READER.values((Triple(1, 2, 3, 4),)) == [(2, 1)]


def test_values_of_another_length_are_not_those_of_an_object() -> None:
    assert not READER.begin_with([Pair(1, 2)], [(2,)])
    assert not READER.begin_with([Pair(1, 2)], [(2, 1, 0)])
    assert not READER.begin_with([Pair(1, 2)], ["21"])  # type: ignore[list-item]


@pytest.mark.parametrize("stranger", [None, "a", (1, 2), object()])
def test_objects_of_other_classes_are_refused(stranger: object) -> None:
    with pytest.raises(TypeError, match="is not Pair"):
        READER.values([Pair(1, 2), stranger])
    with pytest.raises(TypeError, match="is not Pair"):
        READER.begin_with([stranger], [(1, 2)])


def test_what_is_no_slot_is_refused() -> None:
    class Plain:
        left = 1

    with pytest.raises(TypeError, match=r"Plain\.left is not a slot"):
        FieldReader(Plain, "left")
    with pytest.raises(TypeError, match=r"Pair\.__init__ is not a slot"):
        FieldReader(Pair, "__init__")
    with pytest.raises(AttributeError):
        FieldReader(Pair, "missing")
    with pytest.raises(ValueError, match="at most 16"):
        FieldReader(Pair, *["left"] * 17)


def test_a_deleted_field_is_an_error() -> None:
    pair = Pair(1, 2)
    del pair.left

    with pytest.raises(AttributeError, match="deleted"):
        READER.values([pair])
    with pytest.raises(AttributeError, match="deleted"):
        READER.begin_with([pair], [(2, 1)])


def test_a_comparison_may_change_the_object_that_is_compared() -> None:
    pair = Pair(None, None)

    class Changing:
        def __eq__(self, other: object) -> bool:
            pair.left = pair.right = None
            return True

        __hash__ = None  # type: ignore[assignment]

    pair.left, pair.right = Changing(), Changing()

    assert READER.begin_with([pair], [(1, None)])


def test_an_error_of_a_comparison_is_raised() -> None:
    class Failing:
        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError

        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(ZeroDivisionError):
        READER.begin_with([Pair(Failing(), 2)], [(2, 1)])

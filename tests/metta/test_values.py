"""Values cross to MeTTa and back as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.metta.values import Record, Symbol, as_metta, from_wire, to_wire

_names = st.from_regex("[a-z][a-z-]{0,8}", fullmatch=True)
_plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8) | st.floats(0, 1)
_values = st.recursive(
    _plain | _names.map(Symbol),
    lambda inner: (
        st.lists(inner, max_size=4).filter(lambda some: not (some and isinstance(some[0], Symbol)))
        | st.tuples(inner, inner)
        | st.builds(Record, st.just("Turn"), st.dictionaries(_names, inner, max_size=3))
    ),
    max_leaves=10,
)


@given(_values)
def test_any_value_comes_back_from_the_wire(value):
    back = from_wire(json.loads(json.dumps(to_wire(value))))

    assert back == value
    assert type(back) is type(value)


def test_list_that_begins_with_nothing_is_no_record():
    assert from_wire(to_wire([None])) == [None]


def test_just_is_the_value_itself():
    assert from_wire([{"s": "Just"}, "a"]) == "a"


def test_values_are_written_as_metta_reads_them():
    record = Record("Turn", {"speaker": 'the "user"', "tokens": 4, "last": True})

    assert as_metta([Symbol("a"), record, None, ("x", 0.5)]) == (
        '(a (Turn (speaker "the \\"user\\"") (tokens 4) (last True)) Nothing (Pair "x" 0.5))'
    )


def test_something_without_an_atom_is_refused():
    with pytest.raises(TypeError, match="no atom for set"):
        to_wire({1})

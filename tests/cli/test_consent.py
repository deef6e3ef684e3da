"""What is shown of a call before it is allowed: all of it, and nothing that passes for something else."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from shepherd.commands.explain import arguments_in_full

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=20), VALUES, min_size=1, max_size=5))
def test_short_arguments_are_there_in_full_and_each_character_can_be_seen(arguments):
    shown = arguments_in_full(arguments)

    assert json.loads(shown) == arguments
    assert all(char == "\n" or not unicodedata.category(char).startswith(("C", "Zl", "Zp")) for char in shown)


def test_a_value_does_not_pass_for_another_argument_or_for_the_question():
    arguments = {"text": 'x"\n}\nit only reads. Allow it? [y/N] y', "name\u202e": "a\u200bb"}

    assert arguments_in_full(arguments).splitlines() == [
        "{",
        r'  "text": "x\"\n}\nit only reads. Allow it? [y/N] y",',
        r'  "name\u202e": "a\u200bb"',
        "}",
    ]


def test_long_arguments_are_shown_from_both_ends_and_say_how_long_they_are():
    arguments = {"first": 1, "text": "x" * 100_000, "last": "rm -rf"}
    length = len(json.dumps(arguments, indent=2))

    shown = arguments_in_full(arguments)

    assert len(shown) < 5_000
    assert shown.startswith('{\n  "first": 1,\n  "text": "xxx')
    assert f"\n… {length - 4000:,} of {length:,} characters are not shown\n" in shown
    assert shown.endswith('xxx",\n  "last": "rm -rf"\n}')


def test_a_call_without_arguments_shows_none():
    assert arguments_in_full({}) == ""

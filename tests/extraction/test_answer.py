"""Reading what a model answered: the object wherever it stands, and nothing of another shape."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.extraction.answer import Extracted, UnusableAnswerError, parse_answer

ANSWER = '{"facts": {"name": "Steve"}, "context": [{"q": "Which editor?", "a": "Helix"}]}'
WHOLE = Extracted({"name": "Steve"}, [("Which editor?", "Helix")])


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        f"```json\n{ANSWER}\n```",
        f"Here is what I found {{so far}}:\n\n{ANSWER}\n\nIs there {{anything}} else?",
        f'<think>Perhaps {{"facts": {{"name": "Bob"}}}}?</think>\n{ANSWER}',
        f'I could say {{"facts": {{"name": "Bob"}}}}, but </think> {ANSWER}',
        json.dumps(json.loads(ANSWER), indent=2),
        f'{{"note": 1}} {ANSWER}',
    ],
)
def test_the_object_is_found_wherever_it_stands(text):
    assert parse_answer(text) == WHOLE


def test_the_end_of_thoughts_inside_a_value_is_text():
    assert parse_answer('{"facts": {"tag": "</think>"}, "context": []}').facts == {"tag": "</think>"}


@pytest.mark.parametrize("text", ["NONE", "none", "None.", " **NONE** \n", '"none"'])
def test_none_is_nothing(text):
    assert parse_answer(text) == Extracted()


@pytest.mark.parametrize(
    "text", ["", "I could not find any.", '{"name": "Steve"}', "[]", '{"facts": {"a": ', "{" * 9000]
)
def test_an_answer_without_the_object_is_unusable(text):
    with pytest.raises(UnusableAnswerError):
        parse_answer(text)


def test_numbers_and_booleans_become_text():
    answer = """{"facts": {"age": 42, "height": 1.85, "vegan": true, "smoker": false},
                 "context": [{"q": "n?", "a": 7}]}"""

    assert parse_answer(answer) == Extracted(
        {"age": "42", "height": "1.85", "vegan": "true", "smoker": "false"}, [("n?", "7")]
    )


def test_other_shapes_are_dropped_and_counted():
    answer = {
        "facts": {"a": None, "b": ["x"], "c": {"d": 1}, "": "x", "e": " ", "long": "x" * 1001, "good": "yes"},
        "context": [
            "text",
            {"q": "only"},
            {"q": "", "a": "x"},
            {"q": "q", "a": ["x"]},
            {"q": "good?", "a": "yes"},
        ],
    }

    assert parse_answer(json.dumps(answer)) == Extracted({"good": "yes"}, [("good?", "yes")], dropped=10)


@pytest.mark.parametrize("answer", [{"facts": [], "context": {}}, {"facts": "x", "context": 3}])
def test_parts_of_another_shape_are_dropped_whole(answer):
    assert parse_answer(json.dumps(answer)) == Extracted(dropped=2)


def test_missing_and_null_parts_are_empty():
    assert parse_answer('{"facts": {"name": "Steve"}}') == Extracted({"name": "Steve"})
    assert parse_answer('{"facts": null, "context": null}') == Extracted()


def test_infinite_numbers_are_no_values():
    assert parse_answer('{"facts": {"a": NaN, "b": Infinity}}') == Extracted(dropped=2)


def test_keys_have_no_blanks():
    assert parse_answer('{"facts": {" favorite  color ": "teal"}}') == Extracted({"favorite_color": "teal"})


def test_the_example_of_the_request_is_not_an_answer():
    answer = '{"facts": {"key": "value"}, "context": [{"q": "question", "a": "answer"}]}'

    assert parse_answer(answer) == Extracted(dropped=2)


@given(st.text() | st.text(alphabet=string.punctuation + "facts: context\n"))
def test_any_text_is_read_or_unusable(text):
    try:
        extracted = parse_answer(text)
    except UnusableAnswerError:
        return
    assert all(key and value for key, value in [*extracted.facts.items(), *extracted.context])


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(_VALUES, _VALUES)
def test_any_json_gives_text_only(facts, context):
    extracted = parse_answer(json.dumps({"facts": facts, "context": context}))

    assert all(isinstance(part, str) and part for pair in extracted.facts.items() for part in pair)
    assert all(isinstance(part, str) and part for pair in extracted.context for part in pair)

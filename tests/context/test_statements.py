"""What of a conversation is worth a memory, and what would only be found in its place."""

from __future__ import annotations

import pytest

from shepherd.context import is_statement, is_worth_a_memory
from shepherd.types import Message

TAIL = "\n\n[facts: dog_name=Rex]"


def asked(text: str, tail: str = "") -> Message:
    return Message("user", text, sent=text + tail)


@pytest.mark.parametrize(
    ("text", "tells"),
    [("My dog is called Rex", True), ("What is my dog called?", False), ("Thanks, good night!", False)],
)
def test_statement_tells_something_and_is_no_question(text, tells):
    assert is_statement(text) is tells


def test_answer_out_of_the_tail_is_not_remembered():
    assert not is_worth_a_memory(asked("What is the name of the dog?", TAIL), "The dog's name is Rex.")


def test_answer_that_brings_something_is_remembered():
    assert is_worth_a_memory(asked("Which hotel did Ann choose?", TAIL), "Ann chose the Ibis.")


@pytest.mark.parametrize(
    "answer", ["I have nothing stored about that.", "I don't know.", "There is no information about it."]
)
def test_answer_that_there_is_none_is_not_remembered(answer):
    assert not is_worth_a_memory(asked("Which hotel did Ann choose?"), answer)


def test_what_a_model_says_of_the_user_is_not_remembered():
    assert not is_worth_a_memory(asked("What is my job?"), "You work as a rizol.")


def test_long_answer_is_remembered_whatever_was_asked():
    assert is_worth_a_memory(asked("How do I cook rice?"), "Take one part of rice and two of water. " * 6)


def test_question_behind_a_statement_is_remembered():
    assert is_worth_a_memory(asked("I bought a boat. Where can I moor it?"), "I don't know.")


def test_statement_is_remembered():
    assert is_worth_a_memory(asked("My dog is called Rex", TAIL), "Nice, I'll remember that.")

"""A turn that says nothing but a fact beside it is not repeated; one that says more is."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn


@pytest.fixture
def memory(memory: Memory) -> Memory:
    memory.relevance_threshold = 0.0
    memory.set_fact("name", "Steve Miller")
    memory.set_fact("favorite_color", "blue")
    return memory


def recalled(memory: Memory, message: str) -> list[str]:
    return [result.question for result in memory.recall(message).results]


@pytest.mark.parametrize(
    "told",
    [
        "My name is Steve Miller.",
        "my NAME: steve miller",
        "my favorite color is blue",
        "My name is Steve Miller and my favorite color is blue!",
    ],
)
def test_turn_that_a_fact_says_already_is_left_out(memory: Memory, told: str) -> None:
    memory.archive_turn(Turn(told, "Nice!"))

    injection = memory.recall("What are my name and my favorite color?")

    assert injection.results == ()
    assert injection.tail == "\n\n[facts: favorite_color=blue, name=Steve Miller]"


@pytest.mark.parametrize(
    "told",
    [
        "My name is not Steve Miller",
        "I am Steve Miller",
        "My name is Steve",
        "My name is Steve Miller and I live in Ohio",
        "My favorite color is blue because of the sea",
        "My favorite color is red",
        "My name is Steve Miller " + "Steve " * 50,
    ],
)
def test_turn_that_says_anything_else_stays(memory: Memory, told: str) -> None:
    memory.archive_turn(Turn(told, "I see."))

    assert recalled(memory, f"{told} name color") == [told]


def test_what_the_user_stored_stays(memory: Memory) -> None:
    memory.store_memory("My name is Steve Miller", "That is how he signs letters.")

    assert recalled(memory, "name Steve") == ["My name is Steve Miller"]


def test_turn_comes_back_when_the_fact_is_gone(memory: Memory) -> None:
    memory.archive_turn(Turn("My favorite color is blue", "I see."))
    assert recalled(memory, "favorite color?") == []

    memory.clear_fact("favorite_color")

    assert recalled(memory, "favorite color?") == ["My favorite color is blue"]

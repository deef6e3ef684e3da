"""A turn that says nothing but a fact beside it is not repeated; one that says more is."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn
from shepherd.memory.redundant_turns import is_echo
from shepherd.types import Fact


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
    memory.clear_fact("favorite_color")
    memory.archive_turn(Turn("My favorite color is blue", "I see."))
    memory.set_fact("favorite_color", "blue")
    assert recalled(memory, "favorite color?") == []

    memory.clear_fact("favorite_color")

    assert recalled(memory, "favorite color?") == ["My favorite color is blue"]


def test_turn_that_only_repeats_a_fact_is_not_stored(memory: Memory) -> None:
    assert memory.archive_turn(Turn("My name is Steve Miller.", "I know.")) is None
    assert memory.archive_turn(Turn("My name is Steve Miller and I moved.", "I see."))


@pytest.mark.parametrize(
    ("told", "key", "value"),
    [
        ("I live in Austin.", "location", "Austin"),
        ("hi, I'm Steve", "name", "Steve"),
        ("I work for Acme", "employer", "Acme"),
        ("I have a dog called Rex", "dog_name", "Rex"),
        ("Ich wohne in Köln.", "location", "Köln"),
        ("Je m'appelle Camille", "name", "Camille"),
        ("Vivo en Sevilla", "location", "Sevilla"),
        ("Mi chiamo Giulia", "name", "Giulia"),
        ("Moro no Porto", "location", "no Porto"),
        ("Ik woon in Utrecht", "location", "Utrecht"),
    ],
)
def test_sentence_from_which_a_fact_was_learned_is_its_echo(told: str, key: str, value: str) -> None:
    assert is_echo(told, [Fact(key, value, 0, 0)])
    assert not is_echo(f"{told} and it rains", [Fact(key, value, 0, 0)])
    assert not is_echo(told.replace(value, "Ulm"), [Fact(key, value, 0, 0)])


@pytest.mark.parametrize(
    "told",
    ["I moved to Austin", "my sister lives in Austin", "I don't live in Austin", "Do I live in Austin?"],
)
def test_sentence_that_says_anything_else_is_no_echo(told: str) -> None:
    assert not is_echo(told, [Fact("location", "Austin", 0, 0)])

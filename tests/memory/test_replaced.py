"""A turn that told what a fact was before does not stand beside what it is now."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn
from tests.memory.conftest import NOW

QUESTION = "Where do I live, in Austin or Berlin?"
DAY = 86_400


@pytest.fixture
def memory(memory: Memory) -> Memory:
    memory.relevance_threshold = 0.0
    return memory


def recalled(memory: Memory, message: str = QUESTION) -> list[str]:
    return [result.question for result in memory.recall(message).results]


def test_turn_that_a_replaced_value_was_learned_from_is_not_shown(memory: Memory) -> None:
    memory.archive_turn(Turn("I live in Austin.", "Noted."))
    memory.set_fact("location", "Austin")
    assert recalled(memory) == ["I live in Austin."]

    memory.set_fact("location", "Berlin")

    assert memory.recall(QUESTION).tail == "\n\n[facts: location=Berlin]"
    assert [found.question for found in memory.search(QUESTION)] == ["I live in Austin."]


def test_it_is_shown_again_when_the_value_holds_again_or_the_fact_is_gone(memory: Memory) -> None:
    memory.archive_turn(Turn("I live in Austin.", "Noted."))
    for value in ("Austin", "Berlin", "Austin"):
        memory.set_fact("location", value)
    assert recalled(memory) == ["I live in Austin."]

    memory.set_fact("location", "Berlin")
    memory.clear_fact("location")

    assert recalled(memory) == ["I live in Austin."]


@pytest.mark.parametrize(
    "told",
    [
        "I live in Austin. My dog is called Rex.",
        "I moved from Austin to Berlin.",
        "I live in Texas.",
        "I live in Austin, " + "which is far away, " * 12,
    ],
)
def test_turn_that_tells_anything_else_stays(memory: Memory, told: str) -> None:
    memory.archive_turn(Turn(told, "Noted."))
    for value in ("Austin", "Berlin"):
        memory.set_fact("location", value)

    assert recalled(memory, f"{told} {QUESTION}") == [told]


def test_turn_of_another_time_stays(memory: Memory) -> None:
    memory.archive_turn(Turn("I love the music in Austin.", "Nice.", NOW - 30 * DAY))
    for value in ("Austin", "Berlin"):
        memory.set_fact("location", value)

    assert recalled(memory) == ["I love the music in Austin."]


def test_what_the_user_stored_stays(memory: Memory) -> None:
    memory.store_memory("I live in Austin.", "So he said.")
    for value in ("Austin", "Berlin"):
        memory.set_fact("location", value)

    assert recalled(memory) == ["I live in Austin."]


def test_another_users_history_does_not_count(memory: Memory) -> None:
    memory.archive_turn(Turn("I live in Austin.", "Noted."))
    memory.set_fact("location", "Austin")
    for value in ("Austin", "Berlin"):
        memory.set_fact("location", value, "mallory")

    assert recalled(memory) == ["I live in Austin."]

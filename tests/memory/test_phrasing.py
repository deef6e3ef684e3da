"""Which words of a message say only how to answer, and which messages want something done."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn
from shepherd.memory.phrasing import is_request
from shepherd.memory.queries import parse_query

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Can you list the order in which I brought up parts of my garden plan across our conversations?",
            "part garden plan",
        ),
        ("Give me a short summary of the kitchen budget.", "give kitchen budget"),
        ("Please summarise the kitchen budget", "kitchen budget"),
        ("Could you please walk me through the harbour tour in order?", "harbour tour"),
        ("What did you recommend for the roof, based on our earlier chats?", "roof"),
        ("Which allergies have I mentioned so far?", "allergi"),
        ("How did we repair the pump, as we\u2019ve discussed?", "repair pump"),
        ("List the rivers that I crossed. Mention only three items.", "list river cross"),
    ],
)
def test_words_that_only_say_how_to_answer_are_no_keywords(message: str, expected: str) -> None:
    assert parse_query(message, NOW)[0] == expected.split()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("What is on my shopping list?", "shop list"),
        ("What did I bring to the party in order to help?", "bring parti order help"),
        ("What did you recommend?", "recommend"),
        ("Can you list them?", "list"),
        ("Which session of the conference was cancelled?", "session confer cancel"),
    ],
)
def test_the_same_words_stay_where_they_are_what_is_asked_for(message: str, expected: str) -> None:
    assert parse_query(message, NOW)[0] == expected.split()


def test_a_long_message_has_no_frame() -> None:
    short, long = (f"Can you list the rivers {'and lakes ' * n}in order?" for n in (40, 60))

    assert parse_query(short, NOW)[0] == ["river", "lake"]
    assert parse_query(long, NOW)[0] == ["list", "river", "lake", "order"]


@pytest.mark.parametrize(
    "message",
    [
        "How should I season the soup?",
        "Could you show me a soup recipe?",
        "Please translate this letter",
        "I'm planning a trip to Rome. Any ideas?",
        "I\u2019m looking for a hotel",
        "What are some good soups?",
    ],
)
def test_advice_and_work_are_requests(message: str) -> None:
    assert is_request(message)


@pytest.mark.parametrize(
    "message",
    [
        "When does my sprint end?",
        "What is my name?",
        "How did you tell me to season the soup?",
        "Can you show me the order in which I mentioned the soups?",
        "What would you have said in our last conversation?",
        "I like soup.",
        "",
        f"{'soup ' * 200} could you help me?",
    ],
)
def test_questions_about_the_past_and_statements_are_none(message: str) -> None:
    assert not is_request(message)


# ---- with memories


def exchange(memory: Memory, question: str, answer: str) -> None:
    memory.archive_turn(Turn(question, answer, timestamp=NOW - 1000, session="soups"))


@pytest.fixture
def soups(memory: Memory) -> Memory:
    exchange(memory, "Always list the calories when I ask about soup recipes.", "I will.")
    exchange(memory, "Which soup recipe did Tom like?", "The soup recipe with leek was Tom's.")
    exchange(memory, "The leek soup recipe of Tom has cream.", "Noted, cream goes into the soup.")
    for number in range(9):
        exchange(memory, f"How many bridges has town {number}?", f"Town {number} has {number} bridges.")
    return memory


def test_an_instruction_comes_first_for_what_it_is_about(soups: Memory) -> None:
    found = soups.search("Can you show me a recipe for leek soup?", 3)

    assert found[0].question.startswith("Always list the calories")


def test_an_instruction_does_not_come_first_in_a_question_about_the_past(soups: Memory) -> None:
    found = soups.search("Which recipe for leek soup did Tom like?", 3)

    assert not found[0].question.startswith("Always")


def test_a_recall_heeds_instructions_as_a_search_does(soups: Memory) -> None:
    recalled = soups.recall("Can you show me a recipe for leek soup?").results

    assert recalled[0].question.startswith("Always list the calories")

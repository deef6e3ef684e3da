"""Which words of a message say only how to answer, and which messages want something done."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn
from shepherd.memory.phrasing import is_about_several, is_request
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


@pytest.mark.parametrize(
    "message",
    [
        "In what order did I visit the lakes?",
        "Can you list the soups that I cooked, in order?",
        "How many different soups did I cook?",
        "How has my training changed over time?",
        "Summarise the kitchen budget",
        "How much did I spend in total?",
        "Considering my knee and my plans, which run fits?",
        "Which cheeses did I mention across all of my messages?",
    ],
)
def test_questions_for_an_order_a_number_or_a_summary_are_about_several_conversations(message: str) -> None:
    assert is_about_several(message)


@pytest.mark.parametrize(
    "message",
    [
        "Where did I order the pump?",
        "What should I bring in order to help?",
        "How many lakes are there?",
        "",
        "order",
    ],
)
def test_other_questions_are_not(message: str) -> None:
    assert not is_about_several(message)
    assert not is_about_several(f"{'soup ' * 200} in total?")


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


def test_an_instruction_is_appended_to_a_request_that_has_one_of_its_words(soups: Memory) -> None:
    asked = "recipe to go with carrots, dumplings and horseradish"

    [found, *_] = soups.recall(f"Can you show me a {asked}?").results

    assert found.question.startswith("Always list the calories")
    plain = next(one for one in soups.search(f"Which {asked} exists?", 9) if one.id == found.id)
    assert plain.relevance < 0.7 * found.relevance


# ---- several conversations


@pytest.fixture
def lakes(memory: Memory) -> Memory:
    """Three visits of lakes in one session, and one each in two others, in words that fit less well."""
    for session, text in (
        ("one", "The visit to the lake"),
        ("one", "A lake, a visit"),
        ("one", "Visit a lake!"),
        ("two", "We had a visit to the lake of Bled"),
        ("three", "After a while a visit to the lake of Garda"),
    ):
        memory.archive_turn(Turn(text, "", timestamp=NOW - 1000, session=session))
    for number in range(9):
        memory.store_memory(f"Town {number} has {number} bridges.", "")
    return memory


def places(memory: Memory, question: str) -> list[str]:
    return [result.question[:12] for result in memory.search(question, 3)]


def test_conversations_take_turns_in_what_is_asked_of_several(lakes: Memory) -> None:
    assert {"We had a vis", "After a whil"}.isdisjoint(places(lakes, "What was the visit to the lake?"))
    assert places(lakes, "In what order did I visit the lake?")[1:] == ["We had a vis", "After a whil"]


def test_of_turns_that_sessions_take_the_scores_fall(lakes: Memory) -> None:
    found = lakes.search("In what order did I visit the lake?", 5)
    alone = {result.id: result.score for result in lakes.search("What was the visit to the lake?", 5)}

    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)
    assert sorted(round(result.score / alone[result.id], 6) for result in found) == [0.49, 0.7, 1.0, 1.0, 1.0]


def test_memories_without_a_session_take_no_turns(memory: Memory) -> None:
    for number in range(3):
        memory.store_memory(f"lake {'blue ' * number}", "")

    one, other = (
        memory.search(f"{asked} the lake?", 3) for asked in ("What was", "In what order did I visit")
    )

    assert [result.id for result in one] == [result.id for result in other]

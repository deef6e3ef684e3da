"""Memories in order of time, and the days on which they were told, as a message gets them."""

from __future__ import annotations

from datetime import datetime

import pytest

from shepherd.memory import Memory, Turn
from shepherd.memory.courses import asks_for_order

DAY = 86_400
START = int(datetime(2026, 3, 1, 12, 30).timestamp())


def tell(memory: Memory, *told: tuple[float, str, str]) -> None:
    for day, question, answer in told:
        when = START + round(day * DAY)
        memory.archive_turn(Turn(question, answer, timestamp=when, session=f"day {day}"))


def lines(memory: Memory, message: str) -> list[str]:
    """The memories of the tail, in its order, each on one line."""
    block = memory.recall(message).tail.partition("[context: ")[2].removesuffix("]")
    return [one.replace("\n", " / ") for one in block.split(" | ")] if block else []


@pytest.fixture
def towns(memory: Memory) -> Memory:
    """Visits that were told in another order than they fit the question."""
    tell(
        memory,
        (3, "On my visit to the towns of the south I liked Bari", "Good."),
        (9, "A visit to the towns: Trento", "Nice."),
        (1, "In spring I paid a short visit to towns in the mountains, such as Aosta", "Cold?"),
        (6, "Visit to towns by the sea with my two brothers and a dog: Genoa", "Lovely."),
        (8, "The visit to the towns with my aunt, who wanted to see Padua again", "Fine."),
    )
    for number in range(12):
        memory.store_memory(f"Bridge {number} has {number} lanes.", "")
    return memory


@pytest.mark.parametrize(
    "message",
    [
        "In what order did I visit the towns?",
        "What's the order in which I brought up the towns?",
        "List the towns that I visited, in order",
        "Give me a timeline of my garden",
        "How did my garden develop?",
        "How has my training plan changed over time?",
        "What did I plant first, and what after that?",
        "Which of the two did I buy first?",
    ],
)
def test_questions_about_a_course_of_events_ask_for_an_order(message: str) -> None:
    assert asks_for_order(message)


@pytest.mark.parametrize(
    "message",
    [
        "Where did I order the pump?",
        "What do I need in order to bake bread?",
        "First chop the onions, then fry them.",
        "What was my first job?",
        "What time is it?",
        "How do I develop a film?",
        f"In what order did I visit the towns? {'Aosta, Bari ' * 60}",
        "",
    ],
)
def test_other_messages_ask_for_none(message: str) -> None:
    assert not asks_for_order(message)


def test_an_order_of_events_is_told_from_the_oldest_with_days(towns: Memory) -> None:
    found = lines(towns, "In what order did I visit the towns?")

    assert [line.rpartition(" (")[2] for line in found] == [
        f"said on 2026-03-{day:02})" for day in (2, 4, 7, 9, 10)
    ]
    assert found[0] == (
        "User: In spring I paid a short visit to towns in the mountains, such as Aosta"
        " / Assistant: Cold? (said on 2026-03-02)"
    )


def test_an_order_of_events_gets_up_to_twice_as_many_memories(towns: Memory) -> None:
    towns.max_results = 2

    assert len(lines(towns, "In what order did I visit the towns?")) == 4
    assert len(lines(towns, "Which towns did I visit?")) == 2
    towns.max_results = 0
    assert lines(towns, "In what order did I visit the towns?") == []


def test_other_questions_get_the_best_memory_first_without_days(towns: Memory) -> None:
    found = towns.recall("Which towns did I visit?")

    assert [r.score for r in found.results] == sorted((r.score for r in found.results), reverse=True)
    assert "said on" not in found.tail


def test_events_of_one_day_have_the_time_of_the_day(memory: Memory) -> None:
    tell(memory, (0.25, "Watered the ferns again", ""), (0, "Watered the ferns and the moss", ""))

    assert lines(memory, "In what order did I water the ferns?") == [
        "User: Watered the ferns and the moss / Assistant:  (said on 2026-03-01 12:30)",
        "User: Watered the ferns again / Assistant:  (said on 2026-03-01 18:30)",
    ]


def test_a_question_when_something_was_gets_the_day(memory: Memory) -> None:
    tell(memory, (4, "We visited Ghent for the beer", "Cheers."))

    assert lines(memory, "When did we visit Ghent?")[0].endswith("Cheers. (said on 2026-03-05)")
    assert lines(memory, "Did we visit Ghent?")[0].endswith("Cheers.")


@pytest.mark.parametrize("message", ["So, do I use Kubernetes clusters?", "Have I used kubernetes clusters"])
def test_of_what_contradicts_itself_both_sides_are_told_with_days_the_newest_first(
    memory: Memory, message: str
) -> None:
    tell(
        memory,
        (2, "I have never used Kubernetes clusters.", "All right."),
        (30, "I've set up two Kubernetes clusters for the team", "Well done."),
    )

    assert lines(memory, message) == [
        "User: I've set up two Kubernetes clusters for the team"
        " / Assistant: Well done. (said on 2026-03-31, the latest)",
        "User: I have never used Kubernetes clusters. / Assistant: All right. (said on 2026-03-03)",
    ]


def test_what_has_changed_is_told_from_the_newest_with_days(memory: Memory) -> None:
    tell(
        memory,
        (1, "The launch deadline is May 15", "Noted."),
        (2, "Our launch party is at noon", "Great."),
        (9, "The launch deadline moved to May 29", "Noted."),
    )

    found = lines(memory, "What is the launch deadline?")

    assert [line.partition(" / ")[0] for line in found][:2] == [
        "User: The launch deadline moved to May 29",
        "User: The launch deadline is May 15",
    ]
    assert found[0].endswith("(said on 2026-03-10, the latest)")
    assert found[1].endswith("(said on 2026-03-02)")
    assert all("said on" not in line for line in found[2:])


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I use the Kubernetes clusters daily", "The Kubernetes clusters are for the team"),
        ("I never touch Kubernetes clusters", "I have never used Kubernetes clusters"),
        ("The lake is cold. I have never been to Rome", "Kubernetes clusters are at the lake in Rome"),
        ("The Kubernetes clusters moved to Ghent", "The Kubernetes clusters are in Ghent"),
        ("I never liked clusters of stars. Kubernetes is fine", "I like clusters of stars, and Kubernetes"),
    ],
)
def test_memories_that_say_nothing_against_one_another_have_no_days(
    memory: Memory, older: str, newer: str
) -> None:
    tell(memory, (1, older, ""), (2, newer, ""))

    assert "said on" not in memory.recall("Where are my Kubernetes clusters?").tail


def test_what_was_said_in_one_moment_contradicts_nothing(memory: Memory) -> None:
    tell(
        memory,
        (1, "I have never used Kubernetes clusters", ""),
        (1, "I run Kubernetes clusters", "for a test"),
    )

    assert "said on" not in memory.recall("Do I use Kubernetes clusters?").tail


def test_events_of_one_moment_are_told_as_they_were_stored(memory: Memory) -> None:
    tell(
        memory, *((1, f"Watered the {plant}{' again' * n}", "") for n, plant in enumerate(("ferns", "moss")))
    )

    found = lines(memory, "In what order did I water the ferns and the moss?")
    assert [line.split()[3] for line in found] == ["ferns", "moss"]


def test_a_long_message_gets_no_days(memory: Memory) -> None:
    tell(memory, (4, "We visited Ghent for the beer", "Cheers."))

    assert "said on" not in memory.recall(f"When did we visit Ghent? {'We did. ' * 60}").tail


def test_what_an_assistant_said_contradicts_nobody(memory: Memory) -> None:
    tell(
        memory,
        (1, "Tell me of Kubernetes clusters", "You have never used Kubernetes clusters."),
        (2, "I run Kubernetes clusters", "Good."),
    )

    assert "said on" not in memory.recall("Do I use Kubernetes clusters?").tail


def test_an_imported_line_of_an_assistant_contradicts_nobody(memory: Memory) -> None:
    for n, line in enumerate(
        ("Assistant: You never used Kubernetes clusters", "Kim: I run Kubernetes clusters")
    ):
        memory.store_memory(line, "", source="import", timestamp=START + n * DAY)

    assert "said on" not in memory.recall("Do I use Kubernetes clusters?").tail


def test_a_statement_gets_no_days(memory: Memory) -> None:
    tell(
        memory,
        (2, "I have never used Kubernetes clusters.", ""),
        (30, "I've set up two Kubernetes clusters", ""),
    )

    assert "said on" not in memory.recall("I like Kubernetes clusters.").tail

"""What a message asks for: words, times, or all of a time."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn
from shepherd.memory.periods import named_periods
from shepherd.memory.queries import parse_query

# That of the clock in conftest: a Tuesday.
NOW = 1_700_000_000
DAY = 86_400


def tell(memory: Memory, text: str, days_ago: float, session: str = "") -> None:
    memory.archive_turn(Turn(text, "", timestamp=NOW - days_ago * DAY, session=session))


def recalled(memory: Memory, message: str) -> list[str]:
    return [found.question for found in memory.recall(message).results]


@pytest.fixture
def told(memory: Memory) -> Memory:
    """Memories of several times; the oldest ones use words for times, of other days."""
    tell(memory, "Last week I had the flu.", 200, "a")
    tell(memory, "Yesterday I baked bread.", 100, "b")
    tell(memory, "The day before yesterday I sold my car.", 90, "c")
    tell(memory, "My piano teacher is Ms Lee.", 7, "d")
    tell(memory, "We went hiking near the lake with Tom.", 1, "e")
    return memory


HIKING = "We went hiking near the lake with Tom."


@pytest.mark.parametrize(
    "message",
    [
        "What did we do yesterday?",
        "What happened yesterday?",
        "What did we talk about yesterday?",
        "Where did we go yesterday?",
        "yesterday",
    ],
)
def test_question_about_a_day_finds_what_was_told_then(told: Memory, message: str) -> None:
    assert recalled(told, message) == [HIKING]
    assert [found.question for found in told.search(message)] == [HIKING]


def test_question_about_a_week_finds_all_of_it_newest_first(told: Memory) -> None:
    assert recalled(told, "What did I tell you last week?") == [HIKING, "My piano teacher is Ms Lee."]


@pytest.mark.parametrize("message", ["How are you today?", "Hi, how are things since yesterday?"])
def test_greeting_that_names_a_day_asks_for_nothing(told: Memory, message: str) -> None:
    tell(told, "I had soup for lunch.", 0)

    assert recalled(told, message) == []


@pytest.mark.parametrize(
    "message",
    ["What did I do today?", "What did we do the day before yesterday?", "What did I tell you a month ago?"],
)
def test_question_about_a_time_of_which_nothing_is_stored_finds_nothing(told: Memory, message: str) -> None:
    assert recalled(told, message) == []
    assert told.search(message) == []


def test_words_beside_the_time_are_searched_without_it(told: Memory) -> None:
    injection = told.recall("Which bread did I bake yesterday?")

    assert injection.keywords == ("bread", "bake")
    assert [found.question for found in injection.results] == ["Yesterday I baked bread."]


def test_words_of_a_date_are_searched_for(memory: Memory) -> None:
    tell(memory, "Our wedding was on 3 May 2023.", 2)
    tell(memory, "The new kettle is blue.", (NOW - 1_683_115_200) / DAY)  # 3 May 2023, 12:00
    tell(memory, "I like tea.", 1)

    assert recalled(memory, "What happened on 3 May 2023?") == [
        "Our wedding was on 3 May 2023.",
        "The new kettle is blue.",
    ]


def test_a_time_brings_no_more_memories_than_words_do(memory: Memory) -> None:
    for number in range(10):
        tell(memory, f"This is note {number}.", 1 - number / 1000, f"s{number}")

    assert recalled(memory, "What did I tell you yesterday?") == [f"This is note {n}." for n in (9, 8, 7)]
    assert len(memory.search("yesterday", max_results=(1 << 63) - 1)) == 10
    assert memory.search("yesterday", max_results=0) == []


def test_words_and_times_together_bring_no_more_memories_than_words_do(memory: Memory) -> None:
    tell(memory, "Our wedding was on 3 May 2023.", 2, "w")
    for number in range(5):
        memory.store_memory(f"note {number}0", "", timestamp=1_683_115_200 + number, session=f"s{number}")

    assert recalled(memory, "What happened on 3 May 2023?") == [
        "Our wedding was on 3 May 2023.",
        "note 40",
        "note 30",
    ]
    assert len(memory.search("3 May 2023", 2)) == 2


def test_a_day_is_from_its_first_second_to_its_last(memory: Memory) -> None:
    [(first, end)] = named_periods("yesterday", NOW)
    for text, timestamp in (("before", first - 1), ("first", first), ("last", end - 1), ("after", end)):
        memory.store_memory(text, "", timestamp=timestamp, session=text)

    assert recalled(memory, "What did I tell you yesterday?") == ["last", "first"]


def test_of_one_second_the_memory_stored_last_comes_first(memory: Memory) -> None:
    for text in ("one", "two", "three", "four"):
        memory.store_memory(text, "", timestamp=NOW - DAY, session=text)

    assert recalled(memory, "What did I tell you yesterday?") == ["four", "three", "two"]


def test_a_memory_of_two_of_the_times_comes_once(told: Memory) -> None:
    assert recalled(told, "What was yesterday, and since the day before yesterday?") == [HIKING]


def test_what_the_running_conversation_told_stays_out(told: Memory) -> None:
    tell(told, "Today I lost my keys.", 0, "now")

    assert recalled(told, "What did I do today?") == ["Today I lost my keys."]
    assert told.recall("What did I do today?", except_session="now").results == ()
    later = told.recall("What did I do today?", except_session="now", except_since=NOW + 1)
    assert [found.question for found in later.results] == ["Today I lost my keys."]


def test_another_users_time_is_his_own(told: Memory) -> None:
    told.store_memory("I saw a whale.", "", "anna", timestamp=NOW - DAY)

    assert recalled(told, "What did we do yesterday?") == [HIKING]
    assert told.recall("What did we do yesterday?", "anna").results[0].question == "I saw a whale."
    assert told.recall("What did we do yesterday?", "nobody-yet").results == ()


def test_what_a_time_brought_counts_as_recalled(told: Memory) -> None:
    told.recall("What did we do yesterday?")
    tell(told, "Something else.", 0)

    [(memory_id, n, _)] = told.activity().recalled

    assert (memory_id, n) == (told.search("hiking")[0].id, 1)


def test_what_a_time_brought_has_no_score(told: Memory) -> None:
    [found] = told.search("yesterday")

    assert (found.score, found.relevance, found.age_days) == (0.0, 1.0, 1.0)


def test_message_without_a_time_is_its_keywords() -> None:
    assert parse_query("What is my name?", NOW) == (["name"], (), False)
    assert parse_query("", NOW) == ([], (), False)
    assert parse_query("an age ago", NOW) == (["age", "ago"], (), False)


def test_years_ago_are_searched_for_beside_other_words_alone() -> None:
    assert parse_query("Where did I move four years ago?", NOW)[0] == ["move", "four", "year", "ago"]
    assert parse_query("What did I do four years ago?", NOW)[0] == []

"""A turn that told what a fact was before does not stand beside what it is now."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.memory import FactChange, Memory, Turn
from shepherd.memory.redundant_turns import former_values, without_former_values
from shepherd.types import Fact, SearchResult
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


@pytest.mark.parametrize(
    "told",
    [
        "Recommend me a barbecue place in Austin",
        "My sister Anna works for a bank in Austin",
        "My sister is in Austin.",
        "She lives in Austin.",
        "Anna lives in Austin.",
        "Tell me about Austin.",
        "Is it hot in Austin?",
        "I never lived in Austin.",
        "I am not in Austin.",
        "I am hardly in Austin.",
        "Ich bin nicht in Austin.",
        "我妈在Austin",
    ],
)
def test_turn_that_only_mentions_a_former_value_stays(memory: Memory, told: str) -> None:
    memory.archive_turn(Turn(told, "Noted."))
    for value in ("Austin", "Berlin"):
        memory.set_fact("location", value)

    assert recalled(memory, f"{told} {QUESTION}") == [told]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("location", "Austin", "Hi, I'm in Austin now!"),
        ("location", "Austin", "Please remember that I live in Austin"),
        ("location", "Austin", "Ich wohne in Austin."),
        ("location", "Austin", "J\u2019habite à Austin"),
        ("location", "Austin", "我住在Austin"),
        ("location", "北京", "我住在北京"),
        ("location", "北京", "我来自北京\u3002"),
        ("location", "東京", "私は東京に住んでいます\u3002"),
        ("城市", "北京", "我的城市是北京"),
        ("dog_name", "Rex", "My dog is called Rex."),
        ("editor", "Helix", "My favourite editor is Helix"),
        ("favorite_editor", "Helix", "my favourite editor is Helix"),
        ("employer", "Acme Corp", "I work for Acme Corp"),
    ],
)
def test_the_ways_to_say_nothing_but_a_value(memory: Memory, key: str, value: str, told: str) -> None:
    memory.archive_turn(Turn(told, "Noted."))
    memory.set_fact(key, value)
    memory.set_fact("shown", "beside")
    assert recalled(memory, told) == [told]

    memory.set_fact(key, "上海")

    assert recalled(memory, told) == []


@pytest.mark.parametrize(
    "told",
    [
        "我妹妹在北京工作",
        "我没住在北京",
        "推荐北京的餐厅",
        "我住在北京\uff0c后来搬到上海",
        "我住在北京吗\uff1f",
    ],
)
def test_what_chinese_says_besides_a_former_value_stays(memory: Memory, told: str) -> None:
    memory.archive_turn(Turn(told, "好"))
    for value in ("北京", "上海"):
        memory.set_fact("location", value)

    assert recalled(memory, told) == [told]


@pytest.mark.parametrize(
    "told", ["There is no parking at the Weber clinic", "There is no parking", "I have no kids"]
)
def test_a_value_of_stop_words_hides_nothing(memory: Memory, told: str) -> None:
    memory.archive_turn(Turn(told, "Noted."))
    for value in ("no", "two"):
        memory.set_fact("has_kids", value)

    assert recalled(memory, told) == [told]


@given(
    st.lists(st.sampled_from(["I", "my", "is", "in", "live", "Austin", "location", "not", "we"])),
    st.sampled_from(["sister", "bank", "barbecue", "Anna", "works"]),
    st.sampled_from(["recommend", "clinic", "Rex", "dog", "never"]),
    st.randoms(use_true_random=False),
)
def test_turn_with_two_words_more_is_never_withheld(
    words: list[str], one: str, other: str, random: Random
) -> None:
    said = [*words, "Austin", one, other]
    random.shuffle(said)
    turn = SearchResult(1, " ".join(said), "Noted.", 5, 1.0, 1.0, 0.0, source="turn")
    former = former_values(
        [Fact("location", "Berlin", 9, 9)], [FactChange("location", "Austin", "explicit", 5)]
    )

    assert without_former_values([turn], former) == [turn]
    alone = replace(turn, question="I live in Austin")
    assert without_former_values([alone], former) == []


@pytest.mark.parametrize(("seconds", "is_shown"), [(-601, True), (-600, False), (600, False), (601, True)])
def test_value_is_learned_from_turns_of_ten_minutes(memory: Memory, seconds: int, is_shown: bool) -> None:
    memory.archive_turn(Turn("I live in Austin.", "Noted.", timestamp=NOW + seconds))
    memory.set_fact("location", "Austin")
    memory.set_fact("location", "Berlin")

    assert recalled(memory) == (["I live in Austin."] if is_shown else [])


def test_turn_of_two_hundred_characters_is_compared_and_a_longer_one_is_not(memory: Memory) -> None:
    for length in (199, 200, 201):
        text = "I live in Austin" + ", Austin" * 22
        memory.archive_turn(Turn(text + "," * (length - len(text)), f"Noted {length}.", timestamp=NOW))
    memory.set_fact("location", "Austin")
    memory.set_fact("location", "Berlin")

    assert [len(question) for question in recalled(memory)] == [201]


@pytest.mark.parametrize(
    ("question", "answer", "note"),
    [
        ("Where does the user live?", "In Köln", " (location is Berlin now)"),
        ("Which town do you live in?", "Köln", " (location is Berlin now)"),
        ("What IDE does the user prefer?", "VS Code", " (editor is Helix now)"),
        # The same, of somebody else, no question, no answer that is nothing but a value, or of a list.
        ("Where does the user live?", "In Berlin", ""),
        ("Where does the user's sister live?", "In Köln", ""),
        ("Where does the user live", "In Köln", ""),
        ("Where does the user live?", "In Köln, which is nice, or somewhere near it by now", ""),
        ("Do you live in Köln?", "yes", ""),
        ("Does the user have an allergy?", "To nuts", ""),
    ],
)
def test_an_imported_answer_says_which_newer_fact_it_contradicts(
    memory: Memory, question: str, answer: str, note: str
) -> None:
    memory.store_memory(question, answer, timestamp=NOW - DAY)
    for key, value in (("location", "Berlin"), ("editor", "Helix"), ("allergy", "kiwis")):
        memory.set_fact(key, value)

    assert f"Assistant: {answer}{note}]" in memory.recall(question).tail


def test_an_edited_answer_is_compared_with_the_facts_again(memory: Memory) -> None:
    question = "Where does the user live?"
    edited = memory.store_memory(question, "In Köln", timestamp=NOW - DAY)
    assert edited is not None
    memory.set_fact("location", "Berlin")
    for answer, note in (("In Köln", " (location is Berlin now)"), ("In Berlin", ""), ("In Bonn", " (loc")):
        memory.edit_memory(edited, answer=answer)

        assert f"Assistant: {answer}{note}" in memory.recall(question).tail
        assert bool(note) is ("now)" in memory.recall(question).tail)


def test_an_answer_that_is_newer_than_the_fact_contradicts_nothing(memory: Memory) -> None:
    memory.set_fact("location", "Berlin")
    memory.store_memory("Where does the user live?", "In Köln", timestamp=NOW + DAY)

    assert "now)" not in memory.recall("Where does the user live?").tail

    # Another user's fact is none of hers.
    memory.store_memory("Where does the user live?", "In Köln", "anna", timestamp=NOW - DAY)
    assert "now)" not in memory.recall("Where does the user live?", "anna").tail

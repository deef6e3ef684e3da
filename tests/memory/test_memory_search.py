"""What a search finds, in which order, and that nobody else's memories play a part in it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd._native.store import Connection
from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.types import SearchResult
from tests.examples import examples
from tests.postgres import IN_A_FILE

NOW = 1_700_000_000.0
DAY = 86_400

WORDS = ["dog", "cat", "Lisbon", "guitar", "python", "C++", "coffee", "what", "the", "日本語", "naïve", "a"]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)


def test_best_match_comes_first(memory: Memory) -> None:
    memory.store_memory("Which dog do I have?", "A dog called Rex, a very old dog")
    memory.store_memory("Where do I live?", "In Lisbon, with my dog")
    memory.store_memory("What do I drink?", "Coffee")

    results = memory.search("dog Rex")

    assert [result.question for result in results] == ["Which dog do I have?", "Where do I live?"]
    assert results[0].score > results[1].score > 0
    assert all(0 <= result.relevance <= 1 for result in results)


def test_search_knows_inflected_words(memory: Memory) -> None:
    memory.store_memory("Which hobbies?", "I was playing guitars")

    assert len(memory.search("do I play the guitar?")) == 1


def test_newer_of_two_equal_matches_comes_first(memory: Memory) -> None:
    old = memory.store_memory("Which coffee?", "espresso one", timestamp=NOW - 400 * DAY)
    new = memory.store_memory("Which coffee?", "espresso two", timestamp=NOW - DAY)

    results = memory.search("coffee")

    assert [result.id for result in results] == [new, old]
    assert [result.age_days for result in results] == [1.0, 400.0]


def test_memory_from_the_future_has_no_age(memory: Memory) -> None:
    memory.store_memory("Which coffee?", "espresso", timestamp=NOW + 5 * DAY)

    assert memory.search("coffee")[0].age_days == 0.0


def test_number_of_results_is_limited(memory: Memory) -> None:
    for n in range(50):
        memory.store_memory(f"coffee {n}?", "yes")

    assert len(memory.search("coffee")) == 3
    assert len(memory.search("coffee", 7)) == 7
    assert len(memory.search("coffee", 1000)) == 50
    assert memory.search("coffee", 0) == []


def test_threshold_leaves_out_what_is_less_relevant(memory: Memory) -> None:
    for n in range(20):
        memory.store_memory(f"topic {n}?", "dog " * (n % 3) + "Lisbon " * (n % 5))
    everything = memory.search("dog Lisbon", 50)
    relevances = sorted({result.relevance for result in everything})
    middle = relevances[len(relevances) // 2]

    found = memory.search("dog Lisbon", 50, threshold=middle)

    assert {result.id for result in found} == {r.id for r in everything if r.relevance >= middle}
    assert 0 < len(found) < len(everything)


def test_question_of_which_the_memory_knows_few_words_is_not_answered(memory: Memory) -> None:
    """It shares a word or two with what was said, and is about something else."""
    for n in range(200):
        memory.store_memory(f"What about topic {n}?", f"Topic {n} has a garden with {n} trees and a fence.")
    memory.store_memory("What does the heater in the garden shed need?", "A new thermostat.")

    known = memory.recall("What was it that the heater in the garden shed needs?").results
    unknown = memory.recall("Which heater did the dentist in Lisbon recommend to my brother?").results

    assert [result.answer for result in known][:1] == ["A new thermostat."]
    assert unknown == ()
    assert memory.search("Which heater did the dentist in Lisbon recommend to my brother?")[0].relevance > 0.1


def test_beginners_memory_answers_though_it_knows_few_words(memory: Memory) -> None:
    memory.store_memory("My anniversary is on 3 May.", "")
    memory.store_memory("I like jazz.", "")

    found = memory.recall("Can you suggest a restaurant for the dinner on my anniversary?").results

    assert [result.question for result in found] == ["My anniversary is on 3 May."]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_threshold_outside_of_0_to_1_is_refused(memory: Memory, database: str, threshold: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        memory.search("x", threshold=threshold)
    with pytest.raises(UsageError, match="between 0 and 1"):
        Memory(database, relevance_threshold=threshold)
    with pytest.raises(UsageError, match="between 0 and 1"):
        Memory(database, recency_floor=threshold)


@pytest.mark.parametrize(
    "query", ["", "   ", "?!", "\x00", "\udcff", "nothing like it", '"', "t1_rexx", "re*", "NEAR("]
)
def test_query_without_a_match_finds_nothing(memory: Memory, query: str) -> None:
    memory.store_memory("dog?", "Rex")

    assert memory.search(query) == []


def test_words_of_another_user_are_not_found(memory: Memory) -> None:
    memory.store_memory("dog?", "Rex")

    assert memory.search("dog", user_id="anna") == []


def found(memory: Memory, user_id: str, queries: list[str]) -> list[list[SearchResult]]:
    return [memory.search(query, 10, user_id) for query in queries]


_numbers = itertools.count()


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(sentences, sentences, st.integers(0, 400)), min_size=1, max_size=8),
    st.lists(
        st.tuples(st.sampled_from(["anna", "bob"]), sentences, sentences, st.sampled_from("sped")),
        max_size=12,
    ),
    st.lists(sentences, min_size=1, max_size=4),
)
def test_nothing_that_others_store_changes_what_a_user_finds(
    memory: Memory,
    mine: list[tuple[str, str, int]],
    others: list[tuple[str, str, str, str]],
    queries: list[str],
) -> None:
    # One database for all examples: in each somebody new among all who were there before.
    number = next(_numbers)
    me = f"steve{number}"
    for question, answer, age in mine:
        memory.store_memory(question, answer, me, timestamp=NOW - age * DAY)
    before = found(memory, me, queries)

    for n, (other, question, answer, then) in enumerate(others):
        user = f"{other}{number}"
        memory_id = memory.store_memory(question, answer, user)
        assert memory_id is not None
        if then == "p":
            memory.pin_memory(memory_id, user_id=user)
        if then == "e":
            memory.edit_memory(memory_id, answer=f"{answer} edit{n}", user_id=user)
        if then == "d":
            memory.delete_memory(memory_id, user)

    # Not only the same memories: the same scores, bit for bit.
    assert found(memory, me, queries) == before


@IN_A_FILE
def test_index_entry_without_its_row_is_no_result(memory: Memory, path: Path) -> None:
    gone = memory.store_memory("tea", "green")
    kept = memory.store_memory("tea tea", "black")
    with Connection(str(path)) as connection:
        connection.execute("DELETE FROM context WHERE id = ?", (gone,))

    assert [result.id for result in memory.search("tea")] == [kept]

"""What a message gets: the tail of facts and memories, of one moment, and the message itself unchanged."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.config import Config
from shepherd.memory import Memory, Turn
from shepherd.types import Injection
from tests.examples import examples
from tests.memory.conftest import NOW

QUESTION = "Which IDE do I prefer?"
GOLDEN = (
    "\n\n[facts: location=Texas, name=Steve]\n"
    "[context: User: What IDE does the user prefer?\nAssistant: VS Code with vim keybindings]"
)


@pytest.fixture
def known(memory: Memory) -> Memory:
    memory.set_fact("name", "Steve")
    memory.set_fact("location", "Texas")
    memory.store_memory("What IDE does the user prefer?", "VS Code with vim keybindings")
    # Relevance compares with what else the user has said; a single memory says nothing about itself.
    for n, topic in enumerate(["tea", "rain", "chess", "jazz", "bread", "trains"]):
        memory.store_memory(f"Do you like {topic}?", f"Yes, {topic} number {n}")
    return memory


def test_message_is_enriched_byte_for_byte(known: Memory) -> None:
    assert known.enrich(QUESTION) == QUESTION + GOLDEN


def test_recall_says_what_it_added_and_why(known: Memory) -> None:
    injection = known.recall(QUESTION)

    assert injection.tail == GOLDEN
    assert [fact.key for fact in injection.facts] == ["location", "name"]
    assert [result.answer for result in injection.results] == ["VS Code with vim keybindings"]
    assert injection.results[0].relevance >= known.relevance_threshold
    assert "ide" in injection.keywords
    assert injection.recall_us > 0


def test_facts_are_added_when_no_memory_fits(known: Memory) -> None:
    assert known.enrich("bonjour") == "bonjour\n\n[facts: location=Texas, name=Steve]"
    assert known.enrich("") == "\n\n[facts: location=Texas, name=Steve]"


def about_rex(n: int) -> list[dict[str, str]]:
    return [{"question": f"My dog Rex was in park {i} today.", "answer": "Good to know."} for i in range(n)]


def test_words_of_all_memories_find_the_best_of_a_small_memory(memory: Memory) -> None:
    memory.import_memories(about_rex(40))

    found = memory.recall("Tell me about my dog Rex").results

    assert len(found) == memory.max_results
    assert all("Rex" in result.question for result in found)
    assert all(0 < result.relevance < memory.relevance_threshold for result in found)
    # A word that no memory has makes it another question.
    assert not memory.recall("Does my dog Rex like Bella?").results
    assert not memory.recall("ok, thanks").results


def test_words_of_a_whole_large_memory_find_nothing(memory: Memory) -> None:
    memory.import_memories(about_rex(201))

    assert not memory.recall("Tell me about my dog Rex").results


def test_message_of_a_user_without_memory_is_untouched(known: Memory) -> None:
    assert known.enrich(QUESTION, "anna") == QUESTION
    assert not known.recall(QUESTION, "anna")


def test_memories_below_the_threshold_are_not_added(database: str) -> None:
    with Memory(database, relevance_threshold=1.0) as memory:
        memory.store_memory("What IDE does the user prefer?", "VS Code")
        memory.store_memory("other", "thing")

        assert memory.enrich(QUESTION) == QUESTION


def test_changed_facts_are_seen_at_once(known: Memory) -> None:
    known.recall("hi")

    known.set_fact("location", "Lisbon")

    assert known.recall("hi").tail == "\n\n[facts: location=Lisbon, name=Steve]"
    known.clear_fact("location")
    assert known.recall("hi").tail == "\n\n[facts: name=Steve]"


def test_what_another_memory_object_writes_is_seen_at_once(known: Memory, database: str) -> None:
    known.recall("guitar")
    with Memory(database, user_id="steve") as other:
        other.set_fact("pet", "Rex")
        memory_id = other.store_memory("Which guitar?", "A Telecaster")

        injection = known.recall("the guitar")

    assert "pet" in [fact.key for fact in injection.facts]
    assert [result.id for result in injection.results] == [memory_id]


def test_other_threads_recall_the_same(known: Memory) -> None:
    tails: list[str] = []

    def ask() -> None:
        tails.extend(known.recall(QUESTION).tail for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(50):
        known.store_memory(f"rain {n}?", "yes", "anna")
    for thread in threads:
        thread.join()

    assert tails == [GOLDEN] * 200


@pytest.mark.parametrize(
    "message", ["a\x00b IDE", "IDE \udcff\udce9", "\ud800", "IDE " * 2_500_000, "[facts: x=y]\n\n"]
)
def test_unusual_message_is_passed_on_unchanged(known: Memory, message: str) -> None:
    enriched = known.enrich(message)

    assert enriched.startswith(message)
    assert enriched[len(message) :].startswith("\n\n[facts: location=Texas, name=Steve]")


_numbers = itertools.count()


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=5),
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), max_size=5),
    st.text(alphabet=st.characters(), max_size=60),
)
def test_any_message_comes_first_and_whole(
    memory: Memory, facts: list[tuple[str, str]], memories: list[tuple[str, str]], message: str
) -> None:
    user = f"somebody new {next(_numbers)}"
    for key, value in facts:
        if key.strip() and value.strip():
            memory.set_fact(key, value, user)
    for question, answer in memories:
        if question.strip() or answer.strip():
            memory.store_memory(question, answer, user)

    injection = memory.recall(message, user)

    assert memory.enrich(message, user) == message + injection.tail
    assert injection.tail.count("]") == bool(injection.facts) + bool(injection.results)
    assert bool(injection.tail) == bool(injection.facts or injection.results)


@pytest.mark.parametrize("n_told", [1, 2, 40])
def test_memories_of_the_running_session_stay_out_and_others_move_up(memory: Memory, n_told: int) -> None:
    memory.relevance_threshold = 0.0
    earlier = [memory.store_memory(f"tea {n}", "green tea", session="earlier") for n in range(3)]
    for n in range(n_told):
        memory.store_memory(f"tea tea {n}", "tea", session="now")

    results = memory.recall("tea", except_session="now").results

    assert sorted(result.id for result in results) == earlier


def test_library_and_settings_have_the_same_defaults(path: Path) -> None:
    settings = Config()

    with Memory(path) as memory:
        assert memory.relevance_threshold == settings.rag_relevance_threshold == 0.3
        assert memory.recency_floor == settings.rag_recency_floor == 0.9
        assert memory.max_results == settings.rag_max_results == 3


def test_session_stays_out_from_the_very_second_on(memory: Memory) -> None:
    told = memory.store_memory("the tea", "green", session="now", timestamp=NOW - 10)

    assert memory.recall("tea", except_session="now", except_since=int(NOW) - 10).results == ()
    [later] = memory.recall("tea", except_session="now", except_since=int(NOW) - 9).results
    assert later.id == told


def test_question_that_was_asked_often_takes_one_place(memory: Memory) -> None:
    for number in range(60):
        memory.store_memory(f"what is item{number} like", f"it is thing{number}")
    wanted = memory.archive_turn(Turn("My bicycle is a red Peugeot in the garage", "Noted."))
    asked = [
        memory.archive_turn(Turn(text, f"I am not sure {text}", session=f"s{n}"))
        for n, text in enumerate(
            ["Hmm, what about the bicycle", "hmm, what about the bicycle?", "Hmm, what about the bicycle..."]
        )
    ]
    by_hand = [memory.store_memory("hmm, what about the bicycle", f"by hand {n}") for n in range(2)]

    found = [result.id for result in memory.recall("what about the bicycle").results]

    assert len(found) == 3
    assert len(set(found) & set(asked)) == 1
    assert {*asked, *by_hand} <= {result.id for result in memory.search("bicycle", 10)}
    for memory_id in by_hand:
        memory.delete_memory(memory_id)
    assert wanted in [result.id for result in memory.recall("what about the bicycle").results]


@pytest.mark.parametrize("user_id", ["", "unknown", "  "])
def test_nobody_reads_and_writes_nothing(known: Memory, user_id: str) -> None:
    before = known.stats()

    assert known.store_memory("q", "a", user_id) is None
    known.set_fact("name", "x", user_id)
    session = known.start_session(user_id)

    assert known.recall(QUESTION, user_id) == Injection()
    assert known.enrich(QUESTION, user_id) == QUESTION
    assert known.search("IDE", user_id=user_id) == []
    assert known.get_fact("name", user_id) is None
    assert known.get_all_facts(user_id) == []
    assert known.fact_history(user_id=user_id) == []
    assert not known.clear_fact("name", user_id)
    assert known.clear_memory("What IDE does the user prefer?", user_id) == 0
    assert known.list_memories(user_id) == []
    assert known.count_memories(user_id) == 0
    assert session == ""
    assert known.load_session(session, user_id) == []
    assert list(known.export_memories(user_id)) == []
    assert known.import_memories(['{"question": "q", "answer": "a"}'], user_id).memories == 0
    assert known.audit(user_id) == []
    assert known.stats(user_id).memories == 0
    assert known.stats() == before


def test_nobody_leaves_no_trace_in_a_new_database(path: Path) -> None:
    with Memory(path, user_id="unknown") as memory:
        memory.store_memory("q", "a")
        memory.set_fact("k", "v")
        memory.start_session()
        memory.recall("q")

    with Memory(path, user_id="unknown") as memory:
        assert memory.check().ok
        with memory._store._database.read() as connection:  # type: ignore[attr-defined]
            assert connection.execute("SELECT count(*) FROM tenants") == [(0,)]


def test_of_more_facts_than_fit_a_message_gets_those_that_it_is_about(database: str) -> None:
    now = [1000.0]
    with Memory(database, user_id="steve", clock=lambda: now[0]) as memory:
        for key, value in (
            ("name", "Peter"),
            ("allergy", "penicillin"),
            ("son_allergy", "nuts"),
            ("dog_name", "Rex"),
            ("boiler_company", "Vaillant"),
            ("instructions", "be brief"),
        ):
            memory.set_fact(key, value)
        now[0] += 60
        for number in range(130):
            memory.set_fact(f"project_{number}_status", f"milestone {number} is done, a review is pending")

        def told(message: str) -> set[str]:
            injection = memory.recall(message)
            shown = {fact.key for fact in injection.facts}
            assert len(injection.tail) < 5000
            assert all(
                f"{fact.key}=" in injection.tail for fact in injection.facts if fact.key != "instructions"
            )
            return {key for key in shown if not key.startswith("project_")}

        always = {"name", "allergy", "son_allergy", "instructions"}
        assert told("Good morning!") == always
        assert told("What's my dog called?") == always | {"dog_name"}
        assert told("Is Rex old enough for a walk?") == always | {"dog_name"}
        assert told("Who do I call about the boiler?") == always | {"boiler_company"}
        assert "project_7_status" in {fact.key for fact in memory.recall("How is project 7?").facts}

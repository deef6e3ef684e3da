"""Parts of the memory that need no database, or a small one: choosing results, limits, texts in pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from shepherd.errors import ModelError, ProviderUnavailableError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.injection_format import MAX_FACTS, shown_facts
from shepherd.memory.queries import RecallQuery, Row, best_results, result_of, taking_turns
from shepherd.memory.redundant_turns import FactWords, repeats
from shepherd.memory.schema import memory_range
from shepherd.memory.sessions import size_of
from shepherd.memory.stop_words import is_filler
from shepherd.memory.vectors.embedding import embed_question
from shepherd.types import Fact, Message, ToolCall

NOW = 1_700_000_000
DAY = 86_400


# ---- the best of what a search finds


def rows_of(n: int, question: str = "q{}", session: str = "") -> dict[int, Row]:
    """Rows with the ids 1 to n, the first one best; their times are a day apart."""
    return {
        number: (number, question.format(number), "", NOW - number * DAY, 0, "turn", session)
        for number in range(1, n + 1)
    }


class Search:
    """Finds rows in the order of their ids, and counts how many were asked for."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.rows = rows
        self.asked: list[int] = []

    def find(self, n: int) -> list[tuple[int, int, float, float]]:
        self.asked.append(n)
        return [(number, 0, 100.0 - number, 0.5) for number in sorted(self.rows)][:n]

    def results(self, limit: int, **options: object) -> list[int]:
        query = RecallQuery(["a"], limit, NOW, 0.9, 0.3)._replace(**options)
        found = best_results(query, self.find, lambda ids: {number: self.rows[number] for number in ids})
        assert all(one.score == 100.0 - one.id for one in found if not query.is_about_several)
        return [one.id for one in found]


def test_as_many_results_as_there_are_up_to_the_limit() -> None:
    search = Search(rows_of(9))
    assert search.results(3) == [1, 2, 3]
    assert search.results(9) == list(range(1, 10))
    assert search.results(20) == list(range(1, 10))
    assert search.asked == [3, 9, 20]
    assert Search({}).results(3) == []


def test_more_are_asked_for_while_some_are_left_out() -> None:
    rows = rows_of(30)
    for number in range(1, 8):
        rows[number] = (*rows[number][:6], "running")
    search = Search(rows)

    assert search.results(3, except_session="running") == [8, 9, 10]
    assert search.asked == [3, 12]
    # Only what was told from a moment on is left out of the running conversation.
    assert search.results(3, except_session="running", except_since=NOW - 5 * DAY) == [6, 7, 8]
    assert search.results(3, except_session="another") == [1, 2, 3]
    assert Search(rows).results(3) == [1, 2, 3]


def test_of_the_same_question_the_best_is_a_result() -> None:
    rows = rows_of(40, "What is it?")
    rows[33] = (33, "Something else", *rows[33][2:])
    search = Search(rows)

    assert search.results(2, distinct_questions=True) == [1, 33]
    assert search.asked == [2, 8, 32, 128]
    assert search.results(2) == [1, 2]
    # A conversation's own memories are not: they have no question of the user's.
    kept = {number: (*row[:5], "user", "") for number, row in rows.items()}
    assert Search(kept).results(3, distinct_questions=True) == [1, 2, 3]
    # As many hits as were allowed, though few questions: it ends.
    many = Search(rows_of(2000, "What is it?"))
    assert many.results(2, distinct_questions=True) == [1]
    assert many.asked[-1] <= 1024


def test_several_sessions_have_their_turn() -> None:
    rows = rows_of(40)
    for number in rows:
        rows[number] = (*rows[number][:6], "one" if number < 35 else f"s{number}")
    search = Search(rows)

    assert search.results(3, is_about_several=True) == [1, 2, 3]
    assert search.asked == [32]  # as many as may take turns
    results = [
        result_of(row, score, 0.5, NOW) for row, score in zip(rows.values(), (10, 9, 8, 7), strict=False)
    ]
    sessions = {1: "a", 2: "a", 3: "b", 4: ""}
    told = [(one.id, one.score) for one in taking_turns(results[:4], sessions)]
    assert told == [(1, 10), (3, 8), (4, 7), (2, pytest.approx(6.3))]


def test_the_age_of_a_result_is_in_days_and_not_below_none() -> None:
    row = (7, "q", "a", NOW - DAY // 2, 1, "user", "s")
    found = result_of(row, 2.0, 0.25, NOW)

    assert (found.id, found.question, found.answer, found.timestamp) == (7, "q", "a", NOW - DAY // 2)
    assert (found.score, found.relevance, found.age_days, found.pinned) == (2.0, 0.25, 0.5, True)
    assert result_of((*row[:3], NOW + DAY, 0, *row[5:]), 1, 1, NOW).age_days == 0.0
    assert not result_of((*row[:4], 0, *row[5:]), 1, 1, NOW).pinned


def test_ids_of_users_follow_one_another_without_a_gap() -> None:
    first, last = memory_range(3)

    assert (first, last) == (3 << 40, (4 << 40) - 1)
    assert memory_range(4)[0] == last + 1


# ---- what a message says, and what facts say already


def test_a_turn_repeats_facts_that_are_said_whole() -> None:
    facts = FactWords(
        (frozenset({"my", "dog", "is", "rex"}), frozenset({"i", "live", "in", "ulm"})),
        frozenset({"my", "dog", "is", "rex", "i", "live", "in", "ulm"}),
    )

    assert repeats("My dog is Rex", facts)
    assert repeats("My dog is Rex. I live in Ulm", facts)
    assert not repeats("My dog is in Ulm", facts)
    assert not repeats("my dog is", facts)
    assert not repeats("My cat is Rex", facts)
    assert not repeats("Anything", facts)
    assert repeats("My dog is Rex".ljust(200), facts)
    assert not repeats("My dog is Rex".ljust(201), facts)


@pytest.mark.parametrize(
    ("text", "words", "says_nothing"),
    [
        ("hello", ["hello"], True),
        ("go on please", ["go", "please"], True),
        ("and carry on", ["carri", "on"], True),
        ("carry on with kites", ["carri", "kite"], False),
        ("hello kites", ["hello", "kite"], False),
        ("was ist das", ["was", "ist", "das"], True),
        ("hallo was ist das", ["hallo", "was", "ist", "das"], True),
        ("nicht pourquoi", ["nicht", "pourquoi"], False),  # words of two languages
        ("", [], True),
    ],
)
def test_a_text_of_small_talk_and_stop_words_of_one_language_says_nothing(text, words, says_nothing) -> None:
    assert is_filler(text, words) is says_nothing


def test_facts_fill_their_share_to_the_last_character() -> None:
    def facts(n: int, more: int) -> list[Fact]:
        # " k00=v…," has its key, its value and three characters more.
        values = ["v" * 95 for _ in range(n - 1)] + ["v" * (95 + more)]
        return [Fact(f"k{at:02}", value, 1, at) for at, value in enumerate(values)]

    size = 3 + 1 + 95 + 2
    n = MAX_FACTS // size + 5
    shown = shown_facts(facts(n, 0))
    assert len(shown) == MAX_FACTS // size
    assert [fact.key for fact in shown] == [f"k{at:02}" for at in range(n - len(shown), n)]
    left = MAX_FACTS - len(shown) * size
    assert len(shown_facts(facts(n, left))) == len(shown)
    assert len(shown_facts(facts(n, left + 1))) == len(shown) - 1
    few = facts(3, 0)
    assert shown_facts(few) is few


class Embedder:
    """Takes texts up to a length."""

    def __init__(self, longest: int, error: Exception) -> None:
        self.longest, self.error = longest, error
        self.asked: list[int] = []

    def embed_query(self, text: str) -> np.ndarray:
        self.asked.append(len(text))
        if len(text) > self.longest:
            raise self.error
        return np.zeros(2, np.float32)

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError


def test_of_a_question_that_is_refused_the_beginning_is_embedded() -> None:
    embedder = Embedder(512, ModelError("too long"))
    assert embed_question(embedder, "x" * 513).shape == (2,)
    assert embedder.asked == [513, 512]
    for longest, n, error in ((511, 512, ModelError("odd")), (5, 600, ProviderUnavailableError("away"))):
        embedder = Embedder(longest, error)
        with pytest.raises(type(error)):
            embed_question(embedder, "x" * n)
        assert embedder.asked == [n]


# ---- with a database


@pytest.fixture
def memory(tmp_path: Path):
    with Memory(tmp_path / "memory.db", user_id="steve", clock=lambda: NOW) as opened:
        yield opened


def test_a_large_import_is_stored_in_batches_and_counted(memory: Memory) -> None:
    steps: list[int] = []
    lines = [json.dumps({"type": "memory", "question": f"q{n}", "answer": "a"}) for n in range(1001)]
    path = Path(memory.path).with_name("lines.jsonl")
    path.write_text("\n".join(lines))

    counts = memory.import_file(path, progress=lambda done, total: steps.append(done))

    assert counts.memories == 1001
    assert len(steps) == 3  # of 500 each, and the rest
    assert memory.count_memories() == 1001


def test_a_sentence_with_a_secret_is_left_out_of_a_change_and_another_is_kept(memory: Memory) -> None:
    change = {"type": "fact-change", "key": "city", "source": "extraction", "changed_at": 5}
    memory.import_memories(
        [
            change | {"value": "Ulm", "statement": "I live in Ulm."},
            change | {"value": "Bonn", "changed_at": 6, "statement": "Bonn, and my password is Tr0ub4dor."},
        ]
    )

    assert [(one.value, one.statement) for one in memory.fact_history("city")] == [
        ("Ulm", "I live in Ulm."),
        ("Bonn", ""),
    ]


def test_messages_count_for_the_size_of_their_user(memory: Memory) -> None:
    def held() -> int:
        rows = memory.transactions.read(
            lambda connection: connection.execute("SELECT message_bytes FROM tenants WHERE user_id = 'steve'")
        )
        return rows[0][0]

    session = memory.start_session()
    before = held()
    memory.append_message(session, Message("user", "x" * 1000))
    assert held() >= before + 1000
    memory.append_message(session, Message("assistant", "y" * 500))
    memory.clear_session(session)
    assert held() == before


def test_a_question_about_an_order_gets_twice_as_many_memories(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", max_results=4, relevance_threshold=0.0, clock=lambda: NOW) as memory:
        for n in range(20):
            memory.store_memory(f"Walrus number {n}?", f"It swam in harbour {n}.", timestamp=NOW - n * DAY)

        assert len(memory.recall("Which walrus swam in the harbour?").results) == 4
        assert len(memory.recall("In which order did the walrus swim in the harbour?").results) == 8


def test_rows_with_a_word_are_counted_whichever_column_has_it(memory: Memory) -> None:
    memory.store_memory("Where does canary4711 live?", "At home.")
    memory.store_memory("Who lives at home?", "The Canary4711.")
    memory.store_memory("canary4711?", "canary4711!")
    memory.store_memory("Who else?", "Nobody.")

    assert memory.tables_with(["canary4711"])["context"] == 3
    assert memory.tables_with(["nobody", "canary4711"])["context"] == 4
    assert memory.tables_with(["canary4712"]) == {}


def test_all_of_a_message_counts_for_its_size() -> None:
    plain = size_of(Message("user", "hello"))

    assert plain == 3 * 5 + 256
    assert size_of(Message("user", "hello", token_ids=(1, 2))) == plain + 8
    assert size_of(Message("user", "hello", thought="hm")) == plain + 6
    assert size_of(Message("user", "hello", tool_calls=(ToolCall("a", "f", "{}"),))) == plain + 6


def test_passages_of_a_node_have_no_score(memory: Memory) -> None:
    knowledge = Knowledge(memory.transactions, "steve", clock=lambda: NOW)
    node = knowledge.add_node("Kites", source_text="A kite needs wind.")

    assert {(one.score, one.relevance) for one in knowledge.chunks_of(node.id)} == {(0.0, 0.0)}

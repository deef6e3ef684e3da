"""Recall against its twin, bit for bit: corpora, edits, users; on real files."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shepherd._native import text
from shepherd._native.store import Connection, Recall
from tests.examples import examples
from tests.native import recall_database as database
from tests.native import twin_rank
from tests.native.recall_database import DAY, NOW, WORDS, documents_of, zipf_memories
from tests.native.twin_rank import Document

words = st.sampled_from(WORDS)
texts = st.lists(words, max_size=6)
times = st.integers(NOW - 800 * DAY, NOW + 10 * DAY) | st.sampled_from([0, NOW, NOW - 30 * DAY])
threads = st.integers(0, 2) | st.sampled_from([-7, 2**31 - 1, -(2**31) + 1])
labels = st.just(0) | words.map(twin_rank.key)
memories = st.tuples(texts, texts, times, threads, labels, st.integers(0, 63))
spans = st.tuples(times, st.integers(0, 400 * DAY)).map(lambda span: (span[0], span[0] + span[1]))
queries = st.fixed_dictionaries(
    {
        "keywords": st.lists(words | st.just("unknown"), min_size=1, max_size=10),
        "k": st.integers(1, 12),
        "now": st.sampled_from([NOW, NOW + 0.5, NOW - 100 * DAY, NOW + 1000 * DAY]),
    }
)
options = st.fixed_dictionaries(
    {},
    optional={
        "k1": st.sampled_from([0.0, 0.9, 1.2, 2.0]),
        "b": st.sampled_from([0.0, 0.3, 0.75, 1.0]),
        "recency_floor": st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        "min_relevance": st.sampled_from([0.0, 0.1, 0.3, 0.7, 0.99, 1.0, 2.0]),
        "periods": st.lists(spans, max_size=3),
        "weights": st.tuples(
            *[st.sampled_from([0.0, 0.3, 1.0, 1.7])] * 11,
            st.sampled_from([0.3, 0.875, 1.7]),
            st.sampled_from([0.0, 0.2]),
        ),
        "is_request": st.booleans(),
    },
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with database.create(tmp_path / "memory.db") as connection:
        yield connection


# ---- the same as the twin


@settings(max_examples=examples(150))
@given(st.lists(memories, max_size=30), st.lists(st.tuples(queries, options), min_size=1, max_size=8))
def test_results_are_the_twins_bit_for_bit(stored: list[Any], asked: list[Any]) -> None:
    with database.create(":memory:") as connection:
        documents = documents_of(database.add(connection, 3, stored), stored)
        recall = Recall()
        for query, option in asked:
            found = recall.search(connection, 3, **query, **option)

            assert found == twin_rank.search(documents, **query, **option)


class History(RuleBasedStateMachine):
    """Memories of three users come, change and go, through two connections and one Recall."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "memory.db"
        self.writer, self.reader = database.create(path), Connection(path, read_only=True)
        self.recall = Recall()
        self.documents: dict[int, dict[int, Document]] = {1: {}, 2: {}, 3: {}}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.writer.close()
            self.reader.close()
            self.folder.cleanup()

    @rule(tenant=st.integers(1, 3), stored=st.lists(memories, min_size=1, max_size=8))
    def add(self, tenant: int, stored: list[Any]) -> None:
        for document in documents_of(database.add(self.writer, tenant, stored), stored):
            self.documents[tenant][document.id] = document

    @rule(tenant=st.integers(1, 3), choice=st.randoms(use_true_random=False))
    def delete(self, tenant: int, choice: random.Random) -> None:
        if self.documents[tenant]:
            id = choice.choice(list(self.documents[tenant]))
            database.delete(self.writer, id)
            del self.documents[tenant][id]

    @rule(tenant=st.integers(1, 3), changed=memories, choice=st.randoms(use_true_random=False))
    def edit(self, tenant: int, changed: Any, choice: random.Random) -> None:
        if self.documents[tenant]:
            id = choice.choice(list(self.documents[tenant]))
            database.edit(self.writer, id, *changed)
            self.documents[tenant][id] = database.document(id, *changed)

    @rule(tenant=st.integers(1, 3), stored=memories)
    def add_and_take_back(self, tenant: int, stored: Any) -> None:
        self.writer.execute("BEGIN IMMEDIATE")
        [id] = database.add(self.writer, tenant, [stored])
        expected = [*self.documents[tenant].values(), database.document(id, *stored)]
        self.check(self.writer, tenant, expected)
        self.writer.execute("ROLLBACK")

    @rule(tenant=st.integers(1, 3))
    def forget(self, tenant: int) -> None:
        self.recall.forget(tenant)

    @rule()
    def merge_the_index(self) -> None:
        self.writer.execute("INSERT INTO context_fts (context_fts) VALUES ('optimize')")

    def check(self, connection: Connection, tenant: int, documents: list[Document]) -> None:
        for keywords in (["alpha", "bravo", "nothing"], WORDS[2:], ["golf"]):
            found = self.recall.search(connection, tenant, keywords, 5, NOW)
            assert found == twin_rank.search(documents, keywords, 5, NOW)

    @invariant()
    def every_user_finds_what_is_there(self) -> None:
        if not hasattr(self, "folder"):
            return
        for tenant, documents in self.documents.items():
            self.check(self.reader, tenant, list(documents.values()))
            self.check(self.writer, tenant, list(documents.values()))


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=examples(25), stateful_step_count=20)


def test_words_of_thousands_of_memories_rank_as_the_twin_says(connection: Connection) -> None:
    stored = zipf_memories(1, 6000, 300)
    documents = documents_of(database.add(connection, 1, stored), stored)
    recall = Recall()
    for keywords in (["w0", "w1", "w2"], ["w5", "w200", "w40", "w3"], ["w299"], ["w250", "w0", "none"]):
        for floor in (0.0, 0.9):
            expected = twin_rank.search(documents, keywords, 10, NOW, recency_floor=floor)

            assert recall.search(connection, 1, keywords, 10, NOW, recency_floor=floor) == expected


def test_the_worst_candidate_is_the_right_one(connection: Connection) -> None:
    """Of forty users, without recency: no bound has room for an error of one place among the candidates."""
    rng = random.Random(3)
    for tenant in range(1, 41):
        stored = [(["alpha"], ["bravo"] * rng.randrange(400), NOW) for _ in range(45)]
        documents = database.documents_of(database.add(connection, tenant, stored), stored)

        found = Recall().search(connection, tenant, ["alpha"], 40, NOW, recency_floor=1.0)

        assert found == twin_rank.search(documents, ["alpha"], 40, NOW, recency_floor=1.0)


def test_unknown_words_before_known_ones_change_nothing(connection: Connection) -> None:
    stored = zipf_memories(6, 2500, 90)
    documents = documents_of(database.add(connection, 1, stored), stored)
    recall = Recall()
    for keywords in (["no", "w3"], ["no", "none", "w3", "not", "w80"], ["w3", "no"], ["no", "none"], ["no"]):
        assert recall.search(connection, 1, keywords, 5, NOW) == twin_rank.search(documents, keywords, 5, NOW)


def with_one_instruction(place: int) -> list[Any]:
    """Exchanges with an assistant, each longer than the one before it; at `place` is an instruction."""
    return [(["alpha"] + ["long"] * i, ["reply"], NOW, 0, 0, 24 if i == place else 8) for i in range(100)]


@pytest.mark.parametrize(("place", "is_found"), [(20, True), (40, True), (60, False)])
def test_a_request_has_more_candidates_among_which_is_an_instruction(
    connection: Connection, place: int, is_found: bool
) -> None:
    stored = with_one_instruction(place)
    documents = documents_of(database.add(connection, 1, stored), stored)

    found = Recall().search(connection, 1, ["alpha"], 3, NOW, is_request=True)

    assert found == twin_rank.search(documents, ["alpha"], 3, NOW, is_request=True)
    assert (found[0][0] == documents[place].id) == is_found


def test_many_keywords_over_many_memories_rank_as_the_twin_says(connection: Connection) -> None:
    stored = zipf_memories(7, 2000, 120)
    documents = documents_of(database.add(connection, 1, stored), stored)
    asked = [f"w{i}" for i in range(140, 76, -1)]

    found = Recall().search(connection, 1, asked, 9, NOW)

    assert found == twin_rank.search(documents, asked, 9, NOW)


def test_words_that_only_late_memories_have_rank_as_the_twin_says(connection: Connection) -> None:
    rare = [(["old"], ["filler"], NOW - i) for i in range(5000)]
    stored = rare + [(["new", "late"], ["filler"] * (i % 3), NOW - i) for i in range(3000)]
    documents = documents_of(database.add(connection, 1, stored), stored)

    found = Recall().search(connection, 1, ["new", "late", "filler"], 7, NOW)

    assert found == twin_rank.search(documents, ["new", "late", "filler"], 7, NOW)


def test_index_of_many_small_segments_ranks_as_a_merged_one(connection: Connection) -> None:
    connection.execute("INSERT INTO context_fts (context_fts, rank) VALUES ('automerge', 0)")
    stored = zipf_memories(2, 2000, 100)
    documents = []
    for start in range(0, 2000, 50):
        part = stored[start : start + 50]
        documents += documents_of(database.add(connection, 1, part), part)
    [(n_segments,)] = connection.execute("SELECT count(DISTINCT segid) FROM context_fts_idx")
    assert n_segments > 8
    recall = Recall()
    for keywords in (["w0", "w7"], ["w50", "w51", "w99", "w3"]):
        expected = twin_rank.search(documents, keywords, 5, NOW)
        assert recall.search(connection, 1, keywords, 5, NOW) == expected

    connection.execute("INSERT INTO context_fts (context_fts) VALUES ('optimize')")

    assert recall.search(connection, 1, ["w0", "w7"], 5, NOW) == twin_rank.search(
        documents, ["w0", "w7"], 5, NOW
    )


def test_of_many_keywords_the_sixteen_rarest_count(connection: Connection) -> None:
    vocabulary = [f"w{i}" for i in range(60)]
    rng = random.Random(4)
    stored = [
        ([w for i, w in enumerate(vocabulary) if rng.random() < i / 70], ["x"], NOW - i) for i in range(120)
    ]
    documents = documents_of(database.add(connection, 1, stored), stored)
    asked = rng.sample(vocabulary, 50)

    assert len(twin_rank.chosen_keywords(documents, asked)) == 16
    assert Recall().search(connection, 1, asked, 9, NOW) == twin_rank.search(documents, asked, 9, NOW)


def test_of_equally_rare_keywords_the_earlier_count(connection: Connection) -> None:
    vocabulary = [f"w{i}" for i in range(24)]
    stored = [([word], ["x"], NOW) for word in vocabulary]
    ids = database.add(connection, 1, stored)

    found = Recall().search(connection, 1, vocabulary, 30, NOW)

    assert [hit[0] for hit in found] == ids[15::-1]
    assert found == twin_rank.search(documents_of(ids, stored), vocabulary, 30, NOW)


def test_keywords_after_the_sixty_fourth_are_not_looked_up(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    padding = [f"w{i}" for i in range(64)]
    recall = Recall()

    assert recall.search(connection, 1, [*padding[:63], "alpha"], 3, NOW)
    assert recall.search(connection, 1, [*padding, "alpha"], 3, NOW) == []


def test_repeated_keyword_counts_once(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW), (["bravo"], ["carol"], NOW)])
    recall = Recall()

    once = recall.search(connection, 1, ["bravo", "carol"], 3, NOW)

    assert recall.search(connection, 1, ["bravo", "carol", "bravo", "carol"], 3, NOW) == once


def test_of_equal_scores_the_larger_id_comes_first(connection: Connection) -> None:
    ids = database.add(connection, 1, [(["alpha"], ["bravo"], NOW)] * 5000)

    found = Recall().search(connection, 1, ["alpha"], 4, NOW)

    assert [hit[0] for hit in found] == ids[:-5:-1]
    assert len({hit[1:] for hit in found}) == 1


def test_more_hits_than_asked_for_memories_are_all_returned(connection: Connection) -> None:
    ids = database.add(connection, 1, [(["alpha"], [], NOW - i * DAY) for i in range(20)])

    found = Recall().search(connection, 1, ["alpha"], 10**12, NOW)

    assert [hit[0] for hit in found] == ids


def test_terms_with_punctuation_are_found_as_the_tokenizer_stored_them(connection: Connection) -> None:
    columns = [text.scoped(message, 1) for message in ("I like C++", "I like C", "user@example.com is mine")]
    for i, (column, length) in enumerate(columns):
        [id] = database.add(connection, 1, [([], [], NOW - i)])
        connection.execute("UPDATE context SET doc_len = ? WHERE id = ?", (length, id))
        connection.execute(
            "INSERT OR REPLACE INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, '')",
            (id, column),
        )

    [(best, *_), *_] = Recall().search(connection, 1, text.keywords("who knows C++?"), 3, NOW)

    assert best & 0xFF == 1
    assert [
        hit[0] & 0xFF for hit in Recall().search(connection, 1, text.keywords("user@example.com"), 3, NOW)
    ] == [3]


@pytest.mark.parametrize(
    "keyword", ['"', "a b", "t2_alpha", "*", "\0", "AND", "alpha\0", "", "^", "-", "ALPHA", "é"]
)
def test_keyword_is_never_read_as_query_syntax(connection: Connection, keyword: str) -> None:
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW)])
    database.add(connection, 2, [(["alpha"], ["bravo"], NOW)])

    assert Recall().search(connection, 1, [keyword], 3, NOW) == []


# ---- users


@settings(max_examples=examples(50))
@given(st.lists(memories, max_size=10), st.lists(memories, min_size=1, max_size=30), queries, options)
def test_results_do_not_depend_on_other_users(
    mine: list[Any], others: list[Any], query: Any, option: Any
) -> None:
    with database.create(":memory:") as connection:
        recall = Recall()
        database.add(connection, 12, mine)
        before = recall.search(connection, 12, **query, **option)

        database.add(connection, 1, others)
        database.add(connection, 2, others)
        database.add(connection, 122, others)

        assert recall.search(connection, 12, **query, **option) == before


def test_user_without_memories_finds_nothing(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])

    assert Recall().search(connection, 2, ["alpha"], 3, NOW) == []


def test_user_whose_memories_are_all_gone_finds_nothing(connection: Connection) -> None:
    [id] = database.add(connection, 1, [(["alpha"], [], NOW)])
    recall = Recall()
    assert recall.search(connection, 1, ["alpha"], 3, NOW)

    database.delete(connection, id)

    assert recall.search(connection, 1, ["alpha"], 3, NOW) == []


def test_many_users_are_kept_apart(connection: Connection) -> None:
    recall = Recall()
    connection.execute("BEGIN")
    ids = {tenant: database.add(connection, tenant, [(["alpha"], [], NOW)] * 2) for tenant in range(1, 400)}
    connection.execute("COMMIT")
    for _ in range(2):
        for tenant, expected in ids.items():
            found = recall.search(connection, tenant, ["alpha"], 3, NOW)
            assert [hit[0] for hit in found] == expected[::-1]

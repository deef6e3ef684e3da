"""Recall against its twin, bit for bit: corpora, edits, users, snapshots, threads, damage; on real files."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shepherd._native import text
from shepherd._native.store import Connection, Recall, SQLiteError
from tests.native import recall_database as database
from tests.native import twin_rank
from tests.native.twin_rank import Document

NOW = 1_780_000_000
DAY = 86_400
REPLACE_TERMS = (
    "INSERT OR REPLACE INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, '')"
)
WORDS = ["alpha", "bravo", "carol", "delta", "echo", "fox", "golf", "hotel"]

words = st.sampled_from(WORDS)
texts = st.lists(words, max_size=6)
times = st.integers(NOW - 800 * DAY, NOW + 10 * DAY) | st.sampled_from([0, NOW, NOW - 30 * DAY])
threads = st.integers(0, 2) | st.sampled_from([-7, 2**31 - 1, -(2**31) + 1])
labels = st.just(0) | words.map(twin_rank.key)
memories = st.tuples(texts, texts, times, threads, labels, st.integers(0, 2))
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
        "weights": st.tuples(*[st.sampled_from([0.0, 0.3, 1.0, 1.7])] * 9),
    },
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with database.create(tmp_path / "memory.db") as connection:
        yield connection


def documents_of(ids: list[int], stored: list[Any]) -> list[Document]:
    return [database.document(id, *memory) for id, memory in zip(ids, stored, strict=True)]


# ---- the same as the twin


@settings(deadline=None, max_examples=150)
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
TestHistory.settings = settings(
    deadline=None, max_examples=25, stateful_step_count=20, suppress_health_check=[HealthCheck.too_slow]
)


def zipf_memories(seed: int, n: int, n_words: int, longest: int = 12) -> list[Any]:
    rng = random.Random(seed)
    weights = [1 / (rank + 2) for rank in range(n_words)]
    vocabulary = [f"w{i}" for i in range(n_words)]
    stored = []
    for i in range(n):
        chosen = rng.choices(vocabulary, weights, k=rng.randrange(1, longest))
        cut = rng.randrange(len(chosen) + 1)
        when = NOW - (n - i) * 3600
        stored.append((chosen[:cut], chosen[cut:], when, i // 9 % 40, rng.randrange(3), rng.randrange(3)))
    return stored


def test_words_of_thousands_of_memories_rank_as_the_twin_says(connection: Connection) -> None:
    stored = zipf_memories(1, 6000, 300)
    documents = documents_of(database.add(connection, 1, stored), stored)
    recall = Recall()
    for keywords in (["w0", "w1", "w2"], ["w5", "w200", "w40", "w3"], ["w299"], ["w250", "w0", "none"]):
        for floor in (0.0, 0.9):
            expected = twin_rank.search(documents, keywords, 10, NOW, recency_floor=floor)

            assert recall.search(connection, 1, keywords, 10, NOW, recency_floor=floor) == expected


def test_unknown_words_before_known_ones_change_nothing(connection: Connection) -> None:
    stored = zipf_memories(6, 2500, 90)
    documents = documents_of(database.add(connection, 1, stored), stored)
    recall = Recall()
    for keywords in (["no", "w3"], ["no", "none", "w3", "not", "w80"], ["w3", "no"], ["no", "none"], ["no"]):
        assert recall.search(connection, 1, keywords, 5, NOW) == twin_rank.search(documents, keywords, 5, NOW)


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


@settings(deadline=None, max_examples=50)
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


# ---- snapshots


def test_reader_in_a_transaction_keeps_its_state_while_others_write(connection: Connection) -> None:
    stored = zipf_memories(3, 300, 40)
    ids = database.add(connection, 1, stored)
    documents = documents_of(ids, stored)
    recall = Recall()
    asked = ["w0", "w9", "w30"]
    before = twin_rank.search(documents, asked, 6, NOW)
    with Connection(connection.path, read_only=True) as old, Connection(connection.path) as other:
        old.execute("BEGIN")
        assert recall.search(old, 1, asked, 6, NOW) == before

        for id, *_ in before[:3]:
            database.delete(other, id)
        assert recall.search(other, 1, asked, 6, NOW) != before
        assert recall.search(old, 1, asked, 6, NOW) == before

        database.edit(other, before[4][0], ["w9"] * 9, [], NOW)
        recall.search(other, 1, asked, 6, NOW)
        assert recall.search(old, 1, asked, 6, NOW) == before

        database.add(other, 1, stored)
        recall.forget(1)
        recall.search(other, 1, asked, 6, NOW)
        assert recall.search(old, 1, asked, 6, NOW) == before
        old.execute("COMMIT")

        assert recall.search(old, 1, asked, 6, NOW) == recall.search(other, 1, asked, 6, NOW)


def test_first_search_after_deletions_does_not_spoil_an_older_snapshot(connection: Connection) -> None:
    ids = database.add(connection, 1, [(["alpha"], [], NOW - i) for i in range(10)])
    recall = Recall()
    with Connection(connection.path, read_only=True) as old:
        old.execute("BEGIN")
        old.execute("SELECT count(*) FROM tenants")
        database.delete(connection, ids[0])

        assert len(recall.search(connection, 1, ["alpha"], 20, NOW)) == 9
        assert [hit[0] for hit in recall.search(old, 1, ["alpha"], 20, NOW)] == ids


def test_version_number_of_a_rolled_back_transaction_may_come_again(connection: Connection) -> None:
    recall = Recall()
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW)])
    connection.execute("BEGIN IMMEDIATE")
    database.add(connection, 1, [(["alpha"], ["bravo"] * 50, NOW - 500 * DAY)])
    assert len(recall.search(connection, 1, ["alpha"], 3, NOW)) == 2
    connection.execute("ROLLBACK")

    ids = database.add(connection, 1, [(["alpha"], ["carol"], NOW)])

    expected = [Document(id, ("alpha", "x"), NOW, 2) for id in (ids[0] - 1, ids[0])]
    assert recall.search(connection, 1, ["alpha"], 3, NOW) == twin_rank.search(expected, ["alpha"], 3, NOW)


def test_search_leaves_the_callers_transaction_open_and_ends_its_own(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    recall = Recall()
    recall.search(connection, 1, ["alpha"], 3, NOW)
    assert not connection.in_transaction

    connection.execute("BEGIN")
    recall.search(connection, 1, ["alpha"], 3, NOW)
    assert connection.in_transaction


def test_writes_of_another_process_are_found(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    recall = Recall()
    assert len(recall.search(connection, 1, ["alpha"], 9, NOW)) == 1
    script = (
        "import sys; from shepherd._native.store import Connection;"
        "from tests.native import recall_database as d;"
        "c = Connection(sys.argv[1]); ids = d.add(c, 1, [(['alpha'], ['bravo'], 1780000000)] * 3);"
        "d.edit(c, ids[0], ['carol'], [], 1); d.delete(c, ids[1]); c.close()"
    )

    subprocess.run([sys.executable, "-c", script, connection.path], check=True, cwd=Path(__file__).parents[2])

    found = recall.search(connection, 1, ["alpha"], 9, NOW)
    documents = [
        Document(1 << 40 | 1, ("alpha",), NOW, 1),
        Document(1 << 40 | 2, ("carol",), 1, 1),
        Document(1 << 40 | 4, ("alpha", "bravo"), NOW, 2),
    ]
    assert found == twin_rank.search(documents, ["alpha"], 9, NOW)


# ---- threads


def run_threads(*work: Any) -> None:
    errors: list[BaseException] = []

    def guarded(one: Any) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_search_while_one_writes(connection: Connection) -> None:
    recall = Recall()
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW)])
    is_done = threading.Event()

    def write() -> None:
        try:
            for i in range(150):
                ids = database.add(connection, 1, [(["alpha"], ["bravo"] * (i % 7), NOW - i)] * 5)
                if i % 10 == 0:
                    database.edit(connection, ids[0], ["alpha"] * 3, [], NOW)
        finally:
            is_done.set()

    def read() -> None:
        seen = 0
        with Connection(connection.path, read_only=True) as reader:
            while not is_done.is_set() or seen < 751:
                reader.execute("BEGIN")
                [(n,)] = reader.execute("SELECT n FROM tenants WHERE number = 1")
                found = recall.search(reader, 1, ["alpha"], 10_000, NOW)
                reader.execute("COMMIT")
                assert len(found) == n >= seen
                assert len({hit[0] for hit in found}) == n
                seen = n

    run_threads(write, read, read, read)


def test_threads_may_share_one_connection(connection: Connection) -> None:
    stored = zipf_memories(5, 500, 50)
    documents = documents_of(database.add(connection, 1, stored), stored)
    expected = {
        word: twin_rank.search(documents, [word, "w1"], 5, NOW) for word in ("w0", "w4", "w20", "w33")
    }
    recall = Recall()

    def search(word: str) -> None:
        for _ in range(100):
            assert recall.search(connection, 1, [word, "w1"], 5, NOW) == expected[word]

    run_threads(*(lambda word=word: search(word) for word in expected))


# ---- damage and misuse


def test_row_of_another_user_under_a_forged_token_is_passed_over(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    [other] = database.add(connection, 2, [(["bravo"], [], NOW)])
    connection.execute(REPLACE_TERMS, (other, "t1_alpha t2_bravo"))

    found = Recall().search(connection, 1, ["alpha"], 9, NOW)

    assert found == twin_rank.search([Document(1 << 40 | 1, ("alpha",), NOW, 1)], ["alpha"], 9, NOW)


@pytest.mark.parametrize("rowid", [1 << 40 | 7, 0, -5, -(2**63), 2**63 - 1, (1 << 40) - 1, (2 << 40) - 1])
def test_index_row_without_a_memory_is_passed_over(connection: Connection, rowid: int) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    connection.execute(
        "INSERT INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, '')",
        (rowid, "t1_alpha"),
    )

    found = Recall().search(connection, 1, ["alpha"], 9, NOW)

    assert found == twin_rank.search([Document(1 << 40 | 1, ("alpha",), NOW, 1)], ["alpha"], 9, NOW)


def test_sequences_with_huge_gaps_cost_no_memory_for_the_gaps(connection: Connection) -> None:
    sequences = [1, 2, 2**20, 2**33, 2**39, 2**40 - 2, 2**40 - 1]
    database.add(connection, 5, [(["alpha"], [], NOW)])
    for sequence in sequences[1:]:
        connection.execute("UPDATE tenants SET next_sequence = ? WHERE number = 5", (sequence,))
        database.add(connection, 5, [(["alpha"], [], NOW)])
    recall = Recall()

    found = recall.search(connection, 5, ["alpha"], 9, NOW)

    assert [hit[0] & (2**40 - 1) for hit in found] == sequences[::-1]
    assert recall.memory_bytes < 100_000


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE context SET doc_len = -1000000",
        "UPDATE context SET doc_len = 9223372036854775807",
        "UPDATE context SET timestamp = 'yesterday', doc_len = x'00'",
        "UPDATE context SET timestamp = -9223372036854775808",
        "UPDATE tenants SET n = 0, total_length = 0",
        "UPDATE tenants SET n = -5, total_length = -7",
        "UPDATE tenants SET n = 1, total_length = 9223372036854775807",
        "UPDATE tenants SET version = 'x', edits = -1, n = 'many'",
    ],
)
def test_damaged_numbers_give_finite_scores(connection: Connection, damage: str) -> None:
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW), (["alpha"], [], NOW - DAY)])
    connection.execute(damage)

    found = Recall().search(connection, 1, ["alpha", "bravo"], 9, NOW)

    assert len(found) == 2
    assert all(math.isfinite(number) and number >= 0 for hit in found for number in hit[1:])


def test_database_without_the_tables_is_an_error_until_they_are_there(tmp_path: Path) -> None:
    recall = Recall()
    with Connection(tmp_path / "memory.db") as connection:
        with pytest.raises(SQLiteError, match="no such table: tenants"):
            recall.search(connection, 1, ["alpha"], 3, NOW)
        connection.script(database.SCHEMA)
        database.add(connection, 1, [(["alpha"], [], NOW)])

        assert len(recall.search(connection, 1, ["alpha"], 3, NOW)) == 1


def test_index_that_is_dropped_and_made_again_is_searched(connection: Connection) -> None:
    recall = Recall()
    [id] = database.add(connection, 1, [(["alpha"], [], NOW)])
    assert recall.search(connection, 1, ["alpha"], 3, NOW)
    index = database.SCHEMA[database.SCHEMA.index("CREATE VIRTUAL") :]
    connection.script("DROP TABLE context_fts;" + index)
    assert recall.search(connection, 1, ["alpha"], 3, NOW) == []

    connection.execute("INSERT INTO context_fts (rowid, user_message) VALUES (?, 't1_alpha')", (id,))

    assert [hit[0] for hit in recall.search(connection, 1, ["alpha"], 3, NOW)] == [id]


def test_search_on_a_closed_connection_is_an_error(connection: Connection) -> None:
    recall = Recall()
    database.add(connection, 1, [(["alpha"], [], NOW)])
    recall.search(connection, 1, ["alpha"], 3, NOW)
    connection.close()

    with pytest.raises(SQLiteError, match="closed"):
        recall.search(connection, 1, ["alpha"], 3, NOW)


def test_recall_of_one_database_refuses_another(connection: Connection, tmp_path: Path) -> None:
    recall = Recall()
    recall.search(connection, 1, ["alpha"], 3, NOW)

    with database.create(tmp_path / "other.db") as other, pytest.raises(ValueError, match="one database"):
        recall.search(other, 1, ["alpha"], 3, NOW)


def test_two_databases_in_memory_are_two_databases() -> None:
    with database.create(":memory:") as one, database.create(":memory:") as two:
        recall = Recall()
        recall.search(one, 1, ["alpha"], 3, NOW)

        with pytest.raises(ValueError, match="one database"):
            recall.search(two, 1, ["alpha"], 3, NOW)


@pytest.mark.parametrize(
    "arguments",
    [
        {"tenant": -1},
        {"tenant": 1 << 23},
        {"now": math.nan},
        {"now": math.inf},
        {"k1": -0.1},
        {"k1": math.nan},
        {"b": 1.1},
        {"recency_floor": -0.1},
        {"min_relevance": math.nan},
    ],
)
def test_argument_outside_its_range_is_refused(connection: Connection, arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|is from 0"):
        Recall().search(connection, **{"tenant": 1, "keywords": ["alpha"], "k": 3, "now": NOW, **arguments})


def test_nothing_asked_finds_nothing(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])

    assert Recall().search(connection, 1, [], 3, NOW) == []
    assert Recall().search(connection, 1, ["alpha"], 0, NOW) == []


def test_forgotten_tenant_takes_no_memory_and_is_found_again(connection: Connection) -> None:
    recall = Recall()
    empty = recall.memory_bytes
    database.add(connection, 1, [(["alpha"], [], NOW)] * 1000)
    before = recall.search(connection, 1, ["alpha"], 3, NOW)
    full = recall.memory_bytes
    assert full - empty >= 20_000

    recall.forget(1)
    recall.forget(77)

    assert recall.memory_bytes < empty + 1000
    assert recall.search(connection, 1, ["alpha"], 3, NOW) == before

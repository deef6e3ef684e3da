"""The hot index against the twin, bit for bit: corpora, changes, long texts, threads."""

from __future__ import annotations

import random
import struct
import sys
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shepherd._native import text
from shepherd._native.hot import HotIndex
from tests.examples import examples
from tests.native import twin_rank
from tests.native.recall_database import NOW, zipf_memories
from tests.native.test_recall_index import memories, options, queries, with_one_instruction
from tests.native.twin_rank import Document

Row = tuple[int, int, int, int, int, int, str, str]

FEW = ("alpha", "bravo", "nothing"), ("golf", "fox", "echo", "delta"), ("hotel",)


def row(sequence: int, memory: Any) -> Row:
    question, answer, timestamp, *spoken = memory
    thread, label, asks = spoken or (0, 0, 0)
    texts = " ".join(question), " ".join(answer)
    doc_len = twin_rank.length(asks, *(text.terms(one) for one in texts))
    return (sequence, timestamp, doc_len, thread, label, asks, *texts)


def document(row: Row) -> Document:
    sequence, timestamp, doc_len, thread, label, asks, question, answer = row
    texts = tuple(text.terms(question)), tuple(text.terms(answer))
    return Document(sequence, texts, timestamp, doc_len, thread, label, asks)


def publish(index: HotIndex, rows: Iterable[Row], version: int = 1) -> None:
    lengths = [row[2] for row in rows]
    index.publish(version, len(lengths), sum(lengths))


def filled(rows: list[Row], version: int = 1) -> HotIndex:
    index = HotIndex()
    index.add(rows)
    publish(index, rows, version)
    return index


def numbered(stored: list[Any]) -> list[Row]:
    return [row(i, memory) for i, memory in enumerate(stored, 1)]


# ---- the same as the twin


@settings(max_examples=examples(150))
@given(st.lists(memories, max_size=30), st.lists(st.tuples(queries, options), min_size=1, max_size=8))
def test_results_are_the_twins_bit_for_bit(stored: list[Any], asked: list[Any]) -> None:
    rows = numbered(stored)
    index = filled(rows)
    documents = [document(row) for row in rows]
    for query, option in asked:
        assert index.search(1, **query, **option) == twin_rank.search(documents, **query, **option)


@pytest.mark.parametrize("floor", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("k", [1, 3, 64, 1000])
def test_words_of_thousands_of_memories_rank_as_the_twin_says(floor: float, k: int) -> None:
    rows = numbered(zipf_memories(1, 4000, 250))
    index = filled(rows)
    documents = [document(row) for row in rows]
    for keywords in (["w0", "w1", "w2"], ["w5", "w200", "w40", "w3"], ["w249"], ["w240", "w0", "none"]):
        expected = twin_rank.search(documents, keywords, k, NOW, recency_floor=floor)

        assert index.search(1, keywords, k, NOW, recency_floor=floor) == expected


@pytest.mark.parametrize("floor", [0.0, 0.9])
def test_frequent_words_beside_rarer_ones_rank_as_the_twin_says(floor: float) -> None:
    """The lists of the frequent ones are only looked into once the candidates have enough of the others."""
    rows = numbered(zipf_memories(8, 9000, 400))
    index = filled(rows)
    documents = [document(row) for row in rows]
    for keywords in (["w0", "w60"], ["w30", "w0", "w90", "w1"], ["w2", "w0", "w1", "w399", "w25"]):
        expected = twin_rank.search(documents, keywords, 5, NOW, recency_floor=floor)

        assert index.search(1, keywords, 5, NOW, recency_floor=floor) == expected


def conversations(seed: int, n: int, n_words: int) -> list[Any]:
    """Memories of ten a conversation over fifty years, whose words are the rarer the higher their number."""
    rng = random.Random(seed)
    stored = []
    for i in range(n):
        words = [f"w{int(n_words * rng.random() ** 3)}" for _ in range(rng.randint(1, 8))]
        age_s = (n - i) * 90_000 + rng.randint(0, 9999)
        stored.append((words[:4], words[4:], NOW - age_s, i // 10 + 1, 0, rng.randint(0, 15)))
    return stored


@pytest.mark.parametrize("floor", [0.0, 0.9])
def test_memories_of_several_frequent_words_and_their_neighbours_rank_as_the_twin_says(floor: float) -> None:
    rows = numbered(conversations(4, 18_000, 60))
    index = filled(rows)
    documents = [document(row) for row in rows]
    for keywords in (["w0", "w40", "w1", "w2"], ["w59", "w0", "w3", "w58", "w1"], ["w30", "w0"]):
        expected = twin_rank.search(documents, keywords, 40, NOW, recency_floor=floor)

        assert index.search(1, keywords, 40, NOW, recency_floor=floor) == expected


@pytest.mark.parametrize("place", [20, 40, 60])
def test_a_request_has_as_many_candidates_as_the_twin_says(place: int) -> None:
    rows = numbered(with_one_instruction(place))
    documents = [document(row) for row in rows]

    found = filled(rows).search(1, ["alpha"], 3, NOW, is_request=True)

    assert found == twin_rank.search(documents, ["alpha"], 3, NOW, is_request=True)
    assert (found[0][0] == place + 1) == (place < 48)


@pytest.mark.parametrize("k", [1, 3, 9, 33])
def test_words_of_few_memories_and_of_some_rank_as_the_twin_says(k: int) -> None:
    """All memories of few are candidates, which takes a way of its own; questions lie on both its sides."""
    rng = random.Random(k)
    rows = numbered(conversations(5, 700, 250))
    index = filled(rows)
    documents = [document(row) for row in rows]
    for _ in range(120):
        keywords = [f"w{int(250 * rng.random() ** 0.5)}" for _ in range(rng.randint(1, 5))]
        asked = {"recency_floor": rng.choice([0.0, 0.9, 1.0]), "min_relevance": rng.choice([0.0, 0.0, 0.4])}
        expected = twin_rank.search(documents, keywords, k, NOW, **asked)

        assert index.search(1, keywords, k, NOW, **asked) == expected


@pytest.mark.parametrize("k", [3, 40, 200])
@pytest.mark.parametrize("worse", [0, 1, -1])
def test_any_order_in_which_candidates_come_ranks_as_the_twin_says(k: int, worse: int) -> None:
    """More memories than the pool has room for: all as good, or the newer the worse, or the better."""
    n = 2_000
    padding = [(n - i if worse < 0 else worse * i) // 10 for i in range(n)]
    rows = numbered([(["alpha", "beta"], ["x"] * padding[i], NOW) for i in range(n)])
    index = filled(rows)
    documents = [document(row) for row in rows]
    for keywords in (["alpha"], ["beta", "x", "alpha"]):
        expected = twin_rank.search(documents, keywords, k, NOW, recency_floor=1.0)

        assert index.search(1, keywords, k, NOW, recency_floor=1.0) == expected


@pytest.mark.parametrize("seed", range(12))
def test_a_few_hundred_memories_of_any_age_rank_as_the_twin_says(seed: int) -> None:
    """Most are left out before their times are looked at. Half of the users have gaps in their ids."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for i in range(600):
        words = [f"w{rng.randrange(1 + rng.randrange(8))}" for _ in range(rng.randint(1, 9))]
        age_s = rng.choice([0, 1, 86_400, rng.randint(-9, 10**9), rng.randint(0, 10**7)])
        memory = (words[:2], words[2:], NOW - age_s, i // 10 + 1, 0, rng.randint(0, 15))
        last = rows[-1][0] if rows else 40
        rows.append(row(last + (1 if seed % 2 else rng.choice([1, 1, 1, 3])), memory))
    index = filled(rows)
    loaded = HotIndex.load(index.save() or b"")
    documents = [document(row) for row in rows]
    for floor, k in ((0.5, 3), (0.9, 1), (0.9, 40), (1.0, 3)):
        keywords = [f"w{word}" for word in rng.sample(range(8), rng.randint(1, 4))]
        expected = twin_rank.search(documents, keywords, k, NOW, recency_floor=floor)

        assert index.search(1, keywords, k, NOW, recency_floor=floor) == expected
        assert loaded.search(1, keywords, k, NOW, recency_floor=floor) == expected


def test_whoever_wants_all_gets_all() -> None:
    index = filled(numbered(zipf_memories(5, 3_000, 40)))
    found = index.search(1, ["w0", "w1"], 10_000, NOW)
    assert found is not None
    assert len(found) > 2_000
    for k in (sys.maxsize, sys.maxsize // 3 * 2 + 2, 1 << 62):
        assert index.search(1, ["w0", "w1"], k, NOW) == found


@pytest.mark.parametrize("n", [32, 33, 50, 1000])
def test_as_many_as_there_are_postings_are_all_found(n: int) -> None:
    rows = numbered([(["harbour", f"q{i}"], ["yes"], NOW - i) for i in range(n)])
    index = filled(rows)
    documents = [document(row) for row in rows]

    for k in (n - 1, n, n + 1):
        expected = twin_rank.search(documents, ["harbour"], k, NOW)
        assert len(expected) == min(k, n)
        assert index.search(1, ["harbour"], k, NOW) == expected


def test_only_the_sixteen_rarest_keywords_count() -> None:
    rows = numbered(zipf_memories(2, 300, 40))
    index = filled(rows)
    keywords = [f"w{i}" for i in range(40)]
    documents = [document(row) for row in rows]

    assert index.search(1, keywords, 20, NOW) == twin_rank.search(documents, keywords, 20, NOW)


def test_times_out_of_order_rank_as_the_twin_says() -> None:
    stored = zipf_memories(3, 3000, 120)
    random.Random(5).shuffle(stored)
    rows = numbered(stored)
    index = filled(rows)
    documents = [document(row) for row in rows]
    for keywords in (["w0", "w3"], ["w9", "w100", "w1"]):
        for floor in (0.0, 0.9):
            expected = twin_rank.search(documents, keywords, 5, NOW, recency_floor=floor)

            assert index.search(1, keywords, 5, NOW, recency_floor=floor) == expected


def test_a_word_repeated_hundreds_of_times_keeps_its_number() -> None:
    stored = [(["echo"] * n + ["fox"] * (600 - n), ["golf"], NOW) for n in (254, 255, 256, 300, 1)]
    rows = numbered(stored)
    index = filled(rows)

    for keywords in (["echo"], ["echo", "fox"], ["fox", "golf"]):
        found = index.search(1, keywords, 5, NOW)
        assert found == twin_rank.search([document(row) for row in rows], keywords, 5, NOW)

    index.remove([3])
    left = rows[:2] + rows[3:]
    publish(index, left)
    assert index.search(1, ["echo"], 5, NOW) == twin_rank.search(
        [document(row) for row in left], ["echo"], 5, NOW
    )


@pytest.mark.parametrize("k1", [0.9, 2.0, 100.0])
@pytest.mark.parametrize("times", [3, 4, 254, 255, 300])
def test_a_memory_that_has_one_word_very_often_is_found_beside_a_rarer_word(k1: float, times: int) -> None:
    """Once the rarer word's memories set the threshold, only the bound of the other list lets it in."""
    stored: list[Any] = [
        (["echo" if i % 3 else "golf"], ["fox"] if i % 6 == 0 else [], NOW) for i in range(1500)
    ]
    for i in range(10):
        stored[140 * i + 1] = (["echo"] * times, [], NOW)
    rows = numbered(stored)
    index = filled(rows)
    documents = [document(row) for row in rows]
    for b in (0.0, 0.3):
        for keywords in (["echo", "fox"], ["fox", "golf", "echo"]):
            expected = twin_rank.search(documents, keywords, 25, NOW, k1=k1, b=b)

            assert index.search(1, keywords, 25, NOW, k1=k1, b=b) == expected


@pytest.mark.parametrize("parts", [2, 4, 5, 15, 16, 17, 31, 32, 33, 48, 49, 254, 255, 300])
def test_a_memory_that_has_more_of_a_word_than_the_others_is_found_beside_a_rarer_word(parts: int) -> None:
    """An assistant wrote the frequent word once in most memories; the few need the bound of its list."""
    stored: list[Any] = [([], ["echo" if i % 3 else "golf"], NOW, i + 1, 0, 8) for i in range(1500)]
    for i in range(0, 1500, 6):
        stored[i] = ([], ["fox", "golf"], NOW, i + 1, 0, 8)
    for i in range(40):
        stored[30 * i + 1] = (["echo"] * (parts // 16), ["echo"] * (parts % 16), NOW, 30 * i + 2, 0, 8)
    rows = numbered(stored)
    index = filled(rows)
    documents = [document(row) for row in rows]
    for k in (3, 33):
        for keywords in (["echo", "fox"], ["fox", "golf", "echo"], ["echo"]):
            for b in (0.0, 0.3):
                expected = twin_rank.search(documents, keywords, k, NOW, b=b)

                assert index.search(1, keywords, k, NOW, b=b) == expected


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), min_size=1, max_size=8))
def test_every_term_of_any_text_is_found(texts: list[tuple[str, str]]) -> None:
    rows: list[Row] = [
        (i, NOW, len(text.terms(question)) + len(text.terms(answer)), 5, 0, 0, question, answer)
        for i, (question, answer) in enumerate(texts, 1)
    ]
    index = filled(rows)
    documents = [document(row) for row in rows]
    for keywords in (text.keywords(one) for pair in texts for one in pair):
        assert index.search(1, keywords, 9, NOW) == twin_rank.search(documents, keywords, 9, NOW)


# ---- changes


class Changes(RuleBasedStateMachine):
    """Memories come, change and go in one index; it is saved and loaded in between."""

    @initialize()
    def begin(self) -> None:
        self.index, self.rows, self.next = HotIndex(), dict[int, Row](), 1
        self.index.publish(0, 0, 0)
        self.version = 0

    def publish(self) -> None:
        self.version += 1
        publish(self.index, self.rows.values(), self.version)

    @rule(stored=st.lists(memories, min_size=1, max_size=12), gap=st.integers(1, 3))
    def add(self, stored: list[Any], gap: int) -> None:
        rows = [row(self.next + i * gap, memory) for i, memory in enumerate(stored)]
        self.next = rows[-1][0] + 1
        self.index.add(rows)
        self.rows |= {row[0]: row for row in rows}
        self.publish()

    @rule(choice=st.randoms(use_true_random=False), n=st.integers(1, 25))
    def remove(self, choice: random.Random, n: int) -> None:
        gone = choice.sample(sorted(self.rows), min(n, len(self.rows)))
        self.index.remove([*gone, self.next + 5])
        for sequence in gone:
            del self.rows[sequence]
        self.publish()

    @rule(choice=st.randoms(use_true_random=False), changed=memories)
    def replace(self, choice: random.Random, changed: Any) -> None:
        if self.rows:
            sequence = choice.choice(sorted(self.rows))
            self.rows[sequence] = row(sequence, changed)
            self.index.replace(self.rows[sequence])
            self.publish()

    @rule()
    def save_and_load(self) -> None:
        saved = self.index.save()
        assert saved is not None
        self.index = HotIndex.load(saved)

    @invariant()
    def finds_what_is_there(self) -> None:
        if not hasattr(self, "index"):
            return
        documents = [document(row) for row in self.rows.values()]
        for keywords in FEW:
            found = self.index.search(self.version, keywords, 5, NOW, recency_floor=0.5)
            assert found == twin_rank.search(documents, keywords, 5, NOW, recency_floor=0.5)
        counts = self.index.counts()
        assert counts is not None
        assert counts["n_postings"] == sum(len(set(document.terms)) for document in documents)
        sequences = self.index.sequences()
        assert sorted(self.rows) == list(struct.unpack(f"<{len(sequences) // 8}q", sequences))


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=examples(25), stateful_step_count=25)


def test_keywords_may_come_from_a_generator() -> None:
    rows = numbered(zipf_memories(4, 50, 10))
    index = filled(rows)

    for _ in range(100):
        found = index.search(1, ("".join(["w", str(i)]) for i in range(9)), 3, NOW)
        assert found == index.search(1, [f"w{i}" for i in range(9)], 3, NOW)


def test_a_changed_index_answers_nobody_before_it_is_published() -> None:
    rows = numbered(zipf_memories(4, 20, 10))
    index = filled(rows, version=7)

    assert index.search(6, ["w0"], 3, NOW) is None
    assert index.search(8, ["w0"], 3, NOW) is None
    assert index.search(7, ["w0"], 3, NOW) is not None
    index.remove([1])
    assert index.search(7, ["w0"], 3, NOW) is None
    assert index.save() is None


def test_other_sums_than_the_tables_are_refused() -> None:
    rows = numbered(zipf_memories(4, 20, 10))
    index = filled(rows)
    for n, length in ((19, sum(row[2] for row in rows)), (20, 1)):
        with pytest.raises(ValueError, match="sums"):
            index.publish(2, n, length)
        assert index.search(1, ["w0"], 3, NOW) is None


@pytest.mark.parametrize(
    "bad",
    [
        (1, NOW, 1, 0, 0, 0, "echo", ""),
        (0, NOW, 1, 0, 0, 0, "echo", ""),
        (5, NOW, 2, 0, 0, 0, "echo", ""),
        (5, NOW, -1, 0, 0, 0, "echo", ""),
        (5, NOW, 1, 1 << 31, 0, 0, "echo", ""),
        (5, NOW, 1, 0, 0, 256, "echo", ""),
        (1 << 32, NOW, 1, 0, 0, 0, "echo", ""),
    ],
)
def test_rows_that_cannot_be_right_are_refused(bad: Row) -> None:
    index = filled([(1, NOW, 1, 0, 0, 0, "fox", "")])

    with pytest.raises(ValueError, match="rows out of order"):
        index.add([bad])


@pytest.mark.parametrize("values", [{6: b"echo"}, {7: 3}, {1: "now"}, {2: None}])
def test_values_of_other_types_are_refused_as_rows_that_cannot_be_right(values: dict[int, Any]) -> None:
    bad: list[Any] = [1, NOW, 1, 0, 0, 0, "echo", ""]
    for at, value in values.items():
        bad[at] = value

    with pytest.raises(ValueError, match="other types"):
        HotIndex().add([tuple(bad)])  # type: ignore[list-item]


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    index = filled([(1, NOW, 1, 0, 0, 0, "fox", "")])

    with pytest.raises(ValueError, match="rows out of order"):
        index.replace((2, NOW, 1, 0, 0, 0, "fox", ""))


# ---- threads


def test_threads_search_while_another_writes() -> None:
    rows = numbered(zipf_memories(9, 1200, 60))
    index = filled(rows[:600], version=600)
    expected = {
        n: twin_rank.search([document(row) for row in rows[:n]], ["w1", "w7"], 5, NOW)
        for n in range(600, 1201, 100)
    }
    failures: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            for n, wanted in expected.items():
                found = index.search(n, ["w1", "w7"], 5, NOW)
                if found is not None and found != wanted:
                    failures.append(n)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(700, 1201, 100):
        index.add(rows[n - 100 : n])
        publish(index, rows[:n], version=n)
    done.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert index.search(1200, ["w1", "w7"], 5, NOW) == expected[1200]


@pytest.mark.parametrize("first_id", [-1, (1 << 63) - (1 << 32) + 1, (1 << 63) - 1])
def test_a_first_id_that_leaves_no_room_for_ids_is_refused(first_id: int) -> None:
    saved = filled([(1, NOW, 1, 0, 0, 0, "fox", "")]).save()
    assert saved is not None
    for make in (HotIndex, lambda first: HotIndex.load(saved, first)):
        with pytest.raises(ValueError, match="first_id"):
            make(first_id)


def test_ids_far_from_the_first_are_refused_or_unknown() -> None:
    first = (1 << 63) - (1 << 32)
    index = HotIndex(first)
    index.add([(first + 3, NOW, 1, 0, 0, 0, "fox", "")])
    for strange in (-(1 << 63), 0, first - 1):
        with pytest.raises(ValueError, match="rows out of order"):
            HotIndex(first).add([(strange, NOW, 1, 0, 0, 0, "fox", "")])
    index.remove([-(1 << 63), 0, first + 2])
    index.publish(1, 1, 1)

    found = index.search(1, ["fox"], 3, NOW)

    assert found is not None
    assert [hit[0] for hit in found] == [first + 3]


@pytest.mark.parametrize("k1", [-1.0, 1.1e6, 1e308, float("inf"), float("nan")])
def test_a_k1_with_which_scores_could_vanish_is_refused(k1: float) -> None:
    index = filled(numbered(zipf_memories(1, 200, 10)))

    with pytest.raises(ValueError, match="k1"):
        index.search(1, ["w0", "w1"], 3, NOW, k1=k1, b=1.0)

"""Hot indexes of a store: the tables' results, whoever writes and whatever lies beside the file."""

from __future__ import annotations

import random
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shepherd._native import text
from shepherd._native.store import Connection
from shepherd.memory import full_text, hot, memories
from shepherd.memory.queries import RecallQuery
from shepherd.memory.records import NewMemory
from shepherd.memory.sqlite import SQLiteStore
from shepherd.memory.store import UserRows
from tests.examples import examples
from tests.native import twin_rank
from tests.native.twin_rank import Document

NOW = 1_700_000_000
DAY = 86_400
WORDS = ("alpha", "bravo", "carol", "delta", "echo", "fox", "über", "c++")
USERS = ("steve", "anna", "mallory")

texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
times = st.integers(NOW - 400 * DAY, NOW + DAY)
sessions = st.sampled_from(["", "", "one", "two"])
sources = st.sampled_from(["user", "turn", "chatgpt"])

Hit = tuple[int, float, float]


def keywords(*words: str) -> list[str]:
    return [keyword for word in words for keyword in text.keywords(word)]


ASKED = (keywords("alpha", "bravo", "nothing"), keywords("über", "c++", "fox", "echo"))


def search(
    store: SQLiteStore, user: str, words: list[str], *, floor: float = 0.9, now: float = NOW
) -> list[Hit]:
    query = RecallQuery(words, limit=6, now=now, recency_floor=floor, min_relevance=0.1)
    found = store.search(user, query)
    # What a message gets, which reads the version of the memories with its facts.
    assert store.recall(user, query)[1] == found
    return [(hit.id, hit.score, hit.relevance) for hit in found]


def rows_of(store: SQLiteStore, user: str) -> UserRows:
    return UserRows(store, user, lambda: NOW)


def delete(store: SQLiteStore, user: str, memory_id: int) -> bool:
    removed = rows_of(store, user).change_memories(None, 0, memories.delete, [memory_id], store.terms)
    return removed == 1


def edit(store: SQLiteStore, user: str, memory_id: int, question: str | None, answer: str | None) -> bool:
    changed = (memory_id, question, answer, store.terms)
    return rows_of(store, user).change_memories(None, False, memories.edit, *changed)


def make_hot(store: SQLiteStore, user: str = "steve") -> None:
    search(store, user, ASKED[0])
    assert store._recall.wait()


def is_hot(store: SQLiteStore, user: str = "steve") -> bool:
    with store._database.read() as connection:
        [(tenant,)] = connection.execute("SELECT number FROM tenants WHERE user_id = ?", (user,))
        return store._recall.is_hot(connection, tenant)


def fill(store: SQLiteStore, n: int, user: str = "steve", seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    new = [
        NewMemory(
            f"{' '.join(rng.choices(WORDS, k=4))} q{seed}x{i}", "echo " * rng.randrange(4), NOW - i * DAY
        )
        for i in range(n)
    ]
    return [memory_id for memory_id, _ in store.add_memories(user, new)]


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(str(path))
    yield opened
    opened.close()


@pytest.fixture
def cold(path: Path, store: SQLiteStore) -> Iterator[SQLiteStore]:
    """Another opening of the file, which asks the tables alone."""
    opened = SQLiteStore(str(path), recall_cache_mb=0)
    yield opened
    opened.close()


def assert_same(store: SQLiteStore, cold: SQLiteStore, user: str = "steve") -> None:
    for words in ASKED:
        for floor in (0.0, 0.9):
            assert search(store, user, words, floor=floor) == search(cold, user, words, floor=floor)


# ---- the three give the same


class History(RuleBasedStateMachine):
    """Three users' memories come, change and go through two openings; one has hot indexes, the other none."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "memory.db")
        self.now, self.n_edits = float(NOW), 0
        self.hot, self.cold = SQLiteStore(self.path), SQLiteStore(self.path, recall_cache_mb=0)
        self.rows: dict[str, dict[int, NewMemory]] = {user: {} for user in USERS}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.hot.close()
            self.cold.close()
            self.folder.cleanup()

    def writer(self, elsewhere: bool) -> SQLiteStore:
        return self.cold if elsewhere else self.hot

    @rule(
        user=st.sampled_from(USERS),
        new=st.lists(
            st.tuples(texts, texts | texts.map("{}?".format), times, sources, sessions),
            min_size=1,
            max_size=9,
        ),
        elsewhere=st.booleans(),
    )
    def add(self, user: str, new: list[tuple[str, str, int, str, str]], elsewhere: bool) -> None:
        stored = [NewMemory(*one) for one in new]
        for (memory_id, is_new), one in zip(
            self.writer(elsewhere).add_memories(user, stored), stored, strict=True
        ):
            if is_new:
                self.rows[user][memory_id] = one

    @rule(user=st.sampled_from(USERS), choice=st.randoms(use_true_random=False), elsewhere=st.booleans())
    def delete(self, user: str, choice: random.Random, elsewhere: bool) -> None:
        if self.rows[user]:
            memory_id = choice.choice(sorted(self.rows[user]))
            assert delete(self.writer(elsewhere), user, memory_id)
            del self.rows[user][memory_id]

    @rule(
        user=st.sampled_from(USERS),
        choice=st.randoms(use_true_random=False),
        elsewhere=st.booleans(),
        restores=st.booleans(),
    )
    def clear(self, user: str, choice: random.Random, elsewhere: bool, restores: bool) -> None:
        if self.rows[user]:
            question = choice.choice(sorted(self.rows[user].items()))[1].question
            same = {i for i, row in self.rows[user].items() if row.question == question}
            store = self.writer(elsewhere)
            rows = rows_of(store, user)
            deleted = rows.change_memories(None, [], memories.delete_question, question, store.terms)
            assert {one.id for one in deleted} == same
            for one in deleted:
                if restores:
                    assert rows.change_memories(None, False, memories.restore, one, store.terms)
                else:
                    del self.rows[user][one.id]

    @rule(
        user=st.sampled_from(USERS),
        choice=st.randoms(use_true_random=False),
        question=texts,
        elsewhere=st.booleans(),
    )
    def edit(self, user: str, choice: random.Random, question: str, elsewhere: bool) -> None:
        if self.rows[user]:
            memory_id = choice.choice(sorted(self.rows[user]))
            self.n_edits += 1
            question = f"{question} edit{self.n_edits}"
            edit(self.writer(elsewhere), user, memory_id, question, None)
            self.rows[user][memory_id] = replace(self.rows[user][memory_id], question=question)

    @rule(user=st.sampled_from(USERS), choice=st.randoms(use_true_random=False), pinned=st.booleans())
    def pin(self, user: str, choice: random.Random, pinned: bool) -> None:
        if self.rows[user]:
            memory_id = choice.choice(sorted(self.rows[user]))
            assert rows_of(self.hot, user).change_memories(None, False, memories.pin, memory_id, pinned)

    @rule(days=st.integers(-30, 90))
    def pass_time(self, days: int) -> None:
        self.now += days * DAY

    @rule()
    def wait(self) -> None:
        assert self.hot._recall.wait()

    @rule()
    def open_again(self) -> None:
        self.hot.close()
        self.hot = SQLiteStore(self.path)

    @rule()
    def merge_the_index(self) -> None:
        self.hot.settle()

    @rule()
    def make_the_index_again(self) -> None:
        from shepherd.memory import maintenance

        with self.cold._database.write() as connection:
            maintenance.reindex(connection)

    @invariant()
    def all_three_find_the_same(self) -> None:
        if not hasattr(self, "folder"):
            return
        for user, rows in self.rows.items():
            for words in ASKED:
                expected = twin_results(self.cold, rows, words, self.now)
                assert search(self.hot, user, words, now=self.now) == expected
                assert search(self.cold, user, words, now=self.now) == expected


def twin_results(store: SQLiteStore, rows: dict[int, NewMemory], words: list[str], now: float) -> list[Hit]:
    with store._database.read() as connection:
        spoken = {i: rest for i, *rest in connection.execute("SELECT id, thread, label, asks FROM context")}
    documents = []
    for memory_id, row in rows.items():
        texts = tuple(text.terms(row.question)), tuple(text.terms(row.answer))
        length = twin_rank.length(spoken[memory_id][2], *texts)
        documents.append(Document(memory_id, texts, row.timestamp, length, *spoken[memory_id]))
    found = twin_rank.search(documents, words, 6, now, min_relevance=0.1)
    return [(memory_id, score, relevance) for memory_id, _, score, relevance in found]


@pytest.fixture(autouse=True)
def save_every_index(monkeypatch: pytest.MonkeyPatch) -> None:
    # As it is, an index of fewer than thousands of memories is not worth a file.
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)


class TestHistory(History.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=examples(25), stateful_step_count=25)


# ---- who writes


def test_a_question_is_answered_by_the_tables_until_the_index_is_there(store, cold) -> None:
    fill(store, 60)
    first = search(store, "steve", ASKED[0])
    assert store._recall.wait()

    assert is_hot(store)
    assert search(store, "steve", ASKED[0]) == first == search(cold, "steve", ASKED[0])


def test_a_memory_of_this_process_is_in_the_index_when_it_is_stored(store, cold) -> None:
    fill(store, 60)
    make_hot(store)

    [(memory_id, _)] = store.add_memories("steve", [NewMemory("alpha alpha alpha", "bravo", NOW)])

    assert is_hot(store)
    assert search(store, "steve", ASKED[0])[0][0] == memory_id
    assert_same(store, cold)


def test_a_write_of_another_process_is_seen_at_once(store, cold, path, run_python) -> None:
    fill(store, 60)
    make_hot(store)

    done = run_python(
        "import sys; from shepherd.memory import Memory\n"
        "with Memory(sys.argv[1], user_id='steve') as memory:\n"
        "    memory.store_memory('alpha bravo alpha', 'alpha', timestamp=1_700_000_000)\n",
        path,
    )
    assert done.returncode == 0, done.stderr

    assert not is_hot(store)
    assert_same(store, cold)
    assert store._recall.wait()
    assert is_hot(store)
    assert_same(store, cold)


def test_changes_by_the_hundred_are_followed(store, cold) -> None:
    ids = fill(store, 400)
    make_hot(store)
    built = store._recall._slots[1].index
    for memory_id in ids[::3]:
        delete(cold, "steve", memory_id)
    for memory_id in ids[1:120:3]:
        edit(cold, "steve", memory_id, None, f"carol {memory_id}")
    fill(cold, 150, seed=2)

    make_hot(store)

    assert is_hot(store)
    assert store._recall._slots[1].index is built
    assert_same(store, cold)


def test_an_index_that_is_too_far_behind_is_built_again(store, cold, monkeypatch) -> None:
    ids = fill(store, 100)
    make_hot(store)
    built = store._recall._slots[1].index
    monkeypatch.setattr(full_text, "_KEPT_VERSIONS", 5)
    for memory_id in ids[:20]:
        delete(cold, "steve", memory_id)

    make_hot(store)

    assert is_hot(store)
    assert store._recall._slots[1].index is not built
    assert_same(store, cold)


def test_a_user_never_sees_what_another_stored(store, cold) -> None:
    fill(store, 50, "steve", seed=1)
    fill(store, 50, "anna", seed=2)
    make_hot(store, "steve")
    make_hot(store, "anna")
    before = search(store, "steve", ASKED[0])

    fill(store, 50, "anna", seed=3)

    assert search(store, "steve", ASKED[0]) == before
    assert_same(store, cold, "steve")
    assert_same(store, cold, "anna")


def test_threads_get_right_answers_while_others_write(store, cold) -> None:
    fill(store, 200)
    make_hot(store)
    failures: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with store._database.read() as connection:
                asked = (connection, 1, ASKED[0], 5, NOW)
                hot, tables = store._recall.search(*asked), store._database.recall.search(*asked)
                if hot != tables:
                    failures.append((hot, tables))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for i in range(60):
        [(memory_id, _)] = store.add_memories("steve", [NewMemory(f"alpha {i}", "bravo", NOW - i * DAY)])
        if i % 3 == 0:
            edit(store, "steve", memory_id, "alpha bravo bravo", f"{i}")
        if i % 5 == 0:
            delete(store, "steve", memory_id)
    done.set()
    for thread in readers:
        thread.join()

    assert failures == []
    assert_same(store, cold)


def test_pruned_memories_are_gone_from_the_index(path, store, cold) -> None:
    from shepherd.memory import pruning

    fill(store, 300)
    make_hot(store)
    with store._database.read() as connection:
        used = pruning.used_bytes(connection)

    assert pruning.prune(store._database, used - 40_000) > 0

    assert_same(store, cold)
    make_hot(store)
    assert is_hot(store)
    assert_same(store, cold)


# ---- doubt


def test_rows_that_contradict_each_other_are_left_to_the_tables(store, cold, caplog) -> None:
    ids = fill(store, 50)
    with store._database.write() as connection:
        connection.execute("UPDATE context SET doc_len = doc_len + 1 WHERE id = ?", (ids[3],))

    make_hot(store)

    assert not is_hot(store)
    assert_same(store, cold)
    assert "no hot index of tenant 1" in caplog.text


def test_a_check_finds_an_index_that_lost_a_memory(store, cold) -> None:
    ids = fill(store, 50)
    make_hot(store)
    index = store._recall._slots[1].index
    assert index is not None
    counts = index.counts()
    assert counts is not None
    index.remove([ids[4]])
    left = index.counts()
    assert left is not None
    index.publish(counts["version"], left["n_memories"], left["total_length"])

    report = store.check(False)

    assert report.problems == ("hot index of tenant 1: 0 memories too many, 1 too few",)
    assert report.repaired == report.problems
    assert_same(store, cold)


# ---- room


def test_no_room_means_no_index(path) -> None:
    store = SQLiteStore(str(path), recall_cache_mb=0)
    fill(store, 50)
    make_hot(store)

    assert not is_hot(store)
    assert store.stats("steve").hot_users == 0
    store.close()


def test_the_index_used_longest_ago_goes_first(path) -> None:
    store = SQLiteStore(str(path), recall_cache_mb=1)
    for i, user in enumerate(USERS):
        fill(store, 2500, user, seed=i)
        make_hot(store, user)

    hot_users = [user for user in USERS if is_hot(store, user)]
    stats = store.stats("steve")

    assert hot_users == list(USERS[-len(hot_users) :])
    assert 0 < len(hot_users) < len(USERS)
    assert stats.hot_users == len(hot_users)
    assert 0 < stats.hot_bytes <= 1 << 20
    store.close()


# ---- files


def saved_file(path: Path) -> Path:
    return Path(f"{path}-hot") / "1"


def count_builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    built: list[int] = []
    original: Callable[..., Any] = hot.hot_rows.build

    def build(read: Any, tables: Any, tenant: int) -> Any:
        built.append(tenant)
        return original(read, tables, tenant)

    monkeypatch.setattr(hot.hot_rows, "build", build)
    return built


def test_a_saved_index_is_loaded_and_caught_up(path, monkeypatch) -> None:
    store = SQLiteStore(str(path))
    ids = fill(store, 200)
    make_hot(store)
    store.close()
    with_changes = SQLiteStore(str(path), recall_cache_mb=0)
    delete(with_changes, "steve", ids[7])
    edit(with_changes, "steve", ids[8], "alpha alpha", None)
    fill(with_changes, 20, seed=5)
    built = count_builds(monkeypatch)

    store = SQLiteStore(str(path))
    make_hot(store)

    assert built == []
    assert is_hot(store)
    assert_same(store, with_changes)
    store.close()
    with_changes.close()


def test_a_saved_index_of_another_tokenizer_is_built_again(path, monkeypatch) -> None:
    store = SQLiteStore(str(path))
    fill(store, 200)
    [(memory_id, _)] = store.add_memories("steve", [NewMemory("Two GPUs", "", NOW)])
    make_hot(store)
    store.close()
    with Connection(str(path)) as connection:
        connection.execute("UPDATE meta SET value = 2 WHERE key = 'tokenizer_version'")
    built = count_builds(monkeypatch)

    store = SQLiteStore(str(path))
    make_hot(store)

    assert built == [1]
    assert is_hot(store)
    assert [hit[0] for hit in search(store, "steve", keywords("GPU"))] == [memory_id]
    store.close()


def test_saved_files_are_private(path) -> None:
    store = SQLiteStore(str(path))
    fill(store, 50)
    make_hot(store)
    store.close()

    assert stat.S_IMODE(saved_file(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(saved_file(path).parent.stat().st_mode) == 0o700
    assert [file.name for file in saved_file(path).parent.iterdir()] == ["1"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "head", "older"])
def test_a_damaged_file_is_ignored(path, monkeypatch, damage) -> None:
    store = SQLiteStore(str(path))
    fill(store, 80)
    make_hot(store)
    store.close()
    saved = bytearray(saved_file(path).read_bytes())
    if damage == "flipped":
        saved[len(saved) // 2] ^= 4
    if damage == "head":
        saved[2] ^= 4
    if damage == "older":
        saved[8] -= 1  # the number of its form
    saved_file(path).write_bytes({"cut": saved[:-9], "empty": b""}.get(damage, saved))
    built = count_builds(monkeypatch)

    store, cold = SQLiteStore(str(path)), SQLiteStore(str(path), recall_cache_mb=0)
    make_hot(store)

    assert built == [1]
    assert_same(store, cold)
    store.close()
    cold.close()


def test_a_file_of_another_past_of_the_database_is_ignored(path, monkeypatch, tmp_path) -> None:
    """A backup is put back and goes on; at the version of the file it holds other memories."""
    store = SQLiteStore(str(path))
    ids = fill(store, 80)
    backup = tmp_path / "backup.db"
    store.backup(str(backup))
    edit(store, "steve", ids[0], "alpha alpha bravo", None)
    make_hot(store)
    store.close()
    for leftover in ("-wal", "-shm"):
        Path(f"{path}{leftover}").unlink(missing_ok=True)
    shutil.copy(backup, path)
    built = count_builds(monkeypatch)

    store, cold = SQLiteStore(str(path)), SQLiteStore(str(path), recall_cache_mb=0)
    edit(cold, "steve", ids[0], "bravo bravo alpha", None)
    make_hot(store)

    assert built == [1]
    assert_same(store, cold)
    store.close()
    cold.close()


def test_a_store_that_may_not_write_uses_a_saved_index(path, monkeypatch) -> None:
    store = SQLiteStore(str(path))
    fill(store, 80)
    make_hot(store)
    store.close()
    built = count_builds(monkeypatch)

    store = SQLiteStore(str(path), read_only=True)
    make_hot(store)

    assert built == []
    assert is_hot(store)
    store.close()


def background_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "hot indexes"}


def test_closing_ends_the_background(path) -> None:
    before = background_threads()
    store = SQLiteStore(str(path))
    fill(store, 3000)
    search(store, "steve", ASKED[0])
    store.close()

    assert background_threads() <= before


def test_a_store_that_is_forgotten_leaves_no_thread(path) -> None:
    before = background_threads()
    store = SQLiteStore(str(path))
    fill(store, 10)
    make_hot(store)
    [thread] = background_threads() - before
    with Connection(path) as connection:
        connection.execute("SELECT 1")

    del store
    thread.join(60)

    assert not thread.is_alive()

"""Hot indexes of a store: the same results as the tables, whoever writes and whatever was saved."""

from __future__ import annotations

import random
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shepherd._native import text
from shepherd._native.store import Connection
from shepherd.errors import StoreError
from shepherd.knowledge import Knowledge
from shepherd.memory import facts, hot, hot_rows, memories, pruning
from shepherd.memory.postgres.schema import TABLES
from shepherd.memory.postgres.size_limit import Limit
from shepherd.memory.postgres.store import PostgresStore
from shepherd.memory.queries import RecallQuery
from shepherd.memory.records import NewMemory
from shepherd.memory.sqlite import SQLiteStore, open_store
from shepherd.memory.store import UserRows
from tests.examples import examples
from tests.native import twin_rank
from tests.native.twin_rank import Document
from tests.postgres import IN_A_FILE, ON_A_SERVER, Server

NOW = 1_700_000_000
DAY = 86_400
WORDS = ("alpha", "bravo", "carol", "delta", "echo", "fox", "über", "c++")
USERS = ("steve", "anna", "mallory")

texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
times = st.integers(NOW - 400 * DAY, NOW + DAY)
sessions = st.sampled_from(["", "", "one", "two"])
sources = st.sampled_from(["user", "turn", "chatgpt"])

Hit = tuple[int, float, float, bool]
Store = SQLiteStore | PostgresStore


def keywords(*words: str) -> list[str]:
    return [keyword for word in words for keyword in text.keywords(word)]


ASKED = (keywords("alpha", "bravo", "nothing"), keywords("über", "c++", "fox", "echo"))


def search(
    store: Store,
    user: str,
    words: list[str],
    *,
    floor: float = 0.9,
    now: float = NOW,
    is_request: bool = False,
) -> list[Hit]:
    query = RecallQuery(
        words, limit=6, now=now, recency_floor=floor, min_relevance=0.1, is_request=is_request
    )
    found = store.search(user, query)
    # What a message gets, which reads the version of the memories with its facts.
    assert store.recall(user, query)[1] == found
    return [(hit.id, hit.score, hit.relevance, hit.pinned) for hit in found]


def open_(database: str, *, recall_cache_mb: int = 256, read_only: bool = False) -> Any:
    return open_store(
        database,
        read_only=read_only,
        max_db_size="10G",
        recall_cache_mb=recall_cache_mb,
        busy_timeout_s=5.0,
    )


def rows_of(store: Store, user: str) -> UserRows:
    return UserRows(store, user, lambda: NOW)


def delete(store: Store, user: str, memory_id: int) -> bool:
    removed = rows_of(store, user).change_memories(None, 0, memories.delete, [memory_id], store.terms)
    return removed == 1


def edit(store: Store, user: str, memory_id: int, question: str | None, answer: str | None) -> bool:
    changed = (memory_id, question, answer, store.terms)
    return rows_of(store, user).change_memories(None, False, memories.edit, *changed)


def make_hot(store: Store, user: str = "steve") -> None:
    search(store, user, ASKED[0])
    assert store._recall.wait()


def is_hot(store: Store, user: str = "steve") -> bool:
    with store._recall._tables.read() as connection:
        [(tenant,)] = connection.execute("SELECT number FROM tenants WHERE user_id = ?", (user,))
        return store._recall.is_hot(connection, tenant)


def fill(store: Store, n: int, user: str = "steve", seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    new = [
        NewMemory(
            f"{' '.join(rng.choices(WORDS, k=4))} q{seed}x{i}", "echo " * rng.randrange(4), NOW - i * DAY
        )
        for i in range(n)
    ]
    return [memory_id for memory_id, _ in store.add_memories(user, new)]


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    opened = open_(database)
    yield opened
    opened.close()


@pytest.fixture
def cold(database: str, store: Store) -> Iterator[Store]:
    """Another opening of the database, which asks the tables alone."""
    opened = open_(database, recall_cache_mb=0)
    yield opened
    opened.close()


def assert_same(store: Store, cold: Store, user: str = "steve") -> None:
    for words in ASKED:
        for floor in (0.0, 0.9):
            assert search(store, user, words, floor=floor) == search(cold, user, words, floor=floor)


# ---- all of them give the same

_server: list[Server] = []


@pytest.fixture(scope="module", autouse=True)
def server_of_histories(postgres_server: Server) -> Iterator[None]:
    _server.append(postgres_server)
    yield
    _server.clear()


class UndoneError(Exception):
    """Rolls a transaction back."""


class History(RuleBasedStateMachine):
    """Three users' memories come, change and go, the same in a file and on a server.

    Each database has two openings, as of two processes; one has hot indexes, the other none.
    """

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        file = str(Path(self.folder.name) / "memory.db")
        self.databases = [file, _server[0].url(_server[0].new_schema())]
        self.now, self.n_edits = float(NOW), 0
        self.hot = [open_(database) for database in self.databases]
        self.cold = [open_(database, recall_cache_mb=0) for database in self.databases]
        self.rows: dict[str, dict[int, NewMemory]] = {user: {} for user in USERS}
        self.pinned: set[int] = set()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            for store in (*self.hot, *self.cold):
                store.close()
            self.folder.cleanup()

    def on_both(self, elsewhere: bool, change: Callable[[Any], Any]) -> Any:
        """Returns the result of a change, which is the same on both engines."""
        in_a_file, on_a_server = [change(store) for store in (self.cold if elsewhere else self.hot)]
        assert in_a_file == on_a_server
        return in_a_file

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
        added = self.on_both(elsewhere, lambda store: store.add_memories(user, stored))
        for (memory_id, is_new), one in zip(added, stored, strict=True):
            if is_new:
                self.rows[user][memory_id] = one

    @rule(user=st.sampled_from(USERS), elsewhere=st.booleans(), then=st.booleans())
    def roll_back(self, user: str, elsewhere: bool, then: bool) -> None:
        if not self.rows[user]:
            return  # a server does not give a new user's number again
        memory_id = min(self.rows[user])

        def change(store: Any) -> None:
            def work(connection: Any) -> None:
                store.terms.add(connection, user, [NewMemory("alpha undone", "bravo", NOW)])
                memories.edit(connection, memory_id >> 40, memory_id, "carol undone", None, store.terms)
                memories.delete(connection, memory_id >> 40, [memory_id], store.terms)
                raise UndoneError

            with pytest.raises(UndoneError):
                store.write(user, work)

        self.on_both(elsewhere, change)
        if then:
            # It gets the versions, and the id, that were rolled back.
            self.add(user, [("alpha alpha", "echo", NOW, "user", "")], not elsewhere)

    @rule(user=st.sampled_from(USERS), choice=st.randoms(use_true_random=False), elsewhere=st.booleans())
    def delete(self, user: str, choice: random.Random, elsewhere: bool) -> None:
        if self.rows[user]:
            memory_id = choice.choice(sorted(self.rows[user]))
            assert self.on_both(elsewhere, lambda store: delete(store, user, memory_id))
            self.forget(user, memory_id)

    def forget(self, user: str, memory_id: int) -> None:
        del self.rows[user][memory_id]
        self.pinned.discard(memory_id)

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

            def clear(store: Any) -> set[int]:
                rows = rows_of(store, user)
                deleted = rows.change_memories(None, [], memories.delete_question, question, store.terms)
                for one in deleted if restores else ():
                    assert rows.change_memories(None, False, memories.restore, one, store.terms)
                return {one.id for one in deleted}

            assert self.on_both(elsewhere, clear) == same
            for memory_id in () if restores else same:
                self.forget(user, memory_id)

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
            self.on_both(elsewhere, lambda store: edit(store, user, memory_id, question, None))
            self.rows[user][memory_id] = replace(self.rows[user][memory_id], question=question)

    @rule(
        user=st.sampled_from(USERS),
        choice=st.randoms(use_true_random=False),
        pinned=st.booleans(),
        elsewhere=st.booleans(),
    )
    def pin(self, user: str, choice: random.Random, pinned: bool, elsewhere: bool) -> None:
        if self.rows[user]:
            memory_id = choice.choice(sorted(self.rows[user]))
            assert self.on_both(
                elsewhere,
                lambda store: rows_of(store, user).change_memories(
                    None, False, memories.pin, memory_id, pinned
                ),
            )
            (self.pinned.add if pinned else self.pinned.discard)(memory_id)

    @rule(days=st.integers(-30, 90))
    def pass_time(self, days: int) -> None:
        self.now += days * DAY

    @rule()
    def wait(self) -> None:
        for store in self.hot:
            assert store._recall.wait()

    @rule()
    def open_again(self) -> None:
        for store in self.hot:
            store.close()
        self.hot = [open_(database) for database in self.databases]

    @rule()
    def merge_the_index(self) -> None:
        for store in self.hot:
            store.settle()

    @rule()
    def make_the_index_again(self) -> None:
        from shepherd.memory import maintenance
        from shepherd.memory.postgres import maintenance as on_a_server

        with self.cold[0]._database.write() as connection:
            maintenance.reindex(connection)
        self.cold[1]._database.write_locked("schema", on_a_server.reindex)

    @invariant()
    def all_find_the_same(self) -> None:
        if not hasattr(self, "folder"):
            return
        for user, rows in self.rows.items():
            for words, wants in zip(ASKED, (False, True), strict=True):
                expected = twin_results(self.cold[0], rows, self.pinned, words, self.now, is_request=wants)
                for store in (*self.hot, *self.cold):
                    assert search(store, user, words, now=self.now, is_request=wants) == expected


def twin_results(
    store: SQLiteStore,
    rows: dict[int, NewMemory],
    pinned: set[int],
    words: list[str],
    now: float,
    *,
    is_request: bool,
) -> list[Hit]:
    with store._database.read() as connection:
        spoken = {i: rest for i, *rest in connection.execute("SELECT id, thread, label, asks FROM context")}
    documents = []
    for memory_id, row in rows.items():
        texts = tuple(text.terms(row.question)), tuple(text.terms(row.answer))
        length = twin_rank.length(spoken[memory_id][2], *texts)
        documents.append(Document(memory_id, texts, row.timestamp, length, *spoken[memory_id]))
    found = twin_rank.search(documents, words, 6, now, min_relevance=0.1, is_request=is_request)
    return [(memory_id, score, relevance, memory_id in pinned) for memory_id, _, score, relevance in found]


@pytest.fixture(autouse=True)
def save_every_index(monkeypatch: pytest.MonkeyPatch) -> None:
    # As it is, an index of fewer than thousands of memories is not worth a file.
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)


class TestHistory(History.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        max_examples=examples(12),
        stateful_step_count=25,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


# ---- who writes


def test_a_question_is_answered_by_the_tables_until_the_index_is_there(store, cold) -> None:
    fill(store, 60)
    first = search(store, "steve", ASKED[0])
    assert store._recall.wait()

    assert is_hot(store)
    assert search(store, "steve", ASKED[0]) == first == search(cold, "steve", ASKED[0])


def test_a_memory_of_this_process_is_in_the_index_when_it_is_stored(store, cold, engine) -> None:
    fill(store, 60)
    make_hot(store)

    [(memory_id, _)] = store.add_memories("steve", [NewMemory("alpha bravo alpha", "bravo", NOW)])

    # On a server the background does it, since a writer would wait for a round trip more.
    assert engine == "sqlite" or store._recall.wait()
    assert is_hot(store)
    assert search(store, "steve", ASKED[0])[0][0] == memory_id
    assert_same(store, cold)


def test_a_write_of_another_process_is_seen_at_once(store, cold, database, run_python) -> None:
    fill(store, 60)
    make_hot(store)

    done = run_python(
        "import sys; from shepherd.memory import Memory\n"
        "with Memory(sys.argv[1], user_id='steve') as memory:\n"
        "    memory.store_memory('alpha bravo alpha', 'alpha', timestamp=1_700_000_000)\n",
        database,
    )
    assert done.returncode == 0, done.stderr

    assert not is_hot(store)
    assert_same(store, cold)
    assert store._recall.wait()
    assert is_hot(store)
    assert_same(store, cold)


def test_a_question_without_hits_sees_the_facts_and_what_another_process_stores(store, cold) -> None:
    fill(store, 60)
    store.write(
        "steve", lambda connection: facts.set_value(connection, "steve", "a", "b", source="", now=NOW)
    )
    make_hot(store)
    query = RecallQuery(keywords("nowhere"), limit=3, now=NOW, recency_floor=0.9, min_relevance=0.0)

    found, results = store.recall("steve", query)
    [(memory_id, _)] = cold.add_memories("steve", [NewMemory("nowhere else", "", NOW)])

    assert [(fact.key, fact.value) for fact in found] == [("a", "b")]
    assert results == []
    assert [result.id for result in store.recall("steve", query)[1]] == [memory_id]


def test_two_questions_of_one_transaction_have_answers_of_their_own(store) -> None:
    fill(store, 60)
    tables = store._recall._tables

    def ask(connection: Any, words: list[str], floor: float) -> Any:
        return tables.search(connection, 1, words, 5, NOW, recency_floor=floor, min_relevance=0.0)

    asked = [(words, floor) for words in ASKED for floor in (0.0, 0.9)]
    with tables.read() as connection:
        together = [ask(connection, *one) for one in asked]
    apart = []
    for one in asked:
        with tables.read() as connection:
            apart.append(ask(connection, *one))

    assert together == apart
    assert len({str(one) for one in apart}) == len(asked)


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
    monkeypatch.setattr(hot_rows, "KEPT_VERSIONS", 5)
    for memory_id in ids[:20]:
        delete(cold, "steve", memory_id)

    make_hot(store)

    assert is_hot(store)
    assert store._recall._slots[1].index is not built
    assert_same(store, cold)


@IN_A_FILE
def test_an_index_that_a_write_left_behind_is_brought_up_without_a_question(store, cold, monkeypatch) -> None:
    ids = fill(store, 100)
    make_hot(store)
    monkeypatch.setattr(hot_rows, "KEPT_VERSIONS", 5)
    for memory_id in ids[:20]:
        delete(cold, "steve", memory_id)

    fill(store, 1, seed=2)

    assert store._recall.wait()
    assert is_hot(store)
    assert_same(store, cold)


@IN_A_FILE
def test_an_index_is_saved_again_when_much_has_changed(store) -> None:
    fill(store, 600)
    make_hot(store)
    recall = store._recall
    slot = recall._slots[1]
    recall._save(slot)
    path = saved_file(store)
    first = path.stat().st_ino
    version = slot.followed.version

    def is_saved_again(saved_version: int) -> bool:
        slot.saved_version = saved_version
        before = path.stat().st_ino
        recall._save(slot)
        return path.stat().st_ino != before

    assert slot.saved_version == version
    assert path.stat().st_ino == first
    assert not is_saved_again(version)
    assert not is_saved_again(version - 512)  # 500, and a fiftieth of the memories
    assert is_saved_again(version - 513)
    assert slot.saved_version == version
    assert is_saved_again(-1)
    path.unlink()
    recall._save(slot)
    assert path.exists()
    assert recall.forget_saved(1) == [str(path)]
    assert slot.saved_version == -1
    assert recall.forget_saved(1) == []


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
            with store._recall._tables.read() as connection:
                asked = (connection, 1, ASKED[0], 5, NOW)
                hot = store._recall.search(*asked)
                tables = store._recall._tables.search(*asked, recency_floor=0.9, min_relevance=0.0)
                if hot != tables:
                    failures.append((hot, tables))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for i in range(60):
        writer = (store, cold)[i % 2]
        [(memory_id, _)] = writer.add_memories("steve", [NewMemory(f"alpha {i}", "bravo", NOW - i * DAY)])
        if i % 3 == 0:
            edit(store, "steve", memory_id, "alpha bravo bravo", f"{i}")
        if i % 5 == 0:
            delete(store, "steve", memory_id)
    done.set()
    for thread in readers:
        thread.join()

    assert failures == []
    assert_same(store, cold)


def test_pruned_memories_are_gone_from_the_index(store, cold, engine) -> None:
    fill(store, 300)
    make_hot(store)

    if engine == "sqlite":
        with store._database.read() as connection:
            used = pruning.used_bytes(connection)
        assert pruning.prune(store._database, used - 40_000) > 0
    else:
        limit = Limit(1 << 30)
        limit._prune(store._database, "steve", limit.used(store._database) - 40_000)

    left = rows_of(store, "steve").read_memories(None, 0, memories.count)
    assert 0 < left < 300
    assert_same(store, cold)
    make_hot(store)
    assert is_hot(store)
    assert_same(store, cold)


@ON_A_SERVER
@pytest.mark.parametrize("moment", range(6))
@pytest.mark.parametrize("changes", ["adds", "edits", "deletes"])
def test_a_write_at_any_moment_of_a_question_is_seen_as_a_whole_or_not_at_all(
    store, cold, monkeypatch, moment, changes
) -> None:
    ids = fill(store, 60)
    make_hot(store)
    query = RecallQuery(ASKED[0], limit=60, now=NOW, recency_floor=0.9, min_relevance=0.0)
    before = cold.recall("steve", query)
    # Another process has written since, so that the index has to be brought up to date.
    cold.add_memories("steve", [NewMemory("alpha of another", "bravo", NOW)])
    middle = cold.recall("steve", query)

    def write(connection: Any) -> None:
        facts.set_value(connection, "steve", "changed", changes, source="user", now=NOW)
        if changes == "adds":
            cold.terms.add(connection, "steve", [NewMemory(f"alpha bravo new{moment}", "", NOW)])
        if changes == "edits":
            memories.edit(connection, 1, ids[3], "alpha bravo edited", None, cold.terms)
        if changes == "deletes":
            memories.delete(connection, 1, ids[:2], cold.terms)

    taken = store._database._take
    n_taken = 0

    def take() -> Any:
        nonlocal n_taken
        if n_taken == moment:
            cold.write("steve", write)
        n_taken += 1
        return taken()

    monkeypatch.setattr(store._database, "_take", take)
    found = store.recall("steve", query)
    monkeypatch.undo()
    if n_taken <= moment:
        cold.write("steve", write)

    after = cold.recall("steve", query)
    assert before[1] != middle[1] != after[1]
    assert found in (middle, after)
    assert store.recall("steve", query) == after


@ON_A_SERVER
@pytest.mark.parametrize("ahead", [0, 1])
def test_an_index_that_leaves_or_moves_on_before_the_search_is_not_missed(
    store, cold, monkeypatch, ahead
) -> None:
    """Another thread needs its place, or has brought it to a later version, after its mark was read."""
    fill(store, 30)
    make_hot(store)
    held_mark, n_asked = store._recall.held_mark, 0

    def held(tenant: int) -> int | None:
        nonlocal n_asked
        n_asked += 1
        mark = held_mark(tenant)
        if mark is not None and not ahead:
            store._recall._slots.pop(tenant)
        return None if mark is None else mark - ahead

    monkeypatch.setattr(store._recall, "held_mark", held)
    query = RecallQuery(ASKED[0], limit=6, now=NOW, recency_floor=0.9, min_relevance=0.1)
    found = store.search("steve", query)

    assert found == cold.search("steve", query) != []
    assert n_asked == (3 if ahead else 1)


@ON_A_SERVER
def test_versions_come_in_the_order_of_commits(store, cold, database, postgres_server) -> None:
    """A writer that knows nothing of the locks of users begins first and commits last."""
    ids = fill(store, 60)
    make_hot(store)
    schema = store._database.schema
    slow = psycopg.connect(postgres_server.url())
    slow.execute(f"SET search_path = {schema}")
    slow.execute("UPDATE context SET pinned = 0 WHERE id = %s", [ids[0]])
    [version] = slow.execute(
        "UPDATE tenants SET version = version + 1, edits = edits + 1 WHERE number = 1 RETURNING version"
    ).fetchone()
    slow.execute("INSERT INTO context_changes VALUES(1, %s, %s)", [version, ids[0]])

    fast = threading.Thread(target=cold.add_memories, args=("steve", [NewMemory("alpha fast", "", NOW)]))
    fast.start()
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    while not postgres_server.execute(waits)[0][0]:
        assert fast.is_alive()
    assert_same(store, cold)
    slow.commit()
    slow.close()
    fast.join()

    assert_same(store, cold)
    with store._recall._tables.read() as connection:
        assert connection.execute("SELECT version FROM tenants WHERE number = 1") == [(version + 1,)]
        assert connection.execute("SELECT version, id FROM context_changes WHERE id > 0") == [
            (version, ids[0])
        ]
    assert store._recall.wait()
    assert is_hot(store)
    assert_same(store, cold)


@pytest.fixture
def go_back(store: Store, postgres_server: Server) -> Iterator[Callable[[], None]]:
    """Gives the rows of a moment back to all tables of a server: those of the call before."""
    schema = store._database.schema  # type: ignore[union-attr]
    tables = (*TABLES,)
    copies = f"copies_of_{schema}"

    def go() -> None:
        if not postgres_server.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{copies}'"):
            postgres_server.execute(f"CREATE SCHEMA {copies}")
            for table in tables:
                postgres_server.execute(f"CREATE TABLE {copies}.{table} AS TABLE {schema}.{table}")
            return
        postgres_server.execute(
            "BEGIN; SET LOCAL session_replication_role = replica;"
            f" TRUNCATE {', '.join(tables)};"
            + "".join(f" INSERT INTO {table} SELECT * FROM {copies}.{table};" for table in tables)
            + " COMMIT",
            schema,
        )

    yield go
    postgres_server.execute(f"DROP SCHEMA IF EXISTS {copies} CASCADE")


@ON_A_SERVER
@pytest.mark.parametrize("n_after", [0, 2, 3, 7])
@pytest.mark.parametrize("is_followed", [True, False])
def test_an_index_of_a_past_that_a_server_has_lost_is_built_again(
    store, cold, go_back, n_after: int, is_followed: bool
) -> None:
    """A backup is restored, or a standby takes over without the last commits; others store meanwhile."""
    ids = fill(store, 60)
    make_hot(store)
    go_back()
    fill(store, 2, seed=2)
    edit(store, "steve", ids[0], "alpha alpha alpha", None)
    assert store._recall.wait()
    if is_followed:
        assert_same(store, cold)

    go_back()
    if n_after:
        fill(cold, n_after - 1, seed=3)
        delete(cold, "steve", ids[1])

    assert_same(store, cold)
    assert store._recall.wait()
    make_hot(store)
    assert is_hot(store)
    assert_same(store, cold)
    fill(cold, 1, seed=4)
    assert_same(store, cold)


@ON_A_SERVER
def test_chunks_of_a_past_that_a_server_has_lost_are_not_found(store, cold, go_back) -> None:
    ours, others = (Knowledge(one, "steve") for one in (store, cold))
    ours.add_node("first", source_text="alpha bravo")
    ours.search("alpha")
    assert store._chunk_recall.wait()
    go_back()
    ours.add_node("lost", source_text="alpha carol")
    assert [hit.title for hit in ours.search("carol")] == ["lost"]
    assert store._chunk_recall.wait()

    go_back()
    others.add_node("found", source_text="alpha delta")

    assert [hit.title for hit in ours.search("delta")] == ["found"]
    assert ours.search("carol") == []
    assert store._chunk_recall.wait()
    assert [hit.title for hit in ours.search("delta")] == ["found"]


@ON_A_SERVER
def test_marks_of_long_ago_are_deleted(store, cold, postgres_server) -> None:
    for seed in range(3):
        fill(store, 2_200, seed=seed)
    marks = postgres_server.execute(
        "SELECT version FROM context_changes WHERE id < 0 ORDER BY 1", store._database.schema
    )
    assert marks == [(4_400,), (6_600,)]


# ---- doubt


def test_rows_that_contradict_each_other_are_left_to_the_tables(store, cold, caplog) -> None:
    ids = fill(store, 50)
    with store._recall._tables.write() as connection:
        connection.execute("UPDATE context SET doc_len = doc_len + 1 WHERE id = ?", (ids[3],))

    make_hot(store)

    assert not is_hot(store)
    assert_same(store, cold)
    assert "no hot index of tenant 1" in caplog.text


def test_an_index_that_missed_a_change_is_built_again(store, cold) -> None:
    ids = fill(store, 50)
    make_hot(store)
    with cold._recall._tables.write() as connection:
        # A program that lists no changes: this looks like one more memory.
        connection.execute(
            "UPDATE tenants SET n = n - 1, version = version + 1, next_sequence = next_sequence + 1,"
            " total_length = total_length - (SELECT doc_len FROM context WHERE id = ?) WHERE number = 1",
            (ids[7],),
        )
        [texts] = connection.execute(
            "DELETE FROM context WHERE id = ? RETURNING user_message, assistant_response", (ids[7],)
        )
        cold.terms.remove(connection, ids[7], *texts)

    make_hot(store)

    assert is_hot(store)
    assert_same(store, cold)


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


@ON_A_SERVER
def test_a_role_that_may_not_read_the_changes_is_answered_by_the_tables(
    store, postgres_server, monkeypatch
) -> None:
    fill(store, 60)
    schema = store._database.schema
    postgres_server.execute(f"CREATE ROLE reader_{schema} LOGIN PASSWORD 'x'")
    postgres_server.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}")
    postgres_server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}")
    # As after an upgrade that has made the table.
    postgres_server.execute(f"REVOKE ALL ON {schema}.context_changes FROM reader_{schema}")
    url = postgres_server.url(schema, user=f"reader_{schema}", password="x")
    reader = open_(url, read_only=True)
    tried: list[int] = []
    bring = reader._recall._bring
    monkeypatch.setattr(
        reader._recall, "_bring", lambda tenant, slot: tried.append(tenant) or bring(tenant, slot)
    )

    for _ in range(3):
        assert search(reader, "steve", ASKED[0]) == search(store, "steve", ASKED[0])
        assert reader._recall.wait()

    assert not is_hot(reader)
    assert tried == [1]  # not again for each question
    reader.close()


# ---- room


def test_no_room_means_no_index(database) -> None:
    store = open_(database, recall_cache_mb=0)
    fill(store, 50)
    make_hot(store)

    assert not is_hot(store)
    assert store.stats("steve").hot_users == 0
    store.close()


@IN_A_FILE
def test_the_index_used_longest_ago_goes_first(database) -> None:
    store = open_(database, recall_cache_mb=1)
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


def saved_file(store: Store) -> Path:
    return store._recall._tables.folder / "1"


def count_builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    built: list[int] = []
    original: Callable[..., Any] = hot.hot_rows.build

    def build(read: Any, tables: Any, tenant: int) -> Any:
        built.append(tenant)
        return original(read, tables, tenant)

    monkeypatch.setattr(hot.hot_rows, "build", build)
    return built


def test_a_saved_index_is_loaded_and_caught_up(database, monkeypatch) -> None:
    store = open_(database)
    ids = fill(store, 200)
    make_hot(store)
    store.close()
    with_changes = open_(database, recall_cache_mb=0)
    delete(with_changes, "steve", ids[7])
    edit(with_changes, "steve", ids[8], "alpha alpha", None)
    fill(with_changes, 20, seed=5)
    built = count_builds(monkeypatch)

    store = open_(database)
    make_hot(store)

    assert built == []
    assert is_hot(store)
    assert_same(store, with_changes)
    store.close()
    with_changes.close()


def test_a_saved_index_of_another_tokenizer_is_built_again(database, monkeypatch) -> None:
    store = open_(database)
    fill(store, 200)
    [(memory_id, _)] = store.add_memories("steve", [NewMemory("Two GPUs", "", NOW)])
    make_hot(store)
    with store._recall._tables.write() as connection:
        connection.execute("UPDATE meta SET value = 2 WHERE key = 'tokenizer_version'")
    store.close()
    built = count_builds(monkeypatch)

    store = open_(database)
    make_hot(store)

    assert built == [1]
    assert is_hot(store)
    assert [hit[0] for hit in search(store, "steve", keywords("GPU"))] == [memory_id]
    store.close()


def test_bytes_of_saved_indexes_are_those_of_their_files(database) -> None:
    store = open_(database)
    assert store.stats("steve").hot_saved_bytes == 0  # there is no folder for them yet
    fill(store, 50)
    make_hot(store)
    store.close()

    store = open_(database)
    files = list(saved_file(store).parent.iterdir())
    assert store.stats("steve").hot_saved_bytes == sum(path.stat().st_size for path in files) > 1000
    store.close()


def test_saved_files_are_private(database) -> None:
    store = open_(database)
    fill(store, 50)
    make_hot(store)
    store.close()

    assert stat.S_IMODE(saved_file(store).stat().st_mode) == 0o600
    assert stat.S_IMODE(saved_file(store).parent.stat().st_mode) == 0o700
    assert [file.name for file in saved_file(store).parent.iterdir()] == ["1"]


def test_a_saved_index_that_cannot_be_deleted_is_named(store) -> None:
    file = saved_file(store)
    file.mkdir(parents=True)  # root may delete any file, but no folder so

    with pytest.raises(StoreError, match=re.escape(f"{file}: ")) as caught:
        store._recall.forget_saved(1)

    assert caught.value.hint == "delete this file"
    file.rmdir()
    assert store._recall.forget_saved(1) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "head", "older"])
def test_a_damaged_file_is_ignored(database, monkeypatch, damage) -> None:
    store = open_(database)
    fill(store, 80)
    make_hot(store)
    store.close()
    saved = bytearray(saved_file(store).read_bytes())
    if damage == "flipped":
        saved[len(saved) // 2] ^= 4
    if damage == "head":
        saved[2] ^= 4
    if damage == "older":
        saved[8] -= 1  # the number of its form
    saved_file(store).write_bytes({"cut": saved[:-9], "empty": b""}.get(damage, saved))
    built = count_builds(monkeypatch)

    store, cold = open_(database), open_(database, recall_cache_mb=0)
    make_hot(store)

    assert built == [1]
    assert_same(store, cold)
    store.close()
    cold.close()


@IN_A_FILE
def test_a_file_of_another_past_of_the_database_is_ignored(database, path, monkeypatch, tmp_path) -> None:
    """A backup is put back and goes on; at the version of the file it holds other memories."""
    store = open_(database)
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

    store, cold = open_(database), open_(database, recall_cache_mb=0)
    edit(cold, "steve", ids[0], "bravo bravo alpha", None)
    make_hot(store)

    assert built == [1]
    assert_same(store, cold)
    store.close()
    cold.close()


@ON_A_SERVER
def test_a_file_of_a_server_that_lost_commits_is_ignored(database, monkeypatch) -> None:
    store = open_(database)
    fill(store, 80)
    make_hot(store)
    store.close()
    cold = open_(database, recall_cache_mb=0)
    with cold._recall._tables.write() as connection:
        # As in a backup from before the index was saved.
        connection.execute("DELETE FROM meta WHERE key LIKE 'hot_index:%'")
    built = count_builds(monkeypatch)

    store = open_(database)
    make_hot(store)

    assert built == [1]
    assert_same(store, cold)
    store.close()
    cold.close()


@ON_A_SERVER
def test_machines_leave_each_others_files_valid(database, monkeypatch, tmp_path) -> None:
    # The same path on two disks.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # which is made
    for machine in ("one", "two"):
        monkeypatch.setattr("socket.gethostname", lambda machine=machine: machine)
        store = open_(database)
        if machine == "one":
            fill(store, 80)
        make_hot(store)
        store.close()
        (tmp_path / "cache").rename(tmp_path / machine)
    monkeypatch.setattr("socket.gethostname", lambda: "one")
    (tmp_path / "one").rename(tmp_path / "cache")
    built = count_builds(monkeypatch)

    store = open_(database)
    make_hot(store)

    assert built == []
    assert is_hot(store)
    store.close()


@ON_A_SERVER
def test_databases_of_one_server_have_files_of_their_own(database, postgres_server) -> None:
    stores = [open_(database), open_(postgres_server.url(postgres_server.new_schema()))]
    folders = {store._recall._tables.folder for store in stores}
    for store in stores:
        store.close()

    assert len(folders) == 2


def test_a_store_that_may_not_write_uses_a_saved_index(database, monkeypatch) -> None:
    store = open_(database)
    fill(store, 80)
    make_hot(store)
    store.close()
    built = count_builds(monkeypatch)

    store = open_(database, read_only=True)
    make_hot(store)

    assert built == []
    assert is_hot(store)
    store.close()


def background_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "hot indexes"}


def test_closing_ends_the_background(database) -> None:
    before = background_threads()
    store = open_(database)
    fill(store, 3000)
    search(store, "steve", ASKED[0])
    store.close()

    assert background_threads() <= before


@IN_A_FILE
def test_a_store_that_is_forgotten_leaves_no_thread(database, path) -> None:
    before = background_threads()
    store = open_(database)
    fill(store, 10)
    make_hot(store)
    [thread] = background_threads() - before
    with Connection(path) as connection:
        connection.execute("SELECT 1")

    del store
    thread.join(60)

    assert not thread.is_alive()

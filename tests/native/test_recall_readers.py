"""Recall while others write: snapshots, transactions, other processes, threads; against the twin."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd._native.store import Connection, Recall
from tests.native import recall_database as database
from tests.native import twin_rank
from tests.native.recall_database import DAY, NOW, documents_of, zipf_memories
from tests.native.twin_rank import Document


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with database.create(tmp_path / "memory.db") as connection:
        yield connection


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


def test_what_came_and_went_between_two_loads_is_there_for_a_reader_between_them(
    connection: Connection,
) -> None:
    [first] = database.add(connection, 1, [(["alpha"], [], NOW)])
    recall = Recall()
    assert len(recall.search(connection, 1, ["alpha"], 9, NOW)) == 1
    [second] = database.add(connection, 1, [(["alpha"], [], NOW)])
    with Connection(connection.path, read_only=True) as between:
        between.execute("BEGIN")
        between.execute("SELECT count(*) FROM tenants")
        database.delete(connection, second)
        [third] = database.add(connection, 1, [(["alpha"], [], NOW)])

        assert [hit[0] for hit in recall.search(connection, 1, ["alpha"], 9, NOW)] == [third, first]
        assert [hit[0] for hit in recall.search(between, 1, ["alpha"], 9, NOW)] == [second, first]


def conversation(thread: int, word: str) -> list[database.Memory]:
    """Question, answer and remark of a session; only the answer has the word, and lends to both beside it."""
    return [([], ["who"], NOW, thread, 0, 2), ([word], [], NOW, thread), ([], ["well"], NOW, thread)]


def test_deleted_memories_that_the_arrays_still_hold_are_neither_found_nor_counted(
    connection: Connection,
) -> None:
    stored = [one for thread in range(1, 13) for one in conversation(thread, "alpha")]
    ids = database.add(connection, 1, stored)
    documents = documents_of(ids, stored)
    recall = Recall()
    assert len(recall.search(connection, 1, ["alpha"], 99, NOW)) == len(ids)
    # Of every second conversation the remark, which ranks by what the answer lends it; of every third the
    # answer, from which the other two have theirs; of every fourth the question.
    gone = {*ids[2::6], *ids[1::9], *ids[0::12]}
    for id in gone:
        database.delete(connection, id)
    left = [document for document in documents if document.id not in gone]

    for k in range(1, len(ids) + 1):
        kept, fresh = (one.search(connection, 1, ["alpha"], k, NOW) for one in (recall, Recall()))
        assert kept == fresh == twin_rank.search(left, ["alpha"], k, NOW)
        assert len(kept) == min(k, len(recall.search(connection, 1, ["alpha"], 99, NOW)))


def test_deleted_neighbours_take_no_place_among_the_best(connection: Connection) -> None:
    for thread in range(1, 21):
        database.add(connection, 1, [(["alpha"], [], NOW, thread, 0, 2), ([], ["well"], NOW, thread)])
        database.add(connection, 1, [(["alpha", *["x"] * 400], [], NOW)])
    recall = Recall()
    before = recall.search(connection, 1, ["alpha"], 40, NOW)
    lent_to = [hit[0] for hit in before if hit[1] == 0.0]
    assert len(lent_to) == 20

    for id in lent_to:
        database.delete(connection, id)

    found = recall.search(connection, 1, ["alpha"], 40, NOW)
    assert len(found) == 40
    assert {hit[0] for hit in found}.isdisjoint(lent_to)
    assert found == Recall().search(connection, 1, ["alpha"], 40, NOW)


def test_version_number_of_a_rolled_back_transaction_may_come_again(connection: Connection) -> None:
    recall = Recall()
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW)])
    connection.execute("BEGIN IMMEDIATE")
    database.add(connection, 1, [(["alpha"], ["bravo"] * 50, NOW - 500 * DAY)])
    assert len(recall.search(connection, 1, ["alpha"], 3, NOW)) == 2
    connection.execute("ROLLBACK")

    ids = database.add(connection, 1, [(["alpha"], ["carol"], NOW)])

    expected = [Document(id, (("alpha", "x"), ()), NOW, 2) for id in (ids[0] - 1, ids[0])]
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
        Document(1 << 40 | 1, (("alpha",), ()), NOW, 1),
        Document(1 << 40 | 2, (("carol",), ()), 1, 1),
        Document(1 << 40 | 4, (("alpha", "bravo"), ()), NOW, 2),
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
        seen, is_last = 0, False
        with Connection(connection.path, read_only=True) as reader:
            while not is_last:
                is_last = is_done.is_set()
                reader.execute("BEGIN")
                [(n,)] = reader.execute("SELECT n FROM tenants WHERE number = 1")
                found = recall.search(reader, 1, ["alpha"], 10_000, NOW)
                reader.execute("COMMIT")
                assert len(found) == n >= seen
                assert len({hit[0] for hit in found}) == n
                seen = n

    run_threads(write, read, read, read)

    assert len(recall.search(connection, 1, ["alpha"], 10_000, NOW)) == 751


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

"""Connections: values, statements, errors, transactions and threads, on real files."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.store import SQLITE_KIND, SQLITE_VERSION, Connection, Recall, SQLiteError
from shepherd.memory.schema import create_schema

BUSY, INTERRUPTED, CORRUPT_OR_FOREIGN, CANNOT_OPEN, MISUSE = 5, 9, 26, 14, 21
READONLY, CONSTRAINT_UNIQUE, CONSTRAINT_FOREIGN_KEY = 8, 2067, 787
FOREVER = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with Connection(tmp_path / "memory.db") as connection:
        connection.script("PRAGMA journal_mode = WAL; CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        yield connection


def test_version_is_one_without_the_wal_reset_bug() -> None:
    assert SQLITE_KIND in ("bundled", "system")
    assert SQLITE_KIND == "system" or tuple(map(int, SQLITE_VERSION.split("."))) >= (3, 51, 3)


# ---- values


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        0.0,
        1.5,
        float("inf"),
        "",
        "text",
        "a\0b",
        "\0",
        "é 漢 🐑",
        b"",
        b"\0\xff",
    ],
)
def test_value_comes_back_as_it_went_in(connection: Connection, value: object) -> None:
    connection.execute("INSERT INTO t (b) VALUES (?)", (value,))

    [(found,)] = connection.execute("SELECT b FROM t")

    assert found == value
    assert type(found) is type(value)


@given(
    st.lists(
        st.none()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"]))
        | st.binary(),
        max_size=40,
    )
)
def test_any_row_of_values_comes_back(values: list[object]) -> None:
    with Connection(":memory:") as connection:
        [row] = connection.execute("SELECT 'x', " + ", ".join(["?"] * len(values) or ["'none'"]), values)

    assert row == ("x", *(values or ["none"]))


def test_booleans_are_stored_as_integers(connection: Connection) -> None:
    assert connection.execute("SELECT ?, ?", (True, False)) == [(1, 0)]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (2**63, OverflowError, "64 bits"),
        (-(2**63) - 1, OverflowError, "64 bits"),
        (float("nan"), ValueError, "NaN"),
        ("se\ud800cret", ValueError, "lone surrogate"),
        ({"se": "cret"}, TypeError, "dict"),
        (bytearray(b"secret"), TypeError, "bytearray"),
    ],
)
def test_value_that_cannot_be_stored_is_refused_by_position(
    connection: Connection, value: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        connection.execute("SELECT ?, ?", (1, value))  # type: ignore[list-item]

    assert str(caught.value).startswith("parameter 2: ")
    assert "cret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert connection.execute("SELECT ?, ?", (1, 2)) == [(1, 2)]


def test_text_that_is_not_utf8_comes_back_with_replacement_characters(connection: Connection) -> None:
    assert connection.execute("SELECT CAST(x'61ff62' AS TEXT)") == [("a\ufffdb",)]


def test_result_larger_than_one_batch_is_complete(connection: Connection) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, "x" * 100) for i in range(50_000)))

    rows = connection.execute("SELECT a, b FROM t ORDER BY a")

    assert rows == [(i, "x" * 100) for i in range(50_000)]


def test_value_larger_than_one_batch_is_complete(connection: Connection) -> None:
    big = "é" * 3_000_000

    assert connection.execute("SELECT ?, ?", (big, big.encode())) == [(big, big.encode())]


# ---- statements


@pytest.mark.parametrize("parameters", [(), (1,), (1, 2, 3), [1]])
def test_wrong_number_of_parameters_is_refused(connection: Connection, parameters: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="takes 2 parameters"):
        connection.execute("SELECT ?, ?", parameters)


@pytest.mark.parametrize("parameters", ["ab", b"ab", {"a": 1, "b": 2}])
def test_parameters_must_be_a_sequence_of_values(connection: Connection, parameters: object) -> None:
    with pytest.raises(TypeError, match="sequence of values"):
        connection.execute("SELECT ?, ?", parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "", "   ", "-- nothing", ";"])
def test_execute_refuses_anything_but_one_statement(connection: Connection, sql: str) -> None:
    with pytest.raises(ValueError, match="exactly one statement"):
        connection.execute(sql)


@pytest.mark.parametrize("sql", ["SELECT 1;", "SELECT 1 -- one", "SELECT 1; /* end */ \n"])
def test_execute_allows_a_comment_after_its_statement(connection: Connection, sql: str) -> None:
    assert connection.execute(sql) == [(1,)]


@pytest.mark.parametrize("sql", ["SELECT 1\0; DROP TABLE t", "SELECT '\ud800'"])
def test_sql_with_nul_or_surrogate_is_refused(connection: Connection, sql: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|surrogate"):
        connection.execute(sql)
    with pytest.raises(ValueError, match=r"NUL|surrogate"):
        connection.script(sql)


def test_more_statements_than_the_cache_holds_still_run(connection: Connection) -> None:
    for _ in range(2):
        assert [connection.execute(f"SELECT {i}") for i in range(300)] == [[(i,)] for i in range(300)]


def test_cached_statement_sees_a_changed_schema(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 2)")
    assert connection.execute("SELECT * FROM t") == [(1, 2)]

    connection.execute("ALTER TABLE t ADD COLUMN c DEFAULT 3")

    assert connection.execute("SELECT * FROM t") == [(1, 2, 3)]


def test_execute_many_counts_the_changed_rows(connection: Connection) -> None:
    n_changed = connection.execute_many(
        "INSERT OR IGNORE INTO t VALUES (?, ?)", [(i % 600, i) for i in range(1000)]
    )

    assert n_changed == 600
    assert connection.execute("SELECT count(*) FROM t") == [(600,)]


def test_execute_many_outside_a_transaction_is_all_or_nothing(connection: Connection) -> None:
    with pytest.raises(SQLiteError) as caught:
        connection.execute_many("INSERT INTO t VALUES (?, ?)", [*((i, i) for i in range(700)), (5, 5)])

    assert caught.value.code & 0xFF == 19
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM t") == [(0,)]


def test_execute_many_inside_a_transaction_leaves_it_to_the_caller(connection: Connection) -> None:
    connection.execute("BEGIN")
    with pytest.raises(SQLiteError):
        connection.execute_many("INSERT INTO t VALUES (?, ?)", [(1, 1), (1, 1)])

    assert connection.in_transaction
    assert connection.execute("SELECT count(*) FROM t") == [(1,)]


def test_rows_of_execute_many_may_come_from_the_same_connection(connection: Connection) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, i) for i in range(600)))

    def rows() -> Iterator[tuple[int, int]]:
        for i in range(600):
            [(b,)] = connection.execute("SELECT b FROM t WHERE a = ?", (i,))
            yield (1000 + i, b)

    assert connection.execute_many("INSERT INTO t VALUES (?, ?)", rows()) == 600


def test_statements_together_give_the_rows_of_each(connection: Connection) -> None:
    insert = "INSERT INTO t (b) VALUES (?) RETURNING a"

    results = connection.execute_together(
        [("BEGIN", ()), (insert, ("x",)), (insert, ("y" * 3_000_000,)), ("SELECT a, length(b) FROM t", ())]
    )
    connection.execute("COMMIT")

    assert results == [[], [(1,)], [(2,)], [(1, 1), (2, 3_000_000)]]
    assert connection.execute_together([]) == []
    assert connection.execute_together([(insert, ("z",))]) == [[(3,)]]


def test_statement_that_fails_among_others_leaves_those_before_it_done(connection: Connection) -> None:
    insert = "INSERT INTO t VALUES (?, 'secret')"

    with pytest.raises(SQLiteError) as caught:
        connection.execute_together([(insert, (1,)), (insert, (1,)), (insert, (2,))])

    assert "secret" not in str(caught.value)
    assert connection.execute("SELECT a FROM t") == [(1,)]
    assert connection.execute_together([(insert, (3,)), ("SELECT a FROM t", ())])[1] == [(1,), (3,)]


@pytest.mark.parametrize(
    "statements", [[("SELECT 1", ())] * 5, [("SELECT 1", ()), ("SELECT ?", ())], [("SELECT 1; SELECT 2", ())]]
)
def test_statements_together_are_refused_before_any_runs(connection: Connection, statements: object) -> None:
    with pytest.raises(ValueError, match="statement"):
        connection.execute_together([*statements])  # type: ignore[misc]
    assert connection.execute_together([("SELECT 1", ()), ("SELECT 2", ())]) == [[(1,)], [(2,)]]


def test_deferred_statements_run_in_order_before_the_next(connection: Connection) -> None:
    connection.defer("BEGIN")
    connection.defer("INSERT INTO t VALUES (1, 'x')")
    connection.defer("UPDATE t SET b = ? WHERE a = 1", ("y",))

    found = connection.execute_together([("SELECT b FROM t", ()), ("COMMIT", ())])

    assert found == [[("y",)], []]
    assert not connection.in_transaction


def test_any_number_of_statements_may_be_deferred(connection: Connection) -> None:
    for i in range(300):
        connection.defer("INSERT INTO t VALUES (?, ?)", (i, "x"))

    assert connection.execute("SELECT count(*), max(a) FROM t") == [(300, 299)]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.execute("SELECT 1"),
        lambda c: c.execute_many("INSERT INTO t VALUES (?, 1)", [(5,)]),
        lambda c: c.script("SELECT 1"),
        lambda c: c.in_transaction,
        lambda c: c.data_version(),
        lambda c: c.begin(),
        lambda c: Recall().search(c, 1, ["word"], 3, 0.0),
    ],
)
def test_every_call_runs_what_was_deferred(connection: Connection, call: Callable[[Any], Any]) -> None:
    with connection:
        create_schema(connection)
        connection.defer("INSERT INTO t VALUES (1, 'x')")
        call(connection)
        connection.forget_deferred()

        assert connection.execute("SELECT b FROM t WHERE a = 1") == [("x",)]


def test_deferred_statement_that_fails_keeps_the_next_from_running(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    connection.defer("INSERT INTO t VALUES (?, 'secret')", (1,))

    with pytest.raises(SQLiteError) as caught:
        connection.execute("DELETE FROM t")

    assert "secret" not in str(caught.value)
    assert connection.execute("SELECT b FROM t") == [("x",)]


def test_forgotten_statements_do_not_run(connection: Connection) -> None:
    connection.defer("BEGIN")
    connection.forget_deferred()

    assert not connection.in_transaction


def test_deferred_statement_takes_no_more_parameters_than_any(connection: Connection) -> None:
    with pytest.raises(ValueError, match="at most 64 parameters"):
        connection.defer("SELECT 1", (1,) * 65)


def test_reading_begins_and_ends(connection: Connection) -> None:
    connection.begin()
    assert connection.in_transaction
    with pytest.raises(SQLiteError):
        connection.begin()
    connection.execute("SELECT * FROM t")
    connection.end_reading()

    assert not connection.in_transaction
    with pytest.raises(SQLiteError):
        connection.end_reading()


def test_changes_and_last_rowid_are_those_of_the_last_statement(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (7, 1), (9, 1)")
    assert (connection.changes, connection.last_insert_rowid) == (2, 9)

    connection.execute("DELETE FROM t WHERE a = 7")
    assert connection.changes == 1


def test_returned_rows_of_an_insert_are_handed_back(connection: Connection) -> None:
    assert connection.execute("INSERT INTO t (b) VALUES (?) RETURNING a", ("x",)) == [(1,)]


# ---- errors


def test_error_has_the_extended_code_and_names_the_constraint(connection: Connection) -> None:
    connection.execute("CREATE TABLE u (name TEXT UNIQUE)")
    connection.execute("INSERT INTO u VALUES ('secret')")

    with pytest.raises(SQLiteError) as caught:
        connection.execute("INSERT INTO u VALUES (?)", ("secret",))

    assert caught.value.code == CONSTRAINT_UNIQUE
    assert caught.value.message == "UNIQUE constraint failed: u.name"
    assert str(caught.value) == "UNIQUE constraint failed: u.name (SQLite code 2067)"


@pytest.mark.parametrize("query", ['secret "', "secret AND", "secret:word", "{secret", "NEAR(secret"])
def test_error_of_a_query_does_not_repeat_the_query(connection: Connection, query: str) -> None:
    connection.execute("CREATE VIRTUAL TABLE f USING fts5(x)")

    with pytest.raises(SQLiteError) as caught:
        connection.execute("SELECT * FROM f WHERE f MATCH ?", (query,))

    assert "secret" not in str(caught.value)
    assert "secret" not in repr(caught.value)


def test_missing_table_is_named(connection: Connection) -> None:
    with pytest.raises(SQLiteError, match="no such table: nowhere"):
        connection.execute("INSERT INTO nowhere VALUES (?)", (1,))


def test_failed_statement_can_run_again(connection: Connection) -> None:
    insert = "INSERT INTO t VALUES (?, ?)"
    connection.execute(insert, (1, 1))
    for _ in range(3):
        with pytest.raises(SQLiteError):
            connection.execute(insert, (1, 2))

    connection.execute(insert, (2, 2))

    assert connection.execute("SELECT * FROM t") == [(1, 1), (2, 2)]


def test_foreign_keys_are_enforced(connection: Connection) -> None:
    connection.execute("CREATE TABLE child (a REFERENCES t (a))")

    with pytest.raises(SQLiteError) as caught:
        connection.execute("INSERT INTO child VALUES (77)")

    assert caught.value.code == CONSTRAINT_FOREIGN_KEY


def test_tables_behind_the_index_cannot_be_written(connection: Connection) -> None:
    connection.execute("CREATE VIRTUAL TABLE f USING fts5(x)")

    with pytest.raises(SQLiteError, match="may not be modified"):
        connection.execute("DELETE FROM f_data")


def test_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"Dear diary, " * 1000)

    with pytest.raises(SQLiteError) as caught:
        Connection(path)

    assert caught.value.code == CORRUPT_OR_FOREIGN
    assert path.read_bytes() == b"Dear diary, " * 1000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "missing/memory.db"])
def test_folder_or_missing_folder_cannot_be_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(SQLiteError) as caught:
        Connection(tmp_path / name)

    assert caught.value.code & 0xFF == CANNOT_OPEN


def test_missing_file_is_not_created_when_told_so(tmp_path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(SQLiteError):
            Connection(tmp_path / "memory.db", **options)

    assert list(tmp_path.iterdir()) == []


def test_path_with_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NUL"):
        Connection(f"{tmp_path}/a\0b")


def test_read_only_connection_reads_and_does_not_write(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 2)")
    with Connection(connection.path, read_only=True) as reader:
        assert reader.read_only
        assert reader.execute("SELECT * FROM t") == [(1, 2)]
        with pytest.raises(SQLiteError) as caught:
            reader.execute("INSERT INTO t VALUES (2, 2)")

    assert caught.value.code & 0xFF == READONLY


def test_second_writer_waits_no_longer_than_its_timeout(connection: Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    with Connection(connection.path, busy_timeout_ms=1) as second, pytest.raises(SQLiteError) as caught:
        second.execute("INSERT INTO t VALUES (1, 1)")

    assert caught.value.code & 0xFF == BUSY


# ---- closing


def test_closing_twice_is_fine_and_use_after_it_an_error(connection: Connection) -> None:
    connection.close()
    connection.close()

    for use in (
        lambda: connection.execute("SELECT 1"),
        lambda: connection.execute_many("SELECT ?", [(1,)]),
        lambda: connection.script("SELECT 1"),
        lambda: connection.changes,
        lambda: connection.in_transaction,
        lambda: connection.last_insert_rowid,
        connection.data_version,
        lambda: connection.backup("nowhere.db"),
    ):
        with pytest.raises(SQLiteError, match="closed") as caught:
            use()
        assert caught.value.code == MISUSE
    connection.interrupt()


def test_closing_rolls_back_what_was_not_committed(connection: Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (1, 1)")
    connection.close()

    with Connection(connection.path) as again:
        assert again.execute("SELECT count(*) FROM t") == [(0,)]


def test_finaliser_may_use_and_close_the_connection_it_runs_inside(connection: Connection) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, "x") for i in range(20_000)))
    seen: list[object] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            seen.append(connection.execute("SELECT count(*) FROM t WHERE b >= ?", ("",)))
            connection.close()

    gc.collect()
    Cycle()
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        rows = connection.execute("SELECT a, b FROM t WHERE b >= ?", ("",))
    finally:
        gc.set_threshold(*threshold)
        gc.collect()

    assert len(rows) == 20_000
    assert seen == [[(20_000,)]]
    with pytest.raises(SQLiteError, match="closed"):
        connection.execute("SELECT 1")


# ---- versions and copies


def test_data_version_moves_with_commits_of_any_connection(connection: Connection) -> None:
    connection.execute("SELECT count(*) FROM t")
    first = connection.data_version()
    assert connection.data_version() == first

    connection.execute("INSERT INTO t VALUES (1, 1)")
    second = connection.data_version()
    assert second != first

    with Connection(connection.path) as other:
        other.execute("INSERT INTO t VALUES (2, 1)")
    connection.execute("SELECT count(*) FROM t")
    assert connection.data_version() != second


def test_backup_is_a_snapshot_with_progress(connection: Connection, tmp_path: Path) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, "x" * 500) for i in range(2000)))
    steps: list[tuple[int, int]] = []

    def progress(remaining: int, total: int) -> None:
        steps.append((remaining, total))
        connection.execute("INSERT INTO t (b) VALUES ('while copying')")

    connection.backup(tmp_path / "copy.db", pages_per_step=50, progress=progress)

    assert len(steps) > 3
    assert steps[-1][0] == 0
    with Connection(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT count(*) FROM t") == [(2000,)]
        assert copy.execute("PRAGMA integrity_check") == [("ok",)]


def test_stopped_backup_leaves_the_target_as_it_was(connection: Connection, tmp_path: Path) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, "x" * 500) for i in range(2000)))
    with Connection(tmp_path / "copy.db") as target:
        target.script("CREATE TABLE before (a); INSERT INTO before VALUES (1)")

    def stop(remaining: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connection.backup(tmp_path / "copy.db", pages_per_step=5, progress=stop)

    with Connection(tmp_path / "copy.db") as target:
        assert target.execute("SELECT a FROM before") == [(1,)]


def test_database_in_memory_can_be_copied(tmp_path: Path) -> None:
    with Connection(":memory:") as connection:
        connection.script("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        connection.backup(tmp_path / "copy.db")

    with Connection(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT a FROM t") == [(1,)]


def test_backup_onto_a_file_that_is_no_database_is_refused(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"Dear diary, " * 1000)

    with pytest.raises(SQLiteError) as caught:
        connection.backup(tmp_path / "notes.txt")

    assert caught.value.code == CORRUPT_OR_FOREIGN


# ---- threads


def test_two_threads_on_one_connection_take_turns(connection: Connection) -> None:
    errors: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for i in range(start, start + 500):
                connection.execute("INSERT INTO t VALUES (?, ?)", (i, f"word {i}"))
                assert connection.execute("SELECT b FROM t WHERE a = ?", (i,)) == [(f"word {i}",)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert connection.execute("SELECT count(*) FROM t") == [(2000,)]


def test_interrupt_stops_a_long_statement(connection: Connection) -> None:
    stopped = threading.Event()

    def interrupt() -> None:
        while not stopped.wait(0.01):
            connection.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(SQLiteError) as caught:
            connection.execute(FOREVER)
    finally:
        stopped.set()
        thread.join()

    assert caught.value.code == INTERRUPTED
    assert connection.execute("SELECT 1") == [(1,)]


def test_closing_waits_for_the_statement_of_another_thread(connection: Connection) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, "x") for i in range(1000)))
    results: list[object] = []

    def work() -> None:
        try:
            while True:
                results.append(connection.execute("SELECT sum(x.a) FROM t x, t y WHERE y.a < 50"))
        except SQLiteError as error:
            results.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    while not results:
        time.sleep(0.001)
    connection.close()
    thread.join()

    assert results[-1] == MISUSE
    assert set(map(str, results[:-1])) == {str([(999 * 500 * 50,)])}

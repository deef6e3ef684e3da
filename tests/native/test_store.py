"""Connections: statements, and opening and closing of real files."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from shepherd._native.store import SQLITE_KIND, SQLITE_VERSION, Connection, SQLiteError

MISUSE = 21


def test_version_is_one_without_the_wal_reset_bug() -> None:
    assert SQLITE_KIND in ("bundled", "system")
    assert SQLITE_KIND == "system" or tuple(map(int, SQLITE_VERSION.split("."))) >= (3, 51, 3)


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


def test_changes_and_last_rowid_are_those_of_the_last_statement(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (7, 1), (9, 1)")
    assert (connection.changes, connection.last_insert_rowid) == (2, 9)

    connection.execute("DELETE FROM t WHERE a = 7")
    assert connection.changes == 1


def test_returned_rows_of_an_insert_are_handed_back(connection: Connection) -> None:
    assert connection.execute("INSERT INTO t (b) VALUES (?) RETURNING a", ("x",)) == [(1,)]


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

"""Statements that run together, and those that wait for the next call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shepherd._native.store import Connection, Recall, SQLiteError
from shepherd.memory.schema import create_schema


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


def test_rows_and_errors_are_the_same_while_the_gil_is_kept(connection: Connection) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000) SELECT i FROM n"
    statements = [(many, ()), ("SELECT ?, ?", ("a", None))]
    expected = connection.execute_together(statements)

    connection.keeps_gil = True

    assert connection.execute_together(statements) == expected
    assert connection.execute(many) == expected[0]  # more than a batch
    with pytest.raises(SQLiteError):
        connection.execute("SELECT abs(?)", (-(1 << 63),))
    with pytest.raises(SQLiteError):
        connection.execute_together([("SELECT abs(?)", (-(1 << 63),))])
    assert connection.execute("SELECT 1") == [(1,)]
    assert connection.keeps_gil

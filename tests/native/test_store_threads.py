"""A connection in the hands of several threads."""

from __future__ import annotations

import threading
import time

import pytest

from shepherd._native.store import Connection, SQLiteError

INTERRUPTED, MISUSE = 9, 21
FOREVER = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"


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

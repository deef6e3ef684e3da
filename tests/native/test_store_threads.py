"""A connection in the hands of several threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

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


FORKED = """
import os, sys
from shepherd._native.store import Connection, SQLiteError

connection = Connection(sys.argv[1])
connection.script("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
if os.fork() == 0:
    try:
        connection.execute("INSERT INTO t VALUES (2)")
    except SQLiteError as error:
        print(error, flush=True)
        connection.close()
        del connection
        with Connection(sys.argv[1]) as own:
            own.execute("INSERT INTO t VALUES (3)")
    os._exit(0)
os.wait()
print(connection.execute("SELECT x FROM t"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path / "forked.db")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert "forked after the connection was opened" in said[0]
    assert said[1] == "[(1,), (3,)]"

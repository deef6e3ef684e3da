"""Versions of the data, and copies of a database in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd._native.store import Connection, SQLiteError

CORRUPT_OR_FOREIGN = 26


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

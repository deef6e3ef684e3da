"""What a connection refuses, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd._native.store import Connection, SQLiteError

BUSY, CORRUPT_OR_FOREIGN, CANNOT_OPEN = 5, 26, 14
READONLY, CONSTRAINT_UNIQUE, CONSTRAINT_FOREIGN_KEY = 8, 2067, 787


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

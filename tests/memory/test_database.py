"""An open database file, below the tables: who may open it, what is open, copies, and the log."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.errors import (
    ShepherdError,
    StoreError,
    StoreLockedError,
    StoreMissingError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.memory.database import (
    PAGE_COUNTS,
    Database,
    connect,
    free_name,
    is_encrypted,
    is_open,
    key_of_file,
    pages_in_use,
)


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened = Database(str(path))
    yield opened
    opened.close()


def test_a_new_file_and_its_folder_are_private(tmp_path):
    path = tmp_path / "a" / "b" / "memory.db"
    before = os.umask(0)
    try:
        Database(str(path)).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_path_begins_at_home_or_here(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("~/memory.db", "memory.db"):
        opened = Database(name)
        assert opened.path == str(tmp_path / "memory.db")
        opened.close()


def test_what_is_no_database_of_ours_is_not_opened(tmp_path):
    missing = tmp_path / "missing.db"
    (tmp_path / "empty.db").touch()
    for path, read_only, error, words in (
        (tmp_path, False, StoreError, "this is a folder"),
        (Path("/dev/null"), False, StoreError, "this is not a regular file"),
        (missing, True, StoreMissingError, "there is no such database"),
        (tmp_path / "empty.db", True, StoreError, "the database is empty"),
    ):
        with pytest.raises(error, match=words) as caught:
            Database(str(path), read_only=read_only)
        assert str(caught.value).startswith(f"{path}: ")
        assert caught.value.hint
    assert not missing.exists()


def test_a_file_is_open_until_its_last_database_is_closed(path):
    Database(str(path)).close()
    link = path.with_name("link.db")
    link.symlink_to(path)
    assert not is_open(str(path))
    assert not is_encrypted(str(path))
    assert key_of_file(str(path)) is None

    first, second = Database(str(path)), Database(str(link))
    assert is_open(str(path))
    assert is_open(str(link))
    assert not is_encrypted(str(path))
    assert key_of_file(str(path)) is None
    first.close()
    first.close()
    assert is_open(str(path))
    second.close()
    assert not is_open(str(path))


def test_a_transaction_is_committed_or_rolled_back_as_a_whole(database):
    with database.write() as connection:
        connection.execute("INSERT INTO meta(key, value) VALUES('a', 1)")
        connection.defer("INSERT INTO meta(key, value) VALUES(?, ?)", ("b", 2))
    with pytest.raises(ZeroDivisionError), database.write() as connection:  # noqa: PT012
        connection.execute("INSERT INTO meta(key, value) VALUES('c', 3)")
        connection.defer("INSERT INTO meta(key, value) VALUES('d', 4)")
        raise ZeroDivisionError
    with database.write() as connection:  # nothing is locked, and nothing waits
        connection.execute("INSERT INTO meta(key, value) VALUES('e', 5)")

    for transaction in (database.read(), database.look()):
        with transaction as connection:
            keys = connection.execute(
                "SELECT key FROM meta WHERE key IN ('a', 'b', 'c', 'd', 'e') ORDER BY 1"
            )
        assert [key for (key,) in keys] == ["a", "b", "e"]


def test_a_statement_that_fails_is_an_error_of_the_store(database):
    for transaction in (database.read, database.write):
        with pytest.raises(ShepherdError) as caught, transaction() as connection:
            connection.execute("SELECT nothing FROM nowhere")
        assert str(database.path) in str(caught.value)
    with pytest.raises(ShepherdError), database.write() as connection:  # noqa: PT012
        connection.execute("INSERT INTO meta(key, value) VALUES('a', 1)")
        connection.defer("INSERT INTO nowhere VALUES(1)")
    with database.read() as connection:
        assert connection.execute("SELECT 1 FROM meta WHERE key = 'a'") == []


def test_a_write_measures_the_pages_in_use(database):
    writing = database.write()
    with writing as connection:
        connection.execute("INSERT INTO meta(key, value) VALUES('a', 1)")
    with database.read() as connection:
        counts = [connection.execute(statement) for statement, _ in PAGE_COUNTS]

    assert writing.used_bytes == pages_in_use(counts) > 4096
    assert pages_in_use([[(512,)], [(10,)], [(3,)]]) == 7 * 512


def test_each_thread_reads_with_a_connection_of_its_own(database):
    connections = [database.reader(), database.reader()]
    thread = threading.Thread(target=lambda: connections.append(database.reader()))
    thread.start()
    thread.join()

    assert connections[0] is connections[1]
    assert connections[2] is not connections[0]


def test_a_database_that_is_only_read_is_not_written(path, database):
    reader = Database(str(path), read_only=True)
    with pytest.raises(StoreReadOnlyError), reader.write():
        pass
    with pytest.raises(StoreReadOnlyError), reader.write():  # it was not left locked
        pass
    with reader.read() as connection:
        assert connection.execute("SELECT 1") == [(1,)]
    reader.close()


def test_two_writers_wait_for_each_other_for_the_patience_of_the_second(path, database):
    other = Database(str(path), busy_timeout_s=0.05)
    with database.write() as connection:
        connection.execute("INSERT INTO meta(key, value) VALUES('a', 1)")
        with pytest.raises(StoreLockedError), other.write() as second:
            second.execute("INSERT INTO meta(key, value) VALUES('b', 2)")
    with other.write() as second:
        second.execute("INSERT INTO meta(key, value) VALUES('b', 2)")
    other.close()


def test_the_log_is_emptied_unless_somebody_reads(path, database):
    def write(number: int) -> None:
        with database.write() as connection:
            connection.execute("INSERT INTO meta(key, value) VALUES(?, 1)", (str(number),))

    write(1)
    assert Path(f"{path}-wal").stat().st_size > 0
    assert database.empty_log()
    assert Path(f"{path}-wal").stat().st_size == 0
    write(2)
    with connect(str(path), read_only=True) as reader:
        reader.begin()
        reader.execute("SELECT count(*) FROM meta")
        write(3)
        assert not database.empty_log(waits=False)
        reader.end_reading()
    assert database.empty_log(waits=False)
    # It waits for other writers as before.
    assert database.write().__enter__().execute("PRAGMA busy_timeout") == [(5000,)]
    database.roll_back()
    database.release_writer()


def test_a_writer_overwrites_what_is_deleted_and_keeps_references(database):
    with database.write() as connection:
        assert connection.execute("PRAGMA secure_delete") == [(1,)]
        assert connection.execute("PRAGMA foreign_keys") == [(1,)]
        assert connection.execute("PRAGMA synchronous") == [(1,)]
        assert connection.execute("PRAGMA journal_mode") == [("wal",)]
        assert connection.execute("PRAGMA journal_size_limit") == [(64 << 20,)]
        assert connection.execute("PRAGMA cache_size") == [(-4096,)]
    with database.read() as connection:
        assert connection.execute("PRAGMA cache_size") == [(-2048,)]


def test_a_backup_is_private_and_never_replaces_a_file(path, database):
    with database.write() as connection:
        connection.execute("INSERT INTO meta(key, value) VALUES('a', 1)")
    copy = path.with_name("copy.db")
    database.backup(str(copy))

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(one.name for one in path.parent.iterdir() if one.name.startswith("copy")) == ["copy.db"]
    with connect(str(copy), read_only=True) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'a'") == [(1,)]
    with pytest.raises(UsageError, match=r"copy\.db already exists") as caught:
        database.backup(str(copy))
    assert caught.value.hint == "name a new file for the backup"
    with pytest.raises(UsageError, match="nowhere: there is no such folder"):
        database.backup(str(path.parent / "nowhere" / "copy.db"))
    with pytest.raises(StoreError) as caught:
        database.backup(str(copy / "copy.db"))
    assert caught.value.hint == "name another file for the backup"


def test_a_free_name_is_the_first_without_a_file(tmp_path):
    path = tmp_path / "copy"
    assert free_name(str(path)) == str(path)
    path.symlink_to(tmp_path / "nowhere")
    assert free_name(str(path)) == f"{path}-2"
    Path(f"{path}-2").touch()
    assert free_name(str(path)) == f"{path}-3"

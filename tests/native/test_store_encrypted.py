"""Encrypted database files: keys, copies, and what can be read in the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shepherd._native.store import (
    AEGIS,
    BEST_CIPHER,
    CHACHA20,
    HAS_CIPHERS,
    KEY_BYTES,
    Connection,
    SQLiteError,
)

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")

NOT_A_DATABASE = 26
CANARY = "canary4711"
KEY = bytes(range(32)) + b"the file's start" + bytes([AEGIS])
OTHER = bytes(range(1, 33)) + b"the file's start" + bytes([AEGIS])
RESERVED = {CHACHA20: 32, AEGIS: 64}


def fill(connection: Connection) -> None:
    connection.script("PRAGMA journal_mode = WAL; CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    connection.script("CREATE VIRTUAL TABLE words USING fts5(word)")
    connection.execute_many("INSERT INTO t (b) VALUES (?)", ((f"{CANARY} {i}",) for i in range(500)))
    connection.execute("INSERT INTO words VALUES (?)", (CANARY,))


def found_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if CANARY.encode() in path.read_bytes())


def test_nothing_can_be_read_in_an_encrypted_file_and_its_log(tmp_path: Path) -> None:
    with Connection(tmp_path / "memory.db", key=KEY) as connection:
        fill(connection)

        assert connection.execute("SELECT word FROM words WHERE words MATCH ?", (CANARY,)) == [(CANARY,)]
        assert os.path.getsize(tmp_path / "memory.db-wal") > 0
        assert found_in(tmp_path) == []
    assert found_in(tmp_path) == []
    assert (tmp_path / "memory.db").read_bytes()[:16] == KEY[32:48]


def test_file_without_a_key_is_as_sqlite_writes_it(tmp_path: Path) -> None:
    with Connection(tmp_path / "memory.db") as connection:
        fill(connection)

    head = (tmp_path / "memory.db").read_bytes()[:100]
    assert head.startswith(b"SQLite format 3\0")
    assert head[20] == 0  # no bytes of a page are reserved
    assert found_in(tmp_path) == ["memory.db"]


@pytest.mark.parametrize("key", [None, OTHER], ids=["no key", "another key"])
def test_encrypted_file_opens_with_its_key_alone(tmp_path: Path, key: bytes | None) -> None:
    with Connection(tmp_path / "memory.db", key=KEY) as connection:
        fill(connection)
    before = (tmp_path / "memory.db").read_bytes()

    with pytest.raises(SQLiteError) as caught:
        Connection(tmp_path / "memory.db", key=key)

    assert caught.value.code == NOT_A_DATABASE
    assert (tmp_path / "memory.db").read_bytes() == before


def test_changed_byte_of_an_encrypted_page_is_noticed(tmp_path: Path) -> None:
    with Connection(tmp_path / "memory.db", key=KEY) as connection:
        fill(connection)
        [(page_size,)] = connection.execute("PRAGMA page_size")
    data = bytearray((tmp_path / "memory.db").read_bytes())
    data[page_size + 100] ^= 1  # the root of t
    (tmp_path / "memory.db").write_bytes(data)

    with Connection(tmp_path / "memory.db", key=KEY) as connection, pytest.raises(SQLiteError):
        connection.execute("SELECT count(b) FROM t")


@pytest.mark.parametrize("before", [None, KEY], ids=["from plain", "from encrypted"])
@pytest.mark.parametrize(
    "after", [None, OTHER, OTHER[:-1] + bytes([CHACHA20])], ids=["to plain", "to AEGIS", "to ChaCha20"]
)
def test_copy_is_encrypted_as_it_is_told(tmp_path: Path, before: bytes | None, after: bytes | None) -> None:
    with Connection(tmp_path / "memory.db", key=before) as connection:
        fill(connection)
        connection.write_copy(tmp_path / "copy #1 ?.db", key=after)

    with Connection(tmp_path / "copy #1 ?.db", key=after) as copy:
        assert copy.execute("SELECT count(b) FROM t") == [(500,)]
        assert copy.execute("SELECT word FROM words WHERE words MATCH ?", (CANARY,)) == [(CANARY,)]
        assert copy.execute("PRAGMA integrity_check") == [("ok",)]
    copied = (tmp_path / "copy #1 ?.db").read_bytes()
    assert (CANARY.encode() in copied) == (after is None)
    assert copied[20] == (0 if after is None else RESERVED[after[-1]])


def test_backup_of_an_encrypted_file_is_encrypted(tmp_path: Path) -> None:
    with Connection(tmp_path / "memory.db", key=KEY) as connection:
        fill(connection)
        connection.backup(tmp_path / "copy.db", key=KEY)

        with pytest.raises(SQLiteError):
            connection.backup(tmp_path / "plain.db")

    assert found_in(tmp_path) == []
    with Connection(tmp_path / "copy.db", key=KEY) as copy:
        assert copy.execute("SELECT count(b) FROM t") == [(500,)]


def test_connection_notices_that_its_file_was_replaced(tmp_path: Path) -> None:
    with Connection(tmp_path / "memory.db") as connection, Connection(tmp_path / "new.db") as other:
        fill(connection)
        fill(other)
        assert not connection.has_moved()

        os.replace(tmp_path / "new.db", tmp_path / "memory.db")

        assert connection.has_moved()


def test_best_cipher_is_one_of_them() -> None:
    assert BEST_CIPHER in RESERVED


def test_key_of_another_length_is_refused(tmp_path: Path) -> None:
    assert len(KEY) == KEY_BYTES

    with pytest.raises(ValueError, match="49 bytes, not 48"):
        Connection(tmp_path / "memory.db", key=KEY[1:])

    assert list(tmp_path.iterdir()) == []


def test_path_that_looks_like_a_uri_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with Connection("file:memory.db?mode=ro") as connection:
        connection.script("CREATE TABLE t (a)")

    assert [path.name for path in tmp_path.iterdir()] == ["file:memory.db?mode=ro"]


def test_temporary_tables_are_in_main_memory(tmp_path: Path) -> None:
    with Connection(str(tmp_path / "a.db"), key=KEY) as connection:
        assert ("TEMP_STORE=2",) in connection.execute("PRAGMA compile_options")
        [(chosen,)] = connection.execute("PRAGMA temp_store")
        assert chosen in (0, 2)  # the default of the build, or main memory

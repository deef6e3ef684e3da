"""Backups with the users' keys apart: a deleted user isn't in older ones, all others are as before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd._native.store import Connection
from shepherd.encryption.blinding import UserCipher
from shepherd.errors import ShepherdError, StoreError, StoreKeyError, UsageError
from shepherd.memory import Memory, Receipt, backup_by_user, backup_keys
from shepherd.memory.corpora import CHUNKS, MEMORIES
from shepherd.memory.database import connect, key_of_file
from shepherd.memory.restore import restore
from shepherd.memory.restore_by_user import is_by_user, unsealed
from shepherd.memory.schema import SEQUENCE_BITS, create_schema
from shepherd.memory.vectors import in_file
from shepherd.sync import tables as synced
from tests.memory.blind import known_key
from tests.memory.canaries import USER, Canaries
from tests.memory.histories import NOW, found
from tests.memory.test_blind import fill, known


@pytest.fixture(autouse=True)
def key(tmp_path: Path) -> Iterator[Path]:
    with known_key(tmp_path) as file:
        yield file


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def open_(database: Path) -> Memory:
    return Memory(database, user_id=USER, blind=True, clock=lambda: NOW, keeps_secrets=True)


def restored(backup: Path, keys: Path, database: Path) -> list[str]:
    """Put what a backup and keys give in the place of a database; return the users who were left out."""
    copy = str(database) + ".decrypting"
    left = unsealed(str(backup), str(keys), copy)
    restore(copy, database)
    Path(copy).unlink()
    return left


def rows_of(database: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of all tables but the indexes of words, and the numbers of the header."""
    with connect(str(database), read_only=True) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%\\_fts%' ESCAPE '\\'"
        )
        found = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for (name,) in tables}
        # Numbers of changes: the index of words was made again.
        for name in ("tenants", "knowledge_sums"):
            found[name] = connection.execute(f"SELECT * FROM {name} ORDER BY number")
            columns = [
                column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            ]
            counted = {columns.index("version"), columns.index("edits")}
            found[name] = [tuple(one for n, one in enumerate(row) if n not in counted) for row in found[name]]
        found["schema"] = sorted(connection.execute("SELECT name, sql FROM sqlite_master"), key=repr)
        found["numbers"] = [
            connection.execute(f"PRAGMA {name}")[0] for name in ("application_id", "user_version")
        ]
        return found


def words_read(backup: Path, keys: Path, words: list[str]) -> list[str]:
    """Return the words that the memory's key and a file of keys give away."""
    key = key_of_file(str(backup))
    assert key is not None
    with connect(str(keys), read_only=True) as file:
        ciphers = [UserCipher(key, secret) for _, _, secret in backup_keys.rows_of(file) if secret]
    with connect(str(backup), read_only=True) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        text = repr([connection.execute(f"SELECT * FROM {name}") for name in tables])
        pieces = connection.execute("SELECT number, owner, data FROM pieces")
    for number, owner, data in pieces:
        opened = [cipher for cipher in ciphers if owner and cipher.tag in data[:16]]
        text += "".join(repr(cipher.data_of(data, backup_by_user.KIND, (number,))) for cipher in opened)
    return [word for word in words if word in text.lower()]


def test_a_backup_from_before_a_deletion_does_not_give_the_user_back(database: Path, tmp_path: Path) -> None:
    backup, keys = tmp_path / "copy.db", tmp_path / "keys.db"
    with open_(database) as memory:
        canaries = Canaries(memory, seed=937)
        canaries.store()
        memory.keys.create(USER, ["memory"], label=canaries.word())
        fill(memory, "anna")
        memory.keys.create("anna", ["memory"], label="laptop")
        memory._store.write(USER, lambda one: synced.create(one, USER, {"folder": canaries.word()}))
        expected = (
            known(memory, "anna"),
            found(memory, "iron anchor number", "anna"),
            [one.label for one in memory.keys.list() if one.owner == "anna"],
        )
        memory.backup(backup, keys=keys)
        shutil.copy(keys, tmp_path / "older.db")
        shutil.copy(f"{keys}-key", tmp_path / "older.db-key")
        receipt = Receipt()
        memory.delete_user(receipt=receipt)
        assert any("the keys file of your backups" in left for left in receipt.left)
        memory.set_fact("city", "Porto", "bob")
        memory.backup(tmp_path / "later.db", keys=keys)

    assert words_read(backup, keys, canaries.given) == []
    # What is stored as tokens or was edited away, has no word.
    assert len(words_read(backup, tmp_path / "older.db", canaries.given)) > 40

    assert restored(backup, keys, database) == [USER]
    with open_(database) as memory:
        assert memory.check().problems == ()
        assert (known(memory, "anna"), found(memory, "iron anchor number", "anna")) == expected[:2]
        assert [one.label for one in memory.keys.list() if one.owner == "anna"] == expected[2]
        assert [one.owner for one in memory.keys.list() if not one.revoked_at] == ["anna"]
        assert not memory._store.read(synced.exists)
        # A server with keys still needs one.
        assert memory.keys.are_any()
        assert memory.get_all_facts() == []
        # The deleted user's number isn't given again.
        stored = memory.store_memory("Which anchor?", "The red one")
        assert stored is not None
        assert stored >> SEQUENCE_BITS > 2


def test_all_rows_come_back_as_they_were(database: Path, tmp_path: Path) -> None:
    backup, keys = tmp_path / "copy.db", tmp_path / "keys.db"
    with open_(database) as memory:
        Canaries(memory, seed=941).store()
        for user in ("anna", "anna/app"):
            fill(memory, user)
        memory.set_fact("city", "Porto", "gone")
        memory.delete_user("gone")
        memory.keys.create(USER, ["memory"], label="laptop")
        hits = found(memory, "iron anchor number town", "anna")
    with connect(str(database)) as connection:
        # As vectors and a sync leave them.
        for statement in (*in_file._STATEMENTS[MEMORIES], *in_file._STATEMENTS[CHUNKS]):
            connection.execute(statement)
        connection.execute("INSERT INTO context_vectors SELECT id, x'00ff', 1 FROM context")
        synced.create(connection, "anna", {"folder": "/somewhere"})
    with open_(database) as memory:
        memory.backup(backup, keys=keys)
    before = rows_of(database)
    assert all(before[name] for name in ("context_vectors", "sync_log", "chunks", "edges", "trace"))
    assert is_by_user(str(backup))
    with pytest.raises(StoreError, match="a backup with its users' keys in another file"):
        Memory(backup)

    assert restored(backup, keys, database) == []

    assert rows_of(database) == before
    with open_(database) as memory:
        assert memory.check().problems == ()
        assert found(memory, "iron anchor number town", "anna") == hits


def test_every_table_that_a_file_can_have_is_known() -> None:
    with Connection(":memory:") as connection:
        create_schema(connection)
        for statement in (
            *in_file._STATEMENTS[MEMORIES],
            *in_file._STATEMENTS[CHUNKS],
            *synced._TABLES,
        ):
            connection.execute(statement)
        found = {table.name for table in backup_by_user._tables(connection)}
    assert found == set(backup_by_user._TABLES)


def test_keys_that_a_memory_restored_from_an_older_backup_does_not_know_are_kept(
    database: Path, tmp_path: Path
) -> None:
    first, second, keys = tmp_path / "first.db", tmp_path / "second.db", tmp_path / "keys.db"
    with open_(database) as memory:
        for user in (USER, "gone"):
            memory.set_fact("city", "Porto", user)
        memory.backup(first, keys=keys)
        memory.delete_user("gone")
        fill(memory, "anna")
        expected = known(memory, "anna")
        memory.backup(second, keys=keys)

    assert restored(first, keys, database) == ["gone"]
    with open_(database) as memory:
        assert memory.get_all_facts("anna") == []
        # With an own key again, and without the destroyed one.
        memory.set_fact("city", "Lisbon", "gone")
        memory.backup(tmp_path / "third.db", keys=keys)

    assert restored(second, keys, database) == []
    with open_(database) as memory:
        assert known(memory, "anna") == expected
    assert restored(first, keys, database) == ["gone"]


def test_a_user_who_took_over_another_is_deleted_with_the_older_backups_of_that_one(
    database: Path, tmp_path: Path
) -> None:
    backup, keys = tmp_path / "copy.db", tmp_path / "keys.db"
    with open_(database) as memory:
        memory.set_fact("city", "Porto", "before")
        memory.backup(backup, keys=keys)
        memory.claim("before")
        memory.backup(tmp_path / "second.db", keys=keys)
        assert unsealed(str(backup), str(keys), str(tmp_path / "opened.db")) == []
        memory.delete_user()
        memory.backup(tmp_path / "third.db", keys=keys)
    assert unsealed(str(backup), str(keys), str(tmp_path / "left.db")) == ["before"]


def test_after_a_claim_that_fails_the_keys_are_still_those_of_the_other_user(
    database: Path, tmp_path: Path
) -> None:
    backup, keys = tmp_path / "copy.db", tmp_path / "keys.db"
    with open_(database) as memory:
        memory.store_memory("Where?", "Porto", "before")
        memory.backup(backup, keys=keys)
    with connect(str(database)) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON context BEGIN SELECT RAISE(ABORT, 'no space'); END"
        )
    with open_(database) as memory:
        with pytest.raises(ShepherdError):
            memory.claim("before")
        memory.delete_user()
        memory.backup(tmp_path / "later.db", keys=keys)
    assert restored(backup, keys, database) == []


def test_users_who_are_called_like_removed_ones_have_keys_too(database: Path, tmp_path: Path) -> None:
    backup = tmp_path / "copy.db"
    names = ["removed/app", "removed user"]
    with open_(database) as memory:
        memory.set_fact("city", "Porto", "gone")
        memory.store_memory("Where?", "Porto", "gone")
        memory.delete_user("gone")
        for number in range(2):
            memory.store_memory("Where?", "Lisbon", f"user {number}")
            memory.set_fact("city", "Lisbon", f"user {number}")
    with connect(str(database)) as connection:  # as they could be called before
        for number, name in enumerate(names):
            for table in ("tenants", "context", "facts", "fact_history"):
                connection.execute(
                    f"UPDATE {table} SET user_id = ? WHERE user_id = ?", (name, f"user {number}")
                )
    with open_(database) as memory:
        memory.backup(backup, keys=tmp_path / "keys.db")
    with connect(str(backup), read_only=True) as connection:
        owners = connection.execute("SELECT user_id FROM owners WHERE n_pieces > 0")
    assert sorted(owners) == [("removed user",), ("removed/app",)]
    assert restored(backup, tmp_path / "keys.db", database) == []


@pytest.mark.parametrize("name", ["removed/app", "removed user"])
def test_nobody_can_be_called_like_a_removed_user(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="kept for users who were deleted"):
        Memory(tmp_path / "memory.db", user_id=name)
    with Memory(tmp_path / "memory.db") as memory:
        with pytest.raises(UsageError, match="kept for users who were deleted"):
            memory.store_memory("Where?", "Porto", name)
        with pytest.raises(UsageError, match="not a name that can own keys"):
            memory.keys.create(name.removesuffix("/app"), ["memory"])


def test_what_cannot_be_done_is_refused_and_leaves_everything(database: Path, tmp_path: Path) -> None:
    backup, keys, other = tmp_path / "copy.db", tmp_path / "keys.db", tmp_path / "other.db"
    notes = tmp_path / "notes.txt"
    notes.write_text("not keys")
    with (
        Memory(tmp_path / "plain.db") as memory,
        pytest.raises(UsageError, match="only the backups of an enc"),
    ):
        memory.backup(backup, keys=keys)
    with open_(other) as memory:
        memory.backup(tmp_path / "other-copy.db", keys=tmp_path / "other-keys.db")
    with open_(database) as memory:
        memory.set_fact("city", "Porto")
        for file, problem in ((notes, "has no keys of users"), (other, "has no keys of users"),
                              (tmp_path / "other-keys.db", "the keys of another memory")):  # fmt: skip
            before = file.read_bytes()
            with pytest.raises((UsageError, StoreError), match=problem):
                memory.backup(backup, keys=file)
            assert file.read_bytes() == before
            assert not backup.exists()
        with pytest.raises(UsageError, match="none: there is no such folder"):
            memory.backup(backup, keys=tmp_path / "none" / "keys.db")
        with pytest.raises(UsageError, match="none: there is no such folder"):
            memory.backup(tmp_path / "none" / "copy.db", keys=keys)
        assert not keys.exists()
        for name in (f"{tmp_path}", f"{tmp_path}/none/"):
            with pytest.raises(UsageError, match="this names a folder"):
                memory.backup(backup, keys=name)
        memory.backup(backup, keys=keys)
        with pytest.raises(UsageError, match="already exists"):
            memory.backup(backup, keys=keys)
    target = tmp_path / "target.db"
    for file, problem in ((tmp_path / "none.db", "there is no such file"),
                          (tmp_path, "this is a folder"), (notes, "has no keys of users"),
                          (tmp_path / "other-keys.db", "the keys of another memory")):  # fmt: skip
        with pytest.raises((UsageError, StoreError), match=problem):
            unsealed(str(backup), str(file), str(target))
        assert not target.exists()
    damaged = bytearray(keys.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    keys.write_bytes(damaged)
    with pytest.raises((StoreError, StoreKeyError), match="damaged"):
        unsealed(str(backup), str(keys), str(target))
    assert not target.exists()


@pytest.mark.parametrize(
    ("backup", "keys"), [("copy.db", "copy.db-key"), ("keys.db-key", "keys.db"), ("copy.db", "mine")]
)
def test_no_key_file_takes_the_place_of_another_file(
    database: Path, tmp_path: Path, backup: str, keys: str
) -> None:
    mine = tmp_path / "mine-key"
    mine.write_text("my own key\n")
    with open_(database) as memory:
        memory.set_fact("name", "Ann")
        with pytest.raises(UsageError, match=r"need a file of their own|Shepherd needs this name"):
            memory.backup(tmp_path / backup, keys=tmp_path / keys)

    assert mine.read_text() == "my own key\n"
    assert not (tmp_path / backup).exists()


def test_the_keys_behind_a_link_are_replaced(
    database: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys, link = tmp_path / "elsewhere.db", tmp_path / "keys.db"
    with open_(database) as memory:
        memory.set_fact("name", "Ann")
        memory.backup(tmp_path / "1.db", keys=keys)
        before = keys.read_bytes()
        link.symlink_to(keys)
        memory.backup(tmp_path / "2.db", keys=link)
        assert link.is_symlink()
        assert keys.read_bytes() != before
        assert caplog.messages == []
        (tmp_path / "hard.db").hardlink_to(keys)
        memory.backup(tmp_path / "3.db", keys=keys)
    assert "another name (a hard link)" in caplog.text

"""Forgetting from the command line: the receipt, the search for what is left, and the removal of a user."""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from pathlib import Path

import pytest

from shepherd import encryption, kept_files
from shepherd._native.store import HAS_CIPHERS, Connection
from shepherd.canary import WordSearch
from shepherd.commands.history import seal_history
from shepherd.encryption import MemoryKey, Sealer
from shepherd.memory import Memory, hot
from shepherd.sequences import sequence_of
from shepherd.types import Message
from tests.memory.blind import forget_keys

WORD = "Quixlemont"


@pytest.fixture
def told(home) -> str:
    """Number of a memory; the word is in a memory, a fact, a conversation and the history of the prompt."""
    home.database.parent.mkdir(parents=True)
    with Memory(home.database, user_id="steve") as memory:
        memory_id = memory.store_memory("What is my cat called?", f"Your cat is called {WORD}.")
        memory.set_fact("cat", WORD)
        session = memory.start_session()
        memory.append_message(session, Message("user", f"My cat is {WORD}"))
    home.history.parent.mkdir(parents=True)
    home.history.write_text(f"\n# 1\n+My cat is {WORD}\n\n# 2\n+What is my cat called?\n\n# 3\n+hello\n")
    return str(sequence_of(memory_id))


def typed(home) -> list[str]:
    return [line for line in home.history.read_text().splitlines() if line.startswith("+")]


def test_each_step_removes_what_it_names_until_the_word_is_nowhere(shepherd, home, told) -> None:
    def places() -> list[str]:
        found = json.loads(shepherd("memory", "audit", "--canary", WORD.lower(), "--json").stdout)
        return [one["where"].split(": ")[-1].split("/")[-1] for one in found]

    assert places() == ["context", "fact_history", "facts", "messages", "history"]

    first = shepherd("memory", "forget", told, "--receipt")
    assert first.stdout.splitlines()[0].startswith("removed")
    assert "memories: 1" in first.stdout
    assert "lines of the prompt's history: 1" in first.stdout
    assert places() == ["fact_history", "facts", "messages", "history"]
    second = shepherd("facts", "clear", "cat", "--history", "--receipt", "--json")
    receipt = json.loads(second.stdout)["receipt"]
    assert (receipt["removed"]["values of facts"], receipt["files"]) == (1, [])
    assert places() == ["messages"]
    assert WORD not in second.stderr
    name = json.loads(shepherd("conversations", "list", "--json").stdout)[0]["id"]
    third = shepherd("conversations", "delete", name, "--receipt")
    assert "messages of conversations: 1" in third.stdout
    clean = shepherd("memory", "audit", "--canary", WORD)
    assert (clean.returncode, clean.stdout) == (0, "")
    assert "the word is in none of" in clean.stderr
    assert typed(home) == ["+hello"]


def test_a_cleared_fact_names_memories_and_conversations_with_its_value(shepherd, told) -> None:
    cleared = shepherd("facts", "clear", "cat", "--history")

    assert f"shepherd memory forget {told}" in cleared.stderr
    assert "shepherd conversations delete " in cleared.stderr
    assert WORD not in cleared.stderr + cleared.stdout


def test_the_word_can_come_from_stdin(shepherd, told) -> None:
    found = shepherd("memory", "audit", "--canary", "-", input=f"{WORD}\n")

    assert found.returncode == 1
    assert "shepherd memory forget ID" in found.stdout


def test_a_copy_of_the_database_is_named_by_receipt_and_audit(shepherd, home, told) -> None:
    copy = home.database.with_name("memory.db.before-restore")
    copy.write_bytes(home.database.read_bytes())

    receipt = shepherd("memory", "forget", told, "--receipt").stdout
    audit = shepherd("memory", "audit", "--canary", WORD).stdout

    assert f"not reached  {copy}" in receipt
    assert f"{copy}\tcopy of the database\tdelete this file" in audit


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("memory", "audit", "--canary", " "), "there is no word to look for"),
        (("facts", "clear", "cat", "--receipt"), "--receipt needs --history"),
        (("memory", "forget", "1", "--everything"), "--everything names no memory"),
        (("memory", "forget", "--everything"), "add --yes to confirm"),
        (("memory", "forget"), "name an ID, --question TEXT, or --everything"),
    ],
)
def test_mistakes_are_explained(shepherd, told, arguments, says) -> None:
    done = shepherd(*arguments)

    assert done.returncode == 2
    assert says in done.stderr


def test_everything_of_a_user_is_deleted_and_others_stay(shepherd, home, told) -> None:
    with Memory(home.database, user_id="anna") as memory:
        memory.store_memory("Anna's?", "this")

    done = shepherd("memory", "forget", "--everything", "--yes", "--receipt")

    assert done.returncode == 0
    assert "all data of steve is deleted: 1 memory, 1 fact, 0 nodes and 1 conversation" in done.stderr
    assert "memories: 1" in done.stdout
    assert shepherd("memory", "audit", "--canary", WORD).returncode == 0
    assert typed(home) == []
    assert "Anna's?" in shepherd("memory", "list", "--user", "anna").stdout


@pytest.mark.parametrize("by_option", [True, False])
def test_everything_of_another_database_leaves_what_was_typed_for_the_usual_one(
    shepherd, home, told, tmp_path, by_option
) -> None:
    other = tmp_path / "other.db"
    with Memory(other, user_id="steve") as memory:
        memory.append_message(memory.start_session(), Message("user", "hello"))
    words = ("memory", "forget", "--everything", "--yes", "--receipt")

    if by_option:
        done = shepherd(*words, "--memory-db", other)
    else:
        done = shepherd(*words, SHEPHERD_MEMORY_DATABASE=str(other))

    assert "1 conversation" in done.stderr
    assert "lines of the prompt's history: 1" in done.stdout
    assert "the prompt's history, which your databases share, keeps its other lines" in done.stderr
    assert typed(home) == [f"+My cat is {WORD}", "+What is my cat called?"]


def test_the_usual_database_may_be_named(shepherd, home, told) -> None:
    shepherd("memory", "forget", "--everything", "--yes", "--memory-db", home.database)

    assert typed(home) == []


@pytest.mark.parametrize("word", ["Rome", "Shep", "Ted"])  # of a statement, the file's header, a key
def test_a_word_of_the_databases_schema_was_told_by_nobody(shepherd, told, word) -> None:
    clean = shepherd("memory", "audit", "--canary", word)

    assert (clean.returncode, clean.stdout) == (0, "")
    shepherd("facts", "set", "friend", word)
    assert shepherd("memory", "audit", "--canary", word).returncode == 1


# ---- bytes on the disk


def files_with_word(home) -> list[Path]:
    files = [path for path in home.path.rglob("*") if path.is_file()]
    return [path for path in files if WordSearch(WORD).in_bytes(path.read_bytes())]


@pytest.mark.parametrize(
    "command",
    [
        ("memory", "forget", "ID", "--receipt"),
        ("conversations", "delete", "last", "--yes"),
        ("encrypt", "--key-file", "KEY", "-y"),
    ],
    ids=lambda command: command[0],
)
def test_bytes_of_what_is_beside_the_database_are_overwritten(shepherd, home, told, monkeypatch, command):
    if command[0] == "encrypt" and not HAS_CIPHERS:
        pytest.skip("this SQLite was built without ciphers")
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)
    with Memory(home.database, user_id="steve") as memory:
        memory.search(WORD)
        assert memory._store._recall.wait()
        [conversation] = memory.list_sessions()
    kept_files.put(
        home.path / ".cache/shepherd/conversations",
        kept_files.owner_of(str(home.database), "steve"),
        lambda file: file.write(WORD.encode() * 100),
        asked_at=time.time(),
    )
    found = files_with_word(home)
    assert any(path.suffix == ".state" for path in found)
    assert {"history", "1"} <= {path.name for path in found}  # "1" is a saved index
    named = {"ID": told, "last": conversation.id, "KEY": str(home.path / "key")}

    with contextlib.ExitStack() as stack:
        # An open file shows what is left on the disk.
        files = {path.name: stack.enter_context(path.open("rb")) for path in found}
        done = shepherd(*(named.get(word, word) for word in command))
        assert done.returncode == 0, done.stderr
        left = [name for name, file in files.items() if WordSearch(WORD).in_bytes(file.read())]

    # Other commands forget only what they name, and there is more in the database.
    assert left == ([] if command[0] == "encrypt" else ["memory.db"])


# ---- what is sealed, and what is read meanwhile


def test_a_synced_text_is_found_until_the_next_sync(shepherd, home, told, tmp_path) -> None:
    folder, key = tmp_path / "folder", tmp_path / "key"
    folder.mkdir()
    key.write_text("four random words here\n")
    home.history.unlink()
    with Memory(home.database, user_id="steve") as memory:
        memory.clear_session(memory.list_sessions()[0].id)
        memory.clear_fact("cat", with_history=True)
    assert shepherd("sync", folder, "--key-file", key, "-y").returncode == 0

    receipt = shepherd("memory", "forget", told, "--receipt").stdout

    assert f"not reached  the sync folder {folder}, until the next shepherd sync" in receipt
    audit = shepherd("memory", "audit", "--canary", WORD)
    assert audit.returncode == 1
    [line] = audit.stdout.splitlines()
    assert line.startswith(str(folder))
    assert "forget it, then shepherd sync" in line
    assert shepherd("sync").returncode == 0
    assert shepherd("memory", "audit", "--canary", WORD).returncode == 0
    for file in folder.glob("*.shpseg"):
        file.write_bytes(b"SHPSYNC1" + bytes(4) + b"damaged")
    assert "not searched: " in shepherd("memory", "audit", "--canary", WORD).stderr


@pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")
def test_an_audit_opens_what_the_key_of_the_memory_opens(shepherd, home, told, monkeypatch) -> None:
    key = home.path / "key"
    assert shepherd("encrypt", "--key-file", key, "-y").returncode == 0
    backup = home.database.with_name("memory.db.before-restore")
    assert shepherd("memory", "backup", backup).returncode == 0
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)
    encryption.use_settings("", str(key))
    try:
        with Memory(home.database, user_id="steve") as memory:
            memory.search(WORD)
            assert memory._store._recall.wait()
    finally:
        forget_keys()

    def places() -> dict[str, str]:
        found = json.loads(shepherd("memory", "audit", "--canary", WORD, "--json").stdout)
        return {one["where"].rpartition("/")[2]: one["what"] for one in found}

    copies = [home.database.with_name(f"memory.db{end}") for end in (".bak", "-2026-11-29", ".2")]
    for copy in copies:
        copy.write_bytes(backup.read_bytes())
        copy.with_name(f"{copy.name}-key").write_bytes(home.database.with_name("memory.db-key").read_bytes())
    sealed = {"memory.db-history", "1", backup.name, *(copy.name for copy in copies)}
    assert sealed <= places().keys()
    home.database.with_name("memory.db-hot").joinpath("1").write_bytes(bytes(100))
    backup.with_name(f"{backup.name}-key").unlink()
    backup.write_bytes(bytes([1]) * 16 + backup.read_bytes()[16:])
    copies[0].write_bytes(zlib.compress(backup.read_bytes()))
    audit = shepherd("memory", "audit", "--canary", WORD + "x")
    said = " ".join(audit.stderr.split())
    assert audit.returncode == 1
    assert "memory.db-hot/1: it is sealed with another key" in said
    assert "memory.db.before-restore: it is encrypted, and cannot be opened" in said
    assert "memory.db.bak: it is no database that can be read" in said
    receipt = json.loads(shepherd("memory", "forget", told, "--receipt", "--json").stdout)["receipt"]
    named = {left.partition(",")[0] for left in receipt["left"] if "a copy of the database" in left}
    assert named == {str(path) for path in (backup, *copies)}


def test_lines_that_were_sealed_before_a_plain_backup_was_restored_are_named(shepherd, home, told) -> None:
    sealed = home.database.with_name("memory.db-history")
    seal_history(home.history, sealed, Sealer(MemoryKey(bytes(32), bytes(16))))

    receipt = shepherd("memory", "forget", told, "--receipt").stdout
    audit = shepherd("memory", "audit", "--canary", WORD + "x")

    assert f"not reached  3 lines of another key in {sealed}" in receipt
    assert audit.returncode == 1
    assert f"{sealed}: 3 of its lines have another key" in " ".join(audit.stderr.split())


def test_a_program_that_reads_meanwhile_is_named(shepherd, home, told) -> None:
    reader = Connection(str(home.database), read_only=True)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM context")

    done = shepherd("memory", "forget", told)

    said = " ".join(done.stderr.split())
    assert f"not reached: {home.database} and its log {home.database}-wal: another program reads" in said
    audit = shepherd("memory", "audit", "--canary", "called")
    assert "left from an older version" not in audit.stdout
    assert "another program reads the memory" in audit.stdout
    reader.close()

"""A backup is put back as it was; the database until then is kept, and a wrong file changes nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from shepherd.errors import ForeignDatabaseError, ShepherdError, StoreLockedError, UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.restore import aside_of, check_backup, restore
from shepherd.types import Message
from tests import programs


def fill(path: Path, value: str) -> None:
    with Memory(path, user_id="steve") as memory:
        memory.store_memory("Which dog?", value)
        memory.set_fact("dog", value)
        memory.append_message(memory.start_session(), Message("user", value))
        Knowledge(memory.transactions, "steve").add_node(value)


def content(path: Path) -> list[object]:
    with Memory(path, user_id="steve") as memory:
        assert memory.check().problems == ()
        nodes = Knowledge(memory.transactions, "steve").list_nodes()
        return [
            [record.answer for record in memory.list_memories()],
            [fact.value for fact in memory.get_all_facts()],
            [one.title for one in memory.list_sessions()],
            [node.title for node in nodes],
            [result.answer for result in memory.search("dog")],
        ]


@pytest.fixture
def backup(path: Path, tmp_path: Path) -> Path:
    """A backup with Rex alone, of a database that has Max as well now."""
    fill(path, "Rex")
    with Memory(path) as memory:
        memory.backup(tmp_path / "copy.db")
    fill(path, "Max")
    return tmp_path / "copy.db"


def test_a_backup_is_restored_and_the_present_database_is_kept(path, backup):
    now, then = content(path), content(backup)
    assert now != then

    kept = restore(backup, path)

    assert kept == f"{path}.before-restore"
    assert content(path) == then
    assert content(Path(kept)) == now
    fill(path, "Bella")  # it can be written
    assert content(path) != then

    again = restore(kept, path)
    assert again == f"{path}.before-restore-2"
    assert content(path) == now


def test_reading_a_backup_leaves_nothing_beside_it(path, backup, tmp_path):
    check_backup(backup)
    restore(backup, path)

    assert list(tmp_path.glob("copy.db*")) == [backup]


def test_a_backup_is_not_written_through_a_link(path, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("of somebody else")
    (tmp_path / "copy.db.part").symlink_to(other)
    with Memory(path) as memory:
        memory.backup(tmp_path / "copy.db")

    assert other.read_text() == "of somebody else"
    assert (tmp_path / "copy.db").is_file()
    assert not (tmp_path / "copy.db.part").is_symlink()


def test_the_commits_that_are_only_in_the_log_are_kept_too(path, backup, run_python):
    program = """
import os, sys
from shepherd.memory import Memory
memory = Memory(sys.argv[1], user_id="steve")
memory.set_fact("cat", "Tom")
os._exit(0)
"""
    assert run_python(program, path).returncode == 0
    assert Path(f"{path}-wal").stat().st_size > 0

    kept = restore(backup, path)

    assert not Path(f"{path}-wal").exists()
    with Memory(kept, user_id="steve") as memory:
        assert memory.get_fact("cat") == "Tom"


def test_saved_indexes_of_the_replaced_database_are_dropped(path, backup):
    folder = Path(f"{path}-hot")
    folder.mkdir(exist_ok=True)
    (folder / "1").write_bytes(b"of the other contents")

    restore(backup, path)

    assert not folder.exists()


def test_a_missing_database_is_restored_with_its_folder(backup, tmp_path):
    database = tmp_path / "new" / "memory.db"

    assert restore(backup, database) == ""

    assert content(database) == content(backup)
    assert database.stat().st_mode & 0o777 == 0o600


def test_a_damaged_database_is_replaced_and_kept(path, backup):
    damaged = path.read_bytes()[:100] + random.Random(1).randbytes(8000)
    for data in (damaged, b"no database at all"):
        path.write_bytes(data)

        kept = restore(backup, path)

        assert Path(kept).read_bytes() == data
        assert content(path) == content(backup)


def test_a_database_in_use_is_not_replaced(path, backup):
    before = content(path)
    with Memory(path), pytest.raises(StoreLockedError, match="this process has it open"):
        restore(backup, path)

    program = """
import sys
from shepherd.memory import Memory
with Memory(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""
    with programs.Popen(
        [sys.executable, "-c", program, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=programs.in_utf8(),
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(StoreLockedError, match="another program has the memory open") as caught:
            restore(backup, path)
    assert "quit every chat and server" in caught.value.hint

    assert not Path(aside_of(path) + "-2").exists()
    assert aside_of(path) == f"{path}.before-restore"  # it was not made
    assert content(path) == before


def test_a_file_that_is_no_backup_changes_nothing(path, backup, tmp_path):
    before = content(path)
    text, empty, foreign, cut = (
        tmp_path / name for name in ("export.jsonl", "empty", "foreign.db", "cut.db")
    )
    text.write_text('{"question": "Which dog?", "answer": "Rex"}\n')
    empty.touch()
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE t(x)')"
    subprocess.run([sys.executable, "-c", program, foreign], check=True)
    cut.write_bytes(backup.read_bytes()[:-8192])
    said = {}

    for file in (text, empty, foreign, cut, tmp_path / "missing.db", path):
        with pytest.raises(ShepherdError) as caught:
            restore(file, path)
        said[file.name] = f"{caught.value}; {caught.value.hint}"

    assert "shepherd memory import FILE" in said["export.jsonl"]
    assert "it is empty" in said["empty"]
    assert "belongs to another program" in said["foreign.db"]
    assert "the backup is damaged; nothing was changed" in said["cut.db"]
    assert "there is no such file" in said["missing.db"]
    assert "this is the database itself" in said[path.name]
    assert content(path) == before
    assert not list(tmp_path.glob("*before-restore*"))


def test_a_database_of_another_program_is_not_replaced(backup, tmp_path):
    foreign = tmp_path / "foreign.db"
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE t(x)')"
    subprocess.run([sys.executable, "-c", program, foreign], check=True)
    data = foreign.read_bytes()

    with pytest.raises(ForeignDatabaseError):
        restore(backup, foreign)

    assert foreign.read_bytes() == data


def test_a_failed_copy_puts_the_present_database_back(path, backup, monkeypatch):
    before = content(path)
    monkeypatch.setattr("shepherd.memory.restore.copy_to", _fail)

    with pytest.raises(UsageError, match="no room"):
        restore(backup, path)

    assert content(path) == before
    assert aside_of(path) == f"{path}.before-restore"


def _fail(*_: object) -> None:
    raise UsageError("no room")

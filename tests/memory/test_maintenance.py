"""Counts, checks that find damage, repairs that mend it, and backups."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from shepherd._native.store import Connection
from shepherd.errors import ForeignDatabaseError, UsageError
from shepherd.memory import Memory
from shepherd.memory.database import Database
from shepherd.memory.memories import content_hash
from shepherd.types import Message
from tests.postgres import IN_A_FILE


def fill(memory: Memory) -> None:
    for n in range(30):
        memory.store_memory(f"question {n}?", f"answer number {n}", timestamp=1000 + n)
    memory.store_memory("of anna?", "yes", "anna")
    memory.set_fact("name", "Steve")
    memory.append_message(memory.start_session(), Message("user", "hello"))


def test_stats_count_one_user_and_measure_the_database(memory: Memory, engine: str, path: Path) -> None:
    fill(memory)
    memory.pin_memory(memory.list_memories()[0].id)

    stats = memory.stats()

    assert (stats.memories, stats.pinned, stats.facts, stats.sessions) == (30, 1, 1, 1)
    assert (stats.oldest_timestamp, stats.newest_timestamp) == (1000, 1029)
    assert 0 < stats.used_bytes < stats.limit_bytes == 10 << 30
    if engine == "sqlite":
        assert (stats.path, stats.file_bytes) == (str(path), path.stat().st_size)
    else:
        assert stats.path.startswith("postgresql://")
        assert stats.file_bytes > stats.used_bytes
    assert memory.stats("nobody yet").memories == 0


def test_healthy_database_has_no_problems(memory: Memory) -> None:
    fill(memory)

    report = memory.check()

    assert (report.problems, report.ok) == ((), True)


@IN_A_FILE
@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (
            "INSERT INTO context_fts(context_fts, rowid, user_message, assistant_response)"
            " SELECT 'delete', id, '', '' FROM context WHERE id % 2 = 0",
            "missing from the full-text index",
        ),
        ("INSERT INTO context_fts(rowid, user_message) VALUES(99, 't1_ghost')", "no memory"),
        (
            "UPDATE context SET user_message = 'quarrel 3?',"
            f" content_hash = '{content_hash('quarrel 3?', 'answer number 3')}'"
            " WHERE user_message = 'question 3?'",
            "1 memory is in the full-text index with other words",
        ),
        ("UPDATE tenants SET n = n + 5", "sums of 2 users are wrong"),
        ("UPDATE tenants SET total_length = 0, message_bytes = 1", "sums of 2 users are wrong"),
        ("DELETE FROM context WHERE id % 2 = 0", "no memory"),
        ("DELETE FROM sessions", "to no session"),
        ("UPDATE meta SET value = 0 WHERE key = 'tokenizer_version'", "another version of the tokenizer"),
    ],
)
def test_damage_is_found_and_mended(memory: Memory, path: Path, harm: str, problem: str) -> None:
    fill(memory)
    with Connection(str(path)) as connection:
        connection.execute(harm)

    found = memory.check()
    assert not found.ok
    assert any(problem in text for text in found.problems)

    mended = memory.check(repair=True)
    assert mended.ok
    assert mended.repaired == mended.problems

    assert memory.check().problems == ()
    assert len(memory.search("answer number", 50)) == memory.count_memories()


@IN_A_FILE
def test_index_of_another_tokenizer_is_made_again_at_opening(memory: Memory, path: Path) -> None:
    fill(memory)
    before = memory.search("answer number 7", 50)
    memory.close()
    with Connection(str(path)) as connection:
        connection.execute("UPDATE meta SET value = 0 WHERE key = 'tokenizer_version'")
        connection.execute("INSERT INTO context_fts(context_fts) VALUES('delete-all')")
        connection.execute("UPDATE context SET doc_len = 1")

    with Memory(path, user_id="steve", clock=memory._clock) as again:
        assert again.search("answer number 7", 50) == before
        assert again.check().problems == ()


@IN_A_FILE
def test_words_stored_before_the_tokenizer_changed_are_still_found(memory: Memory, path: Path) -> None:
    """Version 2 kept the plural of an acronym as it was written."""
    memory_id = memory.store_memory("What did I buy?", "Two GPUs and a desk")
    memory.close()
    with Connection(str(path)) as connection:
        connection.execute("UPDATE meta SET value = 2 WHERE key = 'tokenizer_version'")
        connection.execute("INSERT INTO context_fts(context_fts) VALUES('delete-all')")
        connection.execute(
            "INSERT INTO context_fts(rowid, user_message, assistant_response) VALUES(?, ?, ?)",
            (memory_id, "t1_buy", "t1_two t1_gpus t1_desk"),
        )

    for _ in range(2):  # the second opening has nothing left to do
        with Memory(path, user_id="steve", clock=memory._clock) as again:
            for question in ("which gpus do i have", "which GPU?", "GPUs", "desk"):
                assert [hit.id for hit in again.search(question, 5)] == [memory_id]
            assert again.check().problems == ()


@IN_A_FILE
def test_backup_is_a_whole_database_made_while_in_use(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    target = tmp_path / "backup.db"

    memory.backup(target)
    memory.store_memory("after?", "not in it")

    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir() if "backup" in file.name) == ["backup.db"]
    with Memory(target, user_id="steve") as copy:
        assert copy.count_memories() == 30
        assert copy.get_fact("name") == "Steve"
        assert copy.check().problems == ()


@IN_A_FILE
def test_backup_does_not_replace_a_file(memory: Memory, tmp_path: Path) -> None:
    target = tmp_path / "letter.txt"
    target.write_text("dear")

    with pytest.raises(UsageError, match=r"letter\.txt"):
        memory.backup(target)

    assert target.read_text() == "dear"


@IN_A_FILE
def test_backup_into_a_missing_folder_is_said(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no-such-folder: there is no such folder"):
        memory.backup(tmp_path / "no-such-folder" / "backup.db")


@IN_A_FILE
@pytest.mark.parametrize("end", [".part", ".converting", "-journal", "-key", ".decrypting"])
def test_backup_has_no_name_of_files_that_are_deleted(memory: Memory, path: Path, end: str) -> None:
    with pytest.raises(UsageError, match="Shepherd writes its own files under this name"):
        memory.backup(f"{path}{end}")
    memory.backup(f"{path}.bak")


@IN_A_FILE
def test_backup_leaves_files_of_the_user_alone(memory: Memory, tmp_path: Path) -> None:
    mine = tmp_path / "copy.db.part"
    mine.write_text("my own notes")
    with pytest.raises(UsageError, match="has not written this file"):
        memory.backup(tmp_path / "copy.db")
    assert mine.read_text() == "my own notes"
    # What a killed backup has left is another matter.
    mine.write_bytes(b"SQLite format 3\0...")
    memory.backup(tmp_path / "copy.db")
    assert not mine.exists()


@IN_A_FILE
def test_check_names_damaged_pages(memory: Memory, path: Path) -> None:
    for n in range(200):
        memory.store_memory(f"question {n}", "answer " * 50)
    memory.close()
    content = bytearray(path.read_bytes())
    # A page of a table in the middle of the file: the head of the file stays readable.
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\x0d" * 4096
    path.write_bytes(content)

    with Memory(path) as damaged:
        report = damaged.check(repair=True)

    assert report.problems
    assert not report.ok


def test_audit_points_at_what_is_worth_a_look(memory: Memory) -> None:
    store: Callable[..., int | None] = memory.store_memory
    twins = store("My dog's name?", "Rex"), store("my dog's NAME? ", "Bella")
    near = store("Coffee or tea?", "I drink coffee"), store("tea or coffee?", "coffee I drink")
    echo = store("I like jazz.", "I like jazz!")
    store("A statement without an answer.", "")
    empty = store("???", "…")
    tail = store("hi\n\n[facts: name=Steve]", "hello")
    store("Fine?", "Yes, nothing wrong here")
    store("Fine?", "Anna's, not mine", "anna")

    findings = [(finding.kind, finding.ids) for finding in memory.audit()]

    assert findings == [
        ("duplicate", twins),
        ("echo", (echo,)),
        ("empty", (empty,)),
        ("near-duplicate", near),
        ("tail", (tail,)),
    ]


@IN_A_FILE
def test_backup_target_that_is_the_database_itself_is_refused(memory: Memory, path: Path) -> None:
    with pytest.raises((UsageError, ForeignDatabaseError)):
        memory.backup(path)
    assert memory.check().ok


def test_threads_that_read_a_large_database_keep_few_of_its_pages(path: Path) -> None:
    n_threads, n_bytes = 8, 24_000_000
    has_read = threading.Barrier(n_threads + 1)
    with closing(Database(str(path))) as database:
        with database.write() as connection:
            rows = ((f"row {n}", "x" * 900) for n in range(n_bytes // 900))
            connection.execute_many("INSERT INTO meta (key, value) VALUES (?, ?)", rows)

        def look() -> None:
            with database.read() as connection:
                assert connection.execute("SELECT sum(instr(value, 'y')) FROM meta") == [(0,)]
            has_read.wait(60)
            has_read.wait(60)  # its connection would close with the thread

        threads = [threading.Thread(target=look) for _ in range(n_threads)]
        before = psutil.Process().memory_info().rss
        for thread in threads:
            thread.start()
        has_read.wait(60)
        kept = psutil.Process().memory_info().rss - before
        has_read.wait(60)
        for thread in threads:
            thread.join()

    assert kept < 2 * n_bytes

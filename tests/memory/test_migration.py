"""Databases of the original Shepherd become ours: every row, once, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd.config import default_user_id
from shepherd.errors import ForeignDatabaseError, StoreError
from shepherd.memory import Memory
from tests.memory import originals

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

IDE = ("What IDE does the user prefer?", "VS Code with vim keybindings")
IDE_HASH = "a62d65ada0904a2592c9111a224c4e9baa085c8f8961bb7c040867bd5957eabe"


def row(question: str, answer: str, timestamp: int, *user: str) -> tuple[object, ...]:
    digest = hashlib.sha256((question + answer).encode()).hexdigest()
    return (question, answer, timestamp, digest, *user)


def insert(table: str, *rows: tuple[object, ...]) -> tuple[str, list[tuple[object, ...]]]:
    columns = "user_message, assistant_response, timestamp, content_hash" + ", user_id" * (len(rows[0]) == 5)
    marks = ", ".join("?" * len(rows[0]))
    return f"INSERT INTO {table}({columns}) VALUES ({marks})", list(rows)


def facts(*rows: tuple[object, ...]) -> tuple[str, list[tuple[object, ...]]]:
    return f"INSERT INTO facts VALUES ({', '.join('?' * len(rows[0]))})", list(rows)


def pairs(memory: Memory, user_id: str = "local") -> list[tuple[str, str, int]]:
    """Question, answer and time, newest first."""
    return [(r.question, r.answer, r.timestamp) for r in memory.list_memories(user_id, limit=10_000)]


def log(memory_path: Path) -> Path:
    return memory_path.with_name(memory_path.name + "-wal")


THREE = [row(*IDE, 300), row("Which dog?", "Rex", 100), row("Which city?", "Austin, Texas", 200)]
THREE_NEWEST_FIRST = [(q, a, t) for q, a, t, _ in sorted(THREE, key=lambda r: -int(str(r[2])))]


# ---- the five migrations


@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize(
    "schema",
    [originals.V2_22, originals.V2_22_FACTS, originals.V2_28, originals.V2_30],
    ids=["2.22", "2.22 with facts", "2.28", "2.30"],
)
def test_conversations_become_context(path: Path, schema: str, journal: str, end: str) -> None:
    originals.build(path, schema, insert("conversations", *THREE), journal=journal, end=end)
    assert log(path).exists() == (journal == "wal" and end == "killed")

    with Memory(path) as memory:
        assert pairs(memory) == THREE_NEWEST_FIRST
        assert memory.search("vim keybindings")[0].question == IDE[0]
        assert memory.check().problems == ()
        ids = [record.id for record in memory.list_memories()]
        assert ids == sorted(ids, reverse=True)


def test_only_the_tables_of_a_new_memory_are_left(path: Path, tmp_path: Path) -> None:
    originals.build(path, originals.V2_30, insert("conversations", *THREE))
    names = "SELECT name FROM main.sqlite_schema UNION SELECT name FROM temp.sqlite_schema ORDER BY name"

    with Memory(path) as migrated, Memory(tmp_path / "new.db") as new:
        found, expected = (
            one.transactions.write("local", lambda connection: connection.execute(names))
            for one in (migrated, new)
        )
        assert found == expected


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize(
    "schema",
    [originals.V2_32, originals.V2_32_RENAMED, originals.UNINDEXED],
    ids=["2.32", "renamed", "no index"],
)
def test_context_of_several_users_stays_theirs(path: Path, schema: str, journal: str) -> None:
    originals.build(
        path,
        schema,
        insert("context", row("Which dog?", "Rex", 100, "anna"), row("Which cat?", "Tom", 200, "bob")),
        insert("context", row("Which bird?", "Tweety", 300)),
        facts(("anna", "city", "Oslo", 10, 20), ("bob", "city", "Rome", 10, 30)),
        journal=journal,
    )

    with Memory(path) as memory:
        assert pairs(memory, "anna") == [("Which dog?", "Rex", 100)]
        assert pairs(memory, "bob") == [("Which cat?", "Tom", 200)]
        assert pairs(memory, "local") == [("Which bird?", "Tweety", 300)]
        assert memory.search("rex", user_id="bob") == []
        assert [memory.get_fact("city", user) for user in ("anna", "bob", "local")] == ["Oslo", "Rome", None]
        assert memory.get_all_facts("anna")[0].updated_at == 20
        assert [change.value for change in memory.fact_history("city", "bob")] == ["Rome"]
        assert memory.check().problems == ()


def test_both_tables_are_merged_and_what_is_in_both_comes_once(path: Path) -> None:
    same = row("Which dog?", "Rex", 100, "local")
    originals.build(
        path,
        originals.V2_32_BOTH,
        insert("conversations", same, row("old", "one", 50, "local"), row("shared", "text", 60, "anna")),
        insert("context", same, row("new", "one", 150, "local"), row("shared", "text", 70, "bob")),
    )

    with Memory(path) as memory:
        assert pairs(memory) == [("new", "one", 150), ("Which dog?", "Rex", 100), ("old", "one", 50)]
        # The original's hash was unique over all users: another's identical memory was lost. Not any more.
        assert pairs(memory, "anna") == [("shared", "text", 60)]
        assert pairs(memory, "bob") == [("shared", "text", 70)]
        assert memory.check().problems == ()


def test_facts_by_key_alone_belong_to_local(path: Path) -> None:
    originals.build(path, originals.V2_22_FACTS, facts(("name", "Steve", 10, 20), ("city", "Austin", 30, 40)))

    with Memory(path) as memory:
        found = [(f.key, f.value, f.created_at, f.updated_at) for f in memory.get_all_facts("local")]
        assert found == [("city", "Austin", 30, 40), ("name", "Steve", 10, 20)]
        assert memory.recall("hello", "local").tail == "\n\n[facts: city=Austin, name=Steve]"


def test_of_two_spellings_of_a_key_the_later_value_stays_and_both_are_history(path: Path) -> None:
    rows = ("favorite_color", "blue", 10, 20), ("favoriteColor", "green", 10, 90)
    originals.build(path, originals.V2_22_FACTS, facts(*rows))

    with Memory(path) as memory:
        assert [fact.value for fact in memory.get_all_facts()] == ["green"]
        assert [change.value for change in memory.fact_history("favorite_color")] == ["blue", "green"]


def test_full_text_table_made_over_a_filled_table_is_made_again(path: Path) -> None:
    # Its triggers only see what comes later: the three rows were never found.
    originals.build(path, originals.UNINDEXED, insert("context", *THREE), originals.index("context"))

    with Memory(path) as memory:
        assert memory.search("Austin")[0].answer == "Austin, Texas"
        assert memory.check().problems == ()


def test_content_hashes_stay_what_they_were(path: Path) -> None:
    originals.build(path, originals.V2_32, insert("context", row(*IDE, 100)))
    assert row(*IDE, 100)[3] == IDE_HASH

    with Memory(path) as memory:
        [entry] = [entry for entry in memory.export_memories() if entry["type"] == "memory"]
        assert entry["content_hash"] == IDE_HASH
        # So what was stored then is known now.
        assert memory.store_memory(*IDE) == entry["id"]


def test_hash_that_does_not_fit_its_row_costs_no_row(path: Path) -> None:
    rows = ("q", "a", 1, "made by hand"), ("q", "a", 2, "also"), ("ab", "c", 3, "x"), ("a", "bc", 4, "y")
    originals.build(path, originals.V2_32, insert("context", *rows))

    with Memory(path) as memory:
        assert pairs(memory) == [("a", "bc", 4), ("ab", "c", 3), ("q", "a", 1)]


def test_strange_values_become_what_they_mean(path: Path) -> None:
    rows = [
        ("b\0c", "ü😀", 1_700_000_000_123, "h1"),
        ("", "no question", -5, "h2"),
        (7, 8.5, "12", "h3"),
    ]
    originals.build(path, originals.V2_32, insert("context", *rows),
                    "UPDATE context SET user_id = '' WHERE content_hash = 'h2'")  # fmt: skip

    with Memory(path) as memory:
        assert pairs(memory) == [("b\0c", "ü😀", 1_700_000_000), ("7", "8.5", 12), ("", "no question", -5)]


def test_tables_of_somebody_else_in_the_same_file_stay(path: Path, run_python: RunPython) -> None:
    originals.build(
        path,
        originals.V2_32,
        insert("context", *THREE),
        "CREATE TABLE notes(text); INSERT INTO notes VALUES('mine');"
        "CREATE VIEW seen AS SELECT * FROM context;"
        "CREATE INDEX context_hash ON context(timestamp); CREATE INDEX facts_of ON facts(value)",
    )

    with Memory(path) as memory:
        assert len(pairs(memory)) == 3

    show = (
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT * FROM notes').fetchall())"
    )
    assert run_python(show, path).stdout == "[('mine',)]\n"


# ---- once, and with a copy


def test_what_was_there_is_kept_beside_the_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    originals.build(path, originals.V2_32, insert("context", *THREE), journal="wal", end="killed")
    before = originals.contents(path)

    Memory(path).close()

    kept = path.with_name("memory.db.before-migration")
    assert originals.contents(kept) == before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "3 memories" in caplog.text
    assert str(kept) in caplog.text


def test_an_older_copy_is_never_overwritten(path: Path) -> None:
    other = path.with_name("memory.db.before-migration")
    other.write_text("precious")
    originals.build(path, originals.V2_32, insert("context", *THREE))

    Memory(path).close()

    assert other.read_text() == "precious"
    assert len(originals.contents(path.with_name("memory.db.before-migration-2"))["context"]) == 3


def test_identical_copy_that_a_killed_migration_left_is_used_again(path: Path) -> None:
    originals.build(path, originals.V2_32, insert("context", *THREE))
    before = path.read_bytes()
    Memory(path).close()
    copy = path.with_name("memory.db.before-migration")
    kept = copy.read_bytes()
    for leftover in path.parent.glob("memory.db*"):
        if leftover != copy:
            leftover.unlink()
    path.write_bytes(before)

    Memory(path).close()

    assert sorted(file.name for file in path.parent.glob("*before-migration*")) == [copy.name]
    assert copy.read_bytes() == kept


def test_failed_migration_leaves_an_older_copy_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    originals.build(path, originals.V2_32, insert("context", *THREE))
    before = path.read_bytes()
    Memory(path).close()
    copy = path.with_name("memory.db.before-migration")
    kept = copy.read_bytes()
    for leftover in path.parent.glob("memory.db*"):
        if leftover != copy:
            leftover.unlink()
    path.write_bytes(before)

    def fail(*_: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr("shepherd.memory.database.migrate", fail)
    with pytest.raises(StoreError, match="no room"):
        Memory(path)

    assert copy.read_bytes() == kept


@pytest.mark.parametrize(
    ("schema", "user", "command"),
    [
        (originals.V2_22, None, "shepherd memory claim takes"),
        (originals.V2_32, "anna", "shepherd memory claim --from anna takes"),
        (originals.V2_32, default_user_id(), ""),
    ],
)
def test_message_names_the_users_and_how_to_claim_their_rows(
    path: Path, caplog: pytest.LogCaptureFixture, schema: str, user: str | None, command: str
) -> None:
    table = "conversations" if user is None else "context"
    rows = [row(question, "an answer", 100, *([user] if user else [])) for question in ("one", "two")]
    originals.build(path, schema, insert(table, *rows))

    Memory(path).close()

    assert "2 memories" in caplog.text
    assert ("claim" in caplog.text) == bool(command)
    assert command in caplog.text


def test_migrating_again_changes_nothing(path: Path) -> None:
    originals.build(
        path, originals.V2_32_BOTH, insert("conversations", *THREE), facts(("local", "a", "b", 1, 2))
    )
    Memory(path).close()
    names, content = sorted(path.parent.iterdir()), path.read_bytes()

    for _ in range(2):
        with Memory(path) as memory:
            assert pairs(memory) == THREE_NEWEST_FIRST

    assert sorted(path.parent.iterdir()) == names
    assert path.read_bytes() == content


def test_the_copy_can_be_migrated_like_the_file(path: Path) -> None:
    originals.build(path, originals.V2_32, insert("context", *THREE))
    Memory(path).close()

    with Memory(path.with_name("memory.db.before-migration")) as memory:
        assert pairs(memory) == THREE_NEWEST_FIRST


def test_many_rows_are_migrated_into_an_index_of_one_piece(path: Path) -> None:
    rows = [row(f"question {n}?", f"answer {n}", 1000 + n) for n in range(3000)]
    originals.build(path, originals.V2_22, insert("conversations", *rows))

    with Memory(path) as memory:
        assert memory.count_memories() == 3000
        assert memory.search("question 2345")[0].answer == "answer 2345"
        assert memory.check().problems == ()


def test_reading_alone_does_not_migrate(path: Path) -> None:
    originals.build(path, originals.V2_32, insert("context", *THREE))
    before = path.read_bytes()

    with pytest.raises(StoreError, match="older Shepherd") as caught:
        Memory(path, read_only=True)

    assert "open it once for writing" in caught.value.hint
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


@pytest.mark.parametrize(
    "script",
    [
        originals.V2_32.replace("content_hash TEXT UNIQUE NOT NULL,", "content_hash TEXT, mood TEXT,"),
        originals.UNINDEXED.replace("timestamp INTEGER NOT NULL,", ""),
        originals.V2_32 + "ALTER TABLE context ADD COLUMN mood TEXT",
        originals.V2_32 + "ALTER TABLE facts ADD COLUMN mood TEXT",
        originals.V2_32 + "CREATE TABLE sessions(id)",
    ],
    ids=["other column", "missing column", "added column", "other facts", "our name"],
)
def test_database_that_would_lose_something_is_refused_unharmed(path: Path, script: str) -> None:
    originals.build(path, script)
    before = path.read_bytes()

    with pytest.raises(ForeignDatabaseError, match="another program"):
        Memory(path)

    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


def test_unfinished_work_of_a_killed_original_is_taken_back_first(path: Path) -> None:
    originals.build(path, originals.V2_32, insert("context", *THREE), end="killed while writing")
    assert Path(f"{path}-journal").stat().st_size > 0

    with Memory(path) as memory:
        assert pairs(memory) == THREE_NEWEST_FIRST


# ---- interrupted

# Opens a memory whose process dies, or whose statement fails, at the n-th statement on the file that is being
# migrated, for every second n from `first` on, each in a fork on a copy of its own, until one gets through.
# The cache is small: unfinished pages reach the file, as those of a large database would.
INTERRUPT = """
import glob, json, os, shutil, signal, sys
from shepherd._native.store import Connection, SQLiteError
from shepherd.errors import StoreFullError
from shepherd.memory import Memory, database

source, folder, how, first = sys.argv[1:]

class Doomed:
    left = None
    def __init__(self, path, **options):
        self._real = Connection(path, **{**options, "cache_kib": 8})
        # What a process has written is there when it dies: only a machine that dies needs the waiting.
        self._real.execute("PRAGMA synchronous = OFF")
    def __getattr__(self, name):
        return getattr(self._real, name)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self._real.close()
    def execute(self, sql, parameters=()):
        Doomed.left -= 1
        if Doomed.left == 0 and how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if Doomed.left == 0:
            raise SQLiteError(13, "database or disk is full")
        return self._real.execute(sql, parameters)

database.Connection = Doomed
n = int(first)
while True:
    target = os.path.join(folder, str(n), "memory.db")
    os.mkdir(os.path.dirname(target))
    for file in glob.glob(glob.escape(source) + "*"):
        shutil.copy(file, target + file[len(source):])
    child = os.fork()
    if child == 0:
        Doomed.left = n
        try:
            Memory(target)
        except StoreFullError:
            os._exit(3)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(4)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    refused = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3
    if status == 0:
        break
    assert died if how == "killed" else refused, (n, status)
    n += 2
print(n)
"""

# For each of the copies: what another program finds in it (the last look: ours).
INSPECT = """
import json, os, sqlite3, sys
found = []
for n in range(int(sys.argv[3]), int(sys.argv[2]) + 1, 2):
    folder = os.path.join(sys.argv[1], str(n))
    connection = sqlite3.connect(os.path.join(folder, "memory.db"))
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    names = [name for name in ("context", "conversations", "facts") if name in tables]
    rows = {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}
    damage = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    files = sorted(os.listdir(folder))
    found.append({"rows": rows, "is_ours": "tenants" in tables, "damage": damage, "files": files})
print(json.dumps(found, default=bytes.hex))
"""

REOPEN = """
import json, os, sys
from shepherd.memory import Memory
found = []
for n in range(int(sys.argv[3]), int(sys.argv[2]) + 1, 2):
    with Memory(os.path.join(sys.argv[1], str(n), "memory.db")) as memory:
        listed = [(r.question, r.answer, r.timestamp) for r in memory.list_memories("local", limit=999)]
        found.append([listed, memory.check().problems, memory.get_fact("name", "local")])
print(json.dumps(found))
"""


def interrupted(
    path: Path, folder: Path, how: str, first: int, run_python: RunPython
) -> tuple[int, Callable[[str], list[dict[str, Any]]]]:
    """How many statements an opening takes, and how to run a program over copies interrupted before each.

    Each second one, from the `first`.
    """
    folder.mkdir()
    done = run_python(INTERRUPT, path, folder, how, first)
    assert done.returncode == 0, done.stderr
    n = int(done.stdout)

    def over_copies(program: str) -> list[dict[str, Any]]:
        looked = run_python(program, folder, n, first)
        assert looked.returncode == 0, looked.stderr
        return list(json.loads(looked.stdout))

    return n, over_copies


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the system has one: hundreds of files are written and synced."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path / "copies"
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder) / "copies"


# Each statement is killed once and fails once: in one journal the odd ones, in the other those between.
@pytest.mark.parametrize(
    ("how", "journal", "end", "first"),
    [
        ("killed", "delete", "closed", 1),
        ("killed", "wal", "killed", 2),
        ("failed", "delete", "closed", 2),
        ("failed", "wal", "killed", 1),
    ],
)
def test_interrupted_at_any_statement_the_old_file_is_as_it_was_or_wholly_new(
    path: Path,
    tmp_path: Path,
    fast_folder: Path,
    run_python: RunPython,
    how: str,
    journal: str,
    end: str,
    first: int,
) -> None:
    texts = [row(f"question {n}", f"answer {n} " * 200, n) for n in range(4)]
    originals.build(
        path,
        originals.V2_32_BOTH,
        insert("conversations", *texts[:2]),
        insert("context", *texts[1:]),
        facts(("local", "name", "Steve", 1, 2)),
        journal=journal,
        end=end,
    )
    shutil.copytree(path.parent, tmp_path / "before")
    before = originals.contents(tmp_path / "before" / path.name)

    n, over_copies = interrupted(path, fast_folder, how, first, run_python)

    assert n > 60
    seen = over_copies(INSPECT)
    for copy in seen:
        assert copy["damage"] == [["ok"]]
        if not copy["is_ours"]:
            assert copy["rows"] == {name: before[name] for name in ("context", "conversations", "facts")}
    states = [copy["is_ours"] for copy in seen]
    assert states == sorted(states)
    assert states.count(False) > 25
    if how == "failed":
        # What failed has cleared up behind itself.
        assert all(copy["files"] == ["memory.db"] for copy in seen if not copy["is_ours"])
    expected = [[q, a, t] for q, a, t, _ in reversed(texts)]
    assert over_copies(REOPEN) == [[expected, [], "Steve"]] * len(seen)


def test_two_processes_that_open_it_at_once_migrate_it_once(path: Path, run_python: RunPython) -> None:
    rows = [row(f"question {n}", f"answer {n}", n) for n in range(500)]
    originals.build(path, originals.V2_32, insert("context", *rows))
    program = (
        "import os, sys\nfrom shepherd.memory import Memory\nchildren = []\n"
        "for _ in range(4):\n child = os.fork()\n if child == 0:\n"
        "  with Memory(sys.argv[1], busy_timeout_s=30) as memory: n = memory.count_memories()\n"
        "  os._exit(0 if n == 500 else 1)\n children.append(child)\n"
        "print([os.waitpid(child, 0)[1] for child in children])"
    )

    done = run_python(program, path)

    assert done.stdout == "[0, 0, 0, 0]\n", done.stderr
    assert len(list(path.parent.glob("*.before-migration*"))) == 1
    with Memory(path) as memory:
        assert memory.check().problems == ()


def test_secrets_are_left_out_and_counted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = [row("My password is Tr0ub4dor&3", "Noted.", 100, "steve"), row(*IDE, 200, "steve")]
    fact = ("steve", "wifi_password", "greenTree19", 1, 1)
    originals.build(path, originals.V2_32, insert("context", *told), facts(fact))

    with caplog.at_level("WARNING"), Memory(path, user_id="steve") as memory:
        assert pairs(memory, "steve") == [(*IDE, 200)]
        assert memory.get_all_facts() == []
        assert memory.fact_history() == []
        assert memory.check().problems == ()

    assert "2 with passwords, keys or other secrets were skipped" in caplog.text

"""Full disks, locks, missing rights, damage, sudden death: a clear error, nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.errors import StoreCorruptError, StoreError, StoreLockedError, StoreReadOnlyError
from shepherd.memory import Memory
from tests import programs

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]

# ---- another process holds it


@pytest.fixture
def hold(path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Runs SQL on the database in another process, and keeps its connection open until the test ends."""
    program = (
        "import sys; from shepherd._native.store import Connection; c = Connection(sys.argv[1]);"
        "c.script(sys.argv[2]); print('held', flush=True); sys.stdin.read()"
    )
    holders: list[subprocess.Popen[str]] = []

    def start(sql: str) -> subprocess.Popen[str]:
        holder = programs.Popen(
            [sys.executable, "-c", program, str(path), sql],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=programs.in_utf8(),
        )
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        return holder

    yield start
    for holder in holders:
        holder.communicate()


def test_locked_database_is_read_but_says_who_to_look_for_when_written(
    path: Path, hold: Callable[[str], object]
) -> None:
    with Memory(path, busy_timeout_s=0.1) as memory:
        memory.set_fact("name", "Steve")
        hold("BEGIN IMMEDIATE")

        assert memory.recall("hello").tail == "\n\n[facts: name=Steve]"
        with pytest.raises(StoreLockedError, match="another process") as caught:
            memory.store_memory("q", "a")

        assert str(path) in str(caught.value)
        assert "fuser" in caught.value.hint


def test_database_that_is_held_exclusively_cannot_be_opened(
    path: Path, hold: Callable[[str], object]
) -> None:
    Memory(path).close()
    hold("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")

    with pytest.raises(StoreLockedError):
        Memory(path, busy_timeout_s=0.1)


def test_writing_goes_on_when_the_lock_is_gone(path: Path, hold: Callable[[str], object]) -> None:
    with Memory(path, busy_timeout_s=0.05) as memory:
        hold("BEGIN IMMEDIATE; COMMIT")

        assert memory.store_memory("q", "a") is not None


def test_opening_a_memory_without_a_log_waits_for_the_other_process(
    path: Path, hold: Callable[[str], subprocess.Popen[str]]
) -> None:
    Memory(path).close()
    holder = hold("PRAGMA journal_mode = DELETE; BEGIN IMMEDIATE")

    with pytest.raises(StoreLockedError):
        Memory(path, busy_timeout_s=0.1)
    ending = threading.Timer(0.2, holder.kill)
    ending.start()
    with Memory(path, busy_timeout_s=60) as memory:
        ending.join()
        memory.set_fact("name", "Steve")
        assert path.with_name(f"{path.name}-wal").exists()


# ---- no room

FILL = """
import json, os, sys
from shepherd.errors import StoreFullError
from shepherd.memory import Memory
path, ballast, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
if limit:
    import resource
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
stored = []
memory = Memory(path)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
else:
    with open(ballast, "wb") as file:
        file.write(bytes(256 * 1024))
try:
    for n in range(100_000):
        stored.append(memory.store_memory(f"question {n}", f"answer {n} " * 20))
except StoreFullError as error:
    report = {"error": str(error), "hint": error.hint}
# Reading goes on.
assert len(memory.search("question", 5)) == 5
assert memory.get_memory(stored[-1]) is not None
# As soon as there is room, so does writing.
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
else:
    os.remove(ballast)
stored.append(memory.store_memory("after", "all"))
memory.close()
memory = Memory(path)
report["lost"] = [n for n in stored if memory.get_memory(n) is None]
report["problems"] = memory.check().problems
report["n"] = [len(stored), memory.count_memories()]
print(json.dumps(report))
"""


def check_filled(process: subprocess.CompletedProcess[str], path: Path) -> None:
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert str(path) in report["error"]
    assert "no space left" in report["error"]
    assert report["hint"]
    assert report["lost"] == []
    assert report["problems"] == []
    assert report["n"][0] == report["n"][1] > 10


def can_mount(folder: Path) -> bool:
    """Whether an ordinary user may mount a file system of his own here."""
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def test_full_disk_is_said_and_loses_nothing(tmp_path: Path, run_python: RunPython) -> None:
    path = tmp_path / "disk" / "memory.db"
    path.parent.mkdir()
    if not can_mount(path.parent):
        pytest.skip("no mounts here: a full disk was NOT tested")
    mount = f'mount -t tmpfs -o size=2m none "{path.parent}" && exec "$@"'
    behind = ("unshare", "-rm", "sh", "-c", mount, "sh")

    check_filled(run_python(FILL, path, path.with_name("ballast"), 0, behind=behind), path)


def test_file_size_limit_is_said_and_loses_nothing(path: Path, run_python: RunPython) -> None:
    check_filled(run_python(FILL, path, "-", 500 * 1024), path)


# ---- no rights

WITHOUT_RIGHTS = """
import json, os, sys
import shepherd.secret_detection  # loaded when it is first needed, perhaps from a folder of the first user
from shepherd.errors import ShepherdError
from shepherd.memory import Memory
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
report = []
for read_only in (False, True):
    try:
        memory = Memory(sys.argv[1], read_only=read_only)
        report.append(["opened", memory.enrich("hello"), ""])
        memory.store_memory("q", "a")
    except ShepherdError as error:
        report.append([type(error).__name__, str(error), error.hint])
print(json.dumps(report))
"""


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that nobody in particular may read: root drops its rights in these tests."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


def without_rights(run_python: RunPython, path: Path) -> list[tuple[str, str, str]]:
    process = run_python(WITHOUT_RIGHTS, path)
    assert process.returncode == 0, process.stderr
    return [(kind, what, hint) for kind, what, hint in json.loads(process.stdout)]


def test_read_only_folder_is_said(public_folder: Path, run_python: RunPython) -> None:
    os.chmod(public_folder, 0o555)
    path = public_folder / "memory.db"

    writing, reading = without_rights(run_python, path)

    assert writing[0] == "StoreReadOnlyError"
    assert str(path) in writing[1]
    assert "permission" in writing[2]
    assert "no such database" in reading[1]
    assert list(public_folder.iterdir()) == []


def test_read_only_file_is_said_and_can_still_be_read(public_folder: Path, run_python: RunPython) -> None:
    path = public_folder / "memory.db"
    with Memory(path) as memory:
        memory.set_fact("name", "Steve")
    os.chmod(path, 0o444)
    os.chmod(public_folder, 0o777)
    kept = path.read_bytes()

    writing, reading, refused = without_rights(run_python, path)

    assert writing[0] == "StoreReadOnlyError"
    assert reading == ("opened", "hello\n\n[facts: name=Steve]", "")
    assert refused[0] == "StoreReadOnlyError"
    assert path.read_bytes() == kept


def test_unreadable_file_is_said(public_folder: Path, run_python: RunPython) -> None:
    path = public_folder / "memory.db"
    Memory(path).close()
    os.chmod(path, 0o000)

    assert [kind for kind, _, _ in without_rights(run_python, path)] == ["StoreReadOnlyError"] * 2


def test_memory_opened_for_reading_refuses_to_write(path: Path) -> None:
    with Memory(path) as memory:
        memory.store_memory("q", "a")
    kept = path.read_bytes()

    with Memory(path, read_only=True) as memory:
        assert memory.count_memories() == 1
        for write in (lambda: memory.store_memory("x", "y"), lambda: memory.set_fact("k", "v")):
            with pytest.raises(StoreReadOnlyError):
                write()

    assert path.read_bytes() == kept


# ---- damage


def test_damaged_pages_are_said(path: Path) -> None:
    with Memory(path) as memory:
        for n in range(200):
            memory.store_memory(f"question {n}", "answer " * 50)
    content = bytearray(path.read_bytes())
    content[4096:] = random.Random(1).randbytes(len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(StoreCorruptError, match="damaged"), Memory(path) as memory:
        memory.list_memories()


def test_closed_memory_says_so(path: Path) -> None:
    memory = Memory(path)
    memory.recall("hello")
    memory.close()
    memory.close()

    for use in (lambda: memory.recall("hello"), lambda: memory.store_memory("q", "a")):
        with pytest.raises(StoreError, match="closed"):
            use()


# ---- sudden death

WRITE_FOREVER = """
import sys
from shepherd.memory import Memory
from shepherd.types import Message
memory = Memory(sys.argv[1])
session = memory.start_session()
for n in range(int(sys.argv[2]), 10**9):
    print("m", memory.store_memory(f"question {n}", f"answer {n} " * 9), flush=True)
    memory.set_fact(f"key{n % 50}", str(n))
    print("f", f"key{n % 50}", n, flush=True)
    print("s", memory.append_message(session, Message("user", str(n))), flush=True)
"""


def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(path: Path) -> None:
    rng = random.Random(20)
    memories: set[int] = set()
    facts: dict[str, int] = {}
    for round_number in range(6):
        writer = programs.Popen(
            [sys.executable, "-c", WRITE_FOREVER, str(path), str(round_number * 100_000)],
            stdout=subprocess.PIPE,
            text=True,
            env=programs.in_utf8(),
        )
        assert writer.stdout is not None
        lines = [writer.stdout.readline().split() for _ in range(rng.randint(1, 400))]
        writer.kill()
        lines += [
            line.split() for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")
        ]
        writer.stdout.close()
        writer.wait()
        memories |= {int(line[1]) for line in lines if line[0] == "m"}
        facts |= {line[1]: int(line[2]) for line in lines if line[0] == "f"}

        with Memory(path) as memory:
            assert memory.check().problems == ()
            assert [n for n in memories if memory.get_memory(n) is None] == []
            # One more may have been stored than was said.
            assert {k: v for k, v in facts.items() if int(memory.get_fact(k) or -1) < v} == {}
            if any(line[0] == "s" for line in lines):
                n_messages = sum(1 for line in lines if line[0] == "s")
                assert len(memory.load_session()) in (n_messages, n_messages + 1)


# ---- several writers

WRITE_SOME = """
import sys
from shepherd.memory import Memory
memory = Memory(sys.argv[1], busy_timeout_s=60)
sys.stdin.readline()
for n in range(150):
    memory.store_memory(f"question {n} of {sys.argv[2]}", "answer")
    memory.set_fact(f"{sys.argv[2]} {n}", "value")
"""


def test_processes_that_create_and_write_at_once_lose_nothing(path: Path) -> None:
    writers = [
        programs.Popen(
            [sys.executable, "-c", WRITE_SOME, str(path), name],
            stdin=subprocess.PIPE,
            text=True,
            env=programs.in_utf8(),
        )
        for name in ("one", "two", "three")
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0

    with Memory(path) as memory:
        assert memory.count_memories() == 450
        assert len(memory.get_all_facts()) == 450
        assert len(memory.search("question", 1000)) == 450
        assert memory.check().problems == ()


def test_threads_that_read_and_write_at_once_lose_nothing(path: Path) -> None:
    failures: list[BaseException] = []

    def work(memory: Memory, name: str) -> None:
        try:
            for n in range(60):
                memory_id = memory.store_memory(f"question {n} of {name}", "answer")
                assert memory_id in [result.id for result in memory.search(f"{n} {name}", 60)]
                memory.recall("question")
        except BaseException as error:
            failures.append(error)

    with Memory(path) as memory:
        threads = [threading.Thread(target=work, args=(memory, f"thread{n}")) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        assert memory.count_memories() == 240
        assert memory.check().problems == ()

"""Whatever moment a conversion or a restore is killed at, one readable database has all that was stored."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native.store import HAS_CIPHERS
from shepherd.encryption import KeyEntry, MemoryKey, new_salt
from shepherd.encryption.key import USUAL_COST, master_key, new_master_text
from shepherd.encryption.unlocking import forget_all, text_of_file
from shepherd.errors import StoreLockedError
from shepherd.memory import Memory
from shepherd.memory.conversion import convert, database_to_convert
from tests import programs
from tests.examples import examples
from tests.memory.blind import forget_keys

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")

PROGRAM = Path(__file__).with_name("converting.py")
ROOT = PROGRAM.parents[2]
# Lines of conversion.py that a conversion runs, and its time in microseconds: a bit more than either.
LINES, MICROSECONDS = 110, 40_000
# In each example; with --deep there are 20.
N_KILLS = 30


@pytest.fixture(autouse=True)
def no_key_is_left() -> Iterator[None]:
    """Let later tests of this process know none of these keys."""
    yield
    forget_keys()


class Converter:
    """The program that converts and is killed."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.keys = [database.with_name(f"key{i}") for i in range(2)]
        for path in self.keys:
            path.write_text(new_master_text())
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def convert(self, new: str, **moment: int) -> str:
        return self._do({"new": new, **moment})

    def restore(self, backup: Path, line: int) -> str:
        return self._do({"backup": str(backup), "kill_at_line": line})

    def _do(self, order: dict[str, str | int]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order["database"] = str(self.database)
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(10) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()


@settings(max_examples=examples(1))
@given(seed=st.integers(0, 1 << 32))
def test_killed_conversions_leave_one_readable_database(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, choose = tmp_path_factory.mktemp("kills") / "memory.db", random.Random(seed)
    converter = Converter(path)
    stored = 0
    results: list[str] = []
    for i in range(N_KILLS):
        with Memory(path, user_id="steve") as memory:
            # It may be a readable copy of an encrypted memory.
            assert not list(path.parent.glob("*.converting*"))
            memory.store_memory(f"canary {stored}", "what was acknowledged " * 40)
            stored += 1
            assert memory.count_memories() == stored
            assert i % 10 or memory.check().problems == ()
        new = choose.choice(["", *map(str, converter.keys)])
        if i % 2:
            results.append(converter.convert(new, kill_at_line=choose.randrange(1, LINES)))
        else:
            results.append(converter.convert(new, kill_after_us=choose.randrange(1, MICROSECONDS)))
    converter.close()

    forget_all()
    with Memory(path, user_id="steve") as memory:
        assert memory.check().problems == ()
        assert memory.count_memories() == stored
        assert memory.search(f"canary {stored - 1}")
    # Kills at a line don't depend on the machine's speed, as those after a time do: every second try.
    assert results[1::2].count("killed") >= N_KILLS // 10, results
    assert "failed" not in results


def test_a_restore_that_is_killed_leaves_the_old_database_or_the_new_one(tmp_path: Path) -> None:
    path, backup = tmp_path / "data" / "memory.db", tmp_path / "backup.db"
    path.parent.mkdir()
    converter = Converter(path)
    with Memory(path, user_id="steve") as memory:
        memory.set_fact("dog", "Rex")
    assert converter.convert(str(converter.keys[0]), kill_at_line=1 << 30) == "done"
    with Memory(path, user_id="steve") as memory:
        memory.backup(backup)
        memory.set_fact("dog", "Max")
    assert converter.convert(str(converter.keys[1]), kill_at_line=1 << 30) == "done"
    forget_all()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    seen, line = set(), 0

    result = "killed"
    while result == "killed":
        line += 2
        for file in path.parent.iterdir():
            file.unlink()
        for name, data in before.items():
            (path.parent / name).write_bytes(data)
        result = converter.restore(backup, line)
        with Memory(path, user_id="steve") as memory:
            dog = memory.get_fact("dog")
            seen.add(dog)
        assert not list(path.parent.glob("*.restoring*"))
        if dog == "Rex":
            with Memory(f"{path}.before-restore", user_id="steve", read_only=True) as kept:
                assert kept.get_fact("dog") == "Max"
        forget_all()
    converter.close()

    assert (result, seen) == ("done", {"Rex", "Max"})
    assert line > 20


def test_the_copy_of_a_killed_conversion_goes_when_the_memory_is_opened_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    Memory(path).close()
    left = [Path(f"{path}.converting{end}") for end in ("", "-wal", "-shm")]
    for part in left:
        part.write_bytes(b"canary")

    Memory(path, read_only=True).close()
    assert left[0].exists()
    Memory(path).close()

    assert not any(part.exists() for part in left)


def test_writes_of_others_are_never_lost_to_a_conversion(tmp_path: Path) -> None:
    path, key_file = tmp_path / "memory.db", tmp_path / "key"
    key_file.write_text(new_master_text())
    writing = (
        "import itertools, os, sys; from shepherd.memory import Memory\n"
        "for i in itertools.count():\n"
        "    with Memory(sys.argv[1], user_id='steve', busy_timeout_s=60) as memory:\n"
        "        memory.store_memory(f'canary {i}', 'x')\n"
        "    print(i, flush=True)\n"
        "    if os.path.exists(sys.argv[2]): break\n"
    )
    with Memory(path, user_id="steve"):
        pass
    with programs.Popen(
        [sys.executable, "-c", writing, str(path), str(tmp_path / "stop")],
        stdout=subprocess.PIPE,
        text=True,
        env=programs.in_utf8(),
    ) as writer:
        assert writer.stdout is not None
        acknowledged: list[str] = []
        reading = threading.Thread(target=lambda: acknowledged.extend(writer.stdout or ()))
        reading.start()
        n_done = 0
        while n_done < 6 and reading.is_alive():
            try:
                file, old = database_to_convert(path)
                salt = new_salt()
                key = MemoryKey(master_key(text_of_file(key_file), salt, USUAL_COST), salt)
                entry = KeyEntry(salt, "file", key.check, str(key_file))
                convert(file, old, key, entry)
                n_done += 1
            except StoreLockedError:
                time.sleep(0.002)
            # The writer can begin in between.
            time.sleep(0.005)
        (tmp_path / "stop").touch()
        reading.join()

    assert writer.returncode == 0
    assert n_done == 6
    with Memory(path, user_id="steve") as memory:
        assert len(acknowledged) == memory.count_memories() > 0
        assert memory.check().problems == ()

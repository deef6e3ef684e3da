"""How fast are memories stored, one by one and in bulk, and what does a bulk import do to those who read?

Ours: `Memory.store_memory`, each a transaction of its own that is acknowledged (WAL, synchronous=NORMAL), and
`Memory.import_memories`, to the end of its merging. Reference: the stdlib's sqlite3 in a process of its own,
one INSERT into a table and one into FTS5's per memory, committed one by one, and in transactions of 500.
Reads: a thread enriches messages of another user, before an import and during one, by a thread of the same
process and by a process of its own.

    python -m pytest bench/test_writes.py --benchmark-only -s
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.small import JUDGED, sized
from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import NOW

ROOT = Path(__file__).resolve().parent.parent
N_MEMORIES = sized(30_000, 2_000)
N_SINGLE = sized(3_000, 200)
N_READS = sized(1_500, 100)
# At least this many times the reference's rate.
BAR_SINGLE, BAR_BULK = 1 / 6, 1 / 6


def _lines(start: int, stop: int) -> Iterator[dict[str, Any]]:
    yield {"type": "shepherd-export", "version": 1}
    for one in corpus.build(N_MEMORIES + N_SINGLE, 1).memories[start:stop]:
        yield {
            "type": "memory",
            "question": one.question,
            "answer": one.answer,
            "timestamp": one.timestamp,
            "source": "turn",
            "session": "",
            "pinned": False,
        }


# Twelve made-up words alone look like a recovery phrase, so all memories here keep secrets.


def _import(path: str) -> float:
    """Memories a second, in a process of its own as by `shepherd memory import`."""
    from shepherd.memory import Memory

    lines = list(_lines(0, N_MEMORIES))
    print("ready", flush=True)
    sys.stdin.readline()
    with Memory(path, keeps_secrets=True) as memory:
        began = time.perf_counter()
        counts = memory.import_memories(lines, "importer")
        seconds = time.perf_counter() - began
    assert counts.memories == N_MEMORIES
    return N_MEMORIES / seconds


def _stdlib() -> tuple[float, float]:
    """Memories a second, one by one and in bulk."""
    rows = [(one["question"], one["answer"]) for one in list(_lines(0, N_MEMORIES + N_SINGLE))[1:]]
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "memory.db", isolation_level=None)
        connection.executescript("""
            PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
            CREATE TABLE context (id INTEGER PRIMARY KEY, user_message TEXT, assistant_response TEXT);
            CREATE VIRTUAL TABLE context_fts USING fts5 (user_message, assistant_response,
                content = 'context', content_rowid = 'id', tokenize = 'porter unicode61');
        """)

        def store(start: int, stop: int, size: int) -> float:
            began = time.perf_counter()
            for first in range(start, stop, size):
                connection.execute("BEGIN")
                for i in range(first, min(first + size, stop)):
                    connection.execute("INSERT INTO context VALUES (?, ?, ?)", (i, *rows[i]))
                    connection.execute(
                        "INSERT INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, ?)",
                        (i, *rows[i]),
                    )
                connection.execute("COMMIT")
            return (stop - start) / (time.perf_counter() - began)

        single, bulk = store(0, N_SINGLE, 1), store(N_SINGLE, len(rows), 500)
        connection.close()
    return single, bulk


class _Process:
    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "bench.test_writes", *arguments]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def result(self) -> Any:
        out, _ = self.process.communicate("\n")
        assert self.process.returncode == 0, "the measured process ended with an error, which is above"
        return json.loads(out.splitlines()[-1])


def _spread(times: list[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return statistics.median(ordered), ordered[len(ordered) * 99 // 100]


def _reads_until(memory: Any, questions: list[str], is_over: Callable[[], bool], least: int) -> list[float]:
    """Microseconds of messages of `reader`, at least so many, one every two milliseconds."""
    times: list[float] = []
    while len(times) < least or not is_over():
        began = time.perf_counter()
        memory.enrich(questions[len(times) % len(questions)], "reader")
        times.append(1e6 * (time.perf_counter() - began))
        time.sleep(0.002)
    return times


def test_writes(benchmark: Any, tmp_path: Path) -> None:
    from shepherd.memory import Memory

    lines = list(_lines(0, N_MEMORIES + N_SINGLE))
    single = lines[1 : N_SINGLE + 1]
    bulk = [lines[0], *lines[N_SINGLE + 1 :]]
    with Memory(tmp_path / "single.db", clock=lambda: float(NOW), keeps_secrets=True) as memory:
        began = time.perf_counter()
        for one in single:
            memory.store_memory(one["question"], one["answer"], timestamp=one["timestamp"])
        single_rate = N_SINGLE / (time.perf_counter() - began)

    def measure() -> float:
        with Memory(tmp_path / "bulk.db", clock=lambda: float(NOW), keeps_secrets=True) as memory:
            began = time.perf_counter()
            assert memory.import_memories(bulk).memories == N_MEMORIES
            return N_MEMORIES / (time.perf_counter() - began)

    bulk_rate = benchmark.pedantic(measure, rounds=1)
    stdlib_single, stdlib_bulk = _Process("stdlib").result()
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")
    print(f"  one by one  {single_rate:8,.0f} a second, stdlib sqlite3 {stdlib_single:8,.0f}")
    print(f"  in bulk     {bulk_rate:8,.0f} a second, stdlib sqlite3 {stdlib_bulk:8,.0f}")
    assert single_rate >= BAR_SINGLE * stdlib_single or not JUDGED
    assert bulk_rate >= BAR_BULK * stdlib_bulk or not JUDGED


def test_reads_beside_an_import(benchmark: Any, tmp_path: Path) -> None:
    from shepherd.memory import Memory

    path = tmp_path / "memory.db"
    built = corpus.build(3_000, 1)
    questions = [" ".join(words) for _, words in built.questions]
    with Memory(path, clock=lambda: float(NOW), keeps_secrets=True) as memory:
        for one in built.memories:
            memory.store_memory(one.question, one.answer, "reader", timestamp=one.timestamp)
        store: Any = memory._store
        _reads_until(memory, questions, lambda: True, 100)
        assert store._recall.wait()
        times = {"idle": _reads_until(memory, questions, lambda: True, N_READS)}

        lines = list(_lines(0, N_MEMORIES))
        thread = threading.Thread(target=memory.import_memories, args=(lines, "another"))
        thread.start()
        times["a thread imports"] = _reads_until(memory, questions, lambda: not thread.is_alive(), 100)
        thread.join()

        process = _Process("import", str(path))
        assert process.process.stdout is not None
        assert process.process.stdin is not None
        process.process.stdout.readline()
        process.process.stdin.write("\n")
        process.process.stdin.flush()

        def beside() -> list[float]:
            return _reads_until(memory, questions, lambda: process.process.poll() is not None, 100)

        times["a process imports"] = benchmark.pedantic(beside, rounds=1)
        rate = process.result()
    print(f"\nreads of a user of 3,000 memories, another process imports {rate:,.0f} a second")
    idle = _spread(times["idle"])[1]
    for name, values in times.items():
        p50, p99 = _spread(values)
        times_idle = f"{p99 / idle:5.1f} times idle, {len(values)} reads"
        print(f"  {name:<18} p50 {p50:7.1f} us   p99 {p99:8.1f} us, {times_idle}")


if __name__ == "__main__":
    print(json.dumps(_stdlib() if sys.argv[1] == "stdlib" else _import(sys.argv[2])))

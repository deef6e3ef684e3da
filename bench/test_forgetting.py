"""Cost of overwriting for a write, and the time that forgetting takes.

Ours: `store_memory`, `delete_memory` and `delete_memories`, after which no file has the words. Reference: the
same database told to overwrite nothing (`secure_delete` and FTS5's `secure-delete` off), and a deletion that
leaves the log and all copies. The two take turns, a few hundred memories each, so that both meet the same
machine.

    python -m pytest bench/test_forgetting.py --benchmark-only -s
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.small import JUDGED, sized
from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import NOW

N_MEMORIES = sized(30_000, 1_000)
N_ROUNDS = sized(10, 2)
N_WRITTEN = sized(300, 20)
N_FORGOTTEN = sized(60, 5)
N_AT_ONCE = sized(1_000, 50)
# At most this many times the write that overwrites nothing.
BAR = 1.3


def _each(work: Callable[[Any], object], items: Sequence[Any]) -> list[float]:
    times = []
    for item in items:
        began = time.perf_counter()
        work(item)
        times.append(1e6 * (time.perf_counter() - began))
    return times


def _overwrite(memory: Any, wanted: bool) -> None:
    with memory._store._database._on_writer() as writer:
        writer.execute(f"PRAGMA secure_delete = {int(wanted)}")
        for table in ("context_fts", "chunks_fts"):
            writer.execute(f"INSERT INTO {table}({table}, rank) VALUES('secure-delete', {int(wanted)})")


def test_forgetting(benchmark: Any, tmp_path: Path) -> None:
    from shepherd.memory import Memory, NewMemory, memories

    n_more = 2 * N_ROUNDS * N_WRITTEN
    built = corpus.build(N_MEMORIES + n_more, 1).memories
    new = [NewMemory(one.question, one.answer, one.timestamp, "turn") for one in built]
    # Twelve made-up words alone look like a recovery phrase, so this memory keeps secrets.
    with Memory(tmp_path / "memory.db", clock=lambda: float(NOW), keeps_secrets=True) as memory:
        store: Any = memory._store
        for start in range(0, N_MEMORIES, 500):
            store.add_memories("local", new[start : start + 500])
        written: dict[bool, list[float]] = {True: [], False: []}
        waiting = iter(new[N_MEMORIES:])

        def take_turns() -> None:
            for turn in range(2 * N_ROUNDS):
                overwrites = turn % 2 == 0
                _overwrite(memory, overwrites)
                some = [[next(waiting)] for _ in range(N_WRITTEN)]
                written[overwrites] += _each(lambda one: store.add_memories("local", one), some)

        benchmark.pedantic(take_turns, rounds=1)
        ids = [record.id for record in memory.list_memories(limit=2 * N_FORGOTTEN + 2 * N_AT_ONCE)]

        def leave(some: Sequence[int]) -> None:
            store.write("local", lambda connection: memories.delete(connection, 1, some, store.terms))

        _overwrite(memory, False)
        left = _each(lambda one: leave([one]), ids[:N_FORGOTTEN])
        left_at_once = _each(leave, [ids[N_FORGOTTEN : N_FORGOTTEN + N_AT_ONCE]])[0]
        ids = ids[N_FORGOTTEN + N_AT_ONCE :]
        _overwrite(memory, True)
        forgotten = _each(memory.delete_memory, ids[:N_FORGOTTEN])
        at_once = _each(memory.delete_memories, [ids[N_FORGOTTEN : N_FORGOTTEN + N_AT_ONCE]])[0]
        assert memory.check().ok
    on, off = (statistics.median(written[which]) for which in (True, False))
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")
    print(f"{N_MEMORIES:,} memories of one user")
    print(f"  a write     {on:8,.1f} us, overwriting nothing {off:8,.1f} us: {on / off:.2f} times")
    one, one_left = (statistics.median(times) / 1e3 for times in (forgotten, left))
    print(f"  forget one  {one:8,.2f} ms, to leave it in free pages and the log {one_left:8,.2f} ms")
    print(f"  {N_AT_ONCE:,} at once {at_once / 1e3:8,.1f} ms, to leave them {left_at_once / 1e3:8,.1f} ms")
    assert on <= BAR * off or not JUDGED

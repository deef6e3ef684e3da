"""Time of the first sync of a large memory and of one after a change, and what the log costs a write.

Two machines in one process, with one folder between them. The first sync of each is timed, then turns of one
change on one machine and a sync of both: a memory that is added, one that is edited, and one that is
forgotten, for which a segment is written anew. Memories are stored into a synced and an unsynced database
in turns.

    python -m pytest bench/test_sync.py --benchmark-only -s          100,000 memories, a minute
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.small import JUDGED, sized
from shepherd.benchmark import corpus
from shepherd.memory import Memory
from shepherd.memory.records import NewMemory
from shepherd.sync import sync

N_MEMORIES = sized(100_000, 1_000)
N_CHANGES = sized(10, 2)
N_WRITES = sized(1_000, 50)
BATCH, TURN = 500, 10
BAR_FIRST_S, BAR_LATER_S, BAR_WRITES = 60.0, 1.0, 1.3


def _filled(path: Path, n: int) -> Memory:
    memory = Memory(path, user_id="steve", keeps_secrets=True)
    made = corpus.build(n, 1).memories
    new = [NewMemory(one.question, one.answer, one.timestamp, "turn", "s") for one in made]
    for start in range(0, n, BATCH):
        memory._store.add_memories("steve", new[start : start + BATCH])
    memory._store.settle()
    return memory


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _later(first: Memory, second: Memory, both: Callable[[], object]) -> dict[str, float]:
    """Return the median time of a sync of both machines after a change of each kind."""
    times: dict[str, list[float]] = {"added": [], "edited": [], "forgotten": []}
    for number in range(N_CHANGES):
        first.store_memory(f"solime {number} padaro", "vikuro nalemi " * 10)
        times["added"].append(_seconds(both))
        [old] = second.list_memories(limit=1, offset=7 * number + 3)
        second.edit_memory(old.id, answer=f"edited {number}")
        times["edited"].append(_seconds(both))
        [old] = first.list_memories(limit=1, offset=N_MEMORIES // 2)
        first.delete_memory(old.id)
        times["forgotten"].append(_seconds(both))
    return {kind: statistics.median(taken) for kind, taken in times.items()}


def _writes(synced: Memory, unsynced: Memory) -> dict[str, float]:
    """Return the median microseconds of storing a memory, in turns."""
    times: dict[str, list[float]] = {"synced": [], "unsynced": []}
    sides = {"synced": synced, "unsynced": unsynced}
    for start in range(0, N_WRITES, TURN):
        order = list(sides) if (start // TURN) % 2 else list(sides)[::-1]
        for side in order:
            for number in range(start, start + TURN):
                question = f"tomika {number} rudase"
                memory = sides[side]
                began = time.perf_counter()
                memory.store_memory(question, "vikuro nalemi " * 10)
                times[side].append(1e6 * (time.perf_counter() - began))
    return {side: statistics.median(taken) for side, taken in times.items()}


def test_a_sync(benchmark: Any, tmp_path: Path) -> None:
    def measure() -> dict[str, dict[str, float]]:
        folder = tmp_path / "folder"
        folder.mkdir()
        with (
            _filled(tmp_path / "first.db", N_MEMORIES) as first,
            Memory(tmp_path / "second.db", user_id="steve") as second,
            _filled(tmp_path / "unsynced.db", N_MEMORIES) as unsynced,
        ):

            def one(memory: Memory) -> None:
                sync(memory, folder, lambda is_new: "four random words here")

            times = {"written": _seconds(lambda: one(first)), "read": _seconds(lambda: one(second))}
            assert second.count_memories() == first.count_memories() == N_MEMORIES

            def both() -> None:
                for memory in (first, second, first):
                    one(memory)

            later = _later(first, second, both)
            assert second.count_memories() == first.count_memories()
            return {"first": times, "later": later, "writes": _writes(first, unsynced)}

    figures = benchmark.pedantic(measure, rounds=1)
    first, later, writes = figures["first"], figures["later"], figures["writes"]
    print(f"\n{N_MEMORIES:,} memories first: written {first['written']:.1f} s, read {first['read']:.1f} s")
    for kind, seconds in later.items():
        print(f"  one {kind:9} both machines synced in {seconds:.3f} s")
    ratio = writes["synced"] / writes["unsynced"]
    print(f"  store: synced p50 {writes['synced']:.1f} us, unsynced {writes['unsynced']:.1f} us, {ratio:.3f}")
    if JUDGED:
        assert sum(first.values()) <= BAR_FIRST_S
        assert max(later.values()) <= BAR_LATER_S
        assert ratio <= BAR_WRITES

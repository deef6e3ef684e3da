"""What each figure of the bench is taken from: which calls, how many, in which order, and its ratios."""

from __future__ import annotations

import math
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shepherd.benchmark import Line, Timed, corpus, measure, speed
from shepherd.benchmark.speed import (
    _alone,
    _beside,
    _import_steadily,
    _lines,
    _Peer,
    _Run,
    _seconds,
    _timed,
    _with_ratio,
    _with_round_trips,
    _write_steadily,
)
from shepherd.errors import InternalError, UsageError
from shepherd.memory import Memory


@pytest.fixture(scope="module")
def data() -> corpus.Corpus:
    return corpus.build(60, 3, 120)


def run_of(tmp_path: Path, data: corpus.Corpus, told: list[tuple[str, int, int]] | None = None) -> _Run:
    told = [] if told is None else told
    return _Run(
        str(tmp_path / "memory.db"),
        data,
        0.9,
        lambda what, done, total: told.append((what, done, total)),  # type: ignore[union-attr]
    )


def exported(memory: Memory, user: str) -> list[dict[str, object]]:
    return [row for row in memory.export_memories(user) if row["type"] == "memory"]


# ---- times


def test_a_time_is_the_median_and_the_99th_percentile() -> None:
    assert _timed([3.0, 1.0, 2.0]) == Timed(2.0, 3.0, 3)
    assert _timed([float(n) for n in range(200, 0, -1)]) == Timed(101.0, 199.0, 200)
    assert _timed([5.0]) == Timed(5.0, 5.0, 1)


def test_a_ratio_is_the_peers_median_over_the_lines() -> None:
    line = Line("hot", "", Timed(2.0, 9.0, 1))

    assert _with_ratio(line, 10.0).ratio == 5.0
    assert _with_ratio(line, 0.0) == line
    assert _with_ratio(Line("bulk", "", per_second=1.0), 10.0).ratio == 0
    assert _with_ratio(Line("stdlib", "", Timed(2.0, 9.0, 1)), 10.0).ratio == 0


def test_round_trips_are_of_what_asks_the_server() -> None:
    time_ = Timed(6.0, 9.0, 1)

    assert _with_round_trips(Line("fts5", "", time_), 2.0).round_trips == 3.0
    for name in ("hot", "hot-floor-0", "stdlib", "keywords"):
        assert _with_round_trips(Line(name, "", time_), 2.0).round_trips == 0
    assert _with_round_trips(Line("bulk", "", per_second=1.0), 2.0).round_trips == 0


def test_work_is_timed_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((5.0, 7.5))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    done = []

    assert _seconds(lambda *given: done.append(given), 1, 2) == 2.5

    assert done == [(1, 2)]


def test_questions_are_timed_one_by_one_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((1000, 3000, 5000, 9500))
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(clock))
    done: list[object] = []

    times = _alone(done.append, before=lambda: done.append("before"))([7, 8])

    assert times == [2.0, 4.5]
    assert done == ["before", 7, "before", 8]


def test_sides_take_turns_of_fifty_and_the_first_round_does_not_count(
    tmp_path: Path, data: corpus.Corpus
) -> None:
    told: list[tuple[str, int, int]] = []
    asked: list[tuple[str, range]] = []

    def side(name: str) -> Callable[[Sequence[int]], list[float]]:
        def turn(numbers: Sequence[int]) -> list[float]:
            asked.append((name, numbers))  # type: ignore[arg-type]
            return [float(len(asked))] * len(numbers)

        return turn

    times = run_of(tmp_path, data, told)._in_turns("asking", {name: side(name) for name in "ab"})

    turns = [range(50), range(50, 100), range(100, 120)]
    assert [numbers for name, numbers in asked if name == "a"] == turns * 4
    # Who begins changes with each turn, and from round to round.
    firsts = [name for name, _ in asked[::2]]
    assert firsts == list("bab" + "aba") * 2
    assert told == [("asking", done + at, 480) for done in (0, 120, 240, 360) for at in (0, 50, 100)]
    assert {name: timed.n for name, timed in times.items()} == {"a": 360, "b": 360}
    assert min(timed.p50_us for timed in times.values()) > 6  # turns 1 to 6 are the first round


def test_a_servers_tables_are_asked_a_few_questions_twice(tmp_path: Path, data: corpus.Corpus) -> None:
    run = _Run("postgresql://host/db", data, 0.9, lambda what, done, total: None)
    asked: list[int] = []

    def side(numbers: Sequence[int]) -> list[float]:
        asked.extend(numbers)
        return [1.0] * len(numbers)

    assert run._in_turns("asking", {"a": side}, are_cold=True)["a"].n == 40
    assert asked == [*range(40), *range(40)]
    assert run._in_turns("asking", {"a": side})["a"].n == 360
    assert run_of(tmp_path, data)._in_turns("asking", {"a": side}, are_cold=True)["a"].n == 360
    assert (run._cold, run_of(tmp_path, data)._cold) == ("tables", "FTS5")


def test_what_does_not_come_in_time_is_told(
    tmp_path: Path, data: corpus.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter((100.0, 159.9, 160.0, 160.1))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    told: list[tuple[str, int, int]] = []
    asked: list[None] = []

    with pytest.raises(UsageError, match=r"^loading: not done after 60 s$") as caught:
        run_of(tmp_path, data, told)._await("loading", lambda: asked.append(None))  # type: ignore[arg-type,func-returns-value]

    assert caught.value.hint == "measure fewer memories, or while the machine is idle"
    assert told == [("loading", 0, 0)]
    assert len(asked) == 3

    done = iter((False, False, True))
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    run_of(tmp_path, data)._await("loading", lambda: next(done))


# ---- storing


def test_memories_are_stored_in_batches_of_their_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = corpus.build(60, 3, 10)
    monkeypatch.setattr(speed, "_BATCH", 15)
    took: list[object] = []
    monkeypatch.setattr(speed, "_seconds", lambda work, *given: took.append(work(*given)) or 0.5)
    told: list[tuple[str, int, int]] = []

    rate = run_of(tmp_path, data, told).store()

    # With the merge of the index at the end.
    assert rate == 60 / (0.5 * len(took))
    assert {what for what, _, _ in told} == {"storing"}
    assert {total for _, _, total in told} == {60}
    done = [n for _, n, _ in told]
    sizes = [b - a for a, b in zip([0, *done], done)]  # noqa: B905 - one less
    assert done[-1] == 60
    assert len(took) == len(sizes) + 1
    n_of = [len(data.memories.places_of(user)) for user in range(3)]
    assert sorted(sizes) == sorted(size for n in n_of for size in [15] * (n // 15) + [n % 15] if size)
    with Memory(tmp_path / "memory.db") as memory:
        for user, n in enumerate(n_of):
            rows = exported(memory, f"user{user}")
            assert len(rows) == n
            expected = {(one.question, one.answer) for one in data.memories.of_user(user)}
            assert {(row["question"], row["answer"]) for row in rows} == expected


# ---- the peer


def test_the_peer_answers_by_numbers_of_questions(tmp_path: Path) -> None:
    with _Peer(60, 3, 20) as peer:
        assert (peer.version, peer.per_second) == ("", 0.0)
        peer.start()
        assert peer.version == sqlite3.sqlite_version
        assert peer.per_second > 0
        times = peer.ask([0, 19])
        assert len(times) == 2
        assert min(times) > 0
        process = peer._process
    assert process is not None
    assert process.returncode == 0


def test_a_peer_that_cannot_run_here_has_no_figures() -> None:
    with _Peer(1, 1, 1) as peer:
        peer._command = [sys.executable, "-c", "print('{}')"]
        peer.start()

    assert (peer.version, peer.per_second) == ("", 0.0)


def test_a_peer_that_ends_early_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with _Peer(1, 1, 1) as peer:
        peer._command = [sys.executable, "-c", ""]
        with pytest.raises(InternalError, match="the process of the peer ended early"):
            peer.start()


# ---- threads beside


def test_a_thread_runs_until_the_block_ends_and_its_error_is_raised() -> None:
    seen: list[threading.Event] = []
    with _beside(lambda stop: seen.append(stop) or stop.wait(30)):  # type: ignore[func-returns-value]
        pass
    assert seen[0].is_set()

    def failing(stop: threading.Event) -> None:
        raise UsageError("it failed")

    with pytest.raises(UsageError, match="it failed"), _beside(failing):
        pass


def test_a_writer_keeps_its_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Stop:
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) > 5

    now = iter([10.0, *(10.0 + 0.001 * i for i in range(12)), 10.05, 10.05, 10.05, 10.05])
    with Memory(tmp_path / "memory.db") as memory:
        rates: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: next(now, 10.05))
        _write_steadily(memory, Stop(), rates)  # type: ignore[arg-type]
        monkeypatch.undo()
        rows = exported(memory, "writer")

    assert len(rows) == 5
    assert {row["question"] for row in rows} == {f"line {n} of the log" for n in range(5)}
    # It waits for the time of the next of 500 a second, or not at all.
    assert waits[0] == 0.0
    assert max(waits) <= 0.01
    assert min(waits) >= 0.0
    assert len(rates) == 1
    assert rates[0] > 0


def test_an_import_repeats_until_it_is_stopped(tmp_path: Path, data: corpus.Corpus) -> None:
    stop = threading.Event()
    lines = _lines(data, stop, 1)
    first = next(lines)
    assert first["question"].startswith(data.memories[0].question + " ")
    assert first["answer"] == data.memories[0].answer
    stop.set()
    assert list(lines) == []

    class Twice(threading.Event):
        """Set when it was asked so often that everything was imported twice."""

        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 1 + len(data.memories) + 1 + len(data.memories)

    with Memory(tmp_path / "memory.db") as memory:
        _import_steadily(memory, data, Twice())
        assert len(exported(memory, "importer")) == 2 * len(data.memories)


# ---- the whole


@pytest.mark.parametrize(("n_memories", "n_users"), [(0, 0), (0, 1), (5, 6), (20_000_001, 1)])
def test_impossible_numbers_are_refused(n_memories: int, n_users: int) -> None:
    with pytest.raises(UsageError) as caught:
        measure(n_memories, n_users)

    assert caught.value.hint == "at least one memory a user, at most 20,000,000 memories"


def test_figures_are_of_so_many_calls_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(speed, "N_SINGLE", 30)
    monkeypatch.setattr(speed, "N_QUESTIONS", 20)
    told: list[tuple[str, int, int]] = []

    report = measure(20, 2, recency_floor=0.5, progress=lambda *given: told.append(given))

    figures = {line.name: line for line in report.lines}
    n = {name: line.time.n for name, line in figures.items() if line.time}
    searches = ("hot", "hot-floor-0", "fts5", "search-hot", "search-fts5", "stdlib")
    assert n == {
        **dict.fromkeys((*searches, "inject", "inject-writer", "search-import"), 3 * 20),
        "keywords": 20,
        "single": 30,
    }
    peer = figures["stdlib"].time
    assert peer is not None
    for name, line in figures.items():
        expected = 0.0
        if name in searches and name != "stdlib" and line.time:
            expected = peer.p50_us / line.time.p50_us
        assert math.isclose(line.ratio, expected), name
        assert line.round_trips == 0
    assert {name for name, line in figures.items() if line.per_second} == {"bulk", "stdlib-bulk", "single"}
    assert {line.name: line.what for line in report.lines} | {"inject-writer": ""} == {
        "hot": "ranking, hot index, floor 0.5",
        "hot-floor-0": "ranking, hot index, floor 0",
        "fts5": "ranking, FTS5, floor 0.5",
        "search-hot": "search with its rows, hot index",
        "search-fts5": "search with its rows, FTS5",
        "stdlib": "the same, stdlib sqlite3: bm25() … LIMIT 3",
        "inject": "whole injection, 8 facts, hot index",
        "inject-writer": "",
        "keywords": "keywords of a message",
        "bulk": "memories stored in bulk",
        "stdlib-bulk": "the same, stdlib sqlite3",
        "single": "one write, acknowledged",
        "search-import": "search with its rows, hot index, beside an import",
    }
    assert (report.memories, report.users, report.questions) == (20, 2, 20)
    assert report.data == corpus.build(20, 2, 20).digest
    assert (report.peer, report.server) == (sqlite3.sqlite_version, "")
    assert report.load >= 0
    assert list(dict.fromkeys(what for what, _, _ in told)) == [
        "making memories",
        "storing",
        "waiting for the peer",
        "building hot indexes",
        "ranking",
        "ranking by the tables",
        "loading hot indexes",
        "searching",
        "injecting",
        "injecting beside a writer",
        "writing",
        "searching beside an import",
    ]
    assert list(tmp_path.iterdir()) == []
    assert [(done, total) for what, done, total in told if what == "writing"] == [(i, 30) for i in range(30)]

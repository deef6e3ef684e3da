"""Shared by the benches: two contestants that give the same answer, timed in turns in one run."""

from __future__ import annotations

import hashlib
import platform
import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any

import pytest

from bench.small import IN_SMALL, sized

ROUNDS = sized(15, 3)
# Long enough that the clock's grain and one call's overhead do not count.
LEAST_ROUND_S = 0.002

_lines: list[str] = []


def _loops(contestant: Callable[[], Any]) -> int:
    """Calls that fill one round; makes them, so that caches are warm."""
    loops = 1
    while timeit.timeit(contestant, timer=time.process_time, number=loops) < LEAST_ROUND_S:
        loops *= 2
    return loops


def _report(question: str, data: object, ours: list[float], peer: list[float]) -> float:
    ratio = statistics.median(peer) / statistics.median(ours)
    digest = hashlib.sha256(repr(data).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    columns = [
        f"{statistics.median(times) * 1e6:10.2f} us (from {min(times) * 1e6:.2f} to {max(times) * 1e6:.2f})"
        for times in (ours, peer)
    ]
    _lines.append(f"{question}: ours {columns[0]}, peer {columns[1]}, ratio {ratio:.1f}, data {digest}")
    return ratio


@pytest.fixture
def contest(benchmark: Any) -> Callable[..., float]:
    """contest(question, data, ours, peer): how many times faster ours(data) is than peer(data).

    Both have to give the same answer first; they run in alternating order and the medians are compared. The
    clock is the process's own CPU time, so that a busy machine does not decide.
    """

    def run(
        question: str, data: object, ours: Callable[[Any], object], peer: Callable[[Any], object]
    ) -> float:
        assert ours(data) == peer(data)
        contestants = [lambda: ours(data), lambda: peer(data)]
        loops = [_loops(contestant) for contestant in contestants]
        times: list[list[float]] = [[], []]
        for number in range(ROUNDS):
            for i in (0, 1) if number % 2 == 0 else (1, 0):
                total = timeit.timeit(contestants[i], timer=time.process_time, number=loops[i])
                times[i].append(total / loops[i])
        benchmark.pedantic(ours, args=(data,), rounds=ROUNDS, iterations=loops[0])
        benchmark.extra_info["ratio"] = _report(question, data, *times)
        return float(benchmark.extra_info["ratio"])

    return run


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the contests below pytest-benchmark's table; in small, that all of these figures are none."""
    if IN_SMALL:
        terminalreporter.section(
            "in small: that the benches work is asserted, how fast they are says nothing"
        )
    if _lines:
        machine = f"Python {platform.python_version()}, {platform.processor() or platform.machine()}"
        terminalreporter.section(f"contests: {machine}")
        for line in _lines:
            terminalreporter.write_line(line)

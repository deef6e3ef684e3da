"""How long until `shepherd --help` has answered, next to Python that does nothing?

Whole processes, taking turns, clock time from start to end.

    python -m pytest bench/test_startup.py --benchmark-only -s
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 21
# A person takes less for immediate; the bar is the project's own.
BAR_MS = 150
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "shepherd --help": [str(Path(sys.executable).with_name("shepherd")), "--help"],
}


def _milliseconds(command: list[str]) -> float:
    first = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return 1e3 * (time.perf_counter() - first)


def _alternate() -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            figures[name].append(_milliseconds(command))
    return figures


def test_help_is_there_at_once(benchmark) -> None:
    figures = benchmark.pedantic(_alternate, rounds=1, warmup_rounds=1)

    print()
    for name, values in figures.items():
        print(f"  {name:<16} {statistics.median(values):6.1f} ms   {min(values):6.1f} .. {max(values):.1f}")
    assert statistics.median(figures["shepherd --help"]) < BAR_MS

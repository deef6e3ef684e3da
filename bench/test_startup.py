"""How long until `shepherd --help` has answered, next to Python that does nothing; and until one can talk?

Whole processes, taking turns, clock time from start to end; of the chat until its prompt stands, of the whole
screen until the model is ready, both with the model that comes with Shepherd and a home folder of their own.
Beside them the time of `import numpy, llama_cpp`, as programs with a local model begin. Modules are compiled
in the warm-up, as they are for users, also where PYTHONDONTWRITEBYTECODE is set.

    python -m pytest bench/test_startup.py --benchmark-only -s
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pexpect

from bench.small import JUDGED, sized

ROUNDS = sized(21, 3)
# A person takes less for immediate; the bar is the project's own.
BAR_MS = 150
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "shepherd --help": [str(Path(sys.executable).with_name("shepherd")), "--help"],
}


# The floor of a program that imports the package as its users do.
PEER = [sys.executable, "-c", "import numpy, llama_cpp"]
# Arguments, what is shown when a message can be typed, and the bar.
TALKS = {
    "shepherd chat": (["chat"], "Ctrl-D quits.*> ", 500),
    "shepherd tui": (["tui"], "memory on", 1000),
}


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("XDG_") and name != "PYTHONDONTWRITEBYTECODE"
    }


def _milliseconds(command: list[str]) -> float:
    first = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=_environment())
    return 1e3 * (time.perf_counter() - first)


def _alternate() -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            figures[name].append(_milliseconds(command))
    return figures


def _milliseconds_until(arguments: list[str], shown: str, home: Path) -> float:
    first = time.perf_counter()
    child = pexpect.spawn(
        sys.executable,
        ["-m", "shepherd", *arguments],
        env={**_environment(), "HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        dimensions=(24, 80),
        encoding="utf-8",
    )
    child.expect(f"(?s){shown}")
    taken = 1e3 * (time.perf_counter() - first)
    child.close(force=True)
    return taken


def test_one_can_talk_soon(benchmark, tmp_path) -> None:
    # The first start asks for a model; this is any later one.
    asked = tmp_path / ".local" / "state" / "shepherd" / "first-start"
    asked.parent.mkdir(parents=True)
    asked.touch()

    def alternate() -> dict[str, list[float]]:
        figures: dict[str, list[float]] = {name: [] for name in ("import llama_cpp", *TALKS)}
        for _ in range(ROUNDS // 3):
            figures["import llama_cpp"].append(_milliseconds(PEER))
            for name, (arguments, shown, _bar) in TALKS.items():
                figures[name].append(_milliseconds_until(arguments, shown, tmp_path))
        return figures

    figures = benchmark.pedantic(alternate, rounds=1, warmup_rounds=1)

    print()
    floor = statistics.median(figures["import llama_cpp"])
    for name, values in figures.items():
        median = statistics.median(values)
        print(
            f"  {name:<16} {median:6.0f} ms   {min(values):6.0f} .. {max(values):<6.0f} {median / floor:5.2f}"
        )
    for name, (_arguments, _shown, bar_ms) in TALKS.items():
        assert statistics.median(figures[name]) < bar_ms or not JUDGED


def test_help_is_there_at_once(benchmark) -> None:
    figures = benchmark.pedantic(_alternate, rounds=1, warmup_rounds=1)

    print()
    for name, values in figures.items():
        print(f"  {name:<16} {statistics.median(values):6.1f} ms   {min(values):6.1f} .. {max(values):.1f}")
    assert statistics.median(figures["shepherd --help"]) < BAR_MS or not JUDGED

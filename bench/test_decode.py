"""What does one more token cost beside the model's own work, alone and with a busy Python thread beside it?

Ours is Engine.complete, text and ids streamed to a reader; the peer is llama_cpp.Llama.generate, ids only.
The same tiny model, prompt, sampling and one compute thread; each measurement in a process of its own, sides
taking turns. A process counts with its least disturbed answer, and the ratio is the median over pairs of
neighbouring processes: a machine whose speed drifts does not decide. "wall" is the clock, "own" leaves
out the time that the thread of the answer stood in line for a core, so that the ratios hold on a machine that
does other things too. Both sides' greedy ids are compared before anything is timed.

    python -m pytest bench/test_decode.py --benchmark-only -s
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bench.small import JUDGED, sized

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = sized((200, 1000, 4000), (200,))
BUSY_LENGTH = sized(1000, 200)
# Processes per side, and answers in each.
ROUNDS = sized(9, 1)
ANSWERS = sized(3, 1)
N_CTX = 8192
PROMPT_TOKENS = 64
SIDES = ("shepherd", "llama_cpp.Llama")
# What Shepherd samples with by default.
SAMPLING = {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


class _Watch:
    """Seconds of each answer by the clock, and without the time that its thread stood in line for a core.

    What else the machine does shows in the first and not in the second; waiting for Python's lock, which is
    what a busy thread costs, shows in both. The kernel's count is Linux's; elsewhere the two are the same.
    """

    def __init__(self, thread_id: int) -> None:
        self._statistics = Path(f"/proc/self/task/{thread_id}/schedstat")
        self.wall: list[float] = []
        self.own: list[float] = []

    def _queued_s(self) -> float:
        return int(self._statistics.read_text().split()[1]) / 1e9 if self._statistics.exists() else 0.0

    def start(self) -> None:
        self._queued, self._started = self._queued_s(), time.perf_counter()

    def stop(self) -> None:
        wall = time.perf_counter() - self._started
        self.wall.append(wall)
        self.own.append(wall - (self._queued_s() - self._queued))


def _prompt() -> list[int]:
    return [33 + 7 * i % 90 for i in range(PROMPT_TOKENS)]


def _ours(model: str, n_tokens: int, greedy: bool) -> tuple[_Watch, list[int]]:
    from shepherd.inference import Engine, EngineSettings
    from shepherd.types import Sampling

    settings = EngineSettings(n_ctx=N_CTX, n_threads=1)
    sampling = Sampling(temperature=0.0) if greedy else Sampling(seed=1, **SAMPLING)
    with Engine(model, settings=settings) as engine:
        watch = _Watch(engine._thread.native_id or 0)
        for _ in range(ANSWERS):
            engine.decoder.forget()
            watch.start()
            with engine.complete(_prompt(), sampling=sampling, max_tokens=n_tokens) as generation:
                for _piece in generation:
                    pass
            watch.stop()
        return watch, list(generation.token_ids)


def _peer(model: str, n_tokens: int, greedy: bool) -> tuple[_Watch, list[int]]:
    from llama_cpp import Llama

    llama = Llama(model, n_ctx=N_CTX, n_threads=1, n_threads_batch=1, seed=1, verbose=False)
    options = {
        "top_k": SAMPLING["top_k"],
        "top_p": SAMPLING["top_p"],
        "min_p": SAMPLING["min_p"],
        "temp": 0.0 if greedy else SAMPLING["temperature"],
        "repeat_penalty": 1.0,
    }
    watch, ids = _Watch(threading.get_native_id()), []
    for _ in range(ANSWERS):
        llama.reset()
        ids = []
        watch.start()
        for token in llama.generate(_prompt(), **options):
            ids.append(token)
            if len(ids) == n_tokens:
                break
        watch.stop()
    return watch, ids


def _burn(stop: threading.Event) -> None:
    total = 0
    while not stop.is_set():
        for i in range(1000):
            total += i * i % 7


def _worker(side: str, model: str, n_tokens: int, mode: str) -> None:
    """One measurement; prints microseconds per token and the ids."""
    stop = threading.Event()
    burner = threading.Thread(target=_burn, args=(stop,))
    if mode == "busy":
        burner.start()
    try:
        watch, ids = (_ours if side == "shepherd" else _peer)(model, n_tokens, mode == "greedy")
    finally:
        stop.set()
    assert len(ids) == n_tokens, f"{side}: {len(ids)} tokens instead of {n_tokens}"
    wall, own = (1e6 * min(answers) / n_tokens for answers in (watch.wall, watch.own))
    print(json.dumps({"wall": wall, "own": own, "ids": ids if mode == "greedy" else []}))


def _run(side: str, model: Path, n_tokens: int, mode: str) -> dict:
    command = [sys.executable, "-m", "bench.test_decode", side, str(model), str(n_tokens), mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def _alternate(model: Path, n_tokens: int, mode: str) -> dict[str, dict[str, list[float]]]:
    """By side and clock ("wall" or "own"): microseconds per token, one for each process."""
    figures: dict[str, dict[str, list[float]]] = {side: {"wall": [], "own": []} for side in SIDES}
    for i in range(ROUNDS):
        for side in SIDES[:: 1 if i % 2 else -1]:
            result = _run(side, model, n_tokens, mode)
            for clock, values in figures[side].items():
                values.append(result[clock])
    return figures


def _line(name: str, figures: list[float]) -> str:
    return (
        f"  {name:<36} {statistics.median(figures):9.1f} us/token   {min(figures):9.1f} .. {max(figures):.1f}"
    )


def _header(n_tokens: int) -> str:
    import llama_cpp

    versions = f"Python {platform.python_version()}, llama-cpp-python {llama_cpp.__version__}"
    machine = f"\n{versions}, {platform.machine()}, {os.cpu_count()} CPUs, 1 compute thread"
    return f"{machine}\nmedian of {ROUNDS} processes, each the best of {ANSWERS} answers of {n_tokens} tokens"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models import llama

    path = tmp_path_factory.mktemp("bench") / "ascii.gguf"
    llama(path, ascii_only=True, n_ctx=N_CTX)
    answers = [_run(side, path, 300, "greedy")["ids"] for side in SIDES]
    assert answers[0] == answers[1], "the two sides do not compute the same"
    return path


@pytest.mark.parametrize("n_tokens", LENGTHS)
def test_token_costs_no_more_than_with_llama_generate(benchmark, model: Path, n_tokens: int) -> None:
    figures = benchmark.pedantic(_alternate, args=(model, n_tokens, "idle"), rounds=1)

    print(_header(n_tokens))
    ratios = {}
    for clock in ("wall", "own"):
        pairs = zip(*(figures[side][clock] for side in SIDES), strict=True)
        ratios[clock] = statistics.median(ours / peer for ours, peer in pairs)
        print(*(_line(f"{side}, {clock}", figures[side][clock]) for side in SIDES), sep="\n")
        print(f"  {clock} ratio {ratios[clock]:.2f} (at most 1)")
    assert ratios["own"] <= 1 or not JUDGED


def test_busy_python_thread_at_most_doubles_the_cost(benchmark, model: Path) -> None:
    n_tokens = BUSY_LENGTH

    def measure() -> tuple[dict[str, dict[str, list[float]]], ...]:
        return _alternate(model, n_tokens, "idle"), _alternate(model, n_tokens, "busy")

    idle, busy = benchmark.pedantic(measure, rounds=1)

    print(_header(n_tokens), "alone, and with one pure-Python thread beside it:", sep="\n")
    ratios = {}
    for side in SIDES:
        for clock in ("wall", "own"):
            alone, beside = idle[side][clock], busy[side][clock]
            ratios[side] = statistics.median(beside) / statistics.median(alone)
            print(
                _line(f"{side}, alone, {clock}", alone),
                _line(f"{side}, busy thread, {clock}", beside),
                sep="\n",
            )
            print(f"  {side}: {clock} times {ratios[side]:.2f}")
    assert ratios["shepherd"] <= 2 or not JUDGED


if __name__ == "__main__":
    _worker(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])

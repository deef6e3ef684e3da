"""What does one more token cost beside the model's own work, alone and with a busy Python thread beside it?

Ours is Engine.complete, text and ids streamed to a reader; the peer is llama_cpp.Llama.generate, ids only.
The same tiny model, prompt, sampling and one compute thread; each measurement in a process of its own, sides
taking turns. Both sides' greedy ids are compared before anything is timed.

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

from tests.models import llama as build_llama

LENGTHS = (200, 1000, 4000)
# Processes per side, and answers in each, of which the least disturbed counts.
ROUNDS = 5
ANSWERS = 3
N_CTX = 8192
PROMPT_TOKENS = 64
# What Shepherd samples with by default.
SAMPLING = {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


def _prompt() -> list[int]:
    return [33 + 7 * i % 90 for i in range(PROMPT_TOKENS)]


def _ours(model: str, n_tokens: int, greedy: bool) -> tuple[float, list[int]]:
    from shepherd.inference import Engine, EngineSettings
    from shepherd.types import Sampling

    settings = EngineSettings(n_ctx=N_CTX, n_threads=1)
    sampling = Sampling(temperature=0.0) if greedy else Sampling(seed=1, **SAMPLING)
    best, ids = float("inf"), ()
    with Engine(model, settings=settings) as engine:
        for _ in range(ANSWERS):
            engine.decoder.forget()
            first = time.perf_counter()
            with engine.complete(_prompt(), sampling=sampling, max_tokens=n_tokens) as generation:
                for _piece in generation:
                    pass
            best = min(best, time.perf_counter() - first)
            ids = generation.token_ids
    return best, list(ids)


def _peer(model: str, n_tokens: int, greedy: bool) -> tuple[float, list[int]]:
    from llama_cpp import Llama

    llama = Llama(model, n_ctx=N_CTX, n_threads=1, n_threads_batch=1, seed=1, verbose=False)
    options = {
        "top_k": SAMPLING["top_k"],
        "top_p": SAMPLING["top_p"],
        "min_p": SAMPLING["min_p"],
        "temp": 0.0 if greedy else SAMPLING["temperature"],
        "repeat_penalty": 1.0,
    }
    best, ids = float("inf"), []
    for _ in range(ANSWERS):
        llama.reset()
        ids = []
        first = time.perf_counter()
        for token in llama.generate(_prompt(), **options):
            ids.append(token)
            if len(ids) == n_tokens:
                break
        best = min(best, time.perf_counter() - first)
    return best, ids


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
        seconds, ids = (_ours if side == "shepherd" else _peer)(model, n_tokens, mode == "greedy")
    finally:
        stop.set()
    assert len(ids) == n_tokens, f"{side}: {len(ids)} tokens instead of {n_tokens}"
    print(json.dumps({"us": 1e6 * seconds / n_tokens, "ids": ids if mode == "greedy" else []}))


def _run(side: str, model: Path, n_tokens: int, mode: str) -> dict:
    command = [sys.executable, __file__, side, str(model), str(n_tokens), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def _alternate(model: Path, n_tokens: int, mode: str, rounds: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {"shepherd": [], "llama_cpp.Llama": []}
    for i in range(rounds):
        for side in sorted(figures, reverse=i % 2 == 0):
            figures[side].append(_run(side, model, n_tokens, mode)["us"])
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
    path = tmp_path_factory.mktemp("bench") / "ascii.gguf"
    build_llama(path, ascii_only=True, n_ctx=N_CTX)
    return path


def test_greedy_ids_are_the_same_on_both_sides(model: Path) -> None:
    assert (
        _run("shepherd", model, 300, "greedy")["ids"] == _run("llama_cpp.Llama", model, 300, "greedy")["ids"]
    )


@pytest.mark.parametrize("n_tokens", LENGTHS)
def test_token_costs_no_more_than_with_llama_generate(benchmark, model: Path, n_tokens: int) -> None:
    figures = benchmark.pedantic(_alternate, args=(model, n_tokens, "idle", ROUNDS), rounds=1)

    ours, peer = (statistics.median(values) for values in figures.values())
    print(_header(n_tokens), *(_line(*item) for item in figures.items()), sep="\n")
    print(f"  ratio {ours / peer:.2f} (at most 1)")
    assert ours <= peer


def test_busy_python_thread_at_most_doubles_the_cost(benchmark, model: Path) -> None:
    n_tokens = 1000

    def measure() -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        return _alternate(model, n_tokens, "idle", ROUNDS), _alternate(model, n_tokens, "busy", ROUNDS)

    idle, busy = benchmark.pedantic(measure, rounds=1)

    print(_header(n_tokens), "alone, and with one pure-Python thread beside it:", sep="\n")
    ratios = {}
    for side in idle:
        ratios[side] = statistics.median(busy[side]) / statistics.median(idle[side])
        print(_line(f"{side}, idle", idle[side]), _line(f"{side}, busy thread", busy[side]), sep="\n")
        print(f"  {side}: times {ratios[side]:.2f}")
    assert ratios["shepherd"] <= 2


if __name__ == "__main__":
    _worker(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])

"""How long until a key is on the screen, and how evenly do words come, while a server streams eight answers?

`shepherd chat` and `shepherd tui` in a pseudo-terminal, keys pressed one by one faster than a person does,
each timed from writing it to the terminal until the program has drawn it; then an answer of 3,000 words in
paragraphs, whose reader notes when something new comes. In `shepherd tui` also keys while an answer of
paragraphs, lists, code and tables comes at 100 words a second, with the CPU time of the program for a word
and a key. First alone, then beside a server in another process with eight clients, whose answers do not end.
All models are tiny: it is the programs that are measured, not a matrix product.

    python -m pytest bench/test_echo.py --benchmark-only -s
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pexpect
import psutil
import pytest

from bench.small import JUDGED, sized
from tests import models
from tests.server.processes import ServerProcess

# No escape sequence has one of these.
LETTERS = "αβγδεζηθικλμνξοπρστυφχψω"
KEYS, STREAMS = sized(120, 10), 8
PAUSE_S, STREAM_S = 0.02, sized(4.0, 0.5)
PROGRAMS = {"chat": "(?s)Ctrl-D quits.*> ", "tui": "memory on"}
# What people notice: a key that lags by a tenth of a second.
BAR_MS = 100
BACKSPACE = "\x7f"
WORDS = [f"{' ' if number % 40 else chr(10) * 2}word{number}" for number in range(3000)]
PACE = 100  # words a second: what a fast model says
N_PACED = sized(600, 150)
# The program with an answer of that pace.
PACED = f"""\
import re, sys, time
from shepherd.assistant import Assistant
from shepherd.cli.main import main
from shepherd.turn import Delta

def paced(self, text, ask=Assistant.ask, **options):
    due = time.monotonic()
    for event in ask(self, text, **options):
        if not isinstance(event, Delta):
            yield event
            continue
        for word in re.findall(r"\\s*\\S+|\\s+$", event.text):
            due += {1 / PACE}
            time.sleep(max(due - time.monotonic(), 0))
            yield Delta(word)

Assistant.ask = paced
sys.exit(main(sys.argv[1:]))
"""


def _markdown() -> Iterator[str]:
    """Pieces of an answer, none twice, as the model wants them."""
    for part in range(10):
        yield f"## Part {part}\n\n"
        for word in range(60):
            yield f" w{part}.{word}" if word % 30 else f"\n\nw{part}.{word}"
        for item in range(8):
            yield f"{'' if item else chr(10) * 2}- item {part}.{item} of a **list** with `code` and more\n"
        yield f"\nAs code {part}:\n\n```python\n"
        for line in range(10):
            yield f"def f{part}_{line}(x):\n    return x + {line}  # a comment\n"
        yield f"```\n\nAs a table {part}:\n\n| name | value |\n|---|---|\n"
        for row in range(8):
            yield f"| x{part}.{row} | y{part}.{row} |\n"
        yield f"\nThat was {part}.\n\n"


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "endless.gguf"
    models.llama(path, ascii_only=True)
    return path


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "talkative.gguf"
    models.scripted(path, WORDS, n_ctx=8192)
    return path


@pytest.fixture(scope="module")
def structured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "structured.gguf"
    models.scripted(path, list(_markdown()), n_ctx=8192)
    return path


def _begin(program: str, model: Path, home: Path, *python: str) -> Any:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SHEPHERD_", "XDG_"))}
    own = {"HOME": str(home), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    child = pexpect.spawn(
        sys.executable,
        [*(python or ("-m", "shepherd")), program, "-m", str(model), "--max-tokens", "0", "--ctx", "8192"],
        env={**inherited, **own, "SHEPHERD_MODEL_TRIAL": "false"},
        dimensions=(30, 100),
        encoding="utf-8",
        timeout=120,
    )
    child.delaybeforesend = None
    child.expect(PROGRAMS[program])
    time.sleep(1.0)  # the first screen is drawn to its end
    return child


def _drain(child: Any) -> None:
    while True:
        try:
            child.read_nonblocking(1 << 16, timeout=0.02)
        except pexpect.TIMEOUT:
            return


def _echoes_ms(child: Any) -> list[float]:
    taken = []
    for number in range(KEYS):
        letter = LETTERS[number % len(LETTERS)]
        _drain(child)
        first = time.perf_counter()
        child.send(letter)
        child.expect_exact(letter)
        taken.append(1e3 * (time.perf_counter() - first))
        child.send(BACKSPACE)
        time.sleep(PAUSE_S)
    return taken


def _echoes_meanwhile_ms(child: Any) -> tuple[list[float], float]:
    """Keys while an answer comes, and the CPU time for each of its words, with what the keys took, in ms."""
    child.send("hello\r")
    child.expect("Part 0")
    taken, shown, sent, n_sent = [], "", 0.0, 0
    began, before_s = time.perf_counter(), _cpu_s(child.pid)
    while time.perf_counter() - began < N_PACED / PACE:
        letter = LETTERS[n_sent % len(LETTERS)]
        if not shown:
            child.send(letter)
            sent = time.perf_counter()
        with suppress(pexpect.TIMEOUT):
            shown += child.read_nonblocking(1 << 16, timeout=0.5)
        if letter in shown:
            taken.append(1e3 * (time.perf_counter() - sent))
            child.send(BACKSPACE)
            time.sleep(PAUSE_S)
            shown, n_sent = "", n_sent + 1
    n_words = PACE * (time.perf_counter() - began)
    return taken, 1e3 * (_cpu_s(child.pid) - before_s) / n_words


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _gaps_ms(child: Any) -> list[float]:
    """Between two moments at which something new came, after the first, until the speed is told."""
    child.send("hello\r")
    child.expect("word1")
    moments, shown = [time.perf_counter()], ""
    with suppress(pexpect.TIMEOUT):
        while moments[-1] - moments[0] < STREAM_S and "tokens/s" not in shown:
            shown = shown[-20:] + child.read_nonblocking(1 << 16, timeout=1.0)
            moments.append(time.perf_counter())
    return [1e3 * (after - before) for before, after in pairwise(moments)]


def _listen(url: str, number: int, ended: threading.Event, pieces: list[int]) -> None:
    body = {"model": "default", "stream": True, "user": f"user{number}", "max_tokens": 60_000}
    body["messages"] = [{"role": "user", "content": f"hello {number}"}]
    with httpx.Client(base_url=url, trust_env=False, timeout=120) as client:
        while not ended.is_set():
            with client.stream("POST", "/v1/chat/completions", content=json.dumps(body)) as answer:
                for line in answer.iter_lines():
                    pieces[number] += line.startswith("data: ")
                    if ended.is_set():
                        return


@contextmanager
def _streams(model: Path, home: Path) -> Iterator[list[int]]:
    """Eight answers under way; how many pieces of each have come."""
    options = ("-m", str(model), "--slots", str(STREAMS), "--threads", "1", "--ctx", "65536")
    ended, pieces = threading.Event(), [0] * STREAMS
    with ServerProcess(home, *options) as server:
        threads = [
            threading.Thread(target=_listen, args=(server.url, number, ended, pieces))
            for number in range(STREAMS)
        ]
        for thread in threads:
            thread.start()
        while not all(pieces):
            time.sleep(0.1)
        try:
            yield pieces
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def _percentiles(values: list[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"p50 {statistics.median(ordered):6.1f}  p99 {p99:6.1f}  most {ordered[-1]:6.1f} ms"


@pytest.mark.parametrize("program", PROGRAMS)
def test_keys_and_words_come_at_once(
    benchmark: Any, program: str, endless: Path, talkative: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def measured() -> tuple[list[float], list[float]]:
        child = _begin(program, talkative, tmp_path_factory.mktemp("home"))
        try:
            return _echoes_ms(child), _gaps_ms(child)
        finally:
            child.kill(signal.SIGKILL)
            child.wait()

    figures = {"alone": benchmark.pedantic(measured, rounds=1)}
    with _streams(endless, tmp_path_factory.mktemp("server")) as pieces:
        before, began = sum(pieces), time.perf_counter()
        figures["beside 8 streams"] = measured()
        rate = (sum(pieces) - before) / (time.perf_counter() - began)

    print(f"\n  shepherd {program}, the streams had {rate:,.0f} pieces/s meanwhile")
    for name, (keys, gaps) in figures.items():
        print(f"    {name:<17} a key {_percentiles(keys)}    between pieces {_percentiles(gaps)}")
    assert statistics.median(figures["beside 8 streams"][0]) < BAR_MS or not JUDGED


def test_keys_come_at_once_while_an_answer_does(
    benchmark: Any, endless: Path, structured: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def measured() -> tuple[list[float], float]:
        child = _begin("tui", structured, tmp_path_factory.mktemp("home"), "-c", PACED)
        try:
            return _echoes_meanwhile_ms(child)
        finally:
            child.kill(signal.SIGKILL)
            child.wait()

    figures = {"alone": benchmark.pedantic(measured, rounds=1)}
    with _streams(endless, tmp_path_factory.mktemp("server")):
        figures["beside 8 streams"] = measured()

    print(f"\n  shepherd tui, while an answer comes at {PACE} words/s")
    for name, (keys, cpu_ms) in figures.items():
        print(f"    {name:<17} a key {_percentiles(keys)} ({len(keys)})    CPU for a word {cpu_ms:.1f} ms")
    assert statistics.median(figures["beside 8 streams"][0]) < BAR_MS or not JUDGED

"""Does learning in the background delay the user's first token, and does it get on where nobody ever rests?

One engine answers the turns of a conversation; its sibling is idle or extracts without a pause. Blocks of ten
turns, one kind after the other: with a pause after each answer, as people make one; and beside another
conversation whose answers follow each other without a gap, so that the engine never rests and the sibling has
its share of the time alone. The same model, prompts and threads in one process. What counts is the ttft_ms of
/stats: tokenising, reading what is new, the first sample. The bundled model, unless SHEPHERD_BENCH_MODEL says
otherwise.

    python -m pytest bench/test_background.py --benchmark-only -s
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.small import JUDGED, count
from shepherd.extraction import LocalExtractor
from shepherd.extraction.answer import Cancellation, CancelledError
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import is_built_in, resolve
from shepherd.types import Message, Sampling

TURNS = 10
# Conversations in a block; without gaps a line takes twenty times as long.
TALKS = {"with pauses": 1, "never idle": 12}
BLOCKS = count("SHEPHERD_BENCH_BLOCKS", 6, 2)
# Between an answer and the next message; without it the sibling never gets to work, and nothing is measured.
PAUSE_S = 0.1
GREEDY = Sampling(temperature=0.0)
LINES = ["My name is Steve and I moved to Texas last year.", "My dog is called Rex.", "hello"]
# Extraction may raise the time to the first token by as much; the median over neighbouring blocks.
BAR = 1.10


def first_tokens(engine: Engine, talks: int, pause_s: float) -> list[float]:
    """Milliseconds to the first token of each of TURNS turns, of so many conversations."""
    return [time for _ in range(talks) for time in _conversation(engine, pause_s)]


def _conversation(engine: Engine, pause_s: float) -> list[float]:
    messages = [Message("system", "You are a helpful assistant.")]
    times = []
    for number in range(TURNS):
        messages.append(Message("user", f"My number {number} is the {number + 7}th of twelve. What is it?"))
        time.sleep(pause_s)
        generation = engine.generate(messages, sampling=GREEDY, max_tokens=12)
        for _ in generation:
            pass
        times.append(generation.stats.ttft_ms)
        messages.append(Message("assistant", generation.text, token_ids=generation.token_ids))
    return times


@contextmanager
def extracting(extractor: LocalExtractor, counts: list[int]) -> Iterator[None]:
    """The sibling extracts until the end of the block; adds how many lines it had done to `counts`."""
    cancellation = Cancellation()
    done = 0

    def work() -> None:
        nonlocal done
        try:
            while True:
                for line in LINES:
                    extractor.answers([line], cancellation)
                    done += 1
        except CancelledError:
            return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        cancellation.set()
        thread.join()
        counts.append(done)


@contextmanager
def never_idle(engine: Engine) -> Iterator[None]:
    """Somebody else is answered all the time; his next answer waits when one ends."""
    ended = threading.Event()

    def talk() -> None:
        messages = [Message("user", "Tell me a long story about a dog.")]
        answers = [engine.generate(messages, max_tokens=200) for _ in range(2)]
        while not ended.is_set():
            for _ in answers.pop(0):
                pass
            answers.append(engine.generate(messages, max_tokens=200))
        for answer in answers:
            answer.close()

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("how", TALKS)
def test_first_token_beside_an_extraction(benchmark: Any, how: str) -> None:
    path = Path(os.environ.get("SHEPHERD_BENCH_MODEL") or resolve(""))
    times: dict[str, list[list[float]]] = {"alone": [], "beside": []}
    counts: list[int] = []
    rests = how == "with pauses"
    talks, pause_s = TALKS[how], PAUSE_S if rests else 0.0

    def measure(engine: Engine, extractor: LocalExtractor) -> None:
        first_tokens(engine, talks, pause_s)
        for number in range(BLOCKS):
            for kind in ("alone", "beside")[:: -1 if number % 2 else 1]:
                if kind == "alone":
                    times["alone"].append(first_tokens(engine, talks, pause_s))
                    continue
                with extracting(extractor, counts):
                    times["beside"].append(first_tokens(engine, talks, pause_s))

    with Engine(path, settings=EngineSettings(n_threads=1, slots=3, windows=3)) as engine:
        extractor = LocalExtractor(
            engine.sibling,
            max_tokens=512,
            temperature=0.0,
            facts_only=is_built_in(path),
            apart=is_built_in(path),
        )
        if rests:
            benchmark.pedantic(measure, args=(engine, extractor), rounds=1)
        else:
            with never_idle(engine):
                benchmark.pedantic(measure, args=(engine, extractor), rounds=1)
        extractor.close()
    assert sum(counts) > 0, "no extraction came to its end: nothing was measured beside one"
    ratios = [
        statistics.median(beside) / statistics.median(alone)
        for alone, beside in zip(times["alone"], times["beside"], strict=True)
    ]
    ratio = statistics.median(ratios)
    said = []
    for kind, blocks in times.items():
        flat = sorted(value for block in blocks for value in block)
        p99 = flat[len(flat) * 99 // 100]
        said.append(f"{kind} p50 {statistics.median(flat):.2f} ms, p99 {p99:.2f} ms")
        benchmark.extra_info.update({f"{kind}_ms": statistics.median(flat), f"{kind}_p99_ms": p99})
    benchmark.extra_info.update(ratio=ratio, lines=sum(counts))
    print(
        f"\n{path.name}, {how}: first token {', '.join(said)}; "
        f"ratio {ratio:.3f} ({min(ratios):.2f} to {max(ratios):.2f}); {sum(counts)} lines extracted"
    )
    assert ratio <= BAR or not JUDGED

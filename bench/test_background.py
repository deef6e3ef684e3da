"""Does learning in the background delay the user's first token?

One engine answers turns of a conversation; its sibling is idle or extracts without a pause, in blocks of ten
turns. The same model, prompts and threads in one process. What counts is the ttft_ms of /stats: tokenising,
reading what is new, the first sample. The bundled model, unless SHEPHERD_BENCH_MODEL names another.

    python -m pytest bench/test_background.py --benchmark-only -s
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any

from shepherd.extraction import LocalExtractor
from shepherd.extraction.calls import Cancellation, CancelledError
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import resolve
from shepherd.types import Message, Sampling

TURNS = 10
BLOCKS = 6
# Between an answer and the next message; without it the sibling never gets to work, and nothing is measured.
PAUSE_S = 0.1
GREEDY = Sampling(temperature=0.0)
LINES = ["My name is Steve and I moved to Texas last year.", "My dog is called Rex.", "hello"]


def first_tokens(engine: Engine) -> list[float]:
    """Milliseconds to the first token of each of TURNS turns."""
    messages = [Message("system", "You are a helpful assistant.")]
    times = []
    for number in range(TURNS):
        messages.append(Message("user", f"My number {number} is the {number + 7}th of twelve. What is it?"))
        time.sleep(PAUSE_S)
        generation = engine.generate(messages, sampling=GREEDY, max_tokens=12)
        for _ in generation:
            pass
        times.append(generation.stats.ttft_ms)
        messages.append(Message("assistant", generation.text, token_ids=generation.token_ids))
    return times


def test_first_token_beside_an_extraction(benchmark: Any) -> None:
    path = Path(os.environ.get("SHEPHERD_BENCH_MODEL") or resolve(""))
    times: dict[str, list[float]] = {"alone": [], "beside": []}
    n_extracted = 0
    with Engine(path, settings=EngineSettings(n_threads=1)) as engine:
        extractor = LocalExtractor(engine.sibling, max_tokens=512, temperature=0.0)

        def work(cancellation: Cancellation) -> None:
            nonlocal n_extracted
            try:
                while True:
                    extractor.answers(LINES, cancellation)
                    n_extracted += 1
            except CancelledError:
                return

        first_tokens(engine)
        for _ in range(BLOCKS):
            times["alone"] += first_tokens(engine)
            cancellation = Cancellation()
            thread = threading.Thread(target=work, args=(cancellation,))
            thread.start()
            times["beside"] += first_tokens(engine)
            cancellation.set()
            thread.join()
        benchmark.pedantic(first_tokens, args=(engine,), rounds=1)
        extractor.close()
    assert n_extracted > 0, "no extraction came to its end: nothing was measured beside one"
    alone, beside = statistics.median(times["alone"]), statistics.median(times["beside"])
    benchmark.extra_info.update(alone_ms=alone, beside_ms=beside, ratio=beside / alone)
    worst = [max(values) for values in times.values()]
    print(
        f"\n{path.name}: first token alone {alone:.2f} ms (at most {worst[0]:.1f}), beside an extraction "
        f"{beside:.2f} ms (at most {worst[1]:.1f}), ratio {beside / alone:.2f}, {n_extracted} extractions"
    )

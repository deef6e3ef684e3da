"""Does the engine hold when eight clients cancel, vanish and overflow the context, a thousand times and more?

Four slots share a window of 256 tokens, so that answers also wait, are parked, and meet the window's end.
Each client asks at random: reads its answer to the end, cancels it after a moment, drops it unread, or sends
a prompt that cannot fit. Then: all of them came to their end, every sequence of llama.cpp holds what its
mirror says, a question is answered with the logits of a fresh engine, and memory has not grown after a third
of the events.

    python -m pytest bench/test_soak.py --benchmark-only -s
    SHEPHERD_BENCH_EVENTS=100000    cancels, disconnects and overflows per kind of cache; 1,000 without it
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from bench.small import JUDGED, count
from shepherd.errors import ContextOverflowError
from shepherd.inference import Engine
from shepherd.types import Sampling
from tests import models
from tests.inference.engines import KINDS, exact_settings, logits_after, run_to_end
from tests.inference.slots import check_mirrors

EVENTS = count("SHEPHERD_BENCH_EVENTS", 1000, 100)
CLIENTS, SLOTS, WINDOW = 8, 4, 256
PARTS = 3
# All of them take seconds; this is for one that never ends.
STUCK_S = 600
# After the warm-up, which the first third is. However many events: a leak shows when there are enough.
GROWTH_MB = 4
MAKERS: dict[str, Callable[[Path], None]] = dict(
    zip(KINDS, (models.llama, models.gemma3, models.mamba, models.qwen35), strict=True)
)


def _client(engine: Engine, number: int, events: int, counts: Counter[str]) -> None:
    """Ask until so many answers were broken off or refused."""
    choose = random.Random(number)
    tokens = [number % 200] * 20
    while events > 0:
        tokens = [*tokens[:200], *(choose.randrange(256) for _ in range(choose.randrange(1, 40)))]
        what = choose.choices(("end", "cancel", "disconnect", "overflow"), (3, 4, 4, 1))[0]
        events -= what != "end"
        counts[what] += 1
        if what == "overflow":
            with pytest.raises(ContextOverflowError):
                engine.complete(tokens * WINDOW, max_tokens=1)
            continue
        generation = engine.complete(
            tokens,
            sampling=Sampling(seed=number),
            max_tokens=choose.randrange(1, 120),
            background=choose.random() < 0.2,
        )
        if what == "disconnect":
            if choose.random() < 0.5:
                next(generation, None)
            del generation
            tokens = [number % 200] * 20
            continue
        if what == "cancel":
            time.sleep(choose.random() * 0.004)
            generation.cancel()
        run_to_end(generation)
        counts[generation.stats.finish_reason] += 1
        tokens = [*tokens, *generation.token_ids]


def _soak(engine: Engine, part: int, counts: Counter[str]) -> None:
    share = EVENTS // PARTS // CLIENTS + 1
    threads = [
        threading.Thread(target=_client, args=(engine, part * CLIENTS + i, share, counts), daemon=True)
        for i in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STUCK_S)
    assert not any(thread.is_alive() for thread in threads), f"a client of part {part} waits for ever"
    assert engine.decoder.wait_idle(10_000), "an answer that nobody reads was not ended"
    gc.collect()


def _difference(one: bytes, other: bytes) -> float:
    return float(np.abs(np.frombuffer(one, np.float32) - np.frombuffer(other, np.float32)).max())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_leaks_and_nobody_waits_for_ever(benchmark: Any, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.gguf"
    MAKERS[kind](path)
    settings = replace(exact_settings(n_ctx=WINDOW), slots=SLOTS, cache_ram_bytes=1 << 20)
    question = [5] * 20 + list(range(40, 90))
    counts: Counter[str] = Counter()
    sizes = []
    with Engine(path, settings=settings) as engine:

        def measure() -> None:
            for part in range(PARTS):
                _soak(engine, part, counts)
                check_mirrors(engine.decoder, SLOTS)
                sizes.append(psutil.Process().memory_info().rss / 1e6)

        benchmark.pedantic(measure, rounds=1)
        after = logits_after(engine.decoder, question)
    with Engine(path, settings=settings) as engine:
        difference = _difference(after, logits_after(engine.decoder, question))
    said = ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items()))
    resident = " ".join(f"{size:.1f}" for size in sizes)
    print(
        f"\n{kind}: {said}; resident {resident} MB; logits differ by {difference:.1e} from a fresh engine's"
    )
    benchmark.extra_info.update(**counts, difference=difference)
    assert sum(counts[what] for what in ("cancel", "disconnect", "overflow")) >= EVENTS
    # The cells of many conversations are interleaved, so sums are rounded differently: see "The mirror" in
    # docs/explanation/engine.md.
    assert difference < 1e-3
    assert sizes[-1] - sizes[0] < GROWTH_MB or not JUDGED

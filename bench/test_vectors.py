"""What do vectors cost beside the default, which has none: to make, to keep, and in a search?

The embedder is a real encoder of the shape of all-MiniLM-L6-v2 (6 layers, 384 numbers) with random weights:
its time is that of the shape, what it finds means nothing, so no quality is measured here. Searching is timed
without it: 384 random numbers per memory in the table, one question's vector ready.

    python -m pytest bench/test_vectors.py --benchmark-only -s
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.small import sized
from shepherd.benchmark import corpus
from shepherd.inference.embedding import Embedder
from shepherd.memory import Memory
from shepherd.memory.records import NewMemory
from shepherd.memory.sqlite import SQLiteStore
from shepherd.memory.vectors import VectorSettings
from shepherd.memory.vectors.table import Floats
from tests import models

DIMENSION = 384
QUESTION = "what is the name of my dog and where do i live"
MEMORY = " ".join(models.SENTENCES.split()[:60])
N_QUESTIONS = 100
SIZES = sized([10_000, 100_000], [1_000])


def _median_ms(call: Callable[[], object], n: int) -> float:
    call()
    times = []
    for _ in range(n):
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def test_making_a_vector(benchmark: Any, tmp_path: Path) -> None:
    models.bert(tmp_path / "minilm.gguf", n_ctx=512, n_embd=DIMENSION, n_layer=6, n_head=12)
    with Embedder(tmp_path / "minilm.gguf") as embedder:
        benchmark.pedantic(lambda: embedder.embed_query(QUESTION), rounds=5, warmup_rounds=1)
        question_ms = _median_ms(lambda: embedder.embed_query(QUESTION), 20)
        batch_ms = _median_ms(lambda: embedder.embed_documents([MEMORY] * 16), 5) / 16
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")
    print(f"  a question of {len(QUESTION.split())} words {question_ms:.1f} ms")
    print(f"  a memory of {len(MEMORY.split())} words, in batches of 16, {batch_ms:.1f} ms")


class _Random:
    """Directions at random: what a search costs does not depend on where they point."""

    name = "random"

    def __init__(self) -> None:
        self._rng = np.random.default_rng(3)

    def embed_query(self, text: str) -> Floats:
        row: Floats = self.embed_documents([text])[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        rows = self._rng.standard_normal((len(texts), DIMENSION)).astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("n_memories", SIZES)
def test_searching_with_vectors(benchmark: Any, tmp_path: Path, n_memories: int) -> None:
    path = tmp_path / "memory.db"
    data = corpus.build(n_memories, 1, N_QUESTIONS)
    store = SQLiteStore(str(path), recall_cache_mb=0)
    for start in range(0, n_memories, 500):
        part = data.memories[start : start + 500]
        store.add_memories("local", [NewMemory(m.question, m.answer, m.timestamp) for m in part])
    store.close()
    bytes_before = path.stat().st_size
    with Memory(path, vectors=VectorSettings(_Random), clock=lambda: corpus.NOW) as memory:
        began = time.perf_counter()
        assert memory.settle_vectors(600)
        stored_us = 1e6 * (time.perf_counter() - began) / n_memories
    n_bytes = (path.stat().st_size - bytes_before) / n_memories
    questions = [" ".join(words) for _, words in data.questions]

    def ask(memory: Memory) -> tuple[list[float], float]:
        """Microseconds that each question waited, sorted, and the CPU time of one."""
        times = []
        began_cpu = time.process_time()
        for question in questions:
            began = time.perf_counter_ns()
            memory.search(question, 3)
            times.append((time.perf_counter_ns() - began) / 1e3)
        return sorted(times), 1e6 * (time.process_time() - began_cpu) / len(questions)

    with (
        Memory(path, clock=lambda: corpus.NOW) as plain,
        Memory(path, vectors=VectorSettings(_Random), clock=lambda: corpus.NOW) as memory,
    ):
        for one in (plain, memory):
            ask(one)
            while not one.stats().hot_users:
                time.sleep(0.01)

        def measure() -> list[tuple[tuple[list[float], float], tuple[list[float], float]]]:
            return [(ask(plain), ask(memory)) for _ in range(5)]

        rounds = benchmark.pedantic(measure, rounds=1)
    print(f"\n{n_memories:,} memories of one user, {DIMENSION} numbers each, data {data.digest}")
    for name, i in (("words alone", 0), ("with vectors", 1)):
        # The least of five rounds: what the machine does beside only ever adds.
        p50 = min(statistics.median(one[i][0]) for one in rounds)
        p99 = min(one[i][0][len(questions) * 99 // 100] for one in rounds)
        cpu = min(one[i][1] for one in rounds)
        print(f"  {name:<13} p50 {p50:9.1f} us   p99 {p99:9.1f} us   CPU {cpu:9.1f} us")
    print(
        f"  kept: {n_bytes:.0f} bytes of file a memory, {4 * DIMENSION} of memory; stored {stored_us:.0f} us"
    )

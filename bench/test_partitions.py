"""Measure what four hash partitions of PostgreSQL's tables cost a search.

A million memories of 10,000 users on a server of the tests, on a socket; the same questions before and after
docs/how-to/partition.sql, from the hot index and from the tables alone. SHEPHERD_BENCH_PARTITIONED is another
number of memories, with a hundred for each user.

    python -m pytest bench/test_partitions.py --benchmark-only -s
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.small import JUDGED, count, sized
from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import NOW, Corpus
from shepherd.memory import Memory
from tests.postgres import NoServerError, Server

ROOT = Path(__file__).resolve().parent.parent
N_MEMORIES = count("SHEPHERD_BENCH_PARTITIONED", 1_000_000, 2_000)
N_QUESTIONS = sized(400, 20)
# The median may be so many times that of undivided tables.
BAR = 1.3
# As many users are asked as have a hot index at once.
_CACHE_MB = {"hot": 1024, "cold": 0}


@pytest.fixture
def server() -> Iterator[Server]:
    try:
        started = Server()
    except NoServerError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    yield started
    started.close()


def _fill(url: str, built: Corpus) -> float:
    """Store all memories; return how many a second."""
    began = time.perf_counter()
    with Memory(url, keeps_secrets=True, max_db_size="100G") as memory:
        in_order = sorted(range(len(built.memories)), key=lambda place: built.memories[place].user)
        for user, places in itertools.groupby(in_order, lambda place: built.memories[place].user):
            lines: list[dict[str, Any]] = [{"type": "shepherd-export", "version": 1}]
            for one in (built.memories[place] for place in places):
                lines.append({"type": "memory", "question": one.question, "answer": one.answer,
                              "timestamp": one.timestamp, "source": "turn", "session": "",
                              "pinned": False})  # fmt: skip
            memory.import_memories(lines, f"user{user}")
    return len(built.memories) / (time.perf_counter() - began)


def _ask(url: str, built: Corpus, how: str) -> tuple[list[Any], float]:
    """Return the results of each question, and the median in milliseconds."""
    asked = [(f"user{user}", " ".join(words)) for user, words in built.questions[:N_QUESTIONS]]
    results: list[Any] = []
    times: list[float] = []
    with Memory(
        url, keeps_secrets=True, read_only=True, clock=lambda: float(NOW), recall_cache_mb=_CACHE_MB[how]
    ) as memory:
        store: Any = memory._store
        for user, question in asked:
            memory.search(question, user_id=user)
            if how == "hot":
                assert store._recall.wait()
        for user, question in asked:
            began = time.perf_counter()
            found = memory.search(question, user_id=user)
            times.append((time.perf_counter() - began) * 1000)
            results.append([(one.id, one.score, one.relevance) for one in found])
    return results, statistics.median(times)


def test_a_search_in_four_partitions(benchmark: Any, server: Server) -> None:
    url = server.url("divided")
    built = corpus.build(N_MEMORIES, max(N_MEMORIES // 100, 1), N_QUESTIONS)
    rate = _fill(url, built)
    server.execute("ANALYZE")
    whole = {how: _ask(url, built, how) for how in _CACHE_MB}

    began = time.perf_counter()
    with psycopg.connect(server.url()) as connection:
        connection.execute("SET search_path = divided")
        connection.execute((ROOT / "docs/how-to/partition.sql").read_text())  # type: ignore[call-overload]
    seconds = time.perf_counter() - began
    divided = benchmark.pedantic(lambda: {how: _ask(url, built, how) for how in _CACHE_MB}, rounds=1)

    print(f"\n{N_MEMORIES:,} memories, stored at {rate:,.0f} a second; divided in {seconds:.1f} s")
    for how in _CACHE_MB:
        (found, before), (found_then, after) = whole[how], divided[how]
        assert found == found_then
        assert any(found)
        times = after / before
        print(f"  {how:<5} p50 {before:6.3f} ms undivided, {after:6.3f} ms divided: {times:.2f} times")
        assert times < BAR or not JUDGED

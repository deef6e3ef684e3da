"""What does one search of the hot index cost, and what does the index: to build, append to, load and hold?

Ours alone: `HotIndex.search`, three results, 3 to 6 keywords, conversations of ten memories, one thread.
Peers that answer the same questions are in `test_recall.py`; at 100,000 memories the tables' own ranking
(FTS5) must give the same ids and scores first. Each question is asked once per round, so that no two
searches in a row touch the same lists; the first round warms up.

    python -m pytest bench/test_hot.py --benchmark-only -s          100,000 memories

SHEPHERD_BENCH_LARGE=1 before it adds a million: three minutes and 1 GB. SHEPHERD_BENCH_HUGE=1 adds ten
million, by hand: ten minutes of a core and 6 GB. Of many users, only those who are asked get an index.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.small import sized
from shepherd._native import rank, text
from shepherd._native.hot import HotIndex
from shepherd._native.store import Connection, Recall
from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import NOW, Corpus
from shepherd.memory.discourse import pairs_of
from shepherd.memory.schema import create_schema

ROUNDS = sized(6, 2)
PAGE = 500  # rows per call, as the background adds them
CONVERSATION = 10
RELEVANCE = 0.3  # as for a message

_Row = tuple[int, int, int, int, int, int, str, str]

SIZES = [(sized(100_000, 2_000), n_users) for n_users in (1, 1000)]
# Who wrote the answers: column `asks` of every memory.
PEOPLE, ASSISTANT = 0, rank.ASSISTANT_ANSWER
if os.environ.get("SHEPHERD_BENCH_LARGE"):
    SIZES += [(1_000_000, 1), (1_000_000, 1000)]
if os.environ.get("SHEPHERD_BENCH_HUGE"):
    SIZES += [(10_000_000, 1), (10_000_000, 1000)]


def _pages(memories: Corpus, user: int, asks: int) -> Iterator[list[_Row]]:
    """Rows of one user, made as they are needed: ten million would not fit."""
    page: list[_Row] = []
    for number, place in enumerate(memories.memories.places_of(user)):
        memory = memories.memories[place]
        texts = memory.question, memory.answer
        length = rank.length_of(asks, *(len(text.terms(one)) for one in texts))
        thread = number // CONVERSATION + 1
        page.append((number + 1, memory.timestamp, length, thread, 0, asks, *texts))
        if len(page) == PAGE:
            yield page
            page = []
    yield page


def _build(memories: Corpus, asks: int) -> tuple[dict[int, HotIndex], float]:
    """Indexes of those who are asked, by tenant (users counted from 1), and CPU time a memory."""
    indexes, seconds, n_all = {}, 0.0, 0
    for user in sorted({user for user, _ in memories.questions}):
        index = indexes[user + 1] = HotIndex()
        n = length = 0
        for page in _pages(memories, user, asks):
            began = time.process_time()
            index.add(page)
            seconds += time.process_time() - began
            n, length = n + len(page), length + sum(row[2] for row in page)
        index.publish(1, n, length)
        n_all += n
    return indexes, seconds / n_all


def _check_against_tables(
    path: Path, rows: dict[int, list[_Row]], indexes: dict[int, HotIndex], questions: Any
) -> None:
    with Connection(path) as connection:
        connection.script("PRAGMA journal_mode = WAL; BEGIN")
        create_schema(connection)
        for tenant, own in rows.items():
            first = tenant << 40
            connection.execute(
                "INSERT INTO tenants(number, user_id, n, total_length, version) VALUES(?, ?, ?, ?, 1)",
                (tenant, str(tenant), len(own), sum(row[2] for row in own)),
            )
            connection.execute_many(
                "INSERT INTO context(id, timestamp, doc_len, thread, label, asks, pairs, user_message,"
                " assistant_response, content_hash) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (first + row[0], *row[1:6], pairs_of(row[6], row[7], row[5]), "", "", f"{first + row[0]}")
                    for row in own
                ),
            )
            connection.execute_many(
                "INSERT INTO context_fts(rowid, user_message, assistant_response) VALUES(?, ?, ?)",
                (
                    (first + row[0], text.scoped(row[6], tenant)[0], text.scoped(row[7], tenant)[0])
                    for row in own
                ),
            )
        connection.execute("COMMIT")
        recall = Recall()
        for user, words in questions:
            tenant = user + 1
            expected = recall.search(connection, tenant, words, 3, NOW, min_relevance=RELEVANCE)
            found = indexes[tenant].search(1, words, 3, NOW, min_relevance=RELEVANCE)
            assert [(tenant << 40 | hit[0], *hit[1:]) for hit in found or ()] == expected


def _spread(times: list[float]) -> str:
    ordered = sorted(times)
    p99 = ordered[len(ordered) * 99 // 100]
    return f"p50 {statistics.median(ordered):7.1f} us   p99 {p99:7.1f} us   least {ordered[0]:.1f} us"


def _ask(indexes: dict[int, HotIndex], questions: Any, floor: float) -> list[float]:
    times = []
    for user, words in questions:
        search = indexes[user + 1].search
        began = time.perf_counter()
        search(1, words, 3, NOW, recency_floor=floor, min_relevance=RELEVANCE)
        times.append(1e6 * (time.perf_counter() - began))
    return times


def _upkeep(memories: Corpus, indexes: dict[int, HotIndex], asks: int) -> list[str]:
    """CPU time of appending one memory, saving, and loading, of the user with most."""
    counts = {tenant: index.counts() for tenant, index in indexes.items()}
    tenant = max(counts, key=lambda one: (counts[one] or {})["n_memories"])
    index, held = indexes[tenant], counts[tenant]
    assert held is not None
    n, length = held["n_memories"], held["total_length"]
    own = [row for page in islice(_pages(memories, tenant - 1, asks), 2) for row in page]
    began = time.process_time()
    saved = index.save()
    saved_s = time.process_time() - began
    assert saved is not None
    began = time.process_time()
    loaded = HotIndex.load(saved)
    loaded_s = time.process_time() - began
    began = time.process_time()
    for i, row in enumerate(own, 1):
        loaded.add([(n + i, *row[1:])])
        length += row[2]
        loaded.publish(1 + i, n + i, length)
    append_us = (time.process_time() - began) / len(own) * 1e6
    size = len(saved) / n
    return [
        f"append {append_us:.1f} us a memory (CPU)",
        f"save {saved_s * 1e3:.1f} ms, load {loaded_s * 1e3:.1f} ms, {size:.0f} bytes a memory",
    ]


@pytest.mark.parametrize("asks", [PEOPLE, ASSISTANT], ids=["people", "assistant"])
@pytest.mark.parametrize(("n_memories", "n_users"), SIZES)
def test_a_search_of_the_hot_index(
    benchmark: Any, tmp_path: Path, n_memories: int, n_users: int, asks: int
) -> None:
    memories = corpus.build(n_memories, n_users)
    questions = [(user, text.keywords(" ".join(words))) for user, words in memories.questions]
    indexes, build_s = _build(memories, asks)
    if n_memories <= 100_000:
        rows = {
            tenant: [row for page in _pages(memories, tenant - 1, asks) for row in page] for tenant in indexes
        }
        _check_against_tables(tmp_path / "memory.db", rows, indexes, questions[:100])

    def measure() -> dict[float, list[list[float]]]:
        times: dict[float, list[list[float]]] = {floor: [] for floor in (0.9, 0.0)}
        for _ in range(ROUNDS):
            for floor, rounds in times.items():
                rounds.append(_ask(indexes, questions, floor))
        return {floor: rounds[1:] for floor, rounds in times.items()}

    times = benchmark.pedantic(measure, rounds=1)

    counts = [one for index in indexes.values() if (one := index.counts()) is not None]
    n_bytes = sum(one["n_bytes"] for one in counts) / sum(one["n_memories"] for one in counts)
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")
    print(f"{n_memories:,} memories of {n_users:,} users, {len(questions)} questions, data {memories.digest}")
    for floor, rounds in times.items():
        print(f"  floor {floor}      {_spread([one for times in rounds for one in times])}")
        # What the machine does beside only ever adds.
        print(f"    best of {len(rounds)}   {_spread([min(one) for one in zip(*rounds, strict=True)])}")
    print(f"  build {build_s * 1e6:.1f} us a memory (CPU), {n_bytes:.0f} bytes each in memory")
    for line in _upkeep(memories, indexes, asks):
        print(f"  {line}")

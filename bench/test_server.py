"""Do eight users who talk at once each get their own facts, and does every turn read only what is new?

A real server process with the small model answers each of them over HTTP, every request with the whole
conversation, and nobody pauses: what they tell is learned beside the answers (tests/server/crowd.py).
Then, once all is learned, each asks for all that he told. Each user's facts are his own and complete, no
word of anybody else stands in his conversation, his last messages have all that he told, and tokens read
= new tokens in every turn that no eviction precedes.

    python -m pytest bench/test_server.py --benchmark-only -s
    SHEPHERD_BENCH_TURNS=200       of each user; 12 without it
    SHEPHERD_BENCH_SLOTS=2         answers at once; 4 without it
    SHEPHERD_BENCH_RESULTS=FILE    write the figures there, as JSON
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.small import count
from shepherd.memory import Memory
from tests.server import crowd
from tests.server.processes import ServerProcess

TURNS = count("SHEPHERD_BENCH_TURNS", 12, 8)
SLOTS = os.environ.get("SHEPHERD_BENCH_SLOTS", "4")
RESULTS = os.environ.get("SHEPHERD_BENCH_RESULTS", "")
LEARNED_S = 3600.0


def _jobs_left(server: ServerProcess, users: list[crowd.User]) -> int:
    with server.http() as client:
        answers = [client.get("/v1/extraction/jobs", params={"user": user.name}).json() for user in users]
    return sum(len(answer["data"]) for answer in answers)


def test_eight_users_at_once(benchmark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    users = crowd.eight_users()
    figures: dict[str, Any] = {"users": len(users), "turns_of_each": TURNS, "slots": int(SLOTS)}
    # One thread: the model is so small that two wait for each other most of the time. Tails stay until their
    # turn leaves the window: taken off before, they move the conversation, and a client cannot tell that from
    # being read twice.
    options = ("--slots", SLOTS, "--threads", "1")
    home = tmp_path_factory.mktemp("server")
    with ServerProcess(home, *options, SHEPHERD_INJECTION_RETENTION="keep") as server:
        process = psutil.Process(server.process.pid)
        figures["resident_mb_start"] = round(process.memory_info().rss / 1e6, 1)

        def run() -> None:
            began = time.perf_counter()
            crowd.talk(server, users, TURNS)
            figures["talk_s"] = round(time.perf_counter() - began, 1)
            figures["jobs_left_then"] = _jobs_left(server, users)
            began = time.perf_counter()
            crowd.wait_until_learned(server, users, LEARNED_S)
            figures["learned_after_s"] = round(time.perf_counter() - began, 1)
            for user in users:
                user.right = 0
            crowd.ask_once_more(server, users)

        benchmark.pedantic(run, rounds=1)
        figures["resident_mb_end"] = round(process.memory_info().rss / 1e6, 1)
        with Memory(server.database, user_id="local", read_only=True) as memory:
            figures |= crowd.check(memory, users)
    seconds = sorted(second for user in users for second in user.seconds)
    figures |= {
        "turns": len(seconds),
        "evictions": sum(user.evictions for user in users),
        "new_tokens": sum(user.new for user in users),
        "re_read_tokens": sum(user.re_read for user in users),
        "last_answers": sum(user.n_told for user in users),
        "last_answers_right": sum(user.right for user in users),
        "turn_ms_median": round(1e3 * statistics.median(seconds), 1),
        "turn_ms_p99": round(1e3 * seconds[len(seconds) * 99 // 100], 1),
    }
    benchmark.extra_info.update(figures)
    print(f"\n{json.dumps(figures, indent=1)}")
    if RESULTS:
        packages = {name: version(name) for name in ("llama-cpp-python", "shepherd-llm")}
        machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
        data = {"machine": machine, "python": platform.python_version(), **packages, **figures}
        Path(RESULTS).write_text(json.dumps(data, indent=1) + "\n")
    assert figures["re_read_tokens"] == 0

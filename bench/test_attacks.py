"""Latency of other clients, and memory of the server, while one client attacks it.

First token of one user, while four clients send the largest requests that a key allows
(`tests/server/attacks.py`), to this server or to another one on the same machine.
Then twenty clients who talk, hang up and send nonsense: what a server holds is full at some time, and
grows no further.

    python -m pytest bench/test_attacks.py --benchmark-only -s
    SHEPHERD_BENCH_SECONDS=300    of the twenty clients; 60 without it
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from bench.small import JUDGED, count, sized
from tests.server.attacks import LARGEST, OPENAI, REFUSED, chat
from tests.server.processes import ServerProcess

ATTACKERS = 4
N = sized(100, 3)
# Of the first token beside an attacked server.
MOST_DELAY = 2.0
CLIENTS = 20
SECONDS = count("SHEPHERD_BENCH_SECONDS", 60, 6)
CACHE_RAM_MB = 32
GROWTH_MB = 16


def _first_token_s(client: httpx.Client, text: str) -> float:
    body = chat(messages=[{"role": "user", "content": text}], stream=True, user="anna", max_tokens=2)
    began = time.perf_counter()
    with client.stream("POST", OPENAI, json=body) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if '"content":"' in line and '"content":""' not in line:
                return time.perf_counter() - began
    return time.perf_counter() - began


def _measure(server: ServerProcess) -> list[float]:
    with server.http() as client:
        return [_first_token_s(client, f"Which editor did I name in message {i}?") for i in range(N)]


# Run as a process of its own; says "begun", and at the end how often the server answered with which status.
_ATTACKER = """
import json, random, sys, threading
from bench.test_attacks import attack
is_over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
print(json.dumps(attack(sys.argv[1], int(sys.argv[2]), is_over)))
"""


def attack(url: str, number: int, is_over: threading.Event) -> Counter[int]:
    """Attack until it is over; returns how often the server answered with which status."""
    statuses: Counter[int] = Counter()
    attacks = [(path, json.dumps(body).encode()) for path, body, _, _ in REFUSED.values()]
    attacks += [(OPENAI, json.dumps(body).encode()) for body in LARGEST.values()]
    choose = random.Random(number)
    print("begun", flush=True)
    with httpx.Client(base_url=url, headers={"Content-Type": "application/json"}, trust_env=False) as client:
        while not is_over.is_set():
            path, body = choose.choice(attacks)
            if choose.random() < 0.2:
                _hang_up(url, path, body)
                continue
            method = "PUT" if path.startswith("/v1/facts") else "POST"
            statuses[client.request(method, path, content=body, timeout=60).status_code] += 1
    return statuses


def _hang_up(url: str, path: str, body: bytes) -> None:
    address = urlsplit(url)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with (
        socket.create_connection((address.hostname, address.port)) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)


@contextlib.contextmanager
def _attackers(server: ServerProcess) -> Iterator[Counter[str]]:
    """Attack a server within the block, from processes: threads would make this one slow, and not the server.

    Gives how often it answered with which status, once the block has ended.
    """
    statuses: Counter[str] = Counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": Path(__file__).parents[1]}
    running = [
        subprocess.Popen([sys.executable, "-c", _ATTACKER, server.url, str(i)], text=True, **pipes)
        for i in range(ATTACKERS)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
        yield statuses
    finally:
        for process in running:
            statuses.update(json.loads(process.communicate()[0]))


def test_first_token_of_others_during_an_attack(benchmark: Any, tmp_path: Path) -> None:
    attacked: list[float] = []
    with ServerProcess(tmp_path / "home") as server, ServerProcess(tmp_path / "neighbour") as neighbour:
        _measure(server)
        alone = _measure(server)
        # The same load on the same processors, and none on this server.
        with _attackers(neighbour):
            beside = _measure(server)
        with _attackers(server) as statuses:
            benchmark.pedantic(lambda: attacked.extend(_measure(server)), rounds=1)
        assert server.process.poll() is None
        assert "Traceback" not in server.log
    medians = [statistics.median(times) * 1e3 for times in (alone, beside, attacked)]
    print(
        f"\nfirst token: alone {medians[0]:.0f} ms, beside an attacked server {medians[1]:.0f} ms, attacked"
        f" {medians[2]:.0f} ms (slowest {max(beside) * 1e3:.0f}, {max(attacked) * 1e3:.0f});"
        f" statuses {dict(statuses)}"
    )
    assert statuses
    assert not [status for status in statuses if status >= "500"]
    assert medians[2] / medians[1] < MOST_DELAY or not JUDGED


def _talk(server: ServerProcess, number: int, end: float) -> None:
    """Talk until the time is over; a third of the requests is broken off or makes no sense."""
    choose = random.Random(number)
    said: list[dict[str, str]] = []
    with server.http(**{"Content-Type": "application/json"}) as client:
        while time.monotonic() < end:
            said = said if len(said) < 12 and choose.random() > 0.1 else []
            text = " ".join(f"word{choose.randrange(5_000)}" for _ in range(choose.randrange(3, 30)))
            said.append({"role": "user", "content": text})
            body = chat(messages=said, user=f"user-{number}", max_tokens=choose.randrange(5, 60))
            what = choose.choices(("talk", "hang up", "nonsense"), (4, 1, 1))[0]
            if what == "hang up":
                _hang_up(server.url, OPENAI, json.dumps(body).encode())
            elif what == "nonsense":
                assert client.post(OPENAI, content=choose.randbytes(50)).status_code == 400
            if what != "talk":
                said.pop()
                continue
            answer = client.post(OPENAI, json=body)
            assert answer.status_code in (200, 400), answer.text
            if answer.status_code == 200:
                content = answer.json()["choices"][0]["message"]["content"]
                said.append({"role": "assistant", "content": content or "-"})
            else:
                said = []


def test_resident_memory_of_a_busy_server(benchmark: Any, tmp_path: Path) -> None:
    sizes: list[float] = []
    variables = {"SHEPHERD_CACHE_RAM_MB": str(CACHE_RAM_MB)}
    with ServerProcess(tmp_path / "home", **variables) as server:
        process = psutil.Process(server.process.pid)
        server.ask("Hello")
        sizes.append(process.memory_info().rss / 1e6)

        def measure() -> None:
            for _ in range(4):
                end = time.monotonic() + SECONDS / 4
                threads = [threading.Thread(target=_talk, args=(server, i, end)) for i in range(CLIENTS)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                sizes.append(process.memory_info().rss / 1e6)

        benchmark.pedantic(measure, rounds=1)
        assert server.process.poll() is None
        assert '"status": 500' not in server.log
    print(f"\nresident: {' '.join(f'{size:.0f}' for size in sizes)} MB, parked at most {CACHE_RAM_MB} MB")
    assert sizes[-1] - sizes[-2] < GROWTH_MB or not JUDGED

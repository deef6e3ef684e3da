"""Clients that go away, break off and send too much, over HTTP: nobody is stuck, nothing grows.

SHEPHERD_TEST_EVENTS=3000 is the long form. Both assert the growth in the last part of the run. In the short
form threads and arenas are still new, and on a busy machine it depends on luck in which part they come: the
run gets longer until a part grows little, and fails if none of MOST_PARTS does. What leaks grows in each.
Caches of texts and answers are bounded in bytes, and full after some thousand requests at a megabyte or two;
parked conversations, which are most of what a server's memory grows by, are bounded by cache_ram_mb.
bench/test_attacks.py is the soak of minutes.
"""

from __future__ import annotations

import os
import random
import re
import socket
import threading
import time
from collections import Counter
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

EVENTS = int(os.environ.get("SHEPHERD_TEST_EVENTS", "120"))
LONG = 3_000
CLIENTS, SLOTS, WINDOW = 8, 4, 512
PARTS, MOST_PARTS = 3, 7
STUCK_S = 300
GROWTH_MB, EARLY_GROWTH_MB = 4, 10
# Of a stored byte, in memory: the page that the writer has read, 16 MB of them at most, and the index of what
# it says.
HELD_OF_STORED, MOST_HELD_MB = 2.0, 16


def ask(client: httpx.Client, text: str, n: int, what: str, user: str) -> str:
    """One request that ends as `what` says; how it ended."""
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": n,
        "stream": True,
        "user": user,
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            return f"{answer.status_code}"
        lines = answer.iter_lines()
        if what == "disconnect":
            next(lines)
            return what
        said = [line for line in lines if line]
    assert said[-1] == "data: [DONE]"
    return "end"


def hang_up(url: str, text: str) -> str:
    """Sends a request and is gone before it is answered."""
    address = urlsplit(url)
    data = b'{"model":"default","max_tokens":400,"messages":[{"role":"user","content":"%s"}]}' % text.encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
    return "hang up"


def client_of(server, number: int, part: int, counts: Counter[str]) -> None:
    choose = random.Random(100 * part + number)
    left = EVENTS // PARTS // CLIENTS + 1
    with server.http() as client:
        while left > 0:
            text = f"{choose.random()} " * choose.randrange(1, 4)
            what = choose.choices(("end", "disconnect", "hang up", "overflow"), (3, 4, 3, 1))[0]
            left -= what != "end"
            if what == "hang up":
                counts[hang_up(server.url, text)] += 1
                continue
            text = "overflow " * WINDOW if what == "overflow" else text
            ended = ask(client, text, choose.randrange(1, 200), what, f"user-{number}")
            assert (ended == "400") == (what == "overflow"), ended
            counts[ended] += 1


def _learn_something(server) -> None:
    """Let it load what it learns with, which has nothing to do with clients that go away."""
    deadline = time.monotonic() + STUCK_S
    server.ask("My dog is called Rex.", "the first")
    with server.http() as client:
        while not client.get("/v1/facts", params={"user": "the first"}).json()["data"]:
            assert time.monotonic() < deadline, "nothing is learned"
            time.sleep(0.05)


def under_way(server) -> int:
    with server.http() as client:
        figures = client.get("/metrics").text
    return sum(int(float(n)) for n in re.findall(r"shepherd_answers_under_way\{[^}]*\} (\S+)", figures))


def _grown(sizes: list[float], stored: list[float]) -> float:
    """By how much memory has grown in the last part without what is held of the stored data, in MB."""
    return sizes[-1] - sizes[-2] - min(HELD_OF_STORED * (stored[-1] - stored[-2]), MOST_HELD_MB)


@pytest.mark.parametrize(
    ("is_bundled", "memory"),
    [(False, ()), (False, ("--nomemory",)), (True, ())],
    ids=["memory", "no memory", "bundled model"],
)
def test_clients_that_go_away_leave_nothing_behind(serve, endless_model, is_bundled, memory):
    # A parked conversation of the bundled model takes half a megabyte: its cache is full in the first third.
    model = () if is_bundled else ("-m", endless_model)
    options = ("--ctx", WINDOW, "--slots", SLOTS, "--threads", 1, *memory)
    server = serve(*model, *options, SHEPHERD_CACHE_RAM_MB="4" if is_bundled else "1")
    process = psutil.Process(server.process.pid)
    counts: Counter[str] = Counter()
    sizes, files, stored = [], [], []
    most_grown = GROWTH_MB if EVENTS >= LONG else EARLY_GROWTH_MB

    if is_bundled:
        _learn_something(server)
    for part in range(MOST_PARTS):
        threads = [
            threading.Thread(target=client_of, args=(server, i, part, counts), daemon=True)
            for i in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(STUCK_S)
        assert not any(thread.is_alive() for thread in threads), f"a client of part {part} waits for ever"
        deadline = time.monotonic() + STUCK_S
        while under_way(server):
            assert time.monotonic() < deadline, "an answer that nobody reads was not ended"
            time.sleep(0.05)
        sizes.append(process.memory_info().rss / 1e6)
        stored.append(server.database.stat().st_size / 1e6 if server.database.exists() else 0.0)
        files.append(process.num_fds())
        if part + 1 >= PARTS and _grown(sizes, stored) < most_grown:
            break

    told = [[round(n, 1) for n in numbers] for numbers in (sizes, stored)]
    print(f"{dict(counts)}; resident {told[0]} MB, stored {told[1]} MB; open files {files}")
    assert sum(counts[what] for what in ("disconnect", "hang up", "400")) >= EVENTS
    assert all(server.ask("Hello", max_tokens=2)["usage"]["completion_tokens"] == 2 for _ in range(SLOTS))
    assert "Traceback" not in server.log
    assert '"level": "error"' not in server.log
    # Connections of clients that went away, and pipes of their answers, are closed.
    assert files[-1] <= files[0] + CLIENTS
    assert _grown(sizes, stored) < most_grown

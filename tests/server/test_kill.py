"""kill -9 of the server at random moments: what it had acknowledged is learned, once.

SHEPHERD_TEST_KILLS=100 kills more often.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter

import httpx

from shepherd.memory import Memory
from tests.extraction.server import learned, running
from tests.server.processes import ServerProcess

KILLS = int(os.environ.get("SHEPHERD_TEST_KILLS", "4"))
USERS = ("anna", "boris", "chen")
LEARNED_S = 300.0


class Client(threading.Thread):
    """Tells numbered lines until the server is gone; `told` are those that were answered."""

    def __init__(self, url: str, user: str, first: int) -> None:
        super().__init__()
        self.url, self.user, self.next = url, user, first
        self.told: list[str] = []

    def run(self) -> None:
        messages: list[dict[str, str]] = []
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            while True:
                line = f"{self.user} line {self.next}"
                messages.append({"role": "user", "content": line})
                body = {"model": "default", "user": self.user, "messages": messages, "max_tokens": 2}
                try:
                    answer = client.post("/v1/chat/completions", json=body)
                    answer.raise_for_status()
                except httpx.TransportError:
                    return
                self.next += 1
                self.told.append(line)
                said = answer.json()["choices"][0]["message"]["content"]
                messages = [*messages, {"role": "assistant", "content": said}][-6:]


def test_kill_9_of_the_server_loses_nothing_that_was_answered_and_doubles_nothing(endless_model, tmp_path):
    chance = random.Random(3)

    def answer(handler) -> None:
        lines = [line.removeprefix("User: ") for line in handler.asked.lines.split("\n")]
        body = learned(
            {}, *[(f"What is number {line.split()[2]} of {line.split()[0]}?", line) for line in lines]
        )
        time.sleep(chance.random() * 0.02)
        try:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:  # who asked is dead
            pass

    told: set[str] = set()
    numbers = dict.fromkeys(USERS, 0)
    n_under_way = 0
    with running(answers=[answer]) as upstream:
        settings = {
            "SHEPHERD_MEMORY_EXTRACTION": "true",
            "SHEPHERD_MEMORY_EXTRACTION_ENDPOINT": upstream.url,
            "SHEPHERD_MEMORY_EXTRACTION_RETRY_INTERVAL": "0.1",
            "SHEPHERD_ARCHIVE_TURNS": "false",
        }

        def start() -> ServerProcess:
            return ServerProcess(tmp_path / "home", "-m", str(endless_model), "--ctx", "4096", **settings)

        for _ in range(KILLS):
            server = start()
            clients = [Client(server.url, user, numbers[user]) for user in USERS]
            for client in clients:
                client.start()
            asked = len(upstream.requests)
            while len(upstream.requests) == asked:
                time.sleep(0.001)
            time.sleep(chance.random() * 0.5)
            server.process.kill()
            for client in clients:
                client.join()
                told.update(client.told)
                # The one under way may have been kept before its answer left; its user says it again.
                numbers[client.user] = client.next
            server.stop()
            with Memory(server.database, user_id="local", read_only=True) as memory:
                n_under_way += memory.extraction.counts().get("running", 0)
        with start() as server, Memory(server.database, user_id="local") as memory:
            deadline = time.monotonic() + LEARNED_S
            while memory.extraction.counts():
                assert time.monotonic() < deadline, memory.extraction.counts()
                time.sleep(0.02)
            answers = Counter(
                (user, record.answer)
                for user in USERS
                for record in memory.list_memories(user, limit=100_000)
            )

    print(f"{len(told)} lines, {KILLS} kills, {n_under_way} of them with a job under way")
    assert told <= {line for _, line in answers}
    assert all(line.startswith(user) for user, line in answers)
    assert set(answers.values()) == {1}
    assert n_under_way > 0

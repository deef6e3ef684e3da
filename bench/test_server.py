"""Do eight users who talk at once each get their own facts, and does every turn read only what is new?

A real server process with the small model answers each of them over HTTP, every request with the whole
conversation. One turn in four tells something, and then waits until that was learned, as it is when people
read and think: extraction pauses while anybody is answered. The others ask for it. Then: each user's facts
are his own, what was appended to his messages names nobody else's, and tokens read = new tokens in every turn
that no eviction precedes.

    python -m pytest bench/test_server.py --benchmark-only -s
    SHEPHERD_BENCH_TURNS=200    of each user; 12 without it
    SHEPHERD_BENCH_SLOTS=4      answers at once; 2 without it
"""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from shepherd.memory import Memory
from tests.serving.processes import ServerProcess

TURNS = int(os.environ.get("SHEPHERD_BENCH_TURNS", "12"))
SLOTS = os.environ.get("SHEPHERD_BENCH_SLOTS", "2")
LEARNED_S = 600.0
NAMES = ("Anna", "Boris", "Chen", "Dora", "Emil", "Fatima", "Gus", "Hana")
CITIES = ("Lisbon", "Sofia", "Taipei", "Oslo", "Vienna", "Tunis", "Dublin", "Kyoto")
DOGS = ("Rex", "Bella", "Luna", "Max", "Rocky", "Daisy", "Milo", "Coco")


@dataclass
class User:
    """One client, which keeps its conversation; `re_read` counts tokens that were read though not new."""

    name: str
    told: list[str]
    questions: list[str]
    messages: list[dict[str, str]] = field(default_factory=list)
    seen: int = 0
    turns: int = 0
    evictions: int = 0
    new: int = 0
    re_read: int = 0
    seconds: list[float] = field(default_factory=list)

    def ask(self, client: httpx.Client, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
        body = {"model": "default", "user": self.name, "messages": self.messages, "max_tokens": 24}
        began = time.perf_counter()
        answer = client.post("/v1/chat/completions", json={**body, "temperature": 0})
        self.seconds.append(time.perf_counter() - began)
        assert answer.status_code == 200, answer.text
        reply = answer.json()
        self._count(reply["usage"])
        self.messages.append({"role": "assistant", "content": reply["choices"][0]["message"]["content"]})

    def _count(self, usage: dict[str, Any]) -> None:
        prompt, cached = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
        self.turns += 1
        if prompt < self.seen:
            self.evictions += 1  # the prefix has moved, and what stays is read again once
        elif self.seen:
            self.new += prompt - self.seen
            # The last token of an answer is sampled, and never read by its own turn.
            self.re_read += max(0, (prompt - cached) - (prompt - self.seen) - 1)
        self.seen = prompt + usage["completion_tokens"]


def _users() -> list[User]:
    return [
        User(
            name.lower(),
            [f"My name is {name}.", f"I live in {city}.", f"My dog is called {dog}."],
            ["What is my name?", "Where do I live?", "What is my dog called?"],
        )
        for name, city, dog in zip(NAMES, CITIES, DOGS, strict=True)
    ]


def _talk(server: ServerProcess, user: User) -> None:
    with server.http() as client:
        for turn in range(TURNS):
            kind, place = turn % 4, turn // 4
            texts = user.told if kind == 0 else user.questions
            user.ask(client, texts[(place + max(0, kind - 1)) % 3])
            if kind == 0:
                _wait_until_learned(client, user)


def _wait_until_learned(client: httpx.Client, user: User) -> None:
    deadline = time.monotonic() + LEARNED_S
    while client.get("/v1/extraction/jobs", params={"user": user.name}).json()["data"]:
        assert time.monotonic() < deadline, "the extraction did not end"
        time.sleep(0.05)


def test_eight_users_at_once(benchmark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Answers that are made at the same moment have to fit the window together, and eight long conversations
    # do not fit that of the small model: they take turns, and are parked in between.
    with ServerProcess(tmp_path_factory.mktemp("server"), "--slots", SLOTS) as server:
        users = _users()

        def talk() -> None:
            with ThreadPoolExecutor(len(users)) as pool:
                list(pool.map(lambda user: _talk(server, user), users))

        benchmark.pedantic(talk, rounds=1)
        with Memory(server.database, user_id="local", read_only=True) as memory:
            _check(memory, users)
    seconds = [second for user in users for second in user.seconds]
    benchmark.extra_info.update(
        turns=sum(user.turns for user in users),
        evictions=sum(user.evictions for user in users),
        new_tokens=sum(user.new for user in users),
        re_read_tokens=sum(user.re_read for user in users),
        turn_ms_median=round(1e3 * statistics.median(seconds), 1),
    )
    print(f"\n{benchmark.extra_info}")
    assert sum(user.re_read for user in users) == 0


def _check(memory: Memory, users: list[User]) -> None:
    """Nobody's facts or messages name what somebody else told."""
    words = dict(zip([user.name for user in users], zip(NAMES, CITIES, DOGS, strict=True), strict=True))
    for user, own in words.items():
        others = {word for other, told in words.items() if other != user for word in told}
        facts = {fact.value for fact in memory.get_all_facts(user)}
        assert len(facts & set(own)) >= min(TURNS // 4, 2), (user, facts)
        assert not facts & others
        injected = 0
        for session in memory.list_sessions(user):
            for message in memory.load_session(session.id, user):
                if message.role == "user":
                    injected += message.sent != message.raw
                    assert not any(word in message.sent for word in others), message.sent
        assert injected > 0 or TURNS < 8

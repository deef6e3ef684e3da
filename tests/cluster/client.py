"""A process that stores and searches memories at a steady rate until its input ends, and then reports.

python client.py ADDRESS NAME WRITES SEARCHES: so many a second, of users that only this process has. Each
search is for something that was stored, and has to find it.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from shepherd.errors import ShepherdError
from shepherd.memory import Memory
from shepherd.memory.postgres.store import PostgresStore

N_USERS = 25
N_WRITERS = 4
N_SEARCHERS = 3
# Without a rest, a pause would be followed by a rush of what was not done in it.
MOST_BEHIND_S = 1.0
WORDS = ("tea", "garden", "train", "river", "paper", "window", "music", "bridge", "winter", "market")


class Client:
    """What the threads of the process share."""

    def __init__(self, memory: Memory, name: str) -> None:
        self.memory = memory
        self.users = [f"{name}-{number}" for number in range(N_USERS)]
        self.stored: list[tuple[int | None, str, str]] = []  # id, user, the memory's own word
        self.writes: list[tuple[float, float]] = []  # when it began, when it ended
        self.searches: list[tuple[float, float]] = []
        self.not_found: list[str] = []
        self.errors: list[str] = []
        self.is_over = threading.Event()

    def write(self, number: int, thread: int) -> None:
        """Store a memory with a word of its own."""
        user = self.users[number * N_WRITERS % N_USERS]
        word = f"w{thread}x{number}"
        began = time.time()
        memory_id = self.memory.store_memory(
            f"What about {word} and the {WORDS[number % 10]}?", f"The {WORDS[number % 7]} of {word}", user
        )
        self.writes.append((began, time.time()))
        self.stored.append((memory_id, user, word))

    def search(self, _number: int, thread: int) -> None:
        """Search for a memory that was stored, often for one of the last ones."""
        known = len(self.stored)
        if not known:
            return
        choice = random.Random(f"{_number} {thread}")
        last = min(known, 50 if choice.random() < 0.5 else known)
        memory_id, user, word = self.stored[known - choice.randint(1, last)]
        began = time.time()
        found = self.memory.search(f"{word} {choice.choice(WORDS)}", 5, user)
        self.searches.append((began, time.time()))
        if memory_id not in [result.id for result in found]:
            self.not_found.append(f"{user} {word}")

    def repeat(self, work: Callable[[int, int], None], thread: int, rate: float) -> None:
        """Do something at a steady rate until the end."""
        due, number = time.monotonic(), 0
        while not self.is_over.is_set():
            number += 1
            try:
                work(number, thread)
            except ShepherdError as error:
                self.errors.append(f"{work.__name__}: {error}")
            due = max(due + 1 / rate, time.monotonic() - MOST_BEHIND_S)
            self.is_over.wait(max(due - time.monotonic(), 0))


def main(address: str, name: str, n_writes: float, n_searches: float) -> dict[str, Any]:
    """Run until the input ends."""
    with Memory(address) as memory:
        store = memory._store
        assert isinstance(store, PostgresStore)
        n_by_tables = 0
        search_tables = store._recall._tables.search

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal n_by_tables
            n_by_tables += 1
            return search_tables(*arguments, **options)

        store._recall._tables.search = counted  # type: ignore[method-assign]
        client = Client(memory, name)
        threads = [
            threading.Thread(target=client.repeat, args=(work, number, rate / n_threads))
            for work, rate, n_threads in (
                (client.write, n_writes, N_WRITERS),
                (client.search, n_searches, N_SEARCHERS),
            )
            for number in range(n_threads)
        ]
        for thread in threads:
            thread.start()
        print("running", flush=True)
        sys.stdin.read()
        client.is_over.set()
        for thread in threads:
            thread.join()
    said = ("stored", "writes", "searches", "not_found", "errors")
    return {**{what: getattr(client, what) for what in said}, "n_by_tables": n_by_tables}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))))

"""Fuzz the hot index: histories of changes against the twin, and saved indexes with forged fields."""

from __future__ import annotations

import random
from typing import Any

from shepherd._native.hot import HotIndex
from tests.native import twin_rank
from tests.native.recall_database import DAY, NOW
from tests.native.saved_index import SavedIndex, boundary_values
from tests.native.test_hot import Row, document, publish, row
from tests.native.test_hot_saved import load, use


class History:
    """An index, the rows that it should have, and random changes to both."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        n_words = rng.choice([3, 12, 80])
        self.words = [rng.choice("abcxyz") * rng.choice([1, 2, 12, 13, 40]) + f"q{i}" for i in range(n_words)]
        self.index = HotIndex()
        self.index.publish(1, 0, 0)
        self.rows: dict[int, Row] = {}
        self.next = rng.choice([0, 1, 4_000_000_000])
        self.version = 1

    def memory(self) -> Any:
        rng = self.rng
        n = rng.choice([0, 1, 3, 9, 9, 300]) if rng.random() < 0.05 else rng.randrange(1, 9)
        n_words = len(self.words)
        words = [self.words[int(n_words * rng.random() ** 3)] for _ in range(n)]
        if n >= 300:
            words = words[:1] * n
        age_s = rng.choice([0, DAY, rng.randrange(400 * DAY), -DAY, NOW])
        return words[:2], words[2:], NOW - age_s, self.next // 7 + 1, rng.randrange(3), rng.randrange(16)

    def add(self) -> None:
        new = []
        for _ in range(self.rng.choice([1, 3, 40, 400])):
            new.append(row(self.next, self.memory()))
            self.next += self.rng.choice([1, 1, 1, 2, 9])
        self.index.add(new)
        self.rows |= {row[0]: row for row in new}

    def remove(self) -> None:
        gone = self.rng.sample(sorted(self.rows), min(len(self.rows), self.rng.choice([1, 3, 20, 100])))
        self.index.remove([*gone, self.next + 3, -5])
        for sequence in gone:
            del self.rows[sequence]

    def replace(self) -> None:
        if self.rows:
            sequence = self.rng.choice(sorted(self.rows))
            self.rows[sequence] = row(sequence, self.memory())
            self.index.replace(self.rows[sequence])

    def reload(self) -> None:
        saved = self.index.save()
        assert saved is not None
        self.index = HotIndex.load(saved)
        assert not any(SavedIndex(saved).unused_bytes)

    def step(self) -> None:
        change = self.rng.choice([self.add, self.add, self.add, self.remove, self.replace, self.reload])
        change()
        self.version += 1
        publish(self.index, self.rows.values(), self.version)

    def ask(self) -> None:
        rng = self.rng
        documents = [document(row) for row in self.rows.values()]
        keywords = [rng.choice([*self.words, "unknown"]) for _ in range(rng.choice([1, 2, 5, 30]))]
        asked = {
            "recency_floor": rng.choice([0.0, 0.5, 0.9, 1.0]),
            "min_relevance": rng.choice([0.0, 0.0, 0.3, 1.0]),
            "k1": rng.choice([0.9, 0.0, 2.0, 1e6]),
            "b": rng.choice([0.3, 0.0, 1.0]),
        }
        k = rng.choice([1, 3, 33, 5000])
        expected = twin_rank.search(documents, keywords, k, NOW, **asked)
        assert self.index.search(self.version, keywords, k, NOW, **asked) == expected


def run(seed: int) -> None:
    """Take one index through twelve changes, then forge it."""
    rng = random.Random(seed)
    history = History(rng)
    for _ in range(12):
        history.step()
        history.ask()
    saved = history.index.save()
    assert saved is not None
    if len(saved) > 60_000:
        return
    parsed = SavedIndex(saved)
    for _ in range(60):
        fields = rng.sample(parsed.fields, rng.choice([1, 1, 2, 3]))
        index = load(parsed.forged([(field, rng.choice(boundary_values(parsed, field))) for field in fields]))
        if index is not None:
            use(index, history.words[:9])

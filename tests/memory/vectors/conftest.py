"""A small embedder of the outside world: words of one meaning share a direction."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from shepherd.errors import ModelError
from shepherd.memory import Memory
from shepherd.memory.vectors import VectorSettings

NOW = 1_700_000_000.0
MEANINGS = ({"dog", "puppy", "hound"}, {"car", "automobile"}, {"lives", "resides", "home"})


@dataclass
class Meanings:
    """Vectors by meaning: each word a direction by its hash, words of one meaning the same."""

    name: str = "meanings"
    dimension: int = 64
    failures: int = 0  # so many calls go wrong first
    longest: int = 1 << 30  # characters; a call with a longer text goes wrong
    refused: str = ""  # so does one with a text that holds this
    calls: int = 0
    texts: list[str] = field(default_factory=list)
    is_closed: bool = False
    before: Callable[[], object] = lambda: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def embed_query(self, text: str) -> np.ndarray:
        return self._vectors([text])[0]

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.before()
        vectors = self._vectors(texts)
        self.texts += texts
        return vectors

    def close(self) -> None:
        self.is_closed = True

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        with self.lock:
            self.calls += 1
            if self.failures:
                self.failures -= 1
                raise ModelError("the server of embeddings is away")
        if any(len(text) > self.longest or (self.refused and self.refused in text) for text in texts):
            raise ModelError("the server of embeddings answers 500")
        out = np.zeros((len(texts), self.dimension), np.float32)
        for i, text in enumerate(texts):
            for word in text.lower().replace("?", " ").replace(".", " ").split():
                meaning = next((min(group) for group in MEANINGS if word in group), word)
                seed = int.from_bytes(hashlib.sha256(meaning.encode()).digest()[:4], "big")
                out[i] += np.random.default_rng(seed).standard_normal(self.dimension)
            out[i] /= max(float(np.linalg.norm(out[i])), 1e-9)
        return out


@pytest.fixture
def embedder() -> Meanings:
    return Meanings()


@pytest.fixture
def open_memory(database: str, embedder: Meanings) -> Iterator[Callable[..., Memory]]:
    """Opens the database with vectors, closed at the end."""
    opened: list[Memory] = []

    def open(embedder: Meanings = embedder, **options: object) -> Memory:
        settings = VectorSettings(lambda: embedder, weight=options.pop("weight", 0.5))  # type: ignore[arg-type]
        memory = Memory(
            database,
            **{"user_id": "steve", "clock": lambda: NOW, "vectors": settings, **options},  # type: ignore[arg-type]
        )
        opened.append(memory)
        return memory

    yield open
    for memory in opened:
        memory.close()

"""Knowledge of a user in a real database, of each engine; tests that take `knowledge` run on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from tests.memory.conftest import NOW, database, engine, path, run_python

__all__ = ["database", "engine", "path", "run_python"]


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def knowledge(memory: Memory) -> Knowledge:
    return Knowledge(memory.transactions, "steve", clock=lambda: NOW)

"""Traces of a user in a real database, of each engine; tests that take `traces` run on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.memory import Memory
from shepherd.trace import Traces
from tests.memory.conftest import NOW, database, engine, path

__all__ = ["database", "engine", "path"]


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def traces(memory: Memory) -> Traces:
    return Traces(memory.transactions, "steve")

"""A real database of each engine with a session in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.memory import Memory
from tests.memory.conftest import NOW, database, engine, path

__all__ = ["database", "engine", "path"]


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def session_id(memory: Memory) -> str:
    return memory.start_session()

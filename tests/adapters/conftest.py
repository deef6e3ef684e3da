"""A memory of each engine for the adapters, and LangGraph stores over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.adapters.langgraph import ShepherdStore
from shepherd.memory import Memory
from tests.postgres import Server

NOW = 1_700_000_000.25
STEVE, ANNA = ("memories", "steve"), ("memories", "anna")


def keys(found):
    return [item.key for item in found]


@pytest.fixture(params=["sqlite", "postgresql"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """An empty memory of Steve's."""
    if request.param == "sqlite":
        database = str(tmp_path / "memory.db")
    else:
        server: Server = request.getfixturevalue("postgres_server")
        database = server.url(server.new_schema())
    with Memory(database, user_id="steve") as opened:
        yield opened


@pytest.fixture
def store(memory):
    return ShepherdStore(memory)


@pytest.fixture
def by_user(memory):
    """The second label of a namespace is the user."""
    return ShepherdStore(memory, user_label=1)


@pytest.fixture
def filled(store):
    store.put(STEVE, "food", {"likes": "pizza with olives", "rating": 5, "tags": ["dinner"]})
    store.put(STEVE, "drink", {"likes": "coffee, black", "rating": 4})
    store.put(("memories", "steve", "work"), "editor", {"uses": "Helix", "rating": 5})
    store.put(ANNA, "food", {"likes": "soup", "rating": 2})
    return store

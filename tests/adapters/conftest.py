"""A memory of each engine for the adapters, and a model of LangChain that says what it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.memory import Memory
from tests.postgres import Server


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

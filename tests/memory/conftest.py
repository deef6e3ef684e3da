"""A real database per test, of each engine; a clock that stands still, and programs of other processes.

A test that takes `memory` or `database` runs on both engines. `path` is the file of SQLite; a test that takes
both it and `memory` is marked IN_A_FILE.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.memory import Memory
from tests import programs
from tests.postgres import Server

NOW = 1_700_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(path: Path, engine: str, request: pytest.FixtureRequest) -> str:
    """Where Memory finds an empty database: `path`, or the address of a schema."""
    if engine == "sqlite":
        return str(path)
    server: Server = request.getfixturevalue("postgres_server")
    return server.url(server.new_schema())


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, optionally behind another command."""

    def run(
        program: str, *arguments: object, behind: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command = [*behind, sys.executable, "-c", program, *map(str, arguments)]
        environment = programs.in_utf8()
        return programs.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=environment
        )

    return run

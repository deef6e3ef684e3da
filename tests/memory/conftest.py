"""A real database file per test, a clock that stands still, and programs of other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.memory import Memory

NOW = 1_700_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory(path, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, optionally behind another command."""

    def run(
        program: str, *arguments: object, behind: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command = [*behind, sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run

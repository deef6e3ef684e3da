"""Machines whose ids are the same in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sync.replicas import Machine, same_every_time


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Callable[..., list[Machine]]]:
    """Make machines by name, each with its own copy of the folder."""
    made: list[Machine] = []

    def make(*names: str, **skews: int) -> list[Machine]:
        made.extend(Machine(tmp_path, name, skews.get(name, 0)) for name in names)
        return made

    for _ in same_every_time():
        yield make
        for machine in made:
            machine.close()

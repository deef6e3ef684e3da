"""A home of its own for every test of the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Home:
    """An empty home folder and the environment of a process that lives in it."""

    path: Path
    environment: dict[str, str]

    @property
    def config(self) -> Path:
        return self.path / ".config" / "shepherd" / "config.json"

    @property
    def database(self) -> Path:
        return self.path / ".local" / "share" / "shepherd" / "memory.db"


@pytest.fixture
def home(tmp_path) -> Home:
    path = tmp_path / "home"
    path.mkdir()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("SHEPHERD_", "XDG_"))}
    return Home(
        path,
        {**inherited, "HOME": str(path), "SHEPHERD_USER_ID": "steve", "PYTHONUTF8": "1", "TERM": "xterm"},
    )

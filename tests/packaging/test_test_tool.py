"""tools/test starts one process per core where that saves time."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def options_for(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return pytest's options on a machine with so many cores."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    distribution = runpy.run_path(str(ROOT / "tools/test"), run_name="test")["distribution"]

    def options(*arguments: str, cores: int = 4) -> list[str]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
        return distribution(arguments)

    return options


@pytest.mark.parametrize(
    "arguments", [[], ["-q"], ["--color=no"], ["tests/memory"], ["tests/memory", "tests/test_types.py"]]
)
def test_everything_and_folders_run_in_more_processes_than_cores(arguments, options_for) -> None:
    assert options_for(*arguments) == ["-n", "6", "--dist", "worksteal"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["tests/test_types.py"],
        ["tests/test_types.py::test_one", "tests/test_lru_cache.py", "-q"],
        ["-n", "3"],
        ["-n3", "tests/memory"],
        ["-s"],
        ["-xs"],
        ["--pdb", "tests/memory"],
        ["-p", "no:xdist"],
    ],
)
def test_files_alone_and_what_needs_one_process_get_one(arguments, options_for) -> None:
    assert options_for(*arguments) == []


def test_number_of_processes_has_limits(options_for) -> None:
    assert options_for(cores=1) == []
    assert options_for(cores=64)[:2] == ["-n", "8"]

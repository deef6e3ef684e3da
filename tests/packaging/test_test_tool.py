"""tools/test starts one process per core where that saves time."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of tools/test."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return runpy.run_path(str(ROOT / "tools/test"), run_name="test")


@pytest.fixture
def options_for(tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return pytest's options on a machine with so many cores."""
    distribution = tool["distribution"]

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


def test_bytecode_is_kept_and_the_order_of_sets_fixed(tool, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)

    assert tool["variables"](deep=False) == {**tool["variables"](deep=True), "PYTHONHASHSEED": "0"}
    assert "PYTHONDONTWRITEBYTECODE" not in tool["variables"](deep=True)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert tool["variables"](deep=False)["PYTHONHASHSEED"] == "7"

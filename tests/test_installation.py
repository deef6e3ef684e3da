"""Hints name the command that works in this installation: a checkout, another environment, or a package."""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shepherd import installation
from shepherd.cli.main import COMMANDS


@pytest.fixture
def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Returns the functions of the module as it is in a checkout, or in a folder of packages."""

    def place(environment: str, *, is_checkout: bool = True, is_ours: bool = True) -> dict[str, Any]:
        copy = tmp_path / "src" / "shepherd" / "installation.py"
        copy.parent.mkdir(parents=True)
        shutil.copy(installation.__file__, copy)
        prefix = tmp_path / environment
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "shepherd").touch(mode=0o755)
        if is_checkout:
            (tmp_path / "tools").mkdir()
            (tmp_path / "tools" / "environment.py").touch()
        if is_ours:
            (prefix / "shepherd-stamp.json").touch()
        monkeypatch.setattr("sys.prefix", str(prefix))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        return runpy.run_path(str(copy))

    return place


def test_in_a_checkout_its_tool_installs_extras(placed, tmp_path, monkeypatch):
    functions = placed(".venv")

    monkeypatch.chdir(tmp_path)
    assert functions["install_extra"]("server") == "tools/environment.py --extras server"
    assert functions["install_extra"]("server", "mcp") == "tools/environment.py --extras server mcp"
    assert functions["program"]() == ".venv/bin/shepherd"
    monkeypatch.chdir(tmp_path / "src")
    assert functions["install_extra"]("server") == f"{tmp_path}/tools/environment.py --extras server"
    assert functions["program"]() == f"{tmp_path}/.venv/bin/shepherd"
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin")
    assert functions["program"]() == "shepherd"


def test_where_the_folder_is_unknown_the_path_begins_in_the_home_folder(placed, tmp_path, monkeypatch):
    functions = placed("my env")
    name, runnable = functions["program_from_anywhere"], functions["runnable_from_anywhere"]
    monkeypatch.chdir(tmp_path)

    monkeypatch.setenv("HOME", str(tmp_path))
    assert name(for_strangers=False) == name(for_strangers=True) == "~/'my env/bin/shepherd'"
    for home in (str(tmp_path / "other"), "/"):
        monkeypatch.setenv("HOME", home)
        own = f"'{tmp_path}/my env/bin/shepherd'"
        assert (name(for_strangers=False), name(for_strangers=True)) == (own, "shepherd")
        # Strangers may read what a process writes, unless it says that they can't.
        assert (name(), runnable("see shepherd doctor")) == ("shepherd", "see shepherd doctor")
        functions["set_readers"](strangers=False)
        assert (name(), runnable("see shepherd doctor")) == (own, f"see {own} doctor")
        functions["set_readers"](strangers=True)
    monkeypatch.setenv("PATH", str(tmp_path / "my env" / "bin"))
    assert name(for_strangers=False) == "shepherd"


def test_the_commands_are_those_of_the_command_line():
    assert tuple(sorted(COMMANDS)) == installation.COMMANDS


def test_only_commands_and_options_get_the_program():
    text = "run shepherd doctor, `shepherd --continue`, bin/shepherd doctor, shepherd's, shepherd servers"

    assert installation.with_program(text, "~/it's/shepherd") == (
        "run ~/it's/shepherd doctor, `~/it's/shepherd --continue`, bin/shepherd doctor, shepherd's,"
        " shepherd servers"
    )


def test_another_environment_of_the_tool_is_named(placed, tmp_path, monkeypatch):
    functions = placed("other")

    monkeypatch.chdir(tmp_path)
    assert functions["install_extra"]("server") == "tools/environment.py --extras server --venv other"


def test_an_editable_installation_elsewhere_is_updated_by_pip(placed, tmp_path):
    functions = placed("my env", is_ours=False)

    assert functions["install_extra"]("server") == (
        f"{sys.executable} -m pip install -e '{tmp_path}[server]'"
    )


def test_an_installed_package_is_updated_by_pip(placed):
    functions = placed(".venv", is_checkout=False)

    assert functions["install_extra"]("server", "mcp") == (
        f"{sys.executable} -m pip install 'shepherd-llm[server,mcp]'"
    )

"""The tests that cibuildwheel runs are found with what it installs: the package and test-requires."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

ROOT = Path(__file__).resolve().parents[2]
# pytest where the modules of a list are not installed.
WITHOUT = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing = set(sys.argv[1].split(","))
sys.meta_path.insert(0, NotInstalled())
import pytest
sys.exit(pytest.main(sys.argv[2:]))
"""


def installed_with(requirements: Iterable[str]) -> set[str]:
    """The names of all distributions that pip installs for `requirements`."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras} - {extra for known, extra in found if known == name}:
            found.add((name, extra))
            try:
                needs = [Requirement(line) for line in requires(name) or ()]
            except PackageNotFoundError:
                continue  # for another system or Python
            waiting += [
                need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in found}


def without_the_others(requirements: Iterable[str], arguments: Iterable[str]) -> tuple[int, str]:
    """Exit status and output of pytest with nothing but `requirements`; no pwd either, as on Windows."""
    names = installed_with(requirements)
    modules = packages_distributions().items()
    missing = {module for module, owners in modules if names.isdisjoint(map(canonicalize_name, owners))}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join({*missing, "pwd"}), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["tool"]["cibuildwheel"]


def test_tests_of_a_wheel_are_found_with_what_is_installed_for_them(settings: dict[str, Any]) -> None:
    command = shlex.split(settings["test-command"].format(project=ROOT))
    assert command[:3] == ["python", "-m", "pytest"]

    status, output = without_the_others(
        ["shepherd-llm", *settings["test-requires"]], [*command[3:], "--collect-only"]
    )

    assert status == 0, output
    assert "test_recall_index.py" in output


def test_what_is_not_installed_is_missing(settings: dict[str, Any], tmp_path: Path) -> None:
    """The test above would notice."""
    (tmp_path / "test_one.py").write_text("import gguf\n")

    status, output = without_the_others(["shepherd-llm", *settings["test-requires"]], [str(tmp_path)])

    assert status != 0
    assert "No module named 'gguf'" in output

""".ci/run fails when any of its steps does, and ends with the closing line of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Takes the place of every Python in a tree that has nothing but .ci/run: prints its arguments, and fails at
# the step that FAILS names.
PYTHON = """#!/bin/bash
echo "called: $*"
case "$*" in
    tools/environment.py*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *" venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "tools/test --venv "*" --installed") echo "7 passed in 1.00s" ;;
esac
[[ -n "$FAILS" && "$*" == *$FAILS* ]] && exit 3
exit 0
"""
STEPS = {
    "tools/environment.py": "",
    "tools/get_sqlite.py": "",
    "tools/lint": "lint, types, stubs",
    "-m venv": "environment of the mini model",
    "pip install": "packages of the mini model",
    "smoke.py": "mini model",
    "installation.py": "documents",
    "tools/test --venv": "tests",
}


def run(folder: Path, fails: str = "") -> subprocess.CompletedProcess[str]:
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    variables = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "FAILS": fails}
    return subprocess.run(
        [folder / ".ci" / "run"],
        env={**os.environ, **variables, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_gate_runs_every_step_and_ends_with_the_tests(tmp_path: Path) -> None:
    done = run(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert [step for step in STEPS if step not in done.stdout] == []
    assert done.stdout.splitlines()[-1] == "7 passed in 1.00s"
    assert {path.name for path in tmp_path.iterdir()} == {".ci", "bin"}


@pytest.mark.parametrize("step", STEPS)
def test_gate_fails_with_any_of_its_steps(step: str, tmp_path: Path) -> None:
    done = run(tmp_path, fails=step)

    assert done.returncode != 0
    assert STEPS[step] == "" or f"failed: {STEPS[step]}" in done.stderr.splitlines()

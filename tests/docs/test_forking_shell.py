"""The program that the shell starts as `shepherd` is forked, and seems to be the program itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shepherd
from tests import programs
from tests.docs.forking_shell import ForkingShell

# A line without a terminal never needs it.
REAL = Path("/nowhere")


@pytest.fixture
def bash(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONUTF8": "1"}
    if not programs.will_be_forked([sys.executable, "-m", "shepherd"], environment):
        pytest.skip("programs are not forked here")
    shell = ForkingShell(tmp_path / "shell", REAL)
    environment["PATH"] = f"{shell.folder}{os.pathsep}{environment['PATH']}"

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    yield run
    shell.close()


def test_streams_arguments_folder_variables_and_exit_code_are_those_of_the_line(bash, tmp_path):
    version = bash("shepherd --version | tr a-z A-Z; echo ${PIPESTATUS[0]}").stdout
    bash("XDG_DATA_HOME=$PWD/other shepherd facts set 'two words' \"a  b\"")
    listed = bash("cd / && XDG_DATA_HOME=$HOME/other shepherd facts list")
    refused = bash("shepherd nonsense --nothing")

    assert version == f"SHEPHERD {shepherd.__version__}\n0\n".upper()
    assert "a  b" in listed.stdout
    assert (tmp_path / "other").is_dir()
    assert refused.returncode == 2
    assert "no command 'nonsense'" in refused.stderr

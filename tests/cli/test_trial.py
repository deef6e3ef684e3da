"""A model file that crashes llama.cpp, met on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.inference.malformed import with_number


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_file_that_crashes_llama_cpp_is_an_error_and_no_crash(
    shepherd, plain_model: Path, tmp_path: Path
) -> None:
    path = with_number(plain_model, "llama.block_count", 0, tmp_path / "bad.gguf")

    done = shepherd("chat", "-m", str(path), input="Hello", SHEPHERD_MODEL_TRIAL="true")

    assert done.returncode == 1
    assert "crashes llama.cpp" in done.stderr
    assert "Traceback" not in done.stderr


def test_good_file_is_remembered(shepherd, home, scripted_model: Path) -> None:
    for _ in range(2):
        done = shepherd("chat", "-m", str(scripted_model), input="Hello", SHEPHERD_MODEL_TRIAL="true")
        assert done.returncode == 0
        assert "a shepherd" in done.stdout

    assert len(list((home.path / ".cache" / "shepherd" / "trials").iterdir())) == 1

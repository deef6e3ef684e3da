"""The door to llama-cpp-python: lazy, checked, quiet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shepherd.inference import binding, selftest
from tests.inference.malformed import with_number


def test_importing_the_engine_does_not_load_llama_cpp() -> None:
    script = "import sys, shepherd.inference; print('llama_cpp' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("version", ["0.3.36", "0.3.99", "0.3.40.dev1"])
def test_tested_version_is_taken_without_a_word(version: str) -> None:
    binding._check_version(version, Path("libllama"))


@pytest.mark.parametrize("version", ["0.3.35", "0.4.0", "1.0"])
def test_untested_version_warns(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = tmp_path / "libllama"
    record = selftest._record(version, library)
    record.parent.mkdir(parents=True)
    record.touch()  # it has passed its self-test, see test_selftest.py

    with pytest.warns(RuntimeWarning, match="outside the tested range"):
        binding._check_version(version, library)


def test_missing_llama_cpp_is_an_error_that_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['llama_cpp'] = None\n"
        "from shepherd.errors import ModelLoadError\n"
        "from shepherd.inference.binding import llama\n"
        "try: llama()\n"
        "except ModelLoadError as error: print(error, '|', error.hint)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "llama-cpp-python cannot be loaded" in done.stdout
    assert "pip install" in done.stdout


def test_a_device_is_found() -> None:
    kinds = [kind for kind, _ in binding.devices()]

    assert "cpu" in kinds


def test_errors_of_llama_cpp_are_told_after_its_package_was_imported(
    plain_model: Path, tmp_path: Path
) -> None:
    bad = with_number(plain_model, "llama.embedding_length", 65, tmp_path / "bad.gguf")
    script = (
        "import sys\n"
        "from shepherd.errors import ModelLoadError\n"
        "from shepherd.inference import Engine\n"
        "Engine(sys.argv[1]).close()\n"
        "import llama_cpp  # takes llama.cpp's log\n"
        "try: Engine(sys.argv[2])\n"
        "except ModelLoadError as error: print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(plain_model), str(bad)], capture_output=True, text=True, check=True
    )

    assert "wrong shape" in done.stdout
    assert done.stderr == ""

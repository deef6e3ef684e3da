"""A llama-cpp-python that nobody has tested is tested here, where it may crash."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import llama_cpp
import pytest

from shepherd.errors import ModelLoadError
from shepherd.inference import binding, selftest

LIBRARY = Path(llama_cpp.llama_cpp._lib._name)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes processes that are started from now on find a llama-cpp-python that differs by some lines."""

    def make(lines: str) -> None:
        folder = tmp_path / "other"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            "import llama_cpp\nfrom llama_cpp import llama_cpp as c\n"
            f"{lines}\nllama_cpp.__version__ = '9.9.9'\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return make


def test_this_version_passes_and_is_asked_once(cache: Path) -> None:
    selftest.require("9.9.9", LIBRARY)
    assert len(list((cache / "shepherd" / "selftests").iterdir())) == 1

    selftest.require("9.9.9", LIBRARY, limit_s=0.001)  # would not be enough for a process


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("c.llama_memory_seq_rm = lambda *_: True", "a sequence cannot be cut"),
        ("c.llama_decode = lambda *_: 1", "cannot be decoded"),
        ("c.llama_init_from_model = lambda *_: None", "no context"),
        ("import os; c.llama_decode = lambda *_: os.abort()", "SIGABRT"),
        (
            "import ctypes; c.llama_decode = lambda *_: ctypes.string_at(8)",
            "SIGSEGV",
        ),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_version_that_computes_otherwise_is_refused(another_version, lines: str, says: str) -> None:
    another_version(lines)

    with pytest.raises(ModelLoadError, match=f"9.9.9 was not tested.*{says}") as caught:
        selftest.require("9.9.9", LIBRARY)

    assert "pip install" in caught.value.hint


def test_version_that_hangs_is_refused(another_version) -> None:
    another_version("import time; time.sleep(1000)")

    with pytest.raises(ModelLoadError, match="had not ended after 3 s"):
        selftest.require("9.9.9", LIBRARY, limit_s=3)


def test_untested_version_warns_and_is_tested(cache: Path) -> None:
    with pytest.warns(RuntimeWarning, match="outside the tested range"):
        binding._check_version("9.9.9", LIBRARY)

    assert len(list((cache / "shepherd" / "selftests").iterdir())) == 1


def test_tested_version_is_not_tested_again(cache: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        binding._check_version("0.3.36", LIBRARY)

    assert not cache.exists()

"""A model file from outside is loaded first where it may crash."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shepherd import subprocess_sandbox
from shepherd.errors import ModelFormatError, ModelLoadError
from shepherd.inference import Engine, load_check, read_header
from shepherd.inference.binding import llama, load_weights
from shepherd.inference.names import BUILT_IN_FILE
from shepherd.subprocess_sandbox import Ending
from tests.inference.malformed import with_number, without_numbers

LONG = 120.0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "shepherd" / "trials"


@pytest.fixture
def model(plain_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(plain_model, tmp_path / "model.gguf"))


def processes_started(path: Path, **options: object) -> int:
    """How often a trial of `path` told that it starts one."""
    told: list[str] = []
    load_check.require(path, limit_s=LONG, loading=told.append, **options)  # type: ignore[arg-type]
    return len([text for text in told if text])


@pytest.mark.parametrize("name", ["plain", "spm", "sliding", "recurrent", "hybrid"])
def test_good_file_is_tried_once(model_file, tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(model_file(name), tmp_path / "model.gguf"))

    assert processes_started(path) == 1
    assert processes_started(path) == 0


def test_known_file_is_tried_again_when_it_has_changed(model: Path) -> None:
    assert processes_started(model) == 1
    status = model.stat()

    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns + 1))

    assert not load_check.is_known(model)
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert load_check.is_known(model)
    model.write_bytes(model.read_bytes() + b"\0")
    assert not load_check.is_known(model)


def test_same_name_with_another_head_is_not_known(model: Path) -> None:
    load_check.vouch(model)
    status = model.stat()

    with_number(model, "llama.block_count", 1, model)
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert not load_check.is_known(model)


def test_trusted_file_needs_no_process(model: Path) -> None:
    assert processes_started(model, is_trusted=True) == 0


def test_file_that_went_well_needs_no_process(model: Path) -> None:
    load_check.vouch(model)

    assert processes_started(model) == 0


def test_all_parts_of_a_split_model_are_looked_at(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for part in parts:
        part.write_bytes(b"GGUF")
    load_check.vouch(parts[0])
    assert load_check.is_known(parts[0])

    parts[1].write_bytes(b"GGUF other")

    assert not load_check.is_known(parts[0])


def test_file_whose_values_are_not_numbers_is_refused(plain_model: Path, tmp_path: Path) -> None:
    """All of the next token's, and those of tokens that may never be the likeliest."""
    for tensor, rows, says in (
        ("output_norm.weight", slice(None), r"\((\d+) of \1\)"),
        ("output.weight", slice(100, 103), r"\(3 of \d+\)"),
    ):
        path = without_numbers(plain_model, tensor, rows, tmp_path / f"{tensor}.gguf")

        with pytest.raises(ModelLoadError, match=f"not numbers {says}") as caught:
            load_check.require(path, limit_s=LONG)

        assert "fetch or convert it again" in caught.value.hint
        assert not load_check.is_known(path)


@pytest.mark.parametrize(
    ("name", "key", "value", "says"),
    [
        ("plain", "llama.block_count", 0, "SIGABRT: GGML_ASSERT"),  # at loading
        ("plain", "llama.attention.layer_norm_rms_epsilon", math.nan, "SIGABRT: GGML_ASSERT"),  # at decoding
        ("hybrid", "qwen35.ssm.inner_size", 65, "SIGABRT: GGML_ASSERT"),  # at making the context
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_file_that_crashes_llama_cpp_costs_an_error(
    model_file, tmp_path: Path, name: str, key: str, value: float, says: str
) -> None:
    path = with_number(model_file(name), key, value, tmp_path / "bad.gguf")
    read_header(path)  # nothing is wrong with it

    with pytest.raises(ModelLoadError, match=f"crashes llama.cpp.*{says}") as caught:
        load_check.require(path, limit_s=LONG)

    assert str(path) in str(caught.value)
    assert "fetch or convert it again" in caught.value.hint
    assert not load_check.is_known(path)


def test_file_that_hangs_llama_cpp_costs_an_error(model_file, tmp_path: Path) -> None:
    path = with_number(model_file("hybrid"), "qwen35.rope.dimension_count", 0, tmp_path / "bad.gguf")

    with pytest.raises(ModelLoadError, match="had not ended after 2 s") as caught:
        load_check.require(path, limit_s=2)

    assert "model_trial" in caught.value.hint


def test_refusal_comes_in_the_words_of_llama_cpp(model: Path, tmp_path: Path) -> None:
    path = with_number(model, "llama.embedding_length", 65, tmp_path / "bad.gguf")

    with pytest.raises(ModelLoadError, match=r"cannot be loaded: .*wrong shape") as caught:
        load_check.require(path, limit_s=LONG)

    assert "llama-cpp-python" in caught.value.hint


def test_damaged_header_starts_no_process(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    told: list[str] = []

    with pytest.raises(ModelFormatError):
        load_check.require(path, loading=told.append)

    assert told == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_process_killed_for_memory_is_recognised() -> None:
    ending = subprocess_sandbox.run("timeit", ["-n1", "import os; os.kill(os.getpid(), 9)"], limit_s=LONG)

    assert ending.kind == "killed"
    error = load_check._failure("m.gguf", ending, 5_000_000_000)
    assert "memory ran out, its weights take 5.0 GB" in str(error)
    assert "smaller quantisation" in error.hint


@pytest.mark.parametrize(
    ("ending", "says", "hint"),
    [
        (Ending("refused", "no", "do that"), "no", "do that"),
        (
            Ending("hung", "it had not ended after 60 s"),
            "model 'm.gguf' did not load: it had not ended after 60 s, in a trial in a process of its own",
            "try again when the machine and its disk are idle, or shepherd config set model_trial false  "
            " (loads it without a trial)",
        ),
        (
            Ending("killed"),
            "model 'm.gguf' was being tried in a process of its own, which was killed (SIGKILL): most likely"
            " memory ran out, its weights take 5.0 GB; 3.0 GB are available now",
            "take a smaller quantisation, or close other programs; with all layers on a GPU, shepherd config"
            " set model_trial false   (loads it without a trial)",
        ),
        (
            Ending("crashed", "SIGABRT"),
            "model 'm.gguf' crashes llama.cpp, found in a trial in a process of its own: SIGABRT",
            "the file is damaged or made for another llama.cpp: fetch or convert it again, or upgrade"
            " llama-cpp-python",
        ),
    ],
)
def test_every_ending_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, ending: Ending, says: str, hint: str
) -> None:
    monkeypatch.setattr(load_check, "available_bytes", lambda: 3_000_000_000)

    error = load_check._failure("m.gguf", ending, 5_000_000_000)

    assert (str(error), error.hint) == (says, hint)


def test_a_system_that_does_not_tell_its_memory_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_check, "available_bytes", lambda: None)

    assert str(load_check._failure("m.gguf", Ending("killed"), 0)).endswith("its weights take 0.0 GB")


def test_the_bundled_model_and_a_model_in_a_trial_start_no_process(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert processes_started(BUILT_IN_FILE) == 0
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert processes_started(model) == 0
    monkeypatch.delattr(sys, "frozen")
    monkeypatch.setenv("SHEPHERD_CHILD", "1")
    assert processes_started(model) == 0
    assert not load_check.is_known(model)


def test_a_trial_that_python_cannot_run_is_a_warning(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))

    load_check.require(model, loading=told.append)

    assert told == [f"trying {model}, new here, in a process of its own …", ""]
    [record] = caplog.records
    assert record.getMessage() == (
        f"model '{model}' was not tried before it is loaded: No such file or directory"
    )
    assert not load_check.is_known(model)


@pytest.mark.parametrize(("limit_s", "expected"), [(0, 70.0), (7, 7)])
def test_a_trial_has_a_minute_and_twenty_seconds_for_each_gigabyte(
    model: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, expected: float
) -> None:
    limits: list[float] = []

    def run(module: str, arguments: list[str], *, limit_s: float) -> Ending:
        limits.append(limit_s)
        return Ending("good")

    monkeypatch.setattr(subprocess_sandbox, "run", run)
    os.truncate(model, 500_000_000)

    load_check.require(model, limit_s=limit_s)

    assert limits == [expected]


def test_what_is_known_stays_so_while_it_is_used(model: Path, cache: Path) -> None:
    load_check.vouch(model)
    [record] = cache.iterdir()
    os.utime(record, (1000, 1000))

    assert load_check.is_known(model)
    assert record.stat().st_mtime > 1_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are POSIX's")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")

    load_check.vouch(tmp_path / "pipe.gguf")

    assert not load_check.is_known(tmp_path / "pipe.gguf")


def test_only_the_first_megabyte_is_read_again(model: Path) -> None:
    os.truncate(model, (1 << 20) + 10)
    for where, stays in (((1 << 20) - 1, False), (1 << 20, True)):
        load_check.vouch(model)
        status = model.stat()
        with open(model, "r+b") as file:
            file.seek(where)
            file.write(b"x")
        os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert load_check.is_known(model) == stays


def test_a_trial_reads_a_text_in_many_scripts(plain_model: Path) -> None:
    c = llama()
    model = load_weights(str(plain_model), hint="", n_gpu_layers=0)
    try:
        tokens, n = load_check._tokens(c, model)
        vocabulary = c.llama_model_get_vocab(model)
        expected = (ctypes.c_int32 * 100)()
        n_all = c.llama_tokenize(
            vocabulary, load_check._TEXT, len(load_check._TEXT), expected, 100, True, True
        )
    finally:
        c.llama_model_free(model)

    assert n_all > 20
    assert list(tokens[:n]) == list(expected[: min(n_all, 32)])


def test_folder_of_the_user_is_not_searched_for_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    (tmp_path / "shepherd").mkdir()
    (tmp_path / "shepherd" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)

    load_check.require("model.gguf", limit_s=LONG)

    assert load_check.is_known(model)


def test_cache_that_cannot_be_written_only_costs_a_trial(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.parent.write_text("a file where the folder would be")

    assert processes_started(model) == 1
    assert processes_started(model) == 1


def test_oldest_records_go(model: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    old = time.time() - 1_000_000
    for i in range(600):
        (cache / f"{i:040}").touch()
        os.utime(cache / f"{i:040}", (old + i, old + i))

    load_check.vouch(model)

    left = sorted(record.name for record in cache.iterdir())
    assert len(left) == 512
    assert f"{0:040}" not in left
    assert load_check.is_known(model)


LOAD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from shepherd.inference import Engine
with Engine(sys.argv[1]) as engine:
    assert 0 < engine.window_tokens <= 8192
    assert engine.info.n_ctx_train >= 0
"""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.block_count", 1 << 31),
        ("llama.block_count", (1 << 32) - 1),
        ("llama.attention.head_count", 1 << 31),
        ("llama.context_length", 1 << 31),
        ("llama.context_length", (1 << 32) - 1),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="its limits are POSIX's")
def test_an_engine_survives_a_header_that_would_end_the_process(
    plain_model: Path, tmp_path: Path, key: str, value: int
) -> None:
    path = with_number(plain_model, key, value, tmp_path / "bad.gguf")

    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, encoding="utf-8", check=False
    )

    assert done.returncode in (0, 1), done.stderr[-300:]
    assert done.returncode == 0 or "shepherd.errors.Model" in done.stderr


def test_an_engine_loads_what_was_checked_or_is_trusted_without_a_process(model: Path) -> None:
    with Engine(model, is_trusted=True):
        assert not load_check.is_known(model)

    with Engine(model):
        assert load_check.is_known(model)

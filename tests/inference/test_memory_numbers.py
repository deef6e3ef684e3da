"""How much memory a model takes, number by number from its header, and what the system files tell of it."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import Keys

from shepherd.inference import EngineSettings, load_check
from shepherd.inference.gguf import GGUFHeader
from shepherd.inference.load_check import (
    affordable_cells,
    available_bytes,
    cache_bytes,
    model_bytes,
    remedies,
    total_bytes,
)
from shepherd.subprocess_sandbox import Ending

PLAIN = EngineSettings()
Q8 = EngineSettings(kv_type="q8_0")
# 3 layers of 8 heads, two of them of keys and values, of 512 / 8 numbers
NUMBERS = {
    "block_count": 3, "embedding_length": 512, "attention.head_count": 8, "attention.head_count_kv": 2,
    "context_length": 4096,
}  # fmt: skip
CELL = 3 * 2 * (64 + 64)


def header(file_bytes: int = 1000, arrays: tuple[str, ...] = (), **numbers: object) -> GGUFHeader:
    """A header of these numbers; `__` in a name stands for a dot, and None leaves a number out."""
    named = {**NUMBERS, **{name.replace("__", "."): value for name, value in numbers.items()}}
    metadata = {f"m.{name}": value for name, value in named.items() if value is not None}
    lengths = {f"m.{name}": 3 for name in arrays}
    return GGUFHeader(3, {"general.architecture": "m", **metadata}, lengths, (), file_bytes)


# ---- what it takes


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ({}, CELL),
        ({"attention__key_length": 100}, 3 * 2 * (100 + 64)),
        ({"attention__value_length": 100}, 3 * 2 * (64 + 100)),
        ({"attention__head_count_kv": None}, 3 * 8 * 128),
        ({"block_count": None}, 0),
        ({"block_count": -3}, 0),
        ({"attention__head_count": 1}, 3 * 2 * 1024),
        ({"attention__head_count": 0}, 0),
        ({"attention__head_count": "8"}, 0),
    ],
)
def test_a_cache_has_the_values_of_each_layer_and_token(changed, values):
    for kind, bytes_of_32 in (("f32", 128), ("f16", 64), ("q8_0", 34)):
        assert cache_bytes(header(**changed), 320, kind) == values * 320 // 32 * bytes_of_32


@pytest.mark.parametrize(
    "key",
    [
        Keys.Attention.SLIDING_WINDOW,
        Keys.Attention.KV_LORA_RANK,
        Keys.SSM.STATE_SIZE,
        Keys.ShortConv.L_CACHE,
        Keys.WKV.HEAD_SIZE,
    ],
)
def test_the_size_of_another_kind_of_cache_is_not_told(key):
    name = key.removeprefix("{arch}.")

    assert cache_bytes(header(**{name: 64}), 320, "f16") == 0
    assert cache_bytes(header(arrays=(name,)), 320, "f16") == 0


def test_heads_that_differ_by_layer_are_not_told():
    assert cache_bytes(header(arrays=("attention.head_count_kv",)), 320, "f16") == 0
    assert cache_bytes(header(arrays=("rope.scaling",)), 320, "f16") > 0


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Makes a file of so many bytes that has this header."""
    headers: dict[str, GGUFHeader] = {}
    monkeypatch.setattr(load_check, "read_header", lambda path: headers[os.fspath(path)])

    def make(name: str, n_bytes: int, **numbers: object) -> str:
        path = tmp_path / name
        path.write_bytes(bytes(n_bytes))
        headers[str(path)] = header(n_bytes, **numbers)
        return str(path)

    return make


def context(cells: int, settings: EngineSettings = PLAIN, heads: int = 8) -> int:
    scores = 4 * settings.n_ubatch * heads * cells
    return CELL * cells // 32 * {"f16": 64, "q8_0": 34}[settings.kv_type] + scores


@pytest.mark.parametrize(
    ("settings", "trained", "expected"),
    [
        (EngineSettings(n_ctx=256), 4096, context(256)),
        (EngineSettings(), 4096, context(4096)),
        (EngineSettings(), 9000, context(8192)),
        (EngineSettings(), None, context(8192)),
        (EngineSettings(n_ctx=9000), 4096, context(9000)),
        (EngineSettings(n_ctx=256, windows=3), 4096, context(768)),
        (EngineSettings(n_ctx=256, flash_attention="on"), 4096, context(256, heads=1)),
        (EngineSettings(n_ctx=256, kv_type="q8_0"), 4096, context(256, Q8, heads=1)),
        (EngineSettings(n_ctx=256, n_ubatch=64), 4096, context(256, EngineSettings(n_ubatch=64))),
    ],
)
def test_a_model_takes_its_weights_and_its_context(model, settings, trained, expected):
    path = model("m.gguf", 5000, context_length=trained)

    assert model_bytes(path, settings, 8192) == 5000 + expected


def test_a_projector_and_a_draft_model_take_memory_too(model):
    path = model("m.gguf", 5000)
    draft = model("d.gguf", 300, block_count=1)
    small = EngineSettings(n_ctx=256)
    projector = Path(path).parent / "eyes.gguf"
    projector.write_bytes(bytes(70))
    plain = model_bytes(path, small, 8192)

    assert model_bytes(path, replace(small, mmproj=str(projector)), 8192) == plain + 70
    assert model_bytes(path, replace(small, mmproj=str(projector) + "x"), 8192) == plain
    of_draft = 300 + CELL // 3 * 256 * 2 + 4 * 512 * 8 * 256
    assert model_bytes(path, replace(small, draft_model=draft), 8192) == plain + of_draft
    assert model_bytes(path, replace(small, draft_model=draft, mmproj=str(projector)), 8192) == (
        plain + of_draft + 70
    )
    assert model_bytes(path, replace(small, draft_model=draft, draft="off"), 8192) == plain


def test_all_parts_of_a_model_count(model, tmp_path):
    first = model("m-00001-of-00002.gguf", 5000)
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(bytes(600))

    plain = model_bytes(model("n.gguf", 5000), EngineSettings(n_ctx=256), 8192)

    assert model_bytes(first, EngineSettings(n_ctx=256), 8192) == plain + 600


# ---- how much fits


def test_cells_are_taken_away_window_by_window_until_they_fit(model, monkeypatch):
    def affordable(room: int, settings: EngineSettings = PLAIN, cells: int = 1024) -> int:
        monkeypatch.setattr(load_check, "available_bytes", lambda: 1000 + room)
        return affordable_cells(header(), settings, 256, cells)

    assert affordable(context(1024)) == 1024
    assert affordable(context(1024) - 1) == 768
    assert affordable(context(512)) == 512
    assert affordable(0) == 256
    assert affordable(-5000) == 256
    assert affordable(context(512), cells=600) == 344  # what is left of 600 but a window
    draft = model("d.gguf", 300)
    drafting = EngineSettings(draft_model=draft)
    with_draft = context(512) + model_bytes(draft, EngineSettings(n_ctx=256), 256)
    assert affordable(with_draft, drafting) == 512
    assert affordable(with_draft - 1, drafting) == 256
    assert affordable(context(512), replace(drafting, draft="off")) == 512
    monkeypatch.setattr(load_check, "available_bytes", lambda: None)
    assert affordable_cells(header(), PLAIN, 256, 1024) == 1024


def test_remedies_name_what_each_saves():
    big = header(3 * 10**9, block_count=3000)

    assert remedies(big, PLAIN, 4096) == (
        "set a smaller n_ctx (now 4096; half of it, saves 3.1 GB), kv_type q8_0 (saves 2.9 GB),"
        " on a GPU fewer gpu_layers, a smaller quantisation (this one takes 3.0 GB), or close other programs"
    )
    assert remedies(header(99_900_000, arrays=("attention.head_count_kv",)), PLAIN, 2049) == (
        "set a smaller n_ctx (now 2049; half of it), kv_type q8_0, on a GPU fewer gpu_layers,"
        " a smaller quantisation (this one takes 99.9 MB), or close other programs"
    )
    assert remedies(header(10**8), Q8, 2048) == (
        "on a GPU fewer gpu_layers, a smaller quantisation (this one takes 0.1 GB), or close other programs"
    )
    assert remedies(None, Q8, 2048) == (
        "on a GPU fewer gpu_layers, a smaller quantisation, or close other programs"
    )


# ---- how much there is


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Files of the system, by their paths; None removes one. No limit of the address space."""
    monkeypatch.setattr(load_check, "Path", lambda path: tmp_path / str(path).lstrip("/"))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)

    def write(**files: str | None) -> None:
        places = {
            "meminfo": "proc/meminfo", "statm": "proc/self/statm", "limit": "sys/fs/cgroup/memory.max",
            "used": "sys/fs/cgroup/memory.current", "stat": "sys/fs/cgroup/memory.stat",
        }  # fmt: skip
        for name, content in files.items():
            path = tmp_path / places[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_text(content)

    return write


MEMINFO = "MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable:   50 kB\nSwapFree: 7 kB\n"


def test_available_is_the_least_of_what_the_system_and_the_container_allow(system):
    assert available_bytes() is None
    system(meminfo=MEMINFO)
    assert available_bytes() == 57 * 1024
    system(meminfo=MEMINFO.replace("SwapFree", "Other"))
    assert available_bytes() == 50 * 1024
    system(meminfo=MEMINFO, limit="max\n", used="900", stat="anon 5\nfile 200\n")
    assert available_bytes() == 57 * 1024
    system(limit="2000\n")
    assert available_bytes() == 2000 - 900 + 200
    system(stat="anon 5\n")
    assert available_bytes() == 2000 - 900
    system(meminfo="MemTotal: 100 kB\n")
    assert available_bytes() is None


def test_the_limit_of_the_address_space_counts(system, monkeypatch):
    system(meminfo=MEMINFO, statm="2 1 1\n")
    page = os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2 * page + 123, resource.RLIM_INFINITY))

    assert available_bytes() == 123


def test_the_whole_memory_is_that_of_the_machine_or_of_its_container(system):
    assert total_bytes() is None
    system(meminfo=MEMINFO)
    assert total_bytes() == 100 * 1024
    system(limit="max\n")
    assert total_bytes() == 100 * 1024
    system(limit="5000\n")
    assert total_bytes() == 5000
    system(limit="500000\n")
    assert total_bytes() == 100 * 1024


# ---- what a trial's end means


def test_the_end_of_a_trial_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(load_check, "available_bytes", lambda: 1_500_000_000)

    def told(kind: str) -> tuple[str, str]:
        error = load_check._failure("m.gguf", Ending(kind, "it went so", "do so"), 2_000_000_000)
        return str(error), error.hint

    assert told("refused") == ("it went so", "do so")
    message, hint = told("hung")
    assert message == "model 'm.gguf' did not load: it went so, in a trial in a process of its own"
    assert "model_trial false" in hint
    message, hint = told("killed")
    assert message.endswith("its weights take 2.0 GB; 1.5 GB are available now")
    assert "smaller quantisation" in hint
    message, hint = told("crashed")
    assert message.startswith("model 'm.gguf' crashes llama.cpp")
    assert message.endswith(": it went so")
    assert "damaged" in hint
    monkeypatch.setattr(load_check, "available_bytes", lambda: None)
    assert told("killed")[0].endswith("its weights take 2.0 GB")

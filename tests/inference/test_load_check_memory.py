"""What the system, a container or a limit leaves of memory, and what a model takes, to the byte."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.errors import ModelLoadError
from shepherd.inference import EngineSettings, load_check, read_header
from shepherd.inference.gguf import GGUFHeader
from shepherd.inference.load_check import (
    affordable_cells,
    available_bytes,
    cache_bytes,
    model_bytes,
    refuse_without_room,
    remedies,
    total_bytes,
)

# Of the plain model: 2 layers of 2 KV heads with 16 keys and 16 values, 4 heads, embeddings of 64.
VALUES = 2 * 2 * 32
HEADS = 4
MEMINFO = "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:  5000 kB\nSwapFree:  700 kB\n"
CGROUP = "sys/fs/cgroup"

Write = Callable[[str, str], None]


@pytest.fixture
def header(plain_model: Path) -> GGUFHeader:
    return read_header(plain_model)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return what writes the kernel's files, which are read in an empty folder; the process has no limits."""
    monkeypatch.setattr(load_check, "Path", lambda path: tmp_path / str(path).lstrip("/"))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def with_values(header: GGUFHeader, **values: object) -> GGUFHeader:
    changed = {f"llama.{name.replace('__', '.')}": value for name, value in values.items()}
    return replace(header, metadata={**header.metadata, **changed})


# ---- what there is


def test_free_memory_and_swap_can_be_had(system: Write) -> None:
    system("proc/meminfo", MEMINFO)
    assert available_bytes() == 1024 * 5700

    system("proc/meminfo", MEMINFO.replace("SwapFree", "Other"))
    assert available_bytes() == 1024 * 5000


def test_a_system_that_does_not_say_is_not_guessed_at(system: Write) -> None:
    assert available_bytes() is None
    assert total_bytes() is None

    system("proc/meminfo", "MemTotal:  9000 kB\nSwapFree:  700 kB\n")
    assert available_bytes() is None

    system("proc/meminfo", "nothing\n")
    assert total_bytes() is None


def test_a_container_leaves_what_it_does_not_use_but_for_pages_of_files(system: Write) -> None:
    system("proc/meminfo", MEMINFO)
    system(f"{CGROUP}/memory.current", "3000000\n")
    system(f"{CGROUP}/memory.stat", "anon 1\nfile 500000\n")
    system(f"{CGROUP}/memory.max", "max\n")
    assert available_bytes() == 1024 * 5700

    system(f"{CGROUP}/memory.max", "4000000\n")
    assert available_bytes() == 4_000_000 - 3_000_000 + 500_000

    system(f"{CGROUP}/memory.stat", "anon 1\n")
    assert available_bytes() == 4_000_000 - 3_000_000


def test_an_address_space_that_is_limited_leaves_what_is_not_mapped(
    system: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    system("proc/meminfo", MEMINFO)
    system("proc/self/statm", "100 7 7 7\n")
    page = os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (110 * page, resource.RLIM_INFINITY))

    assert available_bytes() == 10 * page


def test_the_whole_memory_is_that_of_the_machine_or_of_its_container(system: Write) -> None:
    system("proc/meminfo", MEMINFO)
    assert total_bytes() == 1024 * 9000

    for limit, total in (("max", 1024 * 9000), ("4000000", 4_000_000), ("999999999999", 1024 * 9000)):
        system(f"{CGROUP}/memory.max", f"{limit}\n")
        assert total_bytes() == total


# ---- what a model takes


@pytest.mark.parametrize(
    "key",
    ["attention.sliding_window", "ssm.state_size", "attention.kv_lora_rank", "shortconv.l_cache", "wkv.x"],
)
def test_caches_of_other_kinds_are_not_guessed_at(header: GGUFHeader, key: str) -> None:
    assert cache_bytes(header, 32, "f16") == 64 * VALUES

    assert cache_bytes(with_values(header, **{key: 4}), 32, "f16") == 0
    assert cache_bytes(replace(header, array_lengths={f"llama.{key}": 2}), 32, "f16") == 0


def test_a_number_of_heads_for_each_layer_is_not_guessed_at(header: GGUFHeader) -> None:
    assert cache_bytes(replace(header, array_lengths={"llama.attention.head_count_kv": 2}), 32, "f16") == 0


def test_keys_and_values_are_as_wide_as_the_file_says_or_as_a_head(header: GGUFHeader) -> None:
    wide = with_values(header, attention__key_length=100, attention__value_length=10)
    assert cache_bytes(wide, 32, "f16") == 64 * 2 * 2 * 110

    silent = {
        key: value
        for key, value in header.metadata.items()
        if not key.endswith(("_length", "head_count_kv")) or key.endswith("embedding_length")
    }
    each = header.metadata["llama.embedding_length"] // HEADS  # type: ignore[operator]
    silent_header = replace(header, metadata=silent)
    assert cache_bytes(silent_header, 32, "f16") == 64 * 2 * HEADS * 2 * each
    one_head = with_values(silent_header, attention__head_count=1)
    assert cache_bytes(one_head, 32, "f16") == 64 * 2 * 2 * HEADS * each
    no_heads = with_values(silent_header, attention__head_count=0, attention__head_count_kv=2)
    assert cache_bytes(no_heads, 32, "f16") == 0


def test_negative_numbers_are_no_size(header: GGUFHeader) -> None:
    assert cache_bytes(with_values(header, block_count=-2), 1000, "f16") == 0
    wide = with_values(header, attention__key_length=16, attention__value_length=16, attention__head_count=-1)
    assert cache_bytes(wide, 32, "f16") == 64 * VALUES
    assert cache_bytes(with_values(header, block_count="many"), 32, "f16") == 0


def context_bytes(cells: int, *, ubatch: int = 512, heads: int = HEADS, bytes_of_32: int = 64) -> int:
    return VALUES * cells // 32 * bytes_of_32 + 4 * ubatch * heads * cells


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"n_ctx": 64}, context_bytes(64)),
        ({"n_ctx": 64, "windows": 3}, context_bytes(192)),
        ({"n_ctx": 64, "n_ubatch": 100}, context_bytes(64, ubatch=100)),
        ({"n_ctx": 64, "flash_attention": "on"}, context_bytes(64, heads=1)),
        ({"n_ctx": 64, "flash_attention": "off"}, context_bytes(64)),
        ({"n_ctx": 64, "kv_type": "q8_0"}, context_bytes(64, heads=1, bytes_of_32=34)),
        ({"n_ctx": 64, "kv_type": "f32"}, context_bytes(64, bytes_of_32=128)),
        ({}, context_bytes(1000)),
    ],
)
def test_a_model_takes_its_file_its_cache_and_its_scores(
    plain_model: Path, options: dict[str, object], expected: int
) -> None:
    weights = plain_model.stat().st_size

    assert model_bytes(plain_model, EngineSettings(mmproj="none", **options), 1000) == weights + expected  # type: ignore[arg-type]


def test_a_window_that_is_not_set_is_the_models_own_up_to_the_default(
    plain_model: Path, header: GGUFHeader
) -> None:
    trained = header.metadata["llama.context_length"]
    assert isinstance(trained, int)
    settings = EngineSettings(mmproj="none")

    for default, window in ((trained + 1000, trained), (trained - 1, trained - 1)):
        expected = plain_model.stat().st_size + context_bytes(window)
        assert model_bytes(plain_model, settings, default) == expected


def test_a_projector_counts_if_it_is_used(plain_model: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(plain_model.read_bytes())
    (tmp_path / "eyes.gguf").write_bytes(bytes(300))
    without = model_bytes(model, EngineSettings(n_ctx=64, mmproj="none"), 64)

    assert model_bytes(model, EngineSettings(n_ctx=64), 64) == without
    named = EngineSettings(n_ctx=64, mmproj=str(tmp_path / "eyes.gguf"))
    assert model_bytes(model, named, 64) == without + 300
    gone = EngineSettings(n_ctx=64, mmproj=str(tmp_path / "none.gguf"))
    assert model_bytes(model, gone, 64) == without


def test_a_draft_model_counts_with_one_window_unless_nothing_is_drafted(plain_model: Path) -> None:
    alone = EngineSettings(n_ctx=64, windows=1, mmproj="none")
    small = model_bytes(plain_model, alone, 64)
    drafting = replace(alone, draft_model=str(plain_model))

    assert model_bytes(plain_model, drafting, 64) == 2 * small
    assert model_bytes(plain_model, replace(drafting, draft="off"), 64) == small


def test_all_windows_fit_beside_the_weights_and_the_draft_model(
    plain_model: Path, header: GGUFHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings(n_ctx=64, draft_model=str(plain_model), windows=4)
    drafts = plain_model.stat().st_size + context_bytes(64)
    needed = header.file_bytes + drafts + context_bytes(256)
    for room, cells in ((needed, 256), (needed - 1, 192), (0, 64)):
        monkeypatch.setattr(load_check, "available_bytes", lambda room=room: room)
        assert affordable_cells(header, settings, 64, 256) == cells
    monkeypatch.setattr(load_check, "available_bytes", lambda: needed - drafts)
    assert affordable_cells(header, replace(settings, draft="off"), 64, 256) == 256

    monkeypatch.setattr(load_check, "available_bytes", lambda: None)
    assert affordable_cells(header, settings, 64, 256) == 256


def test_part_of_a_window_more_than_fits_leaves_one(
    header: GGUFHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_check, "available_bytes", lambda: 0)

    assert affordable_cells(header, EngineSettings(), 64, 100) == 64


# ---- what is said


def test_the_refusal_of_a_window_has_its_numbers(header: GGUFHeader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_check, "available_bytes", lambda: 99_900_000)

    with pytest.raises(ModelLoadError) as caught:
        refuse_without_room(header, EngineSettings(), 1 << 20, "m.gguf")

    assert str(caught.value).startswith(
        "no context of 1048576 tokens for model 'm.gguf': its KV cache takes 0.3 GB,"
        " 99.9 MB of memory are available"
    )


def test_remedies_are_in_order_with_what_they_save(header: GGUFHeader) -> None:
    header = replace(header, file_bytes=3_000_000_000)

    assert remedies(header, EngineSettings(), 1 << 20) == (
        "set a smaller n_ctx (now 1048576; half of it, saves 0.1 GB), kv_type q8_0 (saves 0.1 GB),"
        " on a GPU fewer gpu_layers, a smaller quantisation (this one takes 3.0 GB), or close other programs"
    )
    assert remedies(header, EngineSettings(), 1 << 14) == (
        "set a smaller n_ctx (now 16384; half of it, saves 2.1 MB), kv_type q8_0 (saves 2.0 MB),"
        " on a GPU fewer gpu_layers, a smaller quantisation (this one takes 3.0 GB), or close other programs"
    )
    assert remedies(None, EngineSettings(kv_type="q8_0"), 2048) == (
        "on a GPU fewer gpu_layers, a smaller quantisation, or close other programs"
    )
    assert remedies(None, EngineSettings(), 2049) == (
        "set a smaller n_ctx (now 2049; half of it), kv_type q8_0,"
        " on a GPU fewer gpu_layers, a smaller quantisation, or close other programs"
    )

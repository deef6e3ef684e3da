"""What a model needs is known before the system ends the process for it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from shepherd.errors import ModelLoadError
from shepherd.inference import Engine, EngineSettings, load_check, read_header
from shepherd.inference.load_check import (
    affordable_cells,
    available_bytes,
    cache_bytes,
    refuse_without_room,
    remedies,
)
from tests.inference.malformed import with_number

ANY = EngineSettings()


def test_cache_of_full_attention_is_layers_times_heads_times_window(plain_model: Path) -> None:
    header = read_header(plain_model)

    # 2 layers, 2 KV heads of 16 keys and 16 values
    assert cache_bytes(header, 1000, "f32") == 2 * 2 * 32 * 1000 * 4
    assert cache_bytes(header, 1000, "f16") == 2 * 2 * 32 * 1000 * 2
    assert cache_bytes(header, 1000, "q8_0") == 2 * 2 * 32 * 1000 * 34 // 32


@pytest.mark.parametrize("name", ["sliding", "recurrent", "hybrid"])
def test_other_caches_are_not_guessed_at(model_file, name: str) -> None:
    assert cache_bytes(read_header(model_file(name)), 1 << 20, "f16") == 0


def test_damaged_numbers_are_no_size(plain_model: Path) -> None:
    header = read_header(plain_model)
    changed = {**header.metadata, "llama.attention.head_count": 0, "llama.block_count": "many"}

    assert cache_bytes(replace(header, metadata=changed), 1000, "f16") == 0


def test_what_is_available_is_less_than_the_whole_memory_or_unknown() -> None:
    available, whole = available_bytes(), psutil.virtual_memory().total + psutil.swap_memory().total

    assert available is None if sys.platform != "linux" else 0 < available <= whole


HUGE = 1 << 24
WIDE = EngineSettings(kv_type="f32")


def test_window_that_memory_cannot_hold_is_refused_with_what_to_change(
    plain_model: Path, monkeypatch
) -> None:
    header = read_header(plain_model)
    monkeypatch.setattr(load_check, "available_bytes", lambda: cache_bytes(header, HUGE, "f32") - 1)

    with pytest.raises(ModelLoadError, match=rf"no context of {HUGE} tokens.*KV cache takes .* GB") as caught:
        refuse_without_room(header, WIDE, HUGE, "m.gguf")

    assert f"smaller n_ctx (now {HUGE}" in caught.value.hint
    assert "kv_type q8_0 (saves" in caught.value.hint


def test_window_that_memory_holds_or_may_hold_is_not_refused(plain_model: Path, monkeypatch) -> None:
    header = read_header(plain_model)
    for available in (cache_bytes(header, HUGE, "f32"), None):
        monkeypatch.setattr(load_check, "available_bytes", lambda available=available: available)

        refuse_without_room(header, WIDE, HUGE, "m.gguf")


def test_context_has_as_many_windows_as_memory_holds(plain_model: Path, monkeypatch) -> None:
    header = read_header(plain_model)
    # 4 heads' scores of 512 tokens, and 2 layers' keys and values, for each cell
    each = 4 * 4 * 512 + 2 * 2 * 32 * 2
    for windows, expected in ((4.0, 4), (3.9, 3), (1.5, 1), (0.5, 1)):
        room = header.file_bytes + int(windows * 8192 * each)
        monkeypatch.setattr(load_check, "available_bytes", lambda room=room: room)

        assert affordable_cells(header, ANY, 8192, 4 * 8192) == expected * 8192


def test_engine_without_room_for_all_windows_opens_with_fewer(plain_model: Path, monkeypatch) -> None:
    room = read_header(plain_model).file_bytes + 2 * 256 * (4 * 4 * 512 + 2 * 2 * 32 * 2)
    monkeypatch.setattr(load_check, "available_bytes", lambda: room)

    with Engine(plain_model, settings=EngineSettings(n_ctx=256, slots=4, windows=4)) as engine:
        assert (engine.window_tokens, engine.n_cells) == (256, 512)


def test_remedies_name_what_is_not_done_yet(plain_model: Path) -> None:
    header = read_header(plain_model)

    assert "kv_type" in remedies(header, ANY, 8192)
    assert "kv_type" not in remedies(header, EngineSettings(kv_type="q8_0"), 8192)
    assert "n_ctx" not in remedies(header, ANY, 512)
    assert "smaller quantisation" in remedies(None, ANY, 8192)


def test_refused_model_says_what_to_change_about_memory(plain_model: Path, tmp_path: Path) -> None:
    path = with_number(plain_model, "llama.embedding_length", 65, tmp_path / "bad.gguf")

    with pytest.raises(ModelLoadError) as caught:
        Engine(path, is_trusted=True)

    assert "if memory is short: set a smaller n_ctx (now 8192" in caught.value.hint

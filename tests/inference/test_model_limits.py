"""Which models cannot chat, how long windows and contexts get, and that everything is freed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shepherd.errors import ModelLoadError, UsageError
from shepherd.inference import Engine, EngineSettings, read_header
from shepherd.inference import model as model_module
from shepherd.inference.binding import llama
from shepherd.inference.gguf import TensorInfo
from shepherd.inference.model import LoadedModel, _Weights
from tests import models
from tests.inference.engines import exact_settings

SMALL = EngineSettings(n_ctx=256, n_threads=1)


@contextmanager
def frees() -> Iterator[list[str]]:
    """Collect what llama.cpp is asked to free, in order."""
    freed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("llama_free", "llama_model_free"):
            free = getattr(llama(), name)
            patch.setattr(
                llama(), name, lambda handle, free=free, name=name: freed.append(name) or free(handle)
            )
        yield freed


@pytest.mark.parametrize(
    ("function", "value", "says"),
    [
        ("llama_model_has_encoder", True, "is an encoder"),
        ("llama_model_has_decoder", False, "is an encoder"),
        ("llama_model_is_diffusion", True, "is a diffusion model"),
        ("llama_vocab_n_tokens", 0, "has no vocabulary"),
    ],
)
def test_models_that_cannot_chat_are_refused_and_freed(
    plain_model: Path, monkeypatch: pytest.MonkeyPatch, function: str, value: object, says: str
) -> None:
    monkeypatch.setattr(llama(), function, lambda handle: value)

    with frees() as freed, pytest.raises(ModelLoadError) as caught:
        Engine(plain_model, settings=SMALL)

    assert str(caught.value) == f"model '{plain_model}' {says}, which cannot continue a conversation"
    assert freed == ["llama_model_free"]


def test_a_model_without_a_cache_is_refused_and_freed(
    plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama(), "llama_get_memory", lambda context: None)

    with frees() as freed, pytest.raises(ModelLoadError, match="makes embeddings"):
        Engine(plain_model, settings=SMALL)

    assert freed == ["llama_free", "llama_model_free"]


def test_the_weights_are_freed_once_by_the_last_that_has_them(plain_model: Path) -> None:
    with frees() as freed:
        engine = Engine(plain_model, settings=SMALL)
        siblings = [engine.sibling(), engine.sibling()]
        engine.close()
        engine.close()
        siblings[0].close()
        assert freed == ["llama_free", "llama_free"]
        siblings[1].close()
    assert freed == ["llama_free"] * 3 + ["llama_model_free"]


def test_weights_that_are_freed_cannot_be_shared(plain_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[object] = []
    monkeypatch.setattr(model_module, "llama", lambda: SimpleNamespace(llama_model_free=freed.append))
    weights = _Weights("handle", read_header(plain_model))
    weights.share()
    weights.release()
    assert freed == []
    weights.release()
    assert freed == ["handle"]

    with pytest.raises(UsageError, match="the model is closed"):
        weights.share()


def loaded(settings: EngineSettings, *, trained: int = 4096, recurrent: bool = False, rope: int = 0) -> Any:
    """A model as far as its window is concerned, with what llama.cpp would say of it."""
    model = object.__new__(LoadedModel)
    model.settings = settings
    model._weights = SimpleNamespace(handle="handle")  # type: ignore[assignment]
    model._c = SimpleNamespace(
        llama_model_n_ctx_train=lambda handle: trained,
        llama_model_is_recurrent=lambda handle: recurrent,
        llama_model_rope_type=lambda handle: rope,
        llama_model_n_layer=lambda handle: 2,
    )
    return model


@pytest.mark.parametrize(
    ("n_ctx", "trained", "recurrent", "rope", "expected"),
    [
        (0, 4096, False, 0, 4096),
        (0, 100_000, False, 0, 8192),
        (0, 0, False, 0, 8192),
        (5000, 4096, False, 0, 5000),
        (5000, 4096, False, -1, 4096),  # learned positions are a table
        (300, 4096, False, -1, 300),
        (5000, 4096, True, -1, 5000),
        (5000, 0, False, -1, 5000),
        (5000, 1, False, -1, 1),
    ],
)
def test_a_window_is_what_was_asked_for_as_far_as_positions_go(
    n_ctx: int, trained: int, recurrent: bool, rope: int, expected: int
) -> None:
    model = loaded(EngineSettings(n_ctx=n_ctx), trained=trained, recurrent=recurrent, rope=rope)

    assert model._window() == expected


def test_cells_are_for_all_windows_unless_memory_or_factors_say_otherwise(
    plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = read_header(plain_model)
    asked: list[tuple[int, int]] = []

    def affordable(header: object, settings: object, window: int, cells: int) -> int:
        asked.append((window, cells))
        return cells - 1

    monkeypatch.setattr(model_module, "affordable_cells", affordable)
    model = loaded(EngineSettings(n_ctx=1000, windows=4))
    # All layers of two, and the output, are on a GPU: then the memory of the machine isn't asked.
    for gpu_layers, cells in ((0, 3999), (2, 3999), (3, 4000)):
        monkeypatch.setattr(model_module, "gpu_layers", lambda wanted, n=gpu_layers: n)
        assert model._cells(header) == cells
    assert asked == [(1000, 4000), (1000, 4000)]

    long = TensorInfo("rope_factors_long.weight", (8,), 0, 0)
    phi = replace(header, tensors=(*header.tensors, long))
    # The factors for short contexts hold for as many cells as the model was trained with first.
    assert model._cells(phi) == 4000
    key = "llama.rope.scaling.original_context_length"
    for short, cells in ((2000, 2000), (1000, 1000), (999, 4000), ("many", 4000)):
        named = replace(phi, metadata={**phi.metadata, key: short})
        assert model._cells(named) == cells
    assert loaded(EngineSettings(n_ctx=1000, windows=9), trained=3000)._cells(phi) == 3000


def test_a_context_that_does_not_fit_is_halved_down_to_a_window(
    plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    make = llama().llama_init_from_model

    def made(model: object, parameters: Any) -> object:
        asked.append(parameters.n_ctx)
        return make(model, parameters) if parameters.n_ctx <= most else None

    monkeypatch.setattr(llama(), "llama_init_from_model", made)
    settings = replace(SMALL, slots=4, windows=4)
    for most, tried in ((1024, [1024]), (600, [1024, 512]), (300, [1024, 512, 256])):  # noqa: B007 - made() reads it
        asked.clear()
        with Engine(plain_model, settings=settings) as engine:
            assert asked == tried
            assert (engine.n_cells, engine.window_tokens) == (tried[-1], 256)
    most = 0
    asked.clear()
    with (
        frees() as freed,
        pytest.raises(ModelLoadError, match=f"no context of 256 tokens for model '{plain_model}'"),
    ):
        Engine(plain_model, settings=settings)
    assert asked == [1024, 512, 256]
    assert freed == ["llama_model_free"]


def test_a_context_has_the_settings(plain_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    make = llama().llama_init_from_model

    def made(model: object, parameters: Any) -> object:
        given.append(parameters)
        return make(model, parameters)

    monkeypatch.setattr(llama(), "llama_init_from_model", made)
    settings = (
        EngineSettings(n_ctx=256, n_threads=1),
        EngineSettings(
            n_ctx=256, n_threads=2, n_batch=8, n_ubatch=16, slots=3, kv_type="f32", swa_full=True,
            flash_attention="on",
        ),
        EngineSettings(n_ctx=256, n_threads=1, n_batch=600, n_ubatch=16, slots=3),
        EngineSettings(n_ctx=256, n_threads=1, n_batch=2, n_ubatch=1, slots=5),
    )  # fmt: skip
    for one in settings:
        Engine(plain_model, settings=one).close()

    def column(name: str) -> list[object]:
        return [getattr(parameters, name) for parameters in given]

    assert column("n_batch") == [512, 16, 600, 5]
    assert column("n_ubatch") == [512, 16, 16, 1]
    assert column("n_seq_max") == [1, 3, 3, 5]
    assert column("n_threads") == column("n_threads_batch") == [1, 2, 1, 1]
    assert column("type_k") == column("type_v") == [1, 0, 1, 1]
    assert column("swa_full") == [False, True, False, False]
    assert column("flash_attn_type") == [0, 1, 0, 0]
    assert set(column("kv_unified")) == {True}
    assert set(column("no_perf")) == {False}


@pytest.mark.parametrize("named", [True, False])
def test_a_model_is_described_by_its_file(tmp_path: Path, named: bool) -> None:
    path = tmp_path / "some.gguf"
    models.llama(path)
    if not named:
        data = path.read_bytes()
        path.write_bytes(data.replace(b"general.name", b"general.nbme"))
    with Engine(path, settings=exact_settings()) as engine:
        info = engine.info

    assert info.name == ("tiny-plain" if named else "some.gguf")
    assert (info.architecture, info.cache_kind, info.n_swa, info.n_gpu_layers) == ("llama", "plain", 0, 0)
    assert info.description.startswith("llama")
    assert "<|im_start|>" in info.chat_template
    assert (info.n_ctx_train, info.n_vocab) == (4096, 401)
    n_values = 2 * 64 * 401 + 64 + 2 * (2 * 64 + 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128)
    assert info.n_params == n_values
    assert info.size_bytes == 4 * n_values


def test_a_sliding_window_is_described(model_file: Any) -> None:
    with Engine(model_file("sliding"), settings=exact_settings()) as engine:
        assert (engine.info.cache_kind, engine.info.n_swa) == ("sliding", 64)

"""Ids that stand for pictures, where a prompt has them, and what a projector is loaded with and freed."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from shepherd.errors import ModelError, ModelLoadError, UsageError
from shepherd.inference import Engine, vision
from shepherd.inference.vision import (
    PicturePart,
    PlacedPicture,
    VisionModel,
    _ids,
    find_projector,
    place,
    try_projector,
)
from shepherd.types import Picture
from tests import models, vision_models
from tests.inference.engines import exact_settings
from tests.vision_models import PICTURE_TOKENS, png

RED, BLUE = Picture(png("red")), Picture(png("blue"))
SIGN, BEGIN = -(1 << 31), 1 << 30


@pytest.fixture(scope="module")
def eyes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vision_models.seeing(tmp_path_factory.mktemp("seeing"))


@pytest.fixture(scope="module")
def engine(eyes: Path) -> Iterator[Engine]:
    with Engine(eyes, settings=exact_settings(n_ctx=512)) as engine:
        yield engine


@pytest.fixture
def seeing(engine: Engine) -> VisionModel:
    assert engine.model.vision is not None
    return engine.model.vision


def test_ids_are_negative_and_say_where_they_begin_and_how_many_positions_they_have() -> None:
    ids = _ids(b"digest", 6, 3)

    assert all(id_ < 0 for id_ in ids)
    assert [bool(id_ & BEGIN) for id_ in ids] == [True, False, False, False, False, False]
    assert ids[1] == SIGN | 3
    assert _ids(b"digest", 6, 3) == ids
    assert _ids(b"other", 6, 3)[2:] != ids[2:]
    # The bits of a digest, below the sign and the mark of a beginning.
    assert all((id_ - SIGN) < BEGIN for id_ in ids[1:])
    assert len(set(ids)) == 6
    [alone] = _ids(b"digest", 1, 9)
    assert alone & BEGIN
    assert alone < 0


def test_pictures_are_found_in_a_prompt_by_their_ids(seeing: VisionModel) -> None:
    [red], [blue] = (
        [part for part in seeing.layout(one) if isinstance(part, PicturePart)] for one in (RED, BLUE)
    )
    assert len(red.ids) == PICTURE_TOKENS
    assert red.ids != blue.ids
    prompt = array("i", [5, *red.ids, *blue.ids, 6, 7, *red.ids])

    n = PICTURE_TOKENS
    assert place(prompt, [RED, BLUE], seeing) == (
        PlacedPicture(1, RED, 0),
        PlacedPicture(1 + n, BLUE, 0),
        PlacedPicture(3 + 2 * n, RED, 0),
    )
    assert place(array("i", [5, 6]), [RED], seeing) == ()
    assert place(array("i"), [], seeing) == ()


def test_a_picture_is_laid_out_and_encoded_once(seeing: VisionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    green = Picture(png("green"))
    calls: list[str] = []
    for name in ("mtmd_tokenize_from_parts", "mtmd_encode_chunk"):
        function = getattr(seeing._m, name)
        monkeypatch.setattr(
            seeing._m, name, lambda *given, f=function, name=name: calls.append(name) or f(*given)
        )

    assert seeing.layout(green) is seeing.layout(Picture(png("green")))
    assert seeing.read(green) is seeing.read(Picture(png("green")))

    tokenize, encode = "mtmd_tokenize_from_parts", "mtmd_encode_chunk"
    assert calls == [tokenize, tokenize, encode]
    [part] = seeing.read(green)
    assert seeing._bytes_of(b"", (part, part)) == 2 * 4 * seeing.n_embd * PICTURE_TOKENS


def test_what_cannot_be_encoded_says_what_to_do(seeing: VisionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    white = Picture(png((250, 250, 250)))
    with monkeypatch.context() as patch:
        patch.setattr(seeing._m, "mtmd_encode_chunk", lambda *given: 1)
        with pytest.raises(ModelError, match="the picture could not be encoded: ") as caught:
            seeing.read(white)
    assert caught.value.hint == "try a smaller one"
    with monkeypatch.context() as patch:
        patch.setattr(seeing._m, "mtmd_get_output_embd", lambda context: ctypes.POINTER(ctypes.c_float)())
        with pytest.raises(ModelError, match=r"llama\.cpp returned no embeddings of the picture"):
            seeing.read(white)
    freed: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(seeing._m, "mtmd_tokenize_from_parts", lambda *given: 2)
        free = seeing._m.mtmd_input_chunks_free
        patch.setattr(seeing._m, "mtmd_input_chunks_free", lambda one: freed.append(one) or free(one))
        with pytest.raises(UsageError, match="the model can't read this picture: ") as caught:
            seeing.read(white)
    assert len(freed) == 1
    assert len(seeing.read(white)) == 1


def test_all_that_was_made_is_freed(eyes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = vision._mtmd()
    counts: dict[str, int] = {}

    def count(name: str) -> None:
        function = getattr(m, name)

        def counted(*given: object) -> object:
            counts[name] = counts.get(name, 0) + 1
            return function(*given)

        monkeypatch.setattr(m, name, counted)

    for name in (
        *("mtmd_input_chunks_init", "mtmd_input_chunks_free", "mtmd_bitmap_init", "mtmd_bitmap_free"),
        *("mtmd_helper_bitmap_init_from_buf", "mtmd_init_from_file", "mtmd_free"),
    ):
        count(name)
    with Engine(eyes, settings=exact_settings()) as engine:
        own = engine.model.vision
        assert own is not None
        own.layout(RED)
        own.read(RED)
        own.close()

    assert counts["mtmd_input_chunks_init"] == counts["mtmd_input_chunks_free"] == 3 + 2
    bitmaps = counts["mtmd_bitmap_init"] + counts["mtmd_helper_bitmap_init_from_buf"]
    assert counts["mtmd_bitmap_free"] == bitmaps == 5
    assert counts["mtmd_init_from_file"] == counts["mtmd_free"] == 1
    with pytest.raises(UsageError, match="the engine is closed"):
        own.layout(BLUE)


def test_a_projector_alone_is_tried_and_freed(eyes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = vision._mtmd()
    given, freed = [], []
    start, free = m.mtmd_init_from_file, m.mtmd_free
    monkeypatch.setattr(m, "mtmd_init_from_file", lambda *one: given.append(one) or start(*one))
    monkeypatch.setattr(m, "mtmd_free", lambda one: freed.append(one) or free(one))

    try_projector(str(eyes.parent / "mmproj-seeing.gguf"))

    [(path, model, parameters)] = given
    assert path == str(eyes.parent / "mmproj-seeing.gguf").encode()
    assert model is None
    assert (parameters.use_gpu, parameters.warmup, parameters.n_threads, parameters.print_timings) == (
        False, True, 1, False,
    )  # fmt: skip
    assert len(freed) == 1


def test_a_projector_without_pictures_is_refused_and_freed(
    eyes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = vision._mtmd()
    freed: list[object] = []
    free = m.mtmd_free
    monkeypatch.setattr(m, "mtmd_free", lambda one: freed.append(one) or free(one))
    monkeypatch.setattr(m, "mtmd_support_vision", lambda context: False)

    with pytest.raises(ModelLoadError, match="reads no pictures"):
        try_projector(str(eyes.parent / "mmproj-seeing.gguf"))

    assert len(freed) == 1


def test_a_build_that_reads_no_pictures_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(vision, "llama_module", fails)
    with pytest.raises(ModelLoadError, match="this llama-cpp-python can't read pictures: no mtmd_cpp"):
        vision._mtmd()


def test_pictures_that_attend_to_themselves_need_a_batch_of_their_size(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    models.gemma3(path)
    vision_models.gemma3(tmp_path / "mmproj-model.gguf", 64)
    for n_ubatch in (8, 512):
        settings = exact_settings(n_ubatch=n_ubatch)
        with Engine(path, settings=settings) as engine:
            own = engine.model.vision
            assert own is not None
            assert own.most_whole_tokens > 0
            assert engine.model.settings.n_ubatch == max(n_ubatch, own.most_whole_tokens)


def test_most_whole_tokens_are_of_the_largest_picture() -> None:
    sizes = iter([[(True, 5), (False, 50)], [(True, 9)], [(True, 7)]])
    freed: list[object] = []
    stub = SimpleNamespace(
        _m=SimpleNamespace(
            mtmd_bitmap_init=lambda *given: given,
            mtmd_input_chunks_free=freed.append,
            mtmd_input_chunk_get_n_tokens=lambda chunk: chunk[1],
        ),
        _tokenized=lambda bitmap: next(sizes),
        _images=lambda chunks: chunks,
        _is_whole=lambda chunk: chunk[0],
    )

    assert VisionModel._most_whole_tokens(stub) == 9  # type: ignore[arg-type]
    assert len(freed) == 3


def test_a_folder_that_is_gone_has_no_projector(tmp_path: Path) -> None:
    assert find_projector(str(tmp_path / "none" / "model.gguf")) == ""

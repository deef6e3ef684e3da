"""The part of a model that reads pictures: a projector in its own file (mmproj), through llama.cpp's libmtmd.

A picture becomes text tokens that the model was trained to find around pictures, and embeddings, which take
the place of tokens. In prompts, ids stand for these embeddings. The ids are made from the picture's digest
(see pictures.h), so they say which picture the KV cache holds. A picture is decoded and encoded by the thread
that needs it. The engine's thread computes other answers meanwhile. The last embeddings are kept.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shepherd._native import engine as native
from shepherd.errors import ModelError, ModelLoadError, UsageError
from shepherd.inference.binding import last_error, llama, llama_module
from shepherd.inference.gguf import read_header
from shepherd.inference.names import projector_of
from shepherd.lru_cache import LRUCache
from shepherd.types import Picture

__all__ = ["PicturePart", "PlacedPicture", "VisionModel", "find_projector", "place", "try_projector"]

_CACHED_LAYOUTS, _CACHED_BYTES = 1024, 256 << 20
# As in pictures.h.
_SIGN, _BEGIN, _BITS = -(1 << 31), 1 << 30, (1 << 30) - 1
_IMAGE = 1  # MTMD_INPUT_CHUNK_TYPE_IMAGE
# What these models read of a picture depends on the prompt before it, so it can't be kept.
_BY_PLACE = ("hunyuanvl", "deepseek4v")
# Bitmaps without pixels, whose tokens are counted to know how many a picture can have.
_LARGE = ((4096, 4096), (4096, 1024), (1024, 4096))


@dataclass(frozen=True, slots=True)
class PicturePart:
    """Ids that stand for one part of a picture: most have one part, some models cut pictures into tiles."""

    ids: array[int]
    n_positions: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """A part of a picture in a prompt, whose ids begin at `at`."""

    at: int
    picture: Picture
    part: int


# Text tokens, and parts of the picture.
_Layout = tuple["array[int] | PicturePart", ...]


class VisionModel:
    """A projector, loaded for a language model. Thread-safe until it is closed.

    Raises ModelFormatError for a damaged file, ModelLoadError when llama.cpp refuses it.
    """

    def __init__(self, path: str, model: Any, *, use_gpu: bool, n_threads: int) -> None:
        header = read_header(path, is_projector=True)
        kind = header.metadata.get("clip.projector_type") or header.metadata.get("clip.vision.projector_type")
        if kind in _BY_PLACE:
            raise ModelLoadError(
                f"projector '{path}' is of the kind {kind}, which isn't supported",
                hint="use another model that reads pictures",
            )
        self.path = path
        self._m = _mtmd()
        self.n_embd = int(llama().llama_model_n_embd_inp(model))
        # Held while llama.cpp encodes, one picture at a time, and while it decodes files and cuts pictures.
        self._lock, self._reading = threading.Lock(), threading.RLock()
        self._context = _loaded(path, model, use_gpu=use_gpu, n_threads=n_threads)
        self._layouts: LRUCache[bytes, _Layout] = LRUCache(_CACHED_LAYOUTS)
        self._read: LRUCache[bytes, tuple[native.Picture, ...]] = LRUCache(
            _CACHED_LAYOUTS, max_bytes=_CACHED_BYTES, size_of=self._bytes_of
        )
        # Tokens that attend to each other must be decoded in one batch.
        self.most_whole_tokens = self._most_whole_tokens()

    def close(self) -> None:
        """Free it. May be called twice, and waits for the picture that is being encoded."""
        with self._lock, self._reading:
            context, self._context = self._context, None
            if context is not None:
                self._m.mtmd_free(context)

    def layout(self, picture: Picture) -> _Layout:
        """Return what stands for a picture in a prompt. Raises UsageError when it cannot be decoded."""
        found = self._layouts.get(picture.digest)
        if found is None:
            with self._chunks(picture) as chunks, self._reading:
                found = self._laid_out(picture, chunks)
            self._layouts.put(picture.digest, found)
        return found

    def read(self, picture: Picture) -> tuple[native.Picture, ...]:
        """Return the embeddings of each part; encoding takes time. Raises UsageError, ModelError."""
        found = self._read.get(picture.digest)
        if found is None:
            with self._chunks(picture) as chunks, self._lock:
                found = self._read.get(picture.digest)  # another thread may have been first
                if found is None:
                    found = tuple(self._encoded(chunk) for chunk in self._images(chunks))
                    self._read.put(picture.digest, found)
        return found

    def _bytes_of(self, _: bytes, parts: tuple[native.Picture, ...]) -> int:
        return sum(4 * self.n_embd * part.n_tokens for part in parts)

    def _open(self) -> Any:
        if self._context is None:
            raise UsageError("the engine is closed", hint="make a new one")
        return self._context

    @contextmanager
    def _chunks(self, picture: Picture) -> Iterator[Any]:
        """The picture, decoded and cut as the model wants it."""
        data = picture.data
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        with self._reading:
            bitmap = self._m.mtmd_helper_bitmap_init_from_buf(self._open(), buffer, len(data), False)
            if not bitmap:
                last_error()
                raise UsageError(
                    "the picture is damaged and can't be decoded", hint="save it again, as PNG or JPEG"
                )
            chunks = self._tokenized(bitmap)
        try:
            yield chunks
        finally:
            self._m.mtmd_input_chunks_free(chunks)

    def _tokenized(self, bitmap: Any) -> Any:
        """Return the chunks of a bitmap, which is freed."""
        m = self._m
        chunks = m.mtmd_input_chunks_init()
        part = m.mtmd_input_part(None, bitmap)
        parts = (ctypes.POINTER(m.mtmd_input_part) * 1)(ctypes.pointer(part))
        code = m.mtmd_tokenize_from_parts(self._open(), chunks, parts, 1, False)
        m.mtmd_bitmap_free(bitmap)
        if code != 0:
            m.mtmd_input_chunks_free(chunks)
            raise UsageError(
                f"the model can't read this picture: {last_error() or 'llama.cpp gave no reason'}",
                hint="use another size or format",
            )
        return chunks

    def _all(self, chunks: Any) -> list[Any]:
        m = self._m
        return [m.mtmd_input_chunks_get(chunks, i) for i in range(m.mtmd_input_chunks_size(chunks))]

    def _images(self, chunks: Any) -> list[Any]:
        return [chunk for chunk in self._all(chunks) if self._m.mtmd_input_chunk_get_type(chunk) == _IMAGE]

    def _laid_out(self, picture: Picture, chunks: Any) -> _Layout:
        found: list[array[int] | PicturePart] = []
        n_parts = 0
        for chunk in self._all(chunks):
            n = int(self._m.mtmd_input_chunk_get_n_tokens(chunk))
            if self._m.mtmd_input_chunk_get_type(chunk) == _IMAGE:
                n_positions = int(self._m.mtmd_input_chunk_get_n_pos(chunk))
                ids = _ids(picture.digest + n_parts.to_bytes(4, "little"), n, n_positions)
                found.append(PicturePart(ids, n_positions, self._is_whole(chunk)))
                n_parts += 1
            else:
                length = ctypes.c_size_t()
                tokens = self._m.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(length))
                found.append(array("i", tokens[: length.value]))
        return tuple(found)

    def _is_whole(self, chunk: Any) -> bool:
        return bool(self._m.mtmd_decode_use_non_causal(self._open(), chunk))

    def _encoded(self, chunk: Any) -> native.Picture:
        m, context = self._m, self._open()
        if m.mtmd_encode_chunk(context, chunk) != 0:
            raise ModelError(
                f"the picture could not be encoded: {last_error() or 'llama.cpp gave no reason'}",
                hint="try a smaller one",
            )
        n = int(m.mtmd_input_chunk_get_n_tokens(chunk))
        embeddings = m.mtmd_get_output_embd(context)
        address = ctypes.cast(embeddings, ctypes.c_void_p).value
        if not address:
            raise ModelError(
                "llama.cpp returned no embeddings of the picture", hint="upgrade llama-cpp-python"
            )
        return native.Picture(
            (ctypes.c_float * (n * self.n_embd)).from_address(address),
            n_embd=self.n_embd,
            n_positions=int(m.mtmd_input_chunk_get_n_pos(chunk)),
            is_whole=self._is_whole(chunk),
            places=self._places(chunk, n) if m.mtmd_decode_use_mrope(context) else None,
        )

    def _places(self, chunk: Any, n: int) -> array[int]:
        """Positions of the tokens, relative to the first, dimension by dimension: time, row, column, none."""
        image = self._m.mtmd_input_chunk_get_tokens_image(chunk)
        places = (self._m.mtmd_decoder_pos * n)()
        self._m.mtmd_helper_image_get_decoder_pos(image, 0, places)
        found = array("i")
        for name in ("t", "y", "x", "z"):
            found.extend(getattr(place, name) for place in places)
        return found

    def _most_whole_tokens(self) -> int:
        most = 0
        for width, height in _LARGE:
            chunks = self._tokenized(self._m.mtmd_bitmap_init(width, height, None))
            for chunk in self._images(chunks):
                if self._is_whole(chunk):
                    most = max(most, int(self._m.mtmd_input_chunk_get_n_tokens(chunk)))
            self._m.mtmd_input_chunks_free(chunks)
        return most


def place(ids: array[int], all_pictures: Sequence[Picture], vision: VisionModel) -> tuple[PlacedPicture, ...]:
    """Return where these ids have which picture. Raises UsageError if a picture of them is not known."""
    known: dict[bytes, tuple[Picture, int]] = {}
    for picture in all_pictures:
        parts = [part for part in vision.layout(picture) if isinstance(part, PicturePart)]
        known.update((part.ids.tobytes(), (picture, i)) for i, part in enumerate(parts))
    placed, at = [], 0
    while at < len(ids):
        if ids[at] >= 0:
            at += 1
            continue
        end = at + 1
        while end < len(ids) and ids[end] < 0 and not ids[end] & _BEGIN:
            end += 1
        picture, part = known[ids[at:end].tobytes()]
        placed.append(PlacedPicture(at, picture, part))
        at = end
    return tuple(placed)


def find_projector(model_path: str) -> str:
    """Return the projector beside a model; "" without one."""
    folder, name = os.path.split(os.path.abspath(model_path))
    try:
        found = projector_of(name, os.listdir(folder))
    except OSError:
        return ""
    return os.path.join(folder, found) if found else ""


def try_projector(path: str) -> None:
    """Load a projector alone and let it encode a picture without pixels, in a process where it may crash."""
    m = _mtmd()
    m.mtmd_free(_loaded(path, None, use_gpu=False, n_threads=1, warmup=True))


def _mtmd() -> Any:
    llama()
    try:
        declarations = llama_module("mtmd_cpp")
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise ModelLoadError(
            f"this llama-cpp-python can't read pictures: {error}", hint="install it with its libmtmd"
        ) from error
    log = declarations.llama_cpp.llama_log_callback(native.log_address())
    declarations.mtmd_helper_log_set(log, None)
    return declarations


def _loaded(path: str, model: Any, *, use_gpu: bool, n_threads: int, warmup: bool = False) -> Any:
    m = _mtmd()
    parameters = m.mtmd_context_params_default()
    parameters.use_gpu, parameters.print_timings, parameters.warmup = use_gpu, False, warmup
    parameters.n_threads = n_threads
    context = m.mtmd_init_from_file(path.encode("utf-8", "surrogateescape"), model, parameters)
    reason = last_error()
    if not context:
        raise ModelLoadError(
            f"projector '{path}' can't be loaded: {reason or 'llama.cpp gave no reason'}",
            hint="use the mmproj file that belongs to the model",
        )
    if not m.mtmd_support_vision(context):
        m.mtmd_free(context)
        raise ModelLoadError(f"projector '{path}' reads no pictures", hint="use one for pictures")
    return context


def _ids(digest: bytes, n: int, n_positions: int) -> array[int]:
    words = array("I", hashlib.shake_128(digest).digest(4 * n))
    ids = array("i", (_SIGN | (word & _BITS) for word in words))
    ids[0] |= _BEGIN
    if n > 1:
        ids[1] = _SIGN | n_positions
    return ids

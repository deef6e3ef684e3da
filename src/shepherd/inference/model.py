"""A model and its context in llama.cpp: loaded, described, and freed in the right order."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from shepherd._native import engine as native
from shepherd.errors import ModelLoadError, ShepherdError, UsageError
from shepherd.inference.binding import (
    devices,
    gpu_layers,
    keep_log,
    last_error,
    llama,
    load_weights,
    trained_window,
    version,
)
from shepherd.inference.gguf import GGUFHeader, read_header
from shepherd.inference.load_check import affordable_cells, refuse_without_room, remedies, require
from shepherd.inference.sampler import recommended_sampling
from shepherd.inference.state_file import identity_of
from shepherd.inference.tokenization import Vocabulary
from shepherd.inference.vision import VisionModel, find_projector
from shepherd.types import Sampling

__all__ = ["CacheKind", "EngineSettings", "LoadedModel", "ModelInfo"]

CacheKind = Literal["plain", "sliding", "recurrent", "hybrid"]
DEFAULT_WINDOW = 8192
_log = logging.getLogger(__name__)

_KINDS: dict[CacheKind, int] = {
    "plain": native.PLAIN,
    "sliding": native.SLIDING,
    "recurrent": native.RECURRENT,
    "hybrid": native.HYBRID,
}
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_KV_TYPES = {"f32": 0, "f16": 1, "q8_0": 8}  # ggml_type
DRAFTS = {"off": native.DRAFT_OFF, "auto": native.DRAFT_AUTO, "always": native.DRAFT_ALWAYS}
KV_EDITS = {"exact": native.EXACT, "shift": native.SHIFT, "hole": native.HOLE}
_BYTES_PER_THREAD = 16 << 20
_NO_ROPE = -1
_LONG_ROPE = "rope_factors_long"  # Phi 3 and its like: other factors where the context is a long one


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of an engine. `n_ctx` 0: the model's window, at most 8,192 tokens; `n_threads` 0: by the CPU.

    `n_gpu_layers` -1: all of them, when the installed llama.cpp has a GPU. `flash_attention` "auto": with a
    GPU. `seed` is for answers whose Sampling has none. `n_ubatch` is how many prompt tokens are decoded
    between two looks at the cancel flag. `swa_full`: layers with a sliding window keep everything, which
    takes the memory of full attention and lets any rewind reuse what stays.

    `slots` conversations share the context, each with its own place in it; it has cells for `windows` full
    ones, or for fewer where memory ends. `cache_ram_bytes` bounds what is kept outside the context:
    conversations that had to give up their slot, and checkpoints of caches that cannot rewind.
    `cache_disk_bytes` bounds the files in which conversations of an owner are kept, so that another process
    continues them; what does not fit into `cache_ram_bytes` is not kept there. `kv_edit`:
    what a prompt that lacks a part of the middle does to the cache. "exact" decodes again from there on;
    "shift" closes the gap and "hole" leaves it, both approximations. `draft`: check several likely next
    tokens of an answer at once, where that should save time ("auto"), never, or wherever there are any
    ("always", to see what it does). `draft_model` is the file of a smaller model with the same vocabulary,
    which drafts them where the answer repeats nothing. `mmproj` is the file of the projector with which the
    model reads pictures; "": the one beside the model, if there is one; "none": none. `thinking`: ask for
    answers with thoughts before them, or without; "auto" leaves that to the chat template.
    """

    n_ctx: int = 0
    n_gpu_layers: int = -1
    flash_attention: Literal["auto", "on", "off"] = "auto"
    kv_type: Literal["f32", "f16", "q8_0"] = "f16"
    n_threads: int = 0
    n_batch: int = 512
    n_ubatch: int = 512
    swa_full: bool = False
    seed: int | None = None
    slots: int = 1
    windows: int = 1
    cache_ram_bytes: int = 512 << 20
    cache_disk_bytes: int = 0
    kv_edit: Literal["exact", "shift", "hole"] = "exact"
    draft: Literal["auto", "off", "always"] = "auto"
    draft_model: str = ""
    mmproj: str = ""
    thinking: Literal["auto", "on", "off"] = "auto"

    def __post_init__(self) -> None:
        _in_range("n_ctx", self.n_ctx, 0, 1 << 24)
        _in_range("n_gpu_layers", self.n_gpu_layers, -1, 1 << 16)
        _in_range("n_threads", self.n_threads, 0, 512)
        _in_range("n_batch", self.n_batch, 1, 1 << 16)
        _in_range("n_ubatch", self.n_ubatch, 1, 1 << 16)
        _in_range("slots", self.slots, 1, native.MOST_SLOTS)
        _in_range("windows", self.windows, 1, native.MOST_SLOTS)
        _in_range("cache_ram_bytes", self.cache_ram_bytes, 0, 1 << 50)
        _in_range("cache_disk_bytes", self.cache_disk_bytes, 0, 1 << 60)
        if self.kv_edit not in KV_EDITS:
            raise UsageError(f"kv_edit is {self.kv_edit!r}", hint="use exact, shift or hole")
        if self.draft not in DRAFTS:
            raise UsageError(f"draft is {self.draft!r}", hint="use auto, off or always")
        if self.flash_attention not in _FLASH_ATTENTION:
            raise UsageError(f"flash_attention is {self.flash_attention!r}", hint="use auto, on or off")
        if self.kv_type not in _KV_TYPES:
            raise UsageError(f"kv_type is {self.kv_type!r}", hint=f"use one of {', '.join(_KV_TYPES)}")
        if self.kv_type == "q8_0" and self.flash_attention == "off":
            raise UsageError(
                "kv_type q8_0 needs flash attention", hint="set flash_attention to auto, or kv_type to f16"
            )


def _in_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name} is {value}", hint=f"use a number from {least} to {most}")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Description of a loaded model. `device` computes its layers; `n_swa` is its sliding window or 0.

    `sampling`: what its file recommends (general.sampling.*), defaults where it says nothing.
    """

    name: str
    architecture: str
    description: str
    cache_kind: CacheKind
    n_ctx_train: int
    n_vocab: int
    n_params: int
    size_bytes: int
    n_swa: int
    n_gpu_layers: int
    device: str
    chat_template: str
    sampling: Sampling


class _Weights:
    """llama.cpp's model, for as many contexts as share it: the last that lets go frees it."""

    def __init__(self, handle: Any, header: GGUFHeader) -> None:
        self.handle = handle
        self.header = header
        self._lock = threading.Lock()
        self._holders = 1

    def share(self) -> None:
        """Add a holder. Raises UsageError when the weights are freed."""
        with self._lock:
            if self._holders == 0:
                raise UsageError("the model is closed", hint="load it again")
            self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one frees the weights."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                llama().llama_model_free(self.handle)


class LoadedModel:
    """llama.cpp's model and context, with what was learned about them. close() frees both.

    Raises ModelFormatError for a damaged file, ModelLoadError when llama.cpp refuses it or memory runs out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: EngineSettings,
        *,
        weights_of: LoadedModel | None = None,
        progress: Callable[[float], object] | None = None,
        tries_projector: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self.settings = settings
        self._c = llama()
        keep_log()
        self._weights: _Weights | None = None
        self._context: Any = None
        self._vocabulary: Vocabulary | None = None
        self.vision: VisionModel | None = None
        self.vision_problem = ""  # why the projector beside the model is not used
        try:
            self._weights = self._loaded(progress) if weights_of is None else weights_of.shared_weights()
            if weights_of is None:
                self.vision = self._open_projector(tries_it=tries_projector)
            self._context = self._make_context()
            # Tokens a conversation can have. llama.cpp rounds the context up; what was asked for counts.
            self.window_tokens = int(min(self._window(), self._c.llama_n_ctx(self._context)))
            self.vocabulary = self._vocabulary = Vocabulary(self._model)
            self.info = self._describe(self._weights.header)
        except BaseException:
            self.close()
            raise

    def shared_weights(self) -> _Weights:
        """Return the weights for another context; the caller releases them."""
        weights = self._weights
        if weights is None:
            raise UsageError("the engine is closed", hint="make a new one")
        weights.share()
        return weights

    @property
    def context_address(self) -> int:
        """Address of llama.cpp's llama_context."""
        return _address(self._context)

    @property
    def memory_address(self) -> int:
        """Address of the context's KV cache or state."""
        return _address(self._c.llama_get_memory(self._context))

    @property
    def n_cells(self) -> int:
        """Tokens that all conversations can have together: `windows` full ones, or what was to be had."""
        return int(min(self._window() * self.settings.windows, self._c.llama_n_ctx(self._context)))

    def native_kind(self) -> int:
        """Return the kind of cache, as the native engine names it."""
        return _KINDS[self.info.cache_kind]

    def state_identity(self) -> bytes:
        """Return a digest of what a saved state depends on: model, cache settings, llama.cpp's version."""
        settings, flash, kind = self.settings, self._flash_attention(), self.info.cache_kind
        assert self._weights is not None
        # Long-rope factors depend on the size of the context.
        cells = self._c.llama_n_ctx(self._context) if _has_long_rope(self._weights.header) else 0
        parts = (version(), settings.kv_type, flash, settings.swa_full, kind, cells)
        seen_by = () if self.vision is None else (identity_of(self.vision.path),)
        return identity_of(self.path, *parts, *seen_by)

    def close(self) -> None:
        """Free the context, then the model. May be called twice; nothing may run in them any more."""
        if self._vocabulary is not None:
            self._vocabulary.close()
        if self.vision is not None:
            self.vision.close()
        context, self._context = self._context, None
        weights, self._weights = self._weights, None
        if context is not None:
            self._c.llama_free(context)
        if weights is not None:
            weights.release()

    @property
    def _model(self) -> Any:
        return None if self._weights is None else self._weights.handle

    def _loaded(self, progress: Callable[[float], object] | None) -> _Weights:
        header = read_header(self.path)
        model = self._load(header, progress)
        try:
            self._refuse_what_cannot_chat(model)
        except BaseException:
            self._c.llama_model_free(model)
            raise
        return _Weights(model, header)

    def _load(self, header: GGUFHeader, progress: Callable[[float], object] | None) -> Any:
        advice = remedies(header, self.settings, self.settings.n_ctx or DEFAULT_WINDOW)
        return load_weights(
            self.path,
            hint=f"if memory is short: {advice}",
            progress=progress,
            n_gpu_layers=self._gpu_layers(),
        )

    def _open_projector(self, *, tries_it: bool) -> VisionModel | None:
        """Return the projector; one that was only found beside the model must not keep it from loading."""
        wanted = self.settings.mmproj
        path = wanted or find_projector(self.path)
        if not path or wanted == "none":
            return None
        try:
            require(path, is_projector=True, is_trusted=not tries_it)
            vision = VisionModel(
                path,
                self._model,
                use_gpu=self._gpu_layers() > 0,
                n_threads=self.settings.n_threads or _default_threads(os.path.getsize(path)),
            )
        except ShepherdError as error:
            if wanted:
                raise
            self.vision_problem = str(error)
            _log.warning("the model reads no pictures: %s", error)
            return None
        n_ubatch = max(self.settings.n_ubatch, vision.most_whole_tokens)
        self.settings = replace(self.settings, n_ubatch=n_ubatch)
        return vision

    def _gpu_layers(self) -> int:
        return gpu_layers(self.settings.n_gpu_layers)

    def _refuse_what_cannot_chat(self, model: Any) -> None:
        c = self._c
        if c.llama_model_has_encoder(model) or not c.llama_model_has_decoder(model):
            what = "is an encoder"
        elif c.llama_model_is_diffusion(model):
            what = "is a diffusion model"
        elif c.llama_vocab_n_tokens(c.llama_model_get_vocab(model)) == 0:
            what = "has no vocabulary"
        else:
            return
        raise ModelLoadError(
            f"model '{self.path}' {what}, which cannot continue a conversation",
            hint="use a text generation model (decoder only)",
        )

    def _window(self) -> int:
        trained = trained_window(self._c, self._model)
        window = self.settings.n_ctx or min(trained or DEFAULT_WINDOW, DEFAULT_WINDOW)
        recurrent = self._c.llama_model_is_recurrent(self._model)
        if trained > 0 and not recurrent and self._c.llama_model_rope_type(self._model) == _NO_ROPE:
            # Learned positions are a table: an index beyond its end aborts the process.
            window = min(window, trained)
        return window

    def _cells(self, header: GGUFHeader) -> int:
        """Cells for all windows, as far as the model and this machine's memory go; one window at least."""
        window, settings = self._window(), self.settings
        cells = window * settings.windows
        if _has_long_rope(header):
            # llama.cpp chooses the factors by the cells of the whole context, which one window decides here.
            trained = trained_window(self._c, self._model)
            short = header.metadata.get(
                f"{header.architecture}.rope.scaling.original_context_length", trained
            )
            if isinstance(short, int) and window <= short:
                cells = min(cells, short)
        if self._gpu_layers() <= int(self._c.llama_model_n_layer(self._model)):
            cells = affordable_cells(header, settings, window, cells)
        return cells

    def _make_context(self) -> Any:
        parameters = self._c.llama_context_default_params()
        settings = self.settings
        parameters.n_ubatch = settings.n_ubatch
        parameters.n_batch = max(settings.n_batch, settings.n_ubatch, settings.slots)
        parameters.n_seq_max = settings.slots
        # The cells belong to all sequences: a long conversation may take what the others leave.
        parameters.kv_unified = True
        parameters.flash_attn_type = self._flash_attention()
        parameters.type_k = parameters.type_v = _KV_TYPES[settings.kv_type]
        parameters.n_threads = parameters.n_threads_batch = settings.n_threads or _default_threads(
            int(self._c.llama_model_size(self._model))
        )
        parameters.swa_full = settings.swa_full
        parameters.no_perf = False
        assert self._weights is not None
        header = self._weights.header
        window = self._window()
        if self._gpu_layers() == 0:
            refuse_without_room(header, settings, window, self.path)
        parameters.n_ctx = self._cells(header)
        context = self._c.llama_init_from_model(self._model, parameters)
        while not context and parameters.n_ctx > window:
            # A GPU says only so how much it has left.
            parameters.n_ctx = max(window, parameters.n_ctx // 2)
            context = self._c.llama_init_from_model(self._model, parameters)
        reason = last_error()
        if not context:
            raise ModelLoadError(
                f"no context of {window} tokens for model '{self.path}': "
                f"{reason or 'llama.cpp gave no reason'}",
                hint=remedies(header, settings, window),
            )
        if not self._c.llama_get_memory(context):
            self._c.llama_free(context)
            raise ModelLoadError(
                f"model '{self.path}' makes embeddings; it cannot continue a conversation",
                hint="use a text generation model (decoder only)",
            )
        return context

    def _flash_attention(self) -> int:
        """Resolve "auto": on where a GPU computes; on the CPU only if the KV type needs it.

        There it is slower (175 instead of 100 us a token on a tiny model), and without it the logits do not
        depend on how a prompt was split.
        """
        settings = self.settings
        if settings.flash_attention == "auto" and self._gpu_layers() == 0:
            return _FLASH_ATTENTION["on" if settings.kv_type == "q8_0" else "off"]
        return _FLASH_ATTENTION[settings.flash_attention]

    def _describe(self, header: GGUFHeader) -> ModelInfo:
        c, model = self._c, self._model
        buffer = ctypes.create_string_buffer(256)
        c.llama_model_desc(model, buffer, len(buffer))
        n_swa = int(c.llama_model_n_swa(model))
        kind: CacheKind = "plain"
        if c.llama_model_is_recurrent(model):
            kind = "recurrent"
        elif c.llama_model_is_hybrid(model):
            kind = "hybrid"
        elif n_swa > 0:
            kind = "sliding"
        layers = min(self._gpu_layers(), int(c.llama_model_n_layer(model)) + 1)
        return ModelInfo(
            name=str(header.metadata.get("general.name") or os.path.basename(self.path)),
            architecture=header.architecture,
            description=buffer.value.decode("utf-8", "replace"),
            cache_kind=kind,
            n_ctx_train=trained_window(c, model),
            n_vocab=self.vocabulary.n_tokens,
            n_params=int(c.llama_model_n_params(model)),
            size_bytes=int(c.llama_model_size(model)),
            n_swa=n_swa,
            n_gpu_layers=layers,
            device=_device(layers),
            chat_template=(c.llama_model_chat_template(model, None) or b"").decode("utf-8", "replace"),
            sampling=recommended_sampling(header.metadata),
        )


def _has_long_rope(header: GGUFHeader) -> bool:
    return any(tensor.name.startswith(_LONG_ROPE) for tensor in header.tensors)


def _device(gpu_layers: int) -> str:
    """Return the first GPU when layers are on it, else the CPU's name."""
    found = devices()
    if gpu_layers > 0:
        gpus = [description for kind, description in found if kind in ("gpu", "igpu")]
        return gpus[0] if gpus else "GPU"
    cpus = [description for kind, description in found if kind == "cpu"]
    return cpus[0] if cpus else "CPU"


def _address(handle: Any) -> int:
    return int(handle if isinstance(handle, int) else ctypes.cast(handle, ctypes.c_void_p).value or 0)


def _default_threads(model_bytes: int) -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count() or 1
    # The second thread of a core adds nothing to matrix products; small machines are often virtual cores.
    cores = int(usable if usable <= 4 else usable // 2)
    # Threads meet at every layer's end. Below so many bytes of weights each, the meeting takes longer than
    # the work, and a thousandfold where another program holds one of the cores.
    return max(1, min(cores, model_bytes // _BYTES_PER_THREAD))

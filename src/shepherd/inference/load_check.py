"""Checks before a model is loaded: the memory that it needs, and one load in a child process."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import math
import os
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd import subprocess_sandbox
from shepherd.errors import ModelLoadError
from shepherd.inference.binding import last_error, llama, load_weights, version
from shepherd.inference.gguf import GGUFHeader, read_header
from shepherd.inference.names import BUILT_IN_FILE, variants
from shepherd.inference.vision import find_projector, try_projector
from shepherd.paths import cache_dir

if TYPE_CHECKING:
    from shepherd.inference.model import EngineSettings

__all__ = [
    "affordable_cells",
    "available_bytes",
    "cache_bytes",
    "is_known",
    "model_bytes",
    "refuse_without_room",
    "remedies",
    "require",
    "total_bytes",
    "vouch",
]


# Bytes of 32 values of the KV cache, as ggml stores them.
_BYTES_OF_32 = {"f32": 128, "f16": 64, "q8_0": 34}
# Their caches are smaller than layers times heads times window, each by a rule of its own.
_OTHER_CACHES = (".attention.sliding_window", ".ssm.", ".attention.kv_lora_rank", ".shortconv.", ".wkv.")
_LEAST_WINDOW = 2048


def cache_bytes(header: GGUFHeader, n_ctx: int, kv_type: str) -> int:
    """Bytes of a KV cache of full attention over `n_ctx` tokens; 0 where the model has another kind of cache.

    Source: n_ctx * n_layer * n_head_kv * (key_length + value_length) values.
    """
    architecture = header.architecture
    keys = {*header.metadata, *header.array_lengths}
    if any(key.startswith(architecture + part) for key in keys for part in _OTHER_CACHES):
        return 0
    # One number per layer is an array, which the header only counts.
    is_array = f"{architecture}.attention.head_count_kv" in header.array_lengths
    return 0 if is_array else _full_attention_bytes(header, n_ctx, kv_type)


def _full_attention_bytes(header: GGUFHeader, n_ctx: int, kv_type: str) -> int:
    """Bytes that the cache would have if all layers were of full attention; the most, of any other kind."""
    heads = _number(header, "attention.head_count")
    each = _number(header, "embedding_length") // heads if heads > 0 else 0
    per_head = _number(header, "attention.key_length", each) + _number(header, "attention.value_length", each)
    values = _number(header, "block_count") * _number(header, "attention.head_count_kv", heads) * per_head
    return max(0, values) * n_ctx // 32 * _BYTES_OF_32[kv_type]


def _number(header: GGUFHeader, name: str, otherwise: int = 0) -> int:
    value = header.metadata.get(f"{header.architecture}.{name}", otherwise)
    return value if isinstance(value, int) else 0


def available_bytes() -> int | None:
    """Return the memory this process can still get, swap included; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    if "MemAvailable" not in kilobytes:
        return None
    system = 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))
    limits = [room for room in (_cgroup_room(), _address_space_room()) if room is not None]
    return min([system, *limits])


def refuse_without_room(header: GGUFHeader, settings: EngineSettings, n_ctx: int, path: str) -> None:
    """ModelLoadError when the KV cache alone exceeds what is available.

    llama.cpp writes all of the cache when it makes it: on Linux the system would then end this process,
    without a word.
    """
    needed, available = cache_bytes(header, n_ctx, settings.kv_type), available_bytes()
    if available is None or needed <= available:
        return
    raise ModelLoadError(
        f"no context of {n_ctx} tokens for model '{path}': its KV cache takes {_size(needed)},"
        f" {_size(available)} of memory are available",
        hint=remedies(header, settings, n_ctx),
    )


def affordable_cells(header: GGUFHeader, settings: EngineSettings, window: int, cells: int) -> int:
    """Return the largest number of cells up to `cells`, in whole windows, that fits beside the weights.

    Weights count in full: the system may take their pages back, and then each token waits for the disk.
    Where the cache's size is not known, the most it could be counts.
    """
    available = available_bytes()
    if available is None:
        return cells
    room = available - header.file_bytes
    if settings.draft_model and settings.draft != "off":  # it is loaded afterwards
        drafting = replace(settings, draft_model="", mmproj="none", n_ctx=window, windows=1)
        room -= model_bytes(settings.draft_model, drafting, window)
    while cells > window and _context_bytes(header, settings, cells) > room:
        cells = max(window, cells - window)
    return cells


def _context_bytes(header: GGUFHeader, settings: EngineSettings, cells: int) -> int:
    """Bytes of a context: its cache, or the most it could have, and the scores of a micro-batch."""
    flash = settings.kv_type == "q8_0" or settings.flash_attention == "on"
    # Without flash attention a micro-batch has a score for each head and cell.
    scores = 4 * settings.n_ubatch * (1 if flash else max(1, _number(header, "attention.head_count")))
    return _full_attention_bytes(header, cells, settings.kv_type) + scores * cells


def model_bytes(path: str | os.PathLike[str], settings: EngineSettings, default_window: int) -> int:
    """Bytes that a model with its context will take, about. `default_window` is the most of n_ctx 0.

    Raises ModelFormatError for a damaged file.
    """
    header = read_header(path)
    trained = _number(header, "context_length")
    window = settings.n_ctx or min(trained or default_window, default_window)
    weights = sum(file.stat().st_size for file in _files(os.fspath(path)))
    if settings.mmproj != "none" and (projector := settings.mmproj or find_projector(os.fspath(path))):
        with contextlib.suppress(OSError):
            weights += os.path.getsize(projector)
    if settings.draft_model and settings.draft != "off":
        drafting = replace(settings, draft_model="", mmproj="none", n_ctx=window)
        weights += model_bytes(settings.draft_model, drafting, window)
    return weights + _context_bytes(header, settings, window * settings.windows)


def total_bytes() -> int | None:
    """Return the memory of this machine, or of its container; None where the system does not say."""
    try:
        kilobytes = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])  # MemTotal is the first line
        limit = Path("/sys/fs/cgroup/memory.max")
        allowed = limit.read_text().strip() if limit.exists() else "max"
    except (OSError, ValueError, IndexError):
        return None
    return 1024 * kilobytes if allowed == "max" else min(1024 * kilobytes, int(allowed))


def remedies(header: GGUFHeader | None, settings: EngineSettings, n_ctx: int) -> str:
    """Return what to change when memory runs out, the cheapest first, with the memory it saves."""
    ways = []
    cache = 0 if header is None else cache_bytes(header, n_ctx, settings.kv_type)
    if n_ctx > _LEAST_WINDOW:
        saved = f", saves {_size(cache // 2)}" if cache else ""
        ways.append(f"set a smaller n_ctx (now {n_ctx}; half of it{saved})")
    if settings.kv_type != "q8_0":
        less = cache - cache * _BYTES_OF_32["q8_0"] // _BYTES_OF_32[settings.kv_type]
        ways.append("kv_type q8_0" + (f" (saves {_size(less)})" if less else ""))
    ways.append("on a GPU fewer gpu_layers")
    weights = f" (this one takes {_size(header.file_bytes)})" if header is not None else ""
    ways.append(f"a smaller quantisation{weights}")
    return ", ".join(ways) + ", or close other programs"


def _cgroup_room() -> int | None:
    """Return the bytes that the container still allows (cgroup v2)."""
    root = Path("/sys/fs/cgroup")
    try:
        limit = (root / "memory.max").read_text().strip()
        used = int((root / "memory.current").read_text())
        cached = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    # File pages count as used, and go when there is need.
    return None if limit == "max" else int(limit) - used + int(cached.get("file", 0))


def _address_space_room() -> int | None:
    """Return the bytes that `ulimit -v` leaves."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - pages * os.sysconf("SC_PAGE_SIZE")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 10**8 else f"{n_bytes / 1e6:.1f} MB"


_log = logging.getLogger(__name__)

_HEAD_BYTES = 1 << 20
_MOST_KNOWN = 512
# A child starts in half a second. The rest is for a cold disk of 50 MB/s and a machine that is busy.
_LIMIT_S = 60.0
_LIMIT_BYTES_PER_S = 50e6
_WINDOW = 64
# ASCII, line breaks, two, three and four bytes a character, and a byte that is no text.
_TEXT = b"Hello 42,\n\n\tworld! \xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80 \xff"
_OFF = "shepherd config set model_trial false   (loads it without a trial)"


def require(
    path: str | os.PathLike[str],
    *,
    is_trusted: bool = False,
    is_projector: bool = False,
    limit_s: float = 0,
    loading: Callable[[str], None] = lambda text: None,
) -> None:
    """Check in a child process that a model loads without harm. Raises ModelError with the reason.

    A file that went well before, or is trusted, starts no process. `loading` is told when one is started,
    and "" when it has ended. `limit_s` 0 is a minute, and 20 s for each gigabyte.
    """
    name = os.fspath(path)
    # A child process is the place where a model may crash.
    if is_trusted or subprocess_sandbox.is_child() or not subprocess_sandbox.can_run():
        return
    if _is_built_in(name) or is_known(name):
        return
    read_header(name, is_projector=is_projector)  # says what is wrong better than any crash
    size = sum(file.stat().st_size for file in _files(name))
    loading(f"trying {name}, new here, in a process of its own …")
    try:
        ending = subprocess_sandbox.run(
            __name__,
            [os.path.abspath(name), *(["projector"] if is_projector else [])],
            limit_s=limit_s or _LIMIT_S + size / _LIMIT_BYTES_PER_S,
        )
    finally:
        loading("")
    if ending.kind == "broken":
        _log.warning("model '%s' was not tried before it is loaded: %s", name, ending.what)
        return
    if ending.kind != "good":
        raise _failure(name, ending, size)
    vouch(name)


def _is_built_in(path: str) -> bool:
    try:
        return os.path.samefile(path, BUILT_IN_FILE)
    except OSError:
        return False


def is_known(path: str | os.PathLike[str]) -> bool:
    """Return whether this file, as it is now, has been loaded before by this llama-cpp-python."""
    with contextlib.suppress(OSError):  # a file that is not there is not known
        record = _record(os.fspath(path))
        if record.exists():
            with contextlib.suppress(OSError):  # in a cache that cannot be written
                record.touch()
            return True
    return False


def vouch(path: str | os.PathLike[str]) -> None:
    """Record that this file loads."""
    # Without a cache it is tried again next time.
    with contextlib.suppress(OSError):
        record = _record(os.fspath(path))
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
        _forget_oldest(record.parent)


def _record(path: str) -> Path:
    digest = hashlib.sha256(version().encode())
    for file in _files(path):
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            raise OSError(f"{file} is not a regular file")
        digest.update(
            f"\0{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "replace")
        )
        with open(file, "rb") as opened:
            digest.update(opened.read(_HEAD_BYTES))
    return cache_dir() / "trials" / digest.hexdigest()[:40]


def _files(path: str) -> Sequence[Path]:
    """Return the file, or all parts of a split model: llama.cpp opens those beside the first by itself."""
    first = Path(path)
    if "-of-" not in first.name:
        return (first,)
    beside = [file.name for file in first.parent.iterdir()]
    found = next((v.files for v in variants(beside) if first.name in v.files), (first.name,))
    return tuple(first.parent / name for name in found)


def _forget_oldest(folder: Path) -> None:
    records = [(record.stat().st_mtime, record) for record in folder.iterdir()]
    for _, record in sorted(records)[:-_MOST_KNOWN]:
        record.unlink(missing_ok=True)


def _failure(path: str, ending: subprocess_sandbox.Ending, size: int) -> ModelLoadError:
    if ending.kind == "refused":
        return ModelLoadError(ending.what, hint=ending.hint)
    if ending.kind == "hung":
        return ModelLoadError(
            f"model '{path}' did not load: {ending.what}, in a trial in a process of its own",
            hint=f"try again when the machine and its disk are idle, or {_OFF}",
        )
    if ending.kind == "killed":
        available = available_bytes()
        there = "" if available is None else f"; {available / 1e9:.1f} GB are available now"
        return ModelLoadError(
            f"model '{path}' was being tried in a process of its own, which was killed (SIGKILL): most likely"
            f" memory ran out, its weights take {size / 1e9:.1f} GB{there}",
            hint="take a smaller quantisation, or close other programs; with all layers on a GPU, " + _OFF,
        )
    return ModelLoadError(
        f"model '{path}' crashes llama.cpp, found in a trial in a process of its own: {ending.what}",
        hint="the file is damaged or made for another llama.cpp: fetch or convert it again, or upgrade"
        " llama-cpp-python",
    )


# ---- in the child


def _try(path: str) -> None:
    """Load, tokenise, decode once, look at what was computed, and give everything back."""
    c = llama()
    # Weights stay pages of the file: repacked ones would take as much memory again, for one token.
    model = load_weights(
        path, hint="if memory is short, take a smaller quantisation", n_gpu_layers=0, use_extra_bufts=False
    )
    settings = c.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = _WINDOW, _WINDOW, _WINDOW
    settings.n_threads = settings.n_threads_batch = min(4, os.cpu_count() or 1)
    context = c.llama_init_from_model(model, settings)
    if not context:
        raise ModelLoadError(
            f"no context for model '{path}': {last_error() or 'llama.cpp gave no reason'}",
            hint="fetch or convert the file again, or upgrade llama-cpp-python",
        )
    tokens, n = _tokens(c, model)
    # Encoders leave the buffer of the logits as it is, or take another one.
    logits, n_vocab = c.llama_get_logits(context), c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))
    if logits:
        ctypes.memset(logits, 0, n_vocab * ctypes.sizeof(ctypes.c_float))
    batch = c.llama_batch_get_one(tokens, n)
    code = (c.llama_encode if c.llama_model_has_encoder(model) else c.llama_decode)(context, batch)
    if code != 0:
        raise ModelLoadError(
            f"model '{path}' was loaded, but llama.cpp cannot compute it (code {code})"
            f"{': ' + reason if (reason := last_error()) else ''}",
            hint="fetch or convert the file again, or upgrade llama-cpp-python",
        )
    if logits and ctypes.cast(logits, ctypes.c_void_p).value == _address_of_logits(c, context):
        n_bad = sum(not value < math.inf for value in logits[:n_vocab])
        if n_bad:
            raise ModelLoadError(
                f"model '{path}' was loaded, but computes values that are not numbers"
                f" ({n_bad:,} of {n_vocab:,})",
                hint="the file is damaged, or was badly converted: fetch or convert it again",
            )
    c.llama_free(context)
    c.llama_model_free(model)


def _address_of_logits(c: Any, context: Any) -> int | None:
    return ctypes.cast(c.llama_get_logits_ith(context, -1), ctypes.c_void_p).value


def _tokens(c: Any, model: Any) -> tuple[Any, int]:
    """Return some tokens of a text in many scripts, after a look at the pieces of all of them."""
    vocabulary = c.llama_model_get_vocab(model)
    tokens = (ctypes.c_int32 * (2 * len(_TEXT)))()
    n = c.llama_tokenize(vocabulary, _TEXT, len(_TEXT), tokens, len(tokens), True, True)
    piece = ctypes.create_string_buffer(256)
    for i in range(max(0, n)):
        c.llama_token_to_piece(vocabulary, tokens[i], piece, len(piece), 0, True)
        c.llama_vocab_is_eog(vocabulary, tokens[i])
    # A model without a vocabulary has token 0 all the same.
    return tokens, max(1, min(n, _WINDOW // 2))


if __name__ == "__main__":
    sys.exit(subprocess_sandbox.answer(lambda: (try_projector if sys.argv[2:] else _try)(sys.argv[1])))

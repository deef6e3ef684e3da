"""What a model needs in memory, what there is, and what to change when the one exceeds the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.errors import ModelLoadError
from shepherd.inference.gguf import GGUFHeader

if TYPE_CHECKING:
    from shepherd.inference.model import EngineSettings

__all__ = ["affordable_cells", "available_bytes", "cache_bytes", "refuse_without_room", "remedies"]

# Bytes of 32 values of the KV cache, as ggml stores them.
_BYTES_OF_32 = {"f32": 128, "f16": 64, "q8_0": 34}
# Their caches are smaller than layers times heads times window, each by a rule of its own.
_OTHER_CACHES = (".attention.sliding_window", ".ssm.", ".kv_lora_rank", ".shortconv.", ".wkv.")
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
    """What this process can still get without others being ended, swap included; None where nobody says."""
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
    """So many windows of the cells asked for as fit beside the weights, and at least one.

    Weights count in full: the system may take their pages back, and then each token waits for the disk.
    Where the cache's size is not known, the most it could be counts.
    """
    available = available_bytes()
    if available is None:
        return cells
    flash = settings.kv_type == "q8_0" or settings.flash_attention == "on"
    # Without flash attention a micro-batch has a score for each head and cell.
    scores = 4 * settings.n_ubatch * (1 if flash else max(1, _number(header, "attention.head_count")))
    room = available - header.file_bytes
    while cells > window and _full_attention_bytes(header, cells, settings.kv_type) + scores * cells > room:
        cells = max(window, cells - window)
    return cells


def remedies(header: GGUFHeader | None, settings: EngineSettings, n_ctx: int) -> str:
    """What to change when memory ran out, the cheapest first, with what it saves where that is known."""
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
    """What the container still allows (cgroup v2)."""
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
    """What `ulimit -v` leaves."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - pages * os.sysconf("SC_PAGE_SIZE")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 10**8 else f"{n_bytes / 1e6:.1f} MB"

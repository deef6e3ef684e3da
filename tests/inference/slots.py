"""Helpers of the tests of slots: several conversations in one context.

Logits are compared with those of a fresh context that reads the whole prompt at once. Cells of several
sequences lie mixed in one cache, so sums over them come in another order: 3e-6 was seen with plain and hybrid
caches, nothing with recurrent ones. For the sliding window see test_mirror.py.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shepherd._native import engine as native
from shepherd.inference import EngineSettings, Generation
from shepherd.types import Sampling
from tests.inference.engines import exact_settings, read

TOLERANCE = {"plain": 1e-4, "hybrid": 1e-4, "recurrent": 1e-4, "sliding": 5e-3}
GREEDY = Sampling(temperature=0.0)
HEAD = [7 * i % 200 for i in range(40)]


def slot_settings(slots: int, *, n_ctx: int = 2048, cache_ram_bytes: int = 64 << 20) -> EngineSettings:
    return replace(exact_settings(n_ctx=n_ctx), slots=slots, cache_ram_bytes=cache_ram_bytes, draft="always")


def conversation(seed: int, length: int) -> list[int]:
    choose = random.Random(seed)
    return [choose.randrange(256) for _ in range(length)]


def difference(one: bytes, other: bytes) -> float:
    a, b = np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
    return float(np.abs(a - b).max())


def reused(decoder: native.Decoder, tokens: Sequence[int], boundaries: Sequence[int] = ()) -> int:
    return read(decoder, tokens, boundaries).counters()["reused_tokens"]


def check_mirrors(decoder: native.Decoder, slots: int) -> None:
    for slot in range(slots):
        positions = decoder.positions_of(slot)
        assert decoder.position_max_of(slot) == (positions[-1] if positions else -1)
        assert positions == list(range(len(decoder.ids_of(slot))))


def submit(
    decoder: native.Decoder,
    tokens: Sequence[int],
    boundaries: Sequence[int],
    *,
    head: int = 0,
    background: bool = False,
) -> native.Stream:
    stream = native.Stream()
    more = {"boundaries": boundaries, "head": head, "background": background}
    assert decoder.submit(array("i", tokens), stream, may_wait=True, **more)  # type: ignore[arg-type]
    return stream


def said(generation: Generation) -> int:
    """Characters that have come so far, without waiting for more."""
    while generation.poll():
        pass
    return len("".join(generation._pieces))


def read_out(stream: native.Stream) -> int:
    while stream.read(1000) is not None:
        pass
    return stream.ending

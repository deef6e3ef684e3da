"""Helpers of the engine tests: engines with exact arithmetic, runs to their end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from shepherd._native import engine as native
from shepherd.inference import EngineSettings, Generation

KINDS = ("plain", "sliding", "recurrent", "hybrid")


def exact_settings(*, n_ctx: int = 512, n_ubatch: int = 64, swa_full: bool = False) -> EngineSettings:
    """Flash attention off, one thread, 32-bit cache: a prompt may be split anywhere without a trace.

    Nothing is drafted, so that each token of an answer has a batch of its own.
    """
    return EngineSettings(
        n_ctx=n_ctx,
        n_ubatch=n_ubatch,
        n_threads=1,
        flash_attention="off",
        kv_type="f32",
        swa_full=swa_full,
        draft="off",
    )


def read(decoder: native.Decoder, tokens: Sequence[int], boundaries: Sequence[int] = ()) -> native.Stream:
    """Bring `tokens` into the cache, wait, and return the stream with its counters."""
    stream = native.Stream()
    head = boundaries[0] if len(boundaries) > 1 else 0
    assert decoder.submit(array("i", tokens), stream, boundaries=boundaries, head=head)
    while stream.read(1000) is not None:
        pass
    decoder.wait_idle()
    return stream


def logits_after(decoder: native.Decoder, tokens: Sequence[int]) -> bytes:
    stream = read(decoder, tokens)
    assert stream.ending == native.LENGTH
    logits = decoder.logits()
    assert logits is not None
    return logits


def run_to_end(generation: Generation) -> str:
    with generation:
        return "".join(generation)

"""Fields that say how an answer was made: llama.cpp's timings, and the version that made it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from shepherd import __version__
from shepherd.types import TurnStats

__all__ = ["fingerprint", "timings_of"]


@cache
def fingerprint() -> str:
    """Return OpenAI's `system_fingerprint`: another one for another version of Shepherd or llama.cpp."""
    try:
        engine = version("llama-cpp-python")
    except PackageNotFoundError:  # built into the installation
        engine = ""
    return "b" + hashlib.sha256(f"{__version__} {engine}".encode()).hexdigest()[:10]


def timings_of(stats: TurnStats) -> dict[str, Any]:
    """Return tokens and times as llama-server tells them."""

    def rate(n: int, ms: float) -> float:
        return n / ms * 1000 if ms > 0 else 0.0

    drafts: dict[str, int] = {}
    if stats.drafted_tokens:  # as in llama-server, where fields of drafts are only there if there were any
        drafts = {"draft_n": stats.drafted_tokens, "draft_n_accepted": stats.accepted_tokens}
    if stats.model_drafted_tokens:  # a field of our own: how many of them the draft model made
        drafts |= {
            "draft_model_n": stats.model_drafted_tokens,
            "draft_model_n_accepted": stats.model_accepted_tokens,
        }
    return {
        "cache_n": stats.reused_tokens,
        "prompt_n": stats.decoded_tokens,
        "prompt_ms": stats.prefill_ms,
        "prompt_per_token_ms": stats.prefill_ms / max(stats.decoded_tokens, 1),
        "prompt_per_second": rate(stats.decoded_tokens, stats.prefill_ms),
        "predicted_n": stats.generated_tokens,
        "predicted_ms": stats.decode_ms,
        "predicted_per_token_ms": stats.decode_ms / max(stats.generated_tokens, 1),
        "predicted_per_second": stats.tokens_per_second,
        **drafts,
    }

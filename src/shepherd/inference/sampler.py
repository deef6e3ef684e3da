"""Sampler chains of llama.cpp, made once per settings."""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shepherd.errors import UsageError
from shepherd.inference.binding import llama
from shepherd.types import Sampling

__all__ = ["SamplerCache", "check_sampling", "recommended_sampling"]

_RANDOM_SEED = 0xFFFFFFFF  # LLAMA_DEFAULT_SEED: each reset draws a new one


def check_sampling(sampling: Sampling) -> None:
    """UsageError, naming the setting and its range, for what llama.cpp would assert on or misread."""
    for name, value, is_good, range_ in (
        ("temperature", sampling.temperature, sampling.temperature >= 0, "0 or more"),
        ("top_k", sampling.top_k, sampling.top_k >= 0, "0 (off) or more"),
        ("top_p", sampling.top_p, 0 < sampling.top_p <= 1, "above 0, up to 1 (off)"),
        ("min_p", sampling.min_p, 0 <= sampling.min_p <= 1, "from 0 (off) to 1"),
        ("repeat_penalty", sampling.repeat_penalty, 0 < sampling.repeat_penalty <= 100, "above 0; 1 is off"),
        ("repeat_last_n", sampling.repeat_last_n, 0 <= sampling.repeat_last_n <= 1 << 20, "0 or more"),
        (
            "seed",
            sampling.seed or 0,
            0 <= (sampling.seed or 0) < _RANDOM_SEED,
            f"from 0 to {_RANDOM_SEED - 1}",
        ),
    ):
        if not (is_good and math.isfinite(value)):
            raise UsageError(f"{name} is {value}", hint=f"use a number {range_}")


# Keys of GGUF below general.sampling., and our names of them.
_RECOMMENDED = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
}
_WHOLE = ("top_k", "repeat_last_n")


def recommended_sampling(metadata: Mapping[str, object]) -> Sampling:
    """The settings that a model's header recommends; one that is out of its range is passed over."""
    sampling = Sampling()
    for key, name in _RECOMMENDED.items():
        value = metadata.get(f"general.sampling.{key}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            continue
        # Headers hold 32-bit floats: 0.95 arrives as 0.949999988.
        number: Any = int(value) if name in _WHOLE else round(float(value), 6)
        changed = replace(sampling, **{name: number})
        with contextlib.suppress(UsageError):
            check_sampling(changed)
            sampling = changed
    return sampling


class SamplerCache:
    """Holds the chain of the settings used last: they rarely change within a conversation.

    Order as in llama.cpp's own programs: penalties, top-k, top-p, min-p, temperature, then the draw. A chain
    is reset before each answer, which also restores its seed.
    """

    def __init__(self, n_vocab: int) -> None:
        self._c = llama()
        self._n_vocab = n_vocab
        self._key: Sampling | None = None
        self._chain: Any = None
        self.built = 0

    def address(self, sampling: Sampling) -> int:
        """Of the chain for `sampling`. The one before is freed, so nothing may be sampling with it."""
        if self._key != sampling:
            check_sampling(sampling)
            self.close()
            self._chain = self._build(sampling)
            self._key = sampling
            self.built += 1
        return _address(self._chain)

    def close(self) -> None:
        """Free the chain. May be called twice."""
        chain, self._chain, self._key = self._chain, None, None
        if chain is not None:
            self._c.llama_sampler_free(chain)

    def _build(self, sampling: Sampling) -> Any:
        c = self._c
        parameters = c.llama_sampler_chain_default_params()
        parameters.no_perf = True
        chain = c.llama_sampler_chain_init(parameters)
        links = []
        if sampling.repeat_penalty != 1.0 and sampling.repeat_last_n > 0:
            links.append(
                c.llama_sampler_init_penalties(
                    self._n_vocab, sampling.repeat_last_n, sampling.repeat_penalty, 0.0, 0.0
                )
            )
        if sampling.temperature == 0:
            links.append(c.llama_sampler_init_greedy())
        else:
            if sampling.top_k > 0:
                links.append(c.llama_sampler_init_top_k(sampling.top_k))
            if sampling.top_p < 1:
                links.append(c.llama_sampler_init_top_p(sampling.top_p, 1))
            if sampling.min_p > 0:
                links.append(c.llama_sampler_init_min_p(sampling.min_p, 1))
            links.append(c.llama_sampler_init_temp(sampling.temperature))
            links.append(c.llama_sampler_init_dist(_RANDOM_SEED if sampling.seed is None else sampling.seed))
        for link in links:
            c.llama_sampler_chain_add(chain, link)
        return chain


def _address(chain: Any) -> int:
    return int(ctypes.cast(chain, ctypes.c_void_p).value or 0)

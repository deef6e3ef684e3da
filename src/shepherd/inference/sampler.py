"""Sampler chains of llama.cpp, made once per settings and run."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Generic, TypeVar

from shepherd._native import engine as native
from shepherd.errors import UsageError
from shepherd.inference.binding import llama
from shepherd.types import Sampling

__all__ = ["Lending", "Lent", "SamplerCache", "check_sampling", "recommended_sampling"]

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
    """Return the settings that a model's header recommends; one that is out of its range is passed over."""
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


_Key = TypeVar("_Key", bound=Hashable)
# Idle samplers that are kept for the next run of the same settings.
_KEPT = 8


class Lent(Generic[_Key]):
    """A sampler of llama.cpp, its borrower's until the stream that it samples into has ended."""

    def __init__(self, key: _Key, sampler: Any) -> None:
        self.key = key
        self.sampler = sampler
        self.address = int(ctypes.cast(sampler, ctypes.c_void_p).value or 0)
        self.stream: native.Stream | None = None  # the one that it samples into, or did

    @property
    def is_idle(self) -> bool:
        """Return whether nothing samples with it."""
        return self.stream is None or self.stream.ending != native.RUNNING


class Lending(ABC, Generic[_Key]):
    """Samplers by their settings: made on demand, lent to one run at a time, kept for the next. Thread-safe.

    llama.cpp's are reset before each answer, which also restores their seed.
    """

    def __init__(self) -> None:
        self._c = llama()
        self._lent: list[Lent[_Key]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self.built = 0

    def borrow(self, key: _Key, stream: native.Stream, undo: ExitStack) -> Lent[_Key]:
        """Return one for these settings, lent until `stream` has ended. `undo` gives it back unused.

        Raises UsageError for settings that llama.cpp refuses, and when closed.
        """
        with self._lock:
            if self._is_closed:
                raise UsageError("the engine is closed", hint="make a new one")
            lent = next((one for one in self._lent if one.key == key and one.is_idle), None)
            if lent is None:
                lent = Lent(key, self._build(key))
                self.built += 1
            else:
                self._lent.remove(lent)
            self._lent.append(lent)  # most recently used last
            lent.stream = stream
            idle = [one for one in self._lent if one.is_idle]
            for one in idle[: max(0, len(idle) - _KEPT)]:
                self._free(one)
        undo.callback(setattr, lent, "stream", None)
        return lent

    def close(self) -> None:
        """Free them all; nothing may be sampling any more. May be called twice."""
        with self._lock:
            self._is_closed = True
            while self._lent:
                self._free(self._lent[0])

    def _free(self, lent: Lent[_Key]) -> None:
        self._lent.remove(lent)
        self._c.llama_sampler_free(lent.sampler)

    @abstractmethod
    def _build(self, key: _Key) -> Any:
        """llama.cpp's sampler for these settings."""


class SamplerCache(Lending[Sampling]):
    """Chains in llama.cpp's own order: penalties, top-k, top-p, min-p, temperature, the draw."""

    def __init__(self, n_vocab: int) -> None:
        super().__init__()
        self._n_vocab = n_vocab

    def _build(self, key: Sampling) -> Any:
        check_sampling(key)
        c, sampling = self._c, key
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

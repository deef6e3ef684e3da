"""Sampler chains of llama.cpp, made once per settings and run."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Generic, TypeVar

from shepherd._native import engine as native
from shepherd.errors import UsageError
from shepherd.inference.binding import llama
from shepherd.types import SAMPLERS, Sampling

__all__ = ["Lending", "Lent", "SamplerCache", "check_sampling", "recommended_sampling"]

_RANDOM_SEED = 0xFFFFFFFF  # LLAMA_DEFAULT_SEED: each reset draws a new one
_PENALTY = "from -100 to 100; 0 is off"
_PENALTIES = ("penalties", "dry")
_MIROSTAT_TOKENS = 100  # llama.cpp's: the likeliest tokens that the first version estimates from


def check_sampling(sampling: Sampling) -> None:
    """UsageError, naming the setting and its range, for what llama.cpp would assert on or misread."""
    for name, value, is_good, range_ in (
        ("temperature", sampling.temperature, sampling.temperature >= 0, "0 or more"),
        ("top_k", sampling.top_k, sampling.top_k >= 0, "0 (off) or more"),
        ("top_p", sampling.top_p, 0 < sampling.top_p <= 1, "above 0, up to 1 (off)"),
        ("min_p", sampling.min_p, 0 <= sampling.min_p <= 1, "from 0 (off) to 1"),
        ("repeat_penalty", sampling.repeat_penalty, 0 < sampling.repeat_penalty <= 100, "above 0; 1 is off"),
        ("repeat_last_n", sampling.repeat_last_n, 0 <= sampling.repeat_last_n <= 1 << 20, "0 or more"),
        ("frequency_penalty", sampling.frequency_penalty, abs(sampling.frequency_penalty) <= 100, _PENALTY),
        ("presence_penalty", sampling.presence_penalty, abs(sampling.presence_penalty) <= 100, _PENALTY),
        ("typical_p", sampling.typical_p, 0 < sampling.typical_p <= 1, "above 0, up to 1 (off)"),
        ("top_n_sigma", sampling.top_n_sigma, sampling.top_n_sigma >= 0, "0 (off) or more"),
        (
            "xtc_probability",
            sampling.xtc_probability,
            0 <= sampling.xtc_probability <= 1,
            "from 0 (off) to 1",
        ),
        ("xtc_threshold", sampling.xtc_threshold, 0 <= sampling.xtc_threshold <= 1, "from 0 to 1"),
        ("dry_multiplier", sampling.dry_multiplier, 0 <= sampling.dry_multiplier <= 100, "0 (off) or more"),
        ("dry_base", sampling.dry_base, 1 <= sampling.dry_base <= 100, "1 or more"),
        (
            "dry_allowed_length",
            sampling.dry_allowed_length,
            0 <= sampling.dry_allowed_length <= 1 << 20,
            "0 or more",
        ),
        (
            "dry_penalty_last_n",
            sampling.dry_penalty_last_n,
            0 <= sampling.dry_penalty_last_n <= 1 << 20,
            "0 or more",
        ),
        ("mirostat", sampling.mirostat, sampling.mirostat in (0, 1, 2), "0 (off), 1 or 2"),
        ("mirostat_tau", sampling.mirostat_tau, 0 < sampling.mirostat_tau <= 100, "above 0"),
        ("mirostat_eta", sampling.mirostat_eta, 0 < sampling.mirostat_eta <= 1, "above 0, up to 1"),
        (
            "seed",
            sampling.seed or 0,
            0 <= (sampling.seed or 0) < _RANDOM_SEED,
            f"from 0 to {_RANDOM_SEED - 1}",
        ),
    ):
        if not (is_good and math.isfinite(value)):
            raise UsageError(f"{name} is {value}", hint=f"use a number {range_}")
    for name in sampling.samplers:
        if name not in SAMPLERS:
            raise UsageError(f"samplers has {name!a}", hint=f"the names are {', '.join(SAMPLERS)}")
    if len(set(sampling.samplers)) < len(sampling.samplers):
        raise UsageError("samplers has a name twice", hint="each of them runs at most once")
    if any(math.isnan(bias) or bias == math.inf for _, bias in sampling.logit_bias):
        raise UsageError("logit_bias has a value that is not a number", hint="minus infinity forbids a token")


# Keys of GGUF below general.sampling., and our names of them.
_RECOMMENDED = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}
_WHOLE = ("top_k", "repeat_last_n", "mirostat")


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
    """Chains of llama.cpp's samplers, each of which changes what is likely, drops tokens or chooses one."""

    def __init__(self, n_vocab: int, vocabulary: int) -> None:
        """`vocabulary` is the address of the llama_vocab."""
        super().__init__()
        self._n_vocab, self._vocabulary = n_vocab, vocabulary

    def _build(self, key: Sampling) -> Any:
        check_sampling(key)
        unknown = [token for token, _ in key.logit_bias if not 0 <= token < self._n_vocab]
        if unknown:
            raise UsageError(
                f"logit_bias names token {unknown[0]}",
                hint=f"the model's tokens are 0 to {self._n_vocab - 1}",
            )
        c, sampling = self._c, key
        parameters = c.llama_sampler_chain_default_params()
        parameters.no_perf = True
        chain = c.llama_sampler_chain_init(parameters)
        for link in self._links(sampling):
            c.llama_sampler_chain_add(chain, link)
        return chain

    def _links(self, sampling: Sampling) -> Iterator[Any]:
        """Yield the links of the chain in their order; the last one chooses."""
        c, seed = self._c, _RANDOM_SEED if sampling.seed is None else sampling.seed
        if sampling.logit_bias:
            biases = [c.llama_logit_bias(token, bias) for token, bias in sampling.logit_bias]
            array = (c.llama_logit_bias * len(biases))(*biases)
            yield c.llama_sampler_init_logit_bias(self._n_vocab, len(biases), array)
        is_greedy = sampling.temperature == 0
        order = sampling.samplers
        if is_greedy or sampling.mirostat:  # what only drops or spreads tokens has no part in these
            order = tuple(name for name in order if name in _PENALTIES)
        for name in order:
            link = getattr(self, f"_{name}")(sampling, seed)
            if link is not None:
                yield link
        if is_greedy:
            yield c.llama_sampler_init_greedy()
        elif sampling.mirostat:
            yield from self._mirostat(sampling, seed)
        else:
            yield c.llama_sampler_init_dist(seed)

    # Each returns the link of that name in `Sampling.samplers`, None if its parameters turn it off.

    def _penalties(self, sampling: Sampling, _seed: int) -> Any:
        given = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty)
        if given == (1, 0, 0) or sampling.repeat_last_n == 0:
            return None
        return self._c.llama_sampler_init_penalties(self._n_vocab, sampling.repeat_last_n, *given)

    def _dry(self, sampling: Sampling, _seed: int) -> Any:
        if sampling.dry_multiplier == 0 or sampling.dry_penalty_last_n == 0:
            return None
        breakers = [one.encode("utf-8", "replace") for one in sampling.dry_sequence_breakers]
        return self._c.llama_sampler_init_dry(
            self._vocabulary,
            sampling.dry_multiplier,
            sampling.dry_base,
            sampling.dry_allowed_length,
            sampling.dry_penalty_last_n,
            (ctypes.c_char_p * len(breakers))(*breakers),
            len(breakers),
        )

    def _top_n_sigma(self, sampling: Sampling, _seed: int) -> Any:
        n = sampling.top_n_sigma
        return self._c.llama_sampler_init_top_n_sigma(n) if n > 0 else None

    def _top_k(self, sampling: Sampling, _seed: int) -> Any:
        return self._c.llama_sampler_init_top_k(sampling.top_k) if sampling.top_k > 0 else None

    def _typical_p(self, sampling: Sampling, _seed: int) -> Any:
        p = sampling.typical_p
        return self._c.llama_sampler_init_typical(p, 1) if p < 1 else None

    def _top_p(self, sampling: Sampling, _seed: int) -> Any:
        return self._c.llama_sampler_init_top_p(sampling.top_p, 1) if sampling.top_p < 1 else None

    def _min_p(self, sampling: Sampling, _seed: int) -> Any:
        return self._c.llama_sampler_init_min_p(sampling.min_p, 1) if sampling.min_p > 0 else None

    def _xtc(self, sampling: Sampling, seed: int) -> Any:
        p = sampling.xtc_probability
        return self._c.llama_sampler_init_xtc(p, sampling.xtc_threshold, 1, seed) if p > 0 else None

    def _temperature(self, sampling: Sampling, _seed: int) -> Any:
        return self._c.llama_sampler_init_temp(sampling.temperature)

    def _mirostat(self, sampling: Sampling, seed: int) -> Iterator[Any]:
        c, tau, eta = self._c, sampling.mirostat_tau, sampling.mirostat_eta
        yield c.llama_sampler_init_temp(sampling.temperature)
        if sampling.mirostat == 1:
            yield c.llama_sampler_init_mirostat(self._n_vocab, seed, tau, eta, _MIROSTAT_TOKENS)
        else:
            yield c.llama_sampler_init_mirostat_v2(seed, tau, eta)

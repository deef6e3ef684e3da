"""Chains of samplers link by link, as llama.cpp names them, and how they are lent and kept."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shepherd._native import engine as native
from shepherd.errors import UsageError
from shepherd.inference import EngineSettings
from shepherd.inference.binding import llama
from shepherd.inference.model import LoadedModel
from shepherd.inference.sampler import Lent, SamplerCache
from shepherd.types import SAMPLERS, Sampling

OFF = {
    "repeat_penalty": 1, "frequency_penalty": 0, "presence_penalty": 0, "dry_multiplier": 0,
    "top_n_sigma": 0, "top_k": 0, "typical_p": 1, "top_p": 1, "min_p": 0, "xtc_probability": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary(plain_model: Path) -> Iterator[tuple[int, int]]:
    """Number of tokens, and the vocabulary's address."""
    model = LoadedModel(plain_model, EngineSettings(n_ctx=256, n_threads=1))
    yield model.vocabulary.n_tokens, model.vocabulary.address
    model.close()


@pytest.fixture
def cache(vocabulary: tuple[int, int]) -> Iterator[SamplerCache]:
    cache = SamplerCache(*vocabulary)
    yield cache
    cache.close()


def borrowed(cache: SamplerCache, sampling: Sampling) -> tuple[Lent[Sampling], native.Stream]:
    stream = native.Stream()
    with ExitStack() as undo:
        lent = cache.borrow(sampling, stream, undo)
        undo.pop_all()
    return lent, stream


def links(cache: SamplerCache, **settings: Any) -> list[str]:
    """Names of the links, the one that chooses last."""
    c = llama()
    chain = borrowed(cache, Sampling(**{**OFF, **settings}))[0].sampler
    found = [c.llama_sampler_chain_get(chain, i) for i in range(c.llama_sampler_chain_n(chain))]
    return [c.llama_sampler_name(one).decode() for one in found]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, []),
        ({"repeat_penalty": 1.1}, ["penalties"]),
        ({"frequency_penalty": 0.1}, ["penalties"]),
        ({"presence_penalty": 0.1}, ["penalties"]),
        ({"presence_penalty": 0.1, "repeat_last_n": 0}, []),
        ({"dry_multiplier": 0.1}, ["dry"]),
        ({"dry_multiplier": 0.1, "dry_penalty_last_n": 0}, []),
        ({"top_n_sigma": 0.1}, ["top-n-sigma"]),
        ({"top_k": 1}, ["top-k"]),
        ({"typical_p": 0.99}, ["typical"]),
        ({"top_p": 0.99}, ["top-p"]),
        ({"min_p": 0.01}, ["min-p"]),
        ({"xtc_probability": 0.01}, ["xtc"]),
    ],
)
def test_a_link_is_there_where_its_settings_do_something(cache, settings, names):
    assert links(cache, temperature=0.5, **settings) == [*names, "temp", "dist"]


def test_without_temperature_and_with_mirostat_only_penalties_stay(cache):
    on = {"repeat_penalty": 1.1, "dry_multiplier": 0.1, "top_k": 5, "min_p": 0.1, "xtc_probability": 0.5}

    assert links(cache, temperature=0, **on) == ["penalties", "dry", "greedy"]
    assert links(cache, temperature=0.5, mirostat=1, **on) == ["penalties", "dry", "temp", "mirostat"]
    assert links(cache, temperature=0.5, mirostat=2, **on) == ["penalties", "dry", "temp", "mirostat-v2"]
    assert links(cache, temperature=0, mirostat=2) == ["greedy"]
    assert links(cache, temperature=0, logit_bias=((3, 1.0),)) == ["logit-bias", "greedy"]


def test_all_samplers_of_the_order_that_is_given_run(cache):
    on = {
        "repeat_penalty": 1.1, "dry_multiplier": 0.1, "top_n_sigma": 1, "top_k": 5, "typical_p": 0.9,
        "top_p": 0.9, "min_p": 0.1, "xtc_probability": 0.5, "temperature": 0.5,
    }  # fmt: skip

    usual = links(cache, **on)
    reversed_ = links(cache, **on, samplers=SAMPLERS[::-1])

    assert len(usual) == len(SAMPLERS) + 1
    assert reversed_ == [*usual[-2::-1], "dist"]
    assert links(cache, **on, samplers=("min_p",)) == ["min-p", "dist"]


# ---- what they leave of four tokens


def left(cache: SamplerCache, **settings: Any) -> list[int]:
    """Tokens that one link leaves of five, whose chances are these."""
    c = llama()
    chain = borrowed(cache, Sampling(**{**OFF, "temperature": 1, **settings}))[0].sampler
    tokens = (c.llama_token_data * 5)()
    for i, p in enumerate((0.5, 0.25, 0.125, 0.08, 0.045)):
        tokens[i].id, tokens[i].logit, tokens[i].p = i, math.log(p), 0
    array = c.llama_token_data_array(tokens, 5, -1, False)
    link = c.llama_sampler_chain_get(chain, 0)
    c.llama_sampler_apply(link, ctypes.byref(array))
    return sorted(array.data[i].id for i in range(array.size))


@pytest.mark.parametrize(
    ("name", "settings", "kept"),
    [
        ("top_k", {"top_k": 2}, [0, 1]),
        ("top_p", {"top_p": 0.4}, [0]),
        ("top_p", {"top_p": 0.7}, [0, 1]),
        ("min_p", {"min_p": 0.9}, [0]),
        ("min_p", {"min_p": 0.4}, [0, 1]),
        ("typical_p", {"typical_p": 0.1}, [1]),
        # All that are likely enough but the least likely of them.
        ("xtc", {"xtc_probability": 1, "xtc_threshold": 0.2}, [1, 2, 3, 4]),
        ("xtc", {"xtc_probability": 1, "xtc_threshold": 0.04}, [4]),
    ],
)
def test_a_link_keeps_one_token_where_it_has_to(cache, name, settings, kept):
    assert left(cache, samplers=(name,), **settings) == kept


# ---- lending


def test_a_sampler_is_lent_to_one_stream_at_a_time_and_kept_for_the_next(cache):
    sampling = Sampling(seed=1)
    first, stream = borrowed(cache, sampling)
    second, _ = borrowed(cache, sampling)
    native.end_stream(stream)
    third, _ = borrowed(cache, sampling)
    other, _ = borrowed(cache, Sampling(seed=2))

    assert second is not first
    assert third is first
    assert other not in (first, second)
    assert cache.built == 3
    assert (first.is_idle, second.is_idle) == (False, False)
    assert first.address != second.address
    assert first.address != 0


def test_what_is_borrowed_and_not_used_is_idle_again(cache):
    with ExitStack() as undo:
        lent = cache.borrow(Sampling(), native.Stream(), undo)
        assert not lent.is_idle

    assert lent.is_idle
    assert borrowed(cache, Sampling())[0] is lent


def test_eight_idle_samplers_are_kept_and_those_used_last(cache):
    for seed in range(10):
        native.end_stream(borrowed(cache, Sampling(seed=seed))[1])
    assert cache.built == 10
    # The tenth was in use while the ninth was idle: nobody has left before the eleventh.
    for seed in (9, 8, 7, 6, 5, 4, 3, 2):
        native.end_stream(borrowed(cache, Sampling(seed=seed))[1])
    assert cache.built == 10
    borrowed(cache, Sampling(seed=0))

    assert cache.built == 11


def test_a_closed_cache_lends_nothing(cache):
    lent, stream = borrowed(cache, Sampling())
    native.end_stream(stream)
    cache.close()
    cache.close()

    assert lent.is_idle
    with pytest.raises(UsageError, match="the engine is closed") as caught:
        borrowed(cache, Sampling())
    assert caught.value.hint == "make a new one"


def test_a_bias_names_a_token_of_the_model(cache, vocabulary):
    n = vocabulary[0]
    borrowed(cache, Sampling(logit_bias=((0, 1.0), (n - 1, 1.0))))

    for token in (-1, n):
        with pytest.raises(UsageError, match=f"^logit_bias names token {token}$") as caught:
            borrowed(cache, Sampling(logit_bias=((token, 1.0),)))
        assert caught.value.hint == f"the model's tokens are 0 to {n - 1}"

"""Sampling: what a model's file recommends, ranges, and what each sampler does to a real model's text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from shepherd._native import engine as native
from shepherd.errors import UsageError
from shepherd.inference import Engine, read_header
from shepherd.inference.binding import llama
from shepherd.inference.sampler import Lent, SamplerCache, check_sampling, recommended_sampling
from shepherd.types import SAMPLERS, Sampling
from tests.inference.engines import exact_settings, run_to_end


def test_a_recommendation_is_read_from_a_real_header(tmp_path):
    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.zeros((32, 32), np.float32))
    writer.add_sampling_temp(0.6)
    writer.add_sampling_top_k(20)
    writer.add_sampling_penalty_repeat(1.1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    found = recommended_sampling(read_header(path).metadata)

    assert found == Sampling(temperature=0.6, top_k=20, repeat_penalty=1.1)


def test_a_file_that_says_nothing_leaves_the_defaults():
    assert recommended_sampling({"general.name": "x"}) == Sampling()


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "hot", True, None])
def test_a_recommendation_out_of_range_is_passed_over(value):
    found = recommended_sampling({"general.sampling.temp": value, "general.sampling.top_k": 7})

    assert found == Sampling(top_k=7)


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("temperature", [0, 2.0], [-0.1, math.inf, math.nan]),
        ("top_k", [0, 1], [-1]),
        ("top_p", [0.01, 1], [0, 1.01]),
        ("min_p", [0, 1], [-0.01, 1.01]),
        ("repeat_penalty", [0.01, 1, 100], [0, 101]),
        ("repeat_last_n", [0, 1 << 20], [-1, (1 << 20) + 1]),
        ("frequency_penalty", [-100, 100], [-101, 101, math.nan]),
        ("presence_penalty", [-100, 100], [-101, 101]),
        ("typical_p", [0.01, 1], [0, 1.01]),
        ("top_n_sigma", [0, 3], [-0.1]),
        ("xtc_probability", [0, 1], [-0.1, 1.1]),
        ("xtc_threshold", [0, 1], [-0.1, 1.1]),
        ("dry_multiplier", [0, 100], [-0.1, 101]),
        ("dry_base", [1, 100], [0.9, 101]),
        ("dry_allowed_length", [0, 1 << 20], [-1]),
        ("dry_penalty_last_n", [0, 1 << 20], [-1]),
        ("mirostat", [0, 2], [-1, 3, 1.5]),
        ("mirostat_tau", [0.1, 100], [0, 101]),
        ("mirostat_eta", [0.1, 1], [0, 1.1]),
        ("seed", [0, 0xFFFFFFFE], [-1, 0xFFFFFFFF]),
    ],
)
def test_settings_are_allowed_up_to_the_ends_of_their_ranges(name, allowed, refused):
    for value in allowed:
        check_sampling(Sampling(**{name: value}))
    for value in refused:
        with pytest.raises(UsageError, match=f"^{name} is "):
            check_sampling(Sampling(**{name: value}))


GREEDY = Sampling(temperature=0.0)


def ids_of(engine: Engine, sampling: Sampling, n: int = 60) -> tuple[int, ...]:
    generation = engine.complete(list(range(40, 80)), sampling=sampling, max_tokens=n)
    run_to_end(generation)
    return tuple(generation.token_ids)


def test_a_bias_forbids_a_token_or_makes_it_the_only_one(endless_model: Path) -> None:
    with Engine(endless_model, settings=exact_settings()) as engine:
        favourite = ids_of(engine, GREEDY, 1)[0]
        without = ids_of(engine, replace(GREEDY, logit_bias=((favourite, -math.inf),)))
        alone = ids_of(engine, replace(GREEDY, logit_bias=((favourite + 1, 1000.0),)))

        assert favourite not in without
        assert set(alone) == {favourite + 1}
        with pytest.raises(UsageError, match="logit_bias names token 1048576"):
            ids_of(engine, replace(GREEDY, logit_bias=((1 << 20, 1.0),)))


def test_penalties_for_tokens_that_occurred_make_the_text_vary(endless_model: Path) -> None:
    with Engine(endless_model, settings=exact_settings()) as engine:
        plain = ids_of(engine, GREEDY)
        frequent = ids_of(engine, replace(GREEDY, frequency_penalty=5.0, repeat_last_n=200))
        present = ids_of(engine, replace(GREEDY, presence_penalty=50.0, repeat_last_n=200))

    assert len(set(present)) == len(present) > len(set(plain))
    assert len(set(frequent)) > len(set(plain))
    # Those of the prompt count, too.
    assert not set(present[:20]) & set(range(40, 80))


def repeated(ids: tuple[int, ...], n: int) -> int:
    """How many sequences of n tokens come again."""
    found = [ids[i : i + n] for i in range(len(ids) - n + 1)]
    return len(found) - len(set(found))


def test_dry_keeps_sequences_from_coming_again(endless_model: Path) -> None:
    dry = replace(GREEDY, dry_multiplier=100.0, dry_sequence_breakers=())
    with Engine(endless_model, settings=exact_settings()) as engine:
        plain, dried = (ids_of(engine, sampling, 200) for sampling in (GREEDY, dry))
        longer = ids_of(engine, replace(dry, dry_allowed_length=4), 200)
        # What the prompt has counts, as far as it is looked back.
        favourite = ids_of(engine, GREEDY, 1)[0]
        prompt = [40, 41, 42, favourite, 43, 44, 40, 41, 42]
        blind = replace(dry, dry_penalty_last_n=2, logit_bias=((favourite, 50.0),))
        followed = [
            engine.complete(prompt, sampling=one, max_tokens=1)
            for one in (blind, replace(blind, dry_penalty_last_n=64))
        ]
        for one in followed:
            run_to_end(one)

    assert repeated(plain, 3) > 0 == repeated(dried, 3)
    assert repeated(longer, 3) > 0 == repeated(longer, 5)
    assert followed[0].token_ids == (favourite,) != followed[1].token_ids


@pytest.mark.parametrize(
    "changes",
    [
        {"typical_p": 0.2},
        {"top_n_sigma": 0.3},
        {"xtc_probability": 1.0, "xtc_threshold": 0.01},
        {"mirostat": 1, "mirostat_tau": 1.0},
        {"mirostat": 2, "mirostat_tau": 1.0},
    ],
    ids=lambda changes: "-".join(map(str, changes.items())),
)
def test_every_sampler_changes_the_text_and_a_seed_repeats_it(
    changes: dict[str, float], endless_model: Path
) -> None:
    usual = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=7)
    with Engine(endless_model, settings=exact_settings()) as engine:
        plain = ids_of(engine, usual)
        changed, again = (ids_of(engine, replace(usual, **changes)) for _ in range(2))

    assert changed == again != plain


@pytest.mark.parametrize("samplers", [("top_q",), ("top_k", "typ_p")])
def test_an_unknown_sampler_is_named_with_those_that_there_are(samplers: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=rf"^samplers has '{samplers[-1]}'") as caught:
        check_sampling(Sampling(samplers=samplers))
    assert ", ".join(SAMPLERS) in caught.value.hint


def test_a_sampler_runs_once() -> None:
    with pytest.raises(UsageError, match=r"^samplers has a name twice"):
        check_sampling(Sampling(samplers=("top_k", "min_p", "top_k")))


def test_samplers_run_in_their_order_and_no_others(endless_model: Path) -> None:
    hot = Sampling(temperature=3.0, top_k=0, top_p=0.5, min_p=0.0, seed=7)
    with Engine(endless_model, settings=exact_settings()) as engine:
        usual = ids_of(engine, hot)
        named = ids_of(engine, replace(hot, samplers=("top_p", "temperature")))
        turned = ids_of(engine, replace(hot, samplers=("temperature", "top_p")))
        likeliest = ids_of(engine, replace(hot, top_k=1, samplers=("top_k",)))
        plain = ids_of(engine, replace(GREEDY, presence_penalty=50.0, samplers=("top_k",)))
        drawn = ids_of(engine, replace(hot, samplers=()))
        unchanged = ids_of(engine, replace(hot, temperature=1.0, top_p=1.0))

        # Heat first leaves more tokens within the share that top_p keeps.
        assert usual == named != turned
        assert likeliest == plain == ids_of(engine, GREEDY)
        assert drawn == unchanged


# ---- samplers that are lent


@pytest.fixture
def lending(plain_model: Path) -> Iterator[tuple[SamplerCache, list[object]]]:
    """A cache of samplers, and those of them that were freed."""
    freed: list[object] = []
    with Engine(plain_model, settings=exact_settings()) as engine, pytest.MonkeyPatch.context() as patch:
        vocabulary = engine.model.vocabulary
        cache = SamplerCache(vocabulary.n_tokens, vocabulary.address)
        free = llama().llama_sampler_free
        patch.setattr(llama(), "llama_sampler_free", lambda one: freed.append(one) or free(one))
        yield cache, freed
        cache.close()


def lend(cache: SamplerCache, *seeds: int) -> tuple[list[Lent[Sampling]], ExitStack]:
    undo = ExitStack()
    return [cache.borrow(Sampling(seed=seed), native.Stream(), undo) for seed in seeds], undo


def test_a_sampler_is_lent_to_one_run_at_a_time(lending) -> None:
    cache, _ = lending
    [first, second, other], undo = lend(cache, 1, 1, 2)
    assert len({first.address, second.address, other.address}) == 3
    assert not first.is_idle
    assert cache.built == 3

    undo.close()
    assert first.is_idle
    [again, another], _ = lend(cache, 1, 1)
    assert {again, another} == {first, second}
    assert cache.built == 3


def test_eight_idle_samplers_are_kept_those_used_last(lending) -> None:
    cache, freed = lending
    lent, undo = lend(cache, *range(12))
    undo.close()
    assert freed == []  # they are counted when the next one is lent

    [running], _ = lend(cache, 12)
    assert freed == [one.sampler for one in lent[:4]]
    lend(cache, 4)
    assert cache.built == 13
    _, undo = lend(cache, 0)
    undo.close()
    assert cache.built == 14
    assert len(freed) == 4
    assert not running.is_idle


def test_samplers_are_freed_in_the_end_and_no_more_are_lent(lending) -> None:
    cache, freed = lending
    lent, _ = lend(cache, 1, 2)

    cache.close()
    cache.close()

    assert freed == [one.sampler for one in lent]
    with pytest.raises(UsageError, match="the engine is closed"):
        lend(cache, 1)


def test_a_bias_names_tokens_of_the_model(lending) -> None:
    cache, _ = lending
    with ExitStack() as undo:
        cache.borrow(Sampling(logit_bias=((0, 1.0), (400, 1.0))), native.Stream(), undo)
        for token in (-1, 401):
            with pytest.raises(UsageError, match=f"logit_bias names token {token}") as caught:
                cache.borrow(Sampling(logit_bias=((token, 1.0),)), native.Stream(), undo)
            assert caught.value.hint == "the model's tokens are 0 to 400"


def test_recommendations_are_rounded_whole_or_passed_over() -> None:
    def recommended(**values: object) -> Sampling:
        return recommended_sampling({f"general.sampling.{key}": value for key, value in values.items()})

    assert recommended(temp=0.949999988, top_k=20.0, penalty_last_n=32, mirostat=2) == Sampling(
        temperature=0.95, top_k=20, repeat_last_n=32, mirostat=2
    )
    assert recommended(temp=True, top_k="20", top_p=math.nan, min_p=math.inf) == Sampling()
    assert recommended(temp=-1, top_p=0.5) == Sampling(top_p=0.5)
    assert recommended(xtc_probability=0.5, xtc_threshold=0.2, mirostat_tau=4, mirostat_eta=0.2) == Sampling(
        xtc_probability=0.5, xtc_threshold=0.2, mirostat_tau=4.0, mirostat_eta=0.2
    )
    assert recommended(min_p=0.1, penalty_repeat=1.25) == Sampling(min_p=0.1, repeat_penalty=1.25)

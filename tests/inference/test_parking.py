"""Conversations that gave up their place in the window: kept within a budget, and back without being read."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from shepherd.inference import Engine
from tests.inference.engines import KINDS, exact_settings, logits_after, read, run_to_end
from tests.inference.slots import (
    GREEDY,
    HEAD,
    TOLERANCE,
    check_mirrors,
    conversation,
    difference,
    reused,
    slot_settings,
)


@pytest.mark.parametrize("kind", KINDS)
def test_parked_conversation_comes_back_without_being_read(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    one, other = conversation(1, 120), conversation(2, 90)
    with (
        Engine(model_file(kind), settings=slot_settings(1)) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        read(engine.decoder, one)
        assert reused(engine.decoder, other) == 0

        assert reused(engine.decoder, [*one, 5, 6]) == len(one)
        logits = engine.decoder.logits()
        read(fresh.decoder, one)
        expected = logits_after(fresh.decoder, [*one, 5, 6])
        assert logits is not None
        if kind == "sliding":
            assert difference(logits, expected) < TOLERANCE[kind]
        else:
            assert logits == expected


def test_nothing_is_parked_beyond_its_budget(plain_model: Path) -> None:
    with Engine(plain_model, settings=slot_settings(1, cache_ram_bytes=100_000)) as engine:
        for seed in range(8):
            read(engine.decoder, conversation(seed, 100))
            assert engine.decoder.snapshot_bytes <= 100_000

        assert engine.decoder.snapshot_bytes > 0
        assert reused(engine.decoder, conversation(0, 100)) == 0


def test_memory_of_what_has_left_goes_back_to_the_system(plain_model: Path) -> None:
    """States of all sizes leave holes in a heap."""
    budget, choose = 64 << 20, random.Random(1)
    with Engine(plain_model, settings=slot_settings(1, cache_ram_bytes=budget)) as engine:
        before = psutil.Process().memory_info().rss
        for number in range(600):
            state = bytes(choose.randrange(200_000, 3_000_000))
            assert engine.decoder.adopt(array("i", [1, number // 400, number % 400]), state, False)

        assert engine.decoder.snapshot_bytes > 0.9 * budget
        assert psutil.Process().memory_info().rss - before < 1.15 * budget


def test_full_window_parks_the_conversation_that_waits_longest(plain_model: Path) -> None:
    """Four slots of 100 tokens do not fit 256 cells; none is lost, and none is wrong."""
    talks = [conversation(seed, 100) for seed in range(4)]
    with (
        Engine(plain_model, settings=slot_settings(4, n_ctx=256)) as engine,
        Engine(plain_model, settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        for turn in range(3):
            for talk in talks:
                held = len(talk) if turn else 0
                talk += [turn, 9]
                assert reused(engine.decoder, talk) == held
                logits = engine.decoder.logits()
                assert logits is not None
                fresh.decoder.forget()
                assert difference(logits, logits_after(fresh.decoder, talk)) < TOLERANCE["plain"]
        check_mirrors(engine.decoder, 4)


def test_parked_conversation_waits_for_room_rather_than_being_read_again(endless_model: Path) -> None:
    talk = conversation(1, 150)
    with Engine(endless_model, settings=slot_settings(2, n_ctx=256)) as engine:
        read(engine.decoder, talk)
        long_one = engine.complete(conversation(2, 150), sampling=GREEDY, max_tokens=60)
        next(long_one)
        back = engine.complete([*talk, 5, 6], sampling=GREEDY, max_tokens=2)
        run_to_end(back)
        run_to_end(long_one)

        assert long_one.stats.generated_tokens == 60
        assert back.stats.decoded_tokens == 2
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 2)


def test_newcomer_with_the_head_of_what_is_parked_does_not_cost_it(endless_model: Path) -> None:
    talk, newcomer = HEAD + conversation(1, 110), HEAD + conversation(3, 10)
    with Engine(endless_model, settings=slot_settings(2, n_ctx=256)) as engine:
        read(engine.decoder, talk)
        long_one = engine.complete(conversation(2, 150), sampling=GREEDY, max_tokens=40)
        next(long_one)
        run_to_end(engine.complete(newcomer, sampling=GREEDY, max_tokens=2))
        run_to_end(long_one)
        back = engine.complete([*talk, 5, 6], sampling=GREEDY, max_tokens=2)
        run_to_end(back)

        assert back.stats.decoded_tokens == 2

"""kv_edit: what a prompt that lacks a part of the middle does to the cache: exact, or an approximation."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.inference import Engine
from tests.inference.engines import KINDS, exact_settings, logits_after, read
from tests.inference.slots import difference

_CHOOSE = random.Random(5)
SYSTEM, OLD, KEPT, NEW = ([_CHOOSE.randrange(256) for _ in range(n)] for n in (30, 40, 50, 10))
BEFORE = SYSTEM + OLD + KEPT
AFTER = SYSTEM + KEPT + NEW


def open_engine(path: Path, kv_edit: str, *, swa_full: bool = False) -> Engine:
    settings = exact_settings(n_ctx=1024, swa_full=swa_full)
    return Engine(path, settings=replace(settings, kv_edit=kv_edit, cache_ram_bytes=0))  # type: ignore[arg-type]


def edited(engine: Engine) -> tuple[int, bytes]:
    """How many tokens were kept when the old part left, and the logits after the new one."""
    read(engine.decoder, BEFORE)
    kept = read(engine.decoder, AFTER).counters()["reused_tokens"]
    logits = engine.decoder.logits()
    assert logits is not None
    assert engine.decoder.mirror_ids == AFTER
    assert engine.decoder.position_max == engine.decoder.positions_of(0)[-1]
    return kept, logits


def exact(path: Path) -> bytes:
    with open_engine(path, "exact") as engine:
        return logits_after(engine.decoder, AFTER)


def test_exact_reads_again_from_the_cut_on(plain_model: Path) -> None:
    with open_engine(plain_model, "exact") as engine:
        kept, logits = edited(engine)

    assert kept == len(SYSTEM)
    assert logits == exact(plain_model)


def test_shift_closes_the_gap_and_reads_new_tokens_only(plain_model: Path) -> None:
    with open_engine(plain_model, "shift") as engine:
        kept, logits = edited(engine)
        positions = engine.decoder.positions_of(0)

    assert kept == len(SYSTEM + KEPT)
    assert positions == list(range(len(AFTER)))
    # An approximation: what was kept had seen what is gone.
    assert 0 < difference(logits, exact(plain_model)) < 8


@pytest.mark.parametrize("kind", KINDS)
def test_hole_leaves_the_gap_and_reads_new_tokens_only(kind: str, model_file: Callable[[str], Path]) -> None:
    with open_engine(model_file(kind), "hole") as engine:
        kept, logits = edited(engine)
        positions = engine.decoder.positions_of(0)

        assert kept == len(SYSTEM + KEPT)
        assert positions[len(SYSTEM)] == len(SYSTEM + OLD)
        assert len(positions) == len(AFTER)
        assert 0 < difference(logits, exact(model_file(kind))) < 8
        # And it can be gone on with, cut, and edited once more.
        assert read(engine.decoder, [*AFTER, 3, 4]).counters()["reused_tokens"] == len(AFTER)
        assert read(engine.decoder, [*AFTER[5:], 3, 4, 5]).ending


def test_model_that_cannot_shift_is_never_asked_to(model_file: Callable[[str], Path]) -> None:
    """llama.cpp ends the process otherwise. A ring beside a full cache cannot."""
    with open_engine(model_file("sliding"), "shift") as engine:
        kept, logits = edited(engine)

        assert kept <= len(SYSTEM)
    assert difference(logits, exact(model_file("sliding"))) < 5e-3


def test_several_parts_may_leave_at_once(plain_model: Path) -> None:
    parts = [[_CHOOSE.randrange(256) for _ in range(20)] for _ in range(6)]
    before = [token for part in parts for token in part]
    after = [token for part in parts[::2] for token in part] + [1, 2]
    with open_engine(plain_model, "shift") as engine:
        read(engine.decoder, before)

        # The last part of the cache is none of the prompt's.
        assert read(engine.decoder, after).counters()["reused_tokens"] == 60
        assert engine.decoder.mirror_ids == after


@pytest.mark.parametrize("kv_edit", ["shift", "hole"])
def test_text_that_is_replaced_is_not_taken_for_text_that_is_gone(plain_model: Path, kv_edit: str) -> None:
    after = SYSTEM + NEW + KEPT
    with open_engine(plain_model, kv_edit) as engine:
        read(engine.decoder, BEFORE)

        assert read(engine.decoder, after).counters()["reused_tokens"] == len(SYSTEM)
        assert engine.decoder.mirror_ids == after
    with open_engine(plain_model, "exact") as fresh:
        expected = logits_after(fresh.decoder, after)
    with open_engine(plain_model, kv_edit) as engine:
        read(engine.decoder, BEFORE)
        assert logits_after(engine.decoder, after) == expected

"""A context of several windows: each conversation has one of its own, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.errors import ContextOverflowError
from shepherd.inference import Engine
from shepherd.types import Sampling
from tests import models
from tests.inference.engines import KINDS, exact_settings, logits_after, run_to_end
from tests.inference.slots import GREEDY, TOLERANCE, check_mirrors, conversation, difference, slot_settings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_clients", [2, 4])
def test_clients_with_a_window_each_decode_new_tokens_only(
    kind: str, n_clients: int, model_file: Callable[[str], Path]
) -> None:
    """At once, with conversations that together exceed a window by far, and nothing to park them in."""
    window = 256
    settings = replace(slot_settings(n_clients, n_ctx=window, cache_ram_bytes=0), windows=n_clients)
    with (
        Engine(model_file(kind), settings=settings) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=window)) as fresh,
    ):
        assert (engine.window_tokens, engine.n_cells) == (window, n_clients * window)
        talks = [conversation(seed, 130) for seed in range(n_clients)]
        held = [0] * n_clients
        for turn in range(4):
            generations = [
                engine.complete(talk, sampling=Sampling(seed=i), max_tokens=12)
                for i, talk in enumerate(talks)
            ]
            for i, generation in enumerate(generations):
                run_to_end(generation)
                stats = generation.stats
                assert stats.decoded_tokens == len(talks[i]) - held[i]
                # One that ends by its length ends with a token that is sampled and not decoded.
                held[i] = len(talks[i]) + stats.generated_tokens - (stats.finish_reason == "length")
                talks[i] += [*generation.token_ids, *conversation(100 * turn + i, 18)]
        assert sum(len(talk) for talk in talks) > (n_clients - 1) * window
        check_mirrors(engine.decoder, n_clients)
        for talk in talks:
            logits = logits_after(engine.decoder, talk)
            fresh.decoder.forget()
            assert difference(logits, logits_after(fresh.decoder, talk)) < TOLERANCE[kind]


def test_conversation_of_a_wide_context_still_ends_with_its_window(endless_model: Path) -> None:
    settings = replace(slot_settings(2, n_ctx=256), windows=2)
    with Engine(endless_model, settings=settings) as engine:
        generations = [engine.complete([5, i], sampling=GREEDY, max_tokens=1000) for i in range(2)]
        for generation in generations:
            run_to_end(generation)

        assert [generation.stats.generated_tokens for generation in generations] == [255, 255]
        assert all(len(engine.decoder.ids_of(slot)) == 256 for slot in range(2))
        with pytest.raises(ContextOverflowError):
            engine.complete([5] * 256)


def test_wide_context_leaves_the_positions_of_a_long_rope_as_one_window_has_them(tmp_path: Path) -> None:
    path, talk = tmp_path / "long.gguf", conversation(1, 200)
    models.llama(path, long_rope=1024)

    def logits(n_ctx: int, windows: int) -> tuple[int, bytes]:
        with Engine(path, settings=replace(slot_settings(4, n_ctx=n_ctx), windows=windows)) as engine:
            return engine.n_cells, logits_after(engine.decoder, talk)

    # Four windows of 512 would be a context for the long factors.
    assert logits(512, 4) == (1024, logits(512, 1)[1])
    assert logits(2048, 4) == (8192, logits(2048, 1)[1])
    assert difference(logits(512, 4)[1], logits(2048, 4)[1]) > 0.1


def test_sibling_of_a_wide_context_has_one_window(plain_model: Path) -> None:
    settings = replace(slot_settings(4, n_ctx=512), windows=4)
    with Engine(plain_model, settings=settings) as engine, engine.sibling() as sibling:
        assert (engine.n_cells, sibling.n_cells) == (2048, 512)

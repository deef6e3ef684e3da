"""Checkpoints: what a cache that cannot rewind goes back to when a prompt parts from the one before."""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native import engine as native
from shepherd.inference import Answer, Engine
from shepherd.types import Message, Sampling
from tests.inference.engines import exact_settings, logits_after, read, run_to_end
from tests.inference.slots import difference

STATES = ("recurrent", "hybrid")
_CHOOSE = random.Random(2)
SYSTEM, ONE, OTHER = ([_CHOOSE.randrange(256) for _ in range(n)] for n in (40, 200, 30))


@pytest.fixture(scope="module")
def transcripts(model_file: Callable[[str], Path]) -> Iterator[Engine]:
    """An engine whose template and vocabulary make prompts."""
    with Engine(model_file("plain"), settings=exact_settings()) as engine:
        yield engine


def _said(generation: Answer) -> Message:
    return Message("assistant", generation.text, token_ids=generation.token_ids)


@pytest.mark.parametrize("kind", STATES)
def test_state_goes_back_to_its_checkpoint_bit_for_bit(kind: str, model_file: Callable[[str], Path]) -> None:
    with Engine(model_file(kind), settings=exact_settings(n_ctx=1024)) as engine:
        read(engine.decoder, SYSTEM + ONE, [len(SYSTEM)])

        stream = read(engine.decoder, SYSTEM + OTHER)
        logits = engine.decoder.logits()

        assert stream.counters()["reused_tokens"] == len(SYSTEM)
    with Engine(model_file(kind), settings=exact_settings(n_ctx=1024)) as fresh:
        assert logits == logits_after(fresh.decoder, SYSTEM + OTHER)


@pytest.mark.parametrize(("kind", "tolerance"), [("windowed", 1e-4), ("sliding", 5e-3)])
def test_window_that_is_lost_comes_back_with_its_checkpoint(
    kind: str, tolerance: float, model_file: Callable[[str], Path]
) -> None:
    """Cells of the ring stand in another order then, which Gemma's GELU, a table, makes visible."""
    path, long = model_file(kind), ONE * 4
    with Engine(path, settings=exact_settings(n_ctx=2048)) as engine:
        for end in range(100, len(long), 100):
            read(engine.decoder, SYSTEM + long[:end], [len(SYSTEM)])

        stream = read(engine.decoder, SYSTEM + OTHER)
        logits = engine.decoder.logits()

        assert stream.counters()["reused_tokens"] == len(SYSTEM)
    with Engine(path, settings=exact_settings(n_ctx=2048)) as fresh:
        assert logits is not None
        assert difference(logits, logits_after(fresh.decoder, SYSTEM + OTHER)) < tolerance


@pytest.mark.parametrize("kind", [*STATES, "sliding"])
def test_answer_that_is_shown_otherwise_costs_that_turn_only(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    """As when a template drops what the model thought."""
    with Engine(model_file(kind), settings=exact_settings(n_ctx=4096)) as engine:
        messages = [Message("system", "be brief. " * 30)]
        before = 0
        for turn in range(6):
            messages.append(Message("user", f"what is the name of the user? {turn} " * 3))
            generation = engine.generate(messages, sampling=Sampling(seed=turn), max_tokens=12)
            run_to_end(generation)

            # All up to the last message but one was read before, and a rewind behind the window is not free.
            assert generation.stats.reused_tokens >= before
            before = sum(generation.prompt_tokens_per_message) - 8
            messages.append(Message("assistant", "other words than those"))


@pytest.mark.parametrize("kind", STATES)
def test_tail_that_is_gone_costs_its_own_message_and_the_answer(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    with Engine(model_file(kind), settings=exact_settings(n_ctx=4096)) as engine:
        messages = [Message("system", "be brief. " * 30)]
        before = 0
        for turn in range(6):
            question = f"what is the name of the user? {turn} " * 3
            sent = [*messages, Message("user", f"{question}\n\nwhat is known: the dog is called rex.")]
            prompt = engine._transcript.prompt(sent)
            generation = engine.generate(sent, sampling=Sampling(seed=turn), max_tokens=12)
            run_to_end(generation)

            assert generation.stats.reused_tokens == before
            # The begin of the newest message; of the first, that is the system prompt's end.
            before = prompt.boundaries[-2]
            messages += [Message("user", question), _said(generation)]


@pytest.mark.parametrize("kind", STATES)
def test_turn_that_only_adds_keeps_a_checkpoint_without_another_batch(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    with Engine(model_file(kind), settings=exact_settings(n_ctx=4096)) as engine:
        messages = [Message("system", "be brief. " * 30)]
        held = 0
        for turn in range(4):
            messages.append(Message("user", f"what is the name of the user? {turn} " * 3))
            generation = engine.generate(messages, sampling=Sampling(seed=turn), max_tokens=12)
            run_to_end(generation)
            assert generation.stats.reused_tokens == held
            stats = generation.stats
            before, held = held, stats.prompt_tokens + stats.generated_tokens
            held -= stats.finish_reason == "length"
            messages.append(_said(generation))
        messages[-2:] = [Message("user", "what was that?")]
        generation = engine.generate(messages, sampling=Sampling(seed=9), max_tokens=12)
        run_to_end(generation)

        # The end of the answer before the last.
        assert generation.stats.reused_tokens == before


def test_without_ram_for_them_there_are_none(model_file: Callable[[str], Path]) -> None:
    settings = replace(exact_settings(n_ctx=1024), cache_ram_bytes=0)
    with Engine(model_file("hybrid"), settings=settings) as engine:
        read(engine.decoder, SYSTEM + ONE, [len(SYSTEM)])

        assert read(engine.decoder, SYSTEM + OTHER).counters()["reused_tokens"] == 0
        assert engine.decoder.snapshot_bytes == 0


@pytest.mark.parametrize("kind", STATES)
def test_prompt_that_is_given_up_goes_on_from_its_checkpoint(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    settings = replace(exact_settings(n_ctx=4096, n_ubatch=2048), n_batch=2048)
    with Engine(model_file(kind), settings=settings) as engine:
        long = SYSTEM + ONE * 10
        for delay_ms in range(0, 40, 4):
            stream = native.Stream()
            assert engine.decoder.submit(array("i", long), stream, boundaries=[len(SYSTEM)])
            time.sleep(delay_ms / 1000)
            stream.cancel()
            engine.decoder.wait_idle()

            assert engine.decoder.position_max + 1 == len(engine.decoder.mirror_ids)
        read(engine.decoder, SYSTEM + ONE, [len(SYSTEM)])
        logits = logits_after(engine.decoder, SYSTEM + OTHER)
    with Engine(model_file(kind), settings=exact_settings(n_ctx=1024)) as fresh:
        assert logits == logits_after(fresh.decoder, SYSTEM + OTHER)


def test_boundaries_lie_inside_the_prompt(plain_model: Path) -> None:
    with Engine(plain_model, settings=exact_settings()) as engine:
        for boundaries in ([0], [3], [-1], [1] * 9):
            with pytest.raises(ValueError, match="boundar"):
                engine.decoder.submit(array("i", [1, 2, 3]), native.Stream(), boundaries=boundaries)
        assert read(engine.decoder, [1, 2, 3]).ending == native.LENGTH


@given(
    system=st.text(max_size=20),
    words=st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=2),
    is_system=st.booleans(),
)
def test_boundaries_are_where_prompts_part(
    transcripts: Engine, system: str, words: list[str], is_system: bool
) -> None:
    head = [Message("system", system)] if is_system else []
    prompt, other = (transcripts._transcript.prompt([*head, Message("user", word)]) for word in words)
    answered = [*head, Message("user", words[0]), Message("assistant", "hm"), Message("user", "so")]
    longer = transcripts._transcript.prompt(answered)

    if is_system and system:
        shared = prompt.boundaries[0]
        assert prompt.token_ids[:shared] == other.token_ids[:shared]
    last = prompt.boundaries[-1]
    assert prompt.token_ids[:last] == longer.token_ids[:last]
    # Behind it stands the invitation to answer.
    assert last < len(prompt.token_ids)
    assert list(prompt.boundaries) == sorted(set(prompt.boundaries))

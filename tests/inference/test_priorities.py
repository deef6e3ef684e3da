"""Who goes first where several answers are made: users before the background, answers beside prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd._native import engine as native
from shepherd.inference import Engine
from tests.inference.engines import KINDS, run_to_end
from tests.inference.slots import (
    GREEDY,
    check_mirrors,
    conversation,
    read_out,
    said,
    slot_settings,
    submit,
)

# A window that no answer of these tests comes to the end of, however late the reader is.
LONG = 65_536


def test_long_prompt_does_not_stop_an_answer(endless_model: Path) -> None:
    settings = replace(slot_settings(2, n_ctx=LONG), n_ubatch=16)
    with Engine(endless_model, settings=settings) as engine:
        answer = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=200)
        next(answer)
        prompt = engine.complete(conversation(1, LONG - 500), sampling=GREEDY, max_tokens=1)
        run_to_end(answer)

        # Beside each of its 200 tokens 16 of the prompt were read, which is a small part of that.
        assert answer.stats.generated_tokens == 200
        assert prompt.is_running
        prompt.close()


def test_long_prompt_is_read_beside_an_answer(endless_model: Path) -> None:
    settings = replace(slot_settings(2, n_ctx=LONG), n_ubatch=16)
    with Engine(endless_model, settings=settings) as engine:
        answer = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=LONG - 500)
        next(answer)
        prompt = engine.complete(conversation(1, 3000), sampling=GREEDY, max_tokens=1)
        run_to_end(prompt)

        assert prompt.stats.prompt_tokens == 3000
        assert answer.is_running
        answer.close()


@pytest.mark.parametrize("length", [100, 180, 220])
def test_prompt_without_room_is_read_when_an_answer_has_ended(endless_model: Path, length: int) -> None:
    """It once waited for ever: half of one token, the next attempt, is none, and twice none is none."""
    with Engine(endless_model, settings=slot_settings(2, n_ctx=256)) as engine:
        answer = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=180)
        prompt = engine.complete(conversation(1, length), sampling=GREEDY, max_tokens=5)
        run_to_end(prompt)
        run_to_end(answer)

        assert prompt.stats.generated_tokens == 5
        assert answer.stats.generated_tokens == 180
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 2)


def test_background_answer_pauses_while_a_user_has_one(endless_model: Path) -> None:
    with Engine(endless_model, settings=slot_settings(2, n_ctx=LONG)) as engine:
        background = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=LONG - 500, background=True)
        next(background)
        user = engine.complete([8, 9], sampling=GREEDY, max_tokens=800)
        next(user)
        began = at_rest = said(background)
        while True:
            length = said(background)
            next(user, None)
            if not user.is_running:
                break
            at_rest = length
        run_to_end(user)

        assert user.stats.generated_tokens == 800
        # What was under way when the user came, and no more.
        assert at_rest - began <= 2 * engine.model.vocabulary.longest_bytes
        assert next(background)
        background.close()


@pytest.mark.parametrize("kind", KINDS)
def test_background_answer_gives_up_its_slot_and_goes_on_later(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    tokens = conversation(4, 50)
    with Engine(model_file(kind), settings=slot_settings(2)) as engine:
        undisturbed = run_to_end(engine.complete(tokens, sampling=GREEDY, max_tokens=60))
        engine.decoder.forget()
        background = [
            engine.complete(tokens, sampling=GREEDY, max_tokens=60, background=True) for _ in range(2)
        ]
        users = [engine.complete([8, 9, i], sampling=GREEDY, max_tokens=20) for i in range(3)]
        for user in users:
            run_to_end(user)

        assert [run_to_end(one) for one in background] == [undisturbed] * 2
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 2)


def test_user_does_not_wait_for_a_head_that_the_background_reads(plain_model: Path) -> None:
    head = conversation(0, 1500)
    with Engine(plain_model, settings=slot_settings(3, n_ctx=8192)) as engine:
        first = submit(engine.decoder, [*head, 1], [len(head)], background=True)
        users = submit(engine.decoder, [*head, 2], [len(head)])
        last = submit(engine.decoder, [*head, 3], [len(head)], background=True)

        assert [read_out(stream) for stream in (users, first, last)] == [native.LENGTH] * 3

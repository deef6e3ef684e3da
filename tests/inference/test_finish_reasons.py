"""Why an answer with tool calls has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.inference import Answer, Engine
from shepherd.types import Message, Sampling
from tests import models
from tests.inference.engines import exact_settings
from tests.inference.manners import MANNERS
from tests.inference.test_answer import WEATHER, saying

MANNER = MANNERS["qwen"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path: Path = tmp_path_factory.mktemp("reasons") / "model.gguf"
    models.llama(path, template=MANNER.template, controls=MANNER.controls)
    with Engine(path, settings=exact_settings(n_ctx=2048)) as engine:
        yield engine


def answer(engine: Engine, text: str, max_tokens: int) -> Answer:
    reply = engine.generate(
        [Message("user", "Rain in Paris?")],
        sampling=Sampling(temperature=0),
        max_tokens=max_tokens,
        grammar=saying(engine, text),
        tools=[WEATHER],
    )
    with reply:
        for _ in reply:
            pass
    return reply


def test_an_answer_that_ends_with_calls_says_so(engine: Engine) -> None:
    reply = answer(engine, MANNER.call, 400)

    assert (len(reply.tool_calls), reply.stats.finish_reason) == (1, "tool_calls")


def test_an_answer_that_was_cut_behind_a_call_says_that_it_was_cut(engine: Engine) -> None:
    n_call = answer(engine, MANNER.call, 400).stats.generated_tokens

    reply = answer(engine, MANNER.call + "\n and then more text follows" * 9, n_call + 5)

    assert (len(reply.tool_calls), reply.stats.finish_reason) == (1, "length")


def test_an_answer_that_was_cut_before_its_call_ended_has_none(engine: Engine) -> None:
    reply = answer(engine, MANNER.call, 5)

    assert (reply.tool_calls, reply.stats.finish_reason) == ((), "length")


def test_an_answer_that_is_closed_unread_keeps_what_was_generated(engine: Engine) -> None:
    reply = engine.generate(
        [Message("user", "hello")],
        sampling=Sampling(temperature=0),
        grammar=saying(engine, "It is clear."),
    )
    while reply.is_running:
        time.sleep(0.001)

    reply.close()

    assert reply.text == "It is clear."

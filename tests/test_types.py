"""The records that everybody shares."""

from __future__ import annotations

from dataclasses import fields

import pytest

from shepherd.types import SEEDS, Injection, Message, Picture, Sampling, ToolCall, TurnStats


def test_a_copy_of_a_message_has_all_that_it_has_and_is_another_one():
    message = Message(
        "assistant",
        "raw",
        "raw and tail",
        Injection("tail"),
        (1, 2),
        3,
        4,
        5,
        (ToolCall("a", "b", "{}"),),
        "call",
        "thought",
        "raw in a template",
        (Picture(b"picture"),),
    )

    copy = message.copy()

    assert all(getattr(copy, field.name) == getattr(message, field.name) for field in fields(Message))
    assert all(getattr(message, field.name) for field in fields(Message))  # or the line above says little
    copy.sent = "other"
    assert message.sent == "raw and tail"


def test_several_answers_to_a_prompt_have_seeds_of_their_own():
    assert [Sampling(seed=7).of_answer(i).seed for i in range(3)] == [7, 8, 9]
    assert Sampling(seed=SEEDS - 1).of_answer(2).seed == 1
    assert Sampling().of_answer(2) == Sampling()


@pytest.mark.parametrize(
    ("sampling", "looks_back"),
    [
        (Sampling(), 0),
        (Sampling(repeat_penalty=1.1), 64),
        (Sampling(frequency_penalty=0.1, repeat_last_n=9), 9),
        (Sampling(presence_penalty=0.1), 64),
        (Sampling(dry_multiplier=0.8), 4096),
        (Sampling(dry_multiplier=0.8, dry_penalty_last_n=10, repeat_penalty=0.9), 64),
    ],
)
def test_penalties_look_back_as_far_as_the_farthest_of_them(sampling, looks_back):
    assert sampling.penalty_last_n == looks_back


def test_speed_of_an_answer():
    stats = TurnStats(generated_tokens=30, drafted_tokens=25, accepted_tokens=20, decode_ms=500.0)

    assert (stats.tokens_per_decode, stats.tokens_per_second) == (3.0, 60.0)
    assert TurnStats(generated_tokens=30, decode_ms=500.0).tokens_per_decode == 1.0
    assert (TurnStats().tokens_per_decode, TurnStats().tokens_per_second) == (0.0, 0.0)

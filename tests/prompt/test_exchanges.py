"""Exchanges: their cost together, what is paired, and what is hidden of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shepherd.prompt.exchanges import (
    Exchange,
    added_stats,
    has_tail,
    hide_memory,
    messages_of,
    paired,
    strip_tails,
    tail_tokens,
    turns,
    with_recall,
)
from shepherd.types import Message, ToolCall, TurnStats


def stats(**values):
    counts = dict.fromkeys(("prompt_tokens", "reused_tokens", "decoded_tokens", "generated_tokens"), 0)
    times = dict.fromkeys(("prefill_ms", "ttft_ms", "decode_ms", "total_ms"), 0.0)
    return TurnStats(**{**counts, **times, **values})


def test_first_word_of_a_turn_with_tools_is_that_of_its_first_reply():
    first = stats(prompt_tokens=100, decoded_tokens=40, generated_tokens=10, ttft_ms=5.0, total_ms=20.0)
    second = stats(prompt_tokens=130, decoded_tokens=20, generated_tokens=7, ttft_ms=90.0, total_ms=100.0)

    both = added_stats(first, second)

    assert both.ttft_ms == 5.0
    assert (both.prompt_tokens, both.decoded_tokens, both.reused_tokens) == (130, 60, 70)
    assert (both.generated_tokens, both.total_ms) == (17, 120.0)


def test_time_of_recall_comes_before_the_engines_own():
    later = with_recall(stats(ttft_ms=5.0, total_ms=20.0), 2.0)

    assert (later.recall_ms, later.ttft_ms, later.total_ms) == (2.0, 7.0, 22.0)


def test_question_without_its_answer_is_no_exchange():
    call = ToolCall("c1", "search", "{}")
    messages = [
        Message("system", "be brief"),
        Message("user", "one"),
        Message("assistant", "1"),
        Message("user", "lost"),
        Message("user", "two"),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "found", tool_call_id="c1"),
        Message("assistant", "2"),
        Message("user", "cut"),
        Message("assistant", "", tool_calls=(call,)),
        Message("assistant", "3"),
    ]

    assert [(one.user.raw, one.answer.raw, len(one.steps)) for one in paired(messages)] == [
        ("one", "1", 0),
        ("two", "2", 2),
    ]


def test_turn_begins_with_the_first_of_several_user_messages():
    roles = ["system", "assistant", "user", "user", "assistant", "tool", "user"]

    assert turns([Message(role, "x") for role in roles]) == [[1], [2, 3, 4, 5], [6]]


def with_tail(**changes) -> Message:
    """A message of 12 characters, the last 6 of which are a tail."""
    return replace(Message("user", "asked?", sent="asked?[tail]"), **{"tokens": 12, **changes})


@pytest.mark.parametrize(
    ("message", "has_one", "tokens"),
    [
        (with_tail(), True, 6),
        (with_tail(tokens=0), True, 0),
        (with_tail(sent="asked?"), False, 0),
        (with_tail(role="assistant"), False, 0),
    ],
)
def test_a_tail_has_its_share_of_the_tokens(message, has_one, tokens):
    before = message.tokens

    assert (has_tail(message), tail_tokens(message)) == (has_one, tokens)
    assert strip_tails([message]) == tokens
    if message.role == "user":
        assert (message.sent, message.tokens, has_tail(message)) == ("asked?", before - tokens, False)


def test_tails_of_several_messages_are_freed_together():
    assert strip_tails([with_tail(), with_tail(sent="asked?"), with_tail()]) == 12
    assert strip_tails([]) == 0


def test_of_tools_only_those_of_others_keep_what_they_read():
    own, other = ToolCall("c1", "search_memory", '{"q": 1}'), ToolCall("c2", "clock", '{"z": 2}')
    steps = [
        Message("assistant", "I look.", tool_calls=(own, other), tokens=5),
        Message("tool", "a secret", tool_call_id="c1", tokens=7),
        Message("tool", "noon", tool_call_id="c2", tokens=8),
    ]
    exchange = Exchange(with_tail(), Message("assistant", "done"), steps=steps)

    hide_memory([exchange], {"clock"})

    said, hidden, kept = steps
    assert exchange.user.sent == "asked?"
    assert [call.arguments for call in said.tool_calls] == ["{}", '{"z": 2}']
    assert [call.name for call in said.tool_calls] == ["search_memory", "clock"]
    assert (hidden.sent, hidden.raw, hidden.tokens) == (
        '{"hidden": "read from a memory that is off now"}',
        "a secret",
        0,
    )
    assert (kept.sent, kept.tokens) == ("noon", 8)
    assert messages_of([exchange]) == [exchange.user, *steps, exchange.answer]


def test_costs_of_two_replies_are_added():
    first = stats(prompt_tokens=9, decoded_tokens=9, prefill_ms=1.0, decode_ms=2.0, warnings=("a",))
    second = stats(prompt_tokens=10, decoded_tokens=10, prefill_ms=3.0, decode_ms=4.0, warnings=("b",))

    both = added_stats(first, second)

    assert (both.decoded_tokens, both.reused_tokens) == (10, 0)
    assert (both.prefill_ms, both.decode_ms, both.warnings) == (4.0, 6.0, ("a", "b"))
    assert not both.is_estimated
    assert added_stats(replace(first, is_estimated=True), second).is_estimated
    assert added_stats(first, replace(second, is_estimated=True)).is_estimated


def test_every_cost_of_two_replies_is_in_their_sum():
    first = TurnStats(
        prompt_tokens=50, reused_tokens=10, decoded_tokens=40, generated_tokens=5, drafted_tokens=8,
        accepted_tokens=6, model_drafted_tokens=3, model_accepted_tokens=2,
        window_tokens=100, prefill_ms=1.0, ttft_ms=2.0, decode_ms=3.0, total_ms=4.0,
        finish_reason="tool_calls", warnings=("a",), stopped_by=1,
    )  # fmt: skip
    second = TurnStats(
        prompt_tokens=70, reused_tokens=55, decoded_tokens=15, generated_tokens=7, drafted_tokens=4,
        accepted_tokens=3, model_drafted_tokens=2, model_accepted_tokens=1,
        window_tokens=200, evicted_turns=1, recall_ms=9.0, prefill_ms=10.0, ttft_ms=20.0,
        decode_ms=30.0, total_ms=40.0, finish_reason="stop", warnings=("b",), stopped_by=0,
    )  # fmt: skip

    assert added_stats(first, second) == TurnStats(
        prompt_tokens=70, reused_tokens=15, decoded_tokens=55, generated_tokens=12, drafted_tokens=12,
        accepted_tokens=9, model_drafted_tokens=5, model_accepted_tokens=3,
        window_tokens=200, evicted_turns=1, recall_ms=9.0, prefill_ms=11.0, ttft_ms=2.0,
        decode_ms=33.0, total_ms=44.0, finish_reason="stop", warnings=("a", "b"), stopped_by=0,
    )  # fmt: skip


def test_an_exchange_has_the_identity_that_it_was_given_or_its_own():
    one, other = (Exchange(Message("user", "a"), Message("assistant", "b")) for _ in range(2))

    assert one.identity != other.identity
    assert replace(one, key="k").identity == replace(other, key="k").identity == "k"

"""Exchanges: their cost together, what is paired, and what is hidden of them."""

from __future__ import annotations

from shepherd.prompt.exchanges import added_stats, paired, turns, with_recall
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

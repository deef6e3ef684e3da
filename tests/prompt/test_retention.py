"""When old tails are stripped, and what that does to the token counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.prompt.exchanges import strip_tails, tail_tokens
from shepherd.prompt.window_budget import CROWDED_SHARE, tails_to_strip
from shepherd.types import Injection, Message

TAIL = "\n\n[facts: name=Steve]"


def told(raw: str = "hello", tail: str = TAIL, tokens: int = 12) -> Message:
    return Message("user", raw, sent=raw + tail, injected=Injection(tail), tokens=tokens)


def test_keep_strips_nothing():
    assert tails_to_strip([told()] * 100, "keep", window_tokens=10) == []


def test_strip_takes_every_tail_and_leaves_other_messages():
    first, plain, answer = told(), Message("user", "hi"), Message("assistant", "a", sent="b")

    assert tails_to_strip([first, answer, plain], "strip", window_tokens=8192) == [first]


def test_auto_keeps_tails_until_their_share_of_the_window_is_crowded_and_then_strips_all():
    messages = [told(tokens=50) for _ in range(10)]
    tails = sum(map(tail_tokens, messages))

    assert tails_to_strip(messages, "auto", window_tokens=int(tails / CROWDED_SHARE) + 1) == []
    assert tails_to_strip(messages, "auto", window_tokens=int(tails / CROWDED_SHARE) - 1) == messages


def test_a_stripped_message_has_its_raw_text_and_keeps_the_record():
    message = told()

    strip_tails([message])

    assert message.sent == "hello"
    assert message.injected == Injection(TAIL)


def test_tokens_are_corrected_by_the_messages_own_ratio():
    message = told("x" * 40, tail="y" * 60, tokens=25)  # four characters a token

    freed = strip_tails([message])

    assert (message.tokens, freed) == (10, 15)


def test_a_stripped_message_has_at_least_one_token():
    message = told("", tail="y" * 1000, tokens=3)

    strip_tails([message])

    assert message.tokens == 1


def test_unknown_tokens_stay_unknown():
    message = told(tokens=0)

    assert strip_tails([message]) == 0
    assert message.tokens == 0


@pytest.mark.parametrize("role", ["assistant", "system", "tool"])
def test_only_messages_of_the_user_have_tails(role):
    assert tails_to_strip([Message(role, "a", sent="a" + TAIL)], "strip", window_tokens=100) == []


@given(
    st.lists(
        st.tuples(st.text(max_size=50), st.text(min_size=1, max_size=200), st.integers(0, 300)), max_size=20
    )
)
def test_the_session_total_goes_down_by_what_was_freed_and_stripping_twice_frees_nothing(parts):
    messages = [told(raw, tail, tokens) for raw, tail, tokens in parts]
    before = sum(message.tokens for message in messages)

    freed = strip_tails(messages)

    assert sum(message.tokens for message in messages) == before - freed
    assert freed >= 0
    assert all(message.sent == message.raw for message in messages)
    assert all(message.tokens >= 1 for message, (_, _, tokens) in zip(messages, parts, strict=True) if tokens)
    assert strip_tails(messages) == 0
    assert tails_to_strip(messages, "strip", window_tokens=1) == []

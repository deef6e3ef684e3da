"""Tokens per message from the prompt's total alone: nothing lost, nothing charged twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.tokens import CharsPerToken
from shepherd.providers.accounting import Account, Entry, answered, settle, shares, update

RATIO = CharsPerToken(4.0)
SYSTEM = Entry("system", 400)


def entry(key: str, chars: int) -> Entry:
    return Entry(key, chars)


def first_turn(prompt_tokens: int) -> Account:
    return settle(update(Account(), [SYSTEM, entry("hello", 40)], RATIO), prompt_tokens)


def test_before_any_count_everything_is_an_estimate():
    account = update(Account(), [SYSTEM, entry("hello", 40)], RATIO)

    assert account.tokens == (104, 14)
    assert not any(e.is_counted for e in account.entries)


def test_first_count_is_shared_by_baseline_and_message_in_proportion():
    assert first_turn(59).tokens == (52, 7)


def test_new_message_of_a_later_turn_costs_what_the_prompt_grew_by():
    account = answered(first_turn(59), "Hi!", 12, 5, is_counted=True)

    account = update(account, [SYSTEM, entry("hello", 40), entry("Hi!", 12), entry("more", 400)], RATIO)
    account = settle(account, 59 + 5 + 90)

    assert account.tokens == (52, 7, 5, 90)


def test_several_new_messages_share_the_growth():
    account = answered(first_turn(59), "call", 20, 6, is_counted=True)
    new = [entry("result", 80), entry("next", 40)]

    account = update(account, [SYSTEM, entry("hello", 40), entry("call", 20), *new], RATIO)
    account = settle(account, 59 + 6 + 38)

    assert account.tokens[-2:] == (24, 14)


def test_an_answer_that_nobody_counted_is_counted_with_the_next_prompt():
    account = answered(first_turn(59), "cut", 40, 14, is_counted=False)

    account = update(account, [SYSTEM, entry("hello", 40), entry("cut", 40), entry("go on", 40)], RATIO)
    account = settle(account, 59 + 30)

    assert account.tokens == (52, 7, 15, 15)


def test_stripped_message_keeps_its_share_and_new_ones_bear_nothing_of_it():
    account = answered(first_turn(152), "Hi!", 12, 5, is_counted=True)
    tokens = dict(zip(("system", "hello"), account.tokens, strict=False))

    shorter = [SYSTEM, entry("hello", 20), entry("Hi!", 12), entry("more", 40)]
    account = settle(update(account, shorter, RATIO), tokens["system"] + tokens["hello"] // 2 + 5 + 11)

    assert account.tokens == (tokens["system"], tokens["hello"] // 2, 5, 11)


def test_evicted_messages_cost_nothing_and_the_others_what_they_did():
    account = answered(first_turn(59), "Hi!", 12, 5, is_counted=True)

    account = settle(update(account, [SYSTEM, entry("more", 40)], RATIO), 52 + 9)

    assert account.tokens == (52, 9)


def test_other_tools_are_another_baseline():
    account = update(first_turn(59), [Entry("system and tools", 800), entry("hello", 40)], RATIO)

    assert settle(account, 207).tokens == (200, 7)


def test_baseline_bears_what_the_template_changed():
    account = update(first_turn(59), [SYSTEM, entry("hello", 40)], RATIO)

    assert settle(account, 61).tokens == (54, 7)


def test_a_count_that_cannot_be_is_shared_by_all():
    account = answered(first_turn(59), "thought much", 12, 900, is_counted=True)

    account = update(account, [SYSTEM, entry("hello", 40), entry("thought much", 12), entry("x", 4)], RATIO)
    account = settle(account, 70)

    assert account.total == 70
    assert all(e.is_counted for e in account.entries)


def test_a_server_that_counts_only_what_it_had_not_cached_is_not_believed():
    account = update(first_turn(59), [SYSTEM, entry("hello", 40), entry("more", 400)], RATIO)

    assert settle(account, 80) == account


def test_the_same_words_twice_are_two_messages():
    prompt = [SYSTEM, entry("yes", 3), entry("Hi!", 12), entry("yes", 3)]
    account = answered(settle(update(Account(), prompt[:2], RATIO), 50), "Hi!", 12, 5, is_counted=True)

    account = update(account, prompt, RATIO)

    assert [e.is_counted for e in account.entries] == [True, True, True, False]


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_shares_are_whole_add_up_and_are_in_proportion(total, weights):
    parts = shares(total, weights)

    assert sum(parts) == total
    fair = weights if any(weights) else [1] * len(weights)
    assert all(
        abs(part - total * w / sum(fair)) < 1 + 1e-6 * total for part, w in zip(parts, fair, strict=True)
    )


turns = st.lists(
    st.tuples(
        st.integers(0, 2000),  # characters of the message
        st.integers(0, 500),  # characters of its tail
        st.integers(1, 800),  # tokens of the answer
        st.booleans(),  # whether the answer was counted
        st.sampled_from(["keep", "strip", "evict"]),
        st.floats(0.6, 5.0),  # how far the server's tokens are off the estimate
    ),
    min_size=1,
    max_size=12,
)


@given(turns)
def test_accounts_add_up_to_what_the_server_counted_whatever_happens(conversation):
    account, prompt = Account(), [SYSTEM]
    for number, (chars, tail, answer, counted, event, factor) in enumerate(conversation):
        if event == "strip":
            prompt = [SYSTEM, *(replace(e, chars=max(1, e.chars - tail)) for e in prompt[1:])]
        elif event == "evict":
            prompt = [SYSTEM, *prompt[3:]]
        prompt = [*prompt, entry(f"user {number}", chars + tail)]
        account = update(account, prompt, RATIO)
        before = {e.key: e.tokens for e in account.entries if e.is_counted}
        believed = -(-sum(e.chars for e in prompt) // 10)  # a server that tells fewer is not
        told = max(len(prompt), int(account.total * factor), believed)

        account = settle(account, told)

        assert account.total == told
        assert all(e.is_counted and e.tokens >= 0 for e in account.entries)
        left = told - sum(before.values())
        n_new = len(prompt) - len(before)
        if n_new and left >= n_new:
            assert {e.key: e.tokens for e in account.entries if e.key in before} == before
        account = answered(account, f"answer {number}", answer * 3, answer, is_counted=counted)
        prompt = [*prompt, entry(f"answer {number}", answer * 3)]


@given(turns)
def test_a_server_that_counts_each_message_alike_is_followed_exactly(conversation):
    account, prompt, true = Account(), [SYSTEM], {"system": 111}
    for number, (chars, tail, answer, *_) in enumerate(conversation):
        key = f"user {number}"
        prompt, true[key] = [*prompt, entry(key, chars + tail)], 4 + (chars + tail) // 3
        account = settle(update(account, prompt, RATIO), sum(true.values()))
        if number:  # the first turn can only be shared
            assert dict(zip(true, account.tokens, strict=True))[key] == true[key]
        key = f"answer {number}"
        account = answered(account, key, answer * 3, answer, is_counted=True)
        prompt, true[key] = [*prompt, entry(key, answer * 3)], answer

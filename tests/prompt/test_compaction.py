"""Compactions are rare: late, deep, and then not again for long."""

from __future__ import annotations

from itertools import pairwise

from shepherd.prompt.compaction import due_to_leave, leaving_next

# An 8k window, without a system prompt of 150 tokens, a message of 100, and 1,024 for the answer.
SHARE = 8192 - 150 - 100 - 1024


def folds_of(turn_tokens, n_turns, share=SHARE):
    """In which of so many turns a conversation is folded, and what is left each time."""
    turns, folds, left = [], [], []
    for number in range(n_turns):
        if n := due_to_leave(turns, share, verbatim=4):
            turns = turns[n:]
            folds.append(number)
            left.append(sum(turns))
        turns.append(turn_tokens)
    return folds, left


def test_turns_of_150_tokens_are_folded_at_most_once_in_twenty():
    folds, left = folds_of(150, 400)

    assert len(folds) > 10
    assert min(after - before for before, after in pairwise(folds)) >= 20
    assert all(0.35 * SHARE <= tokens <= 0.60 * SHARE for tokens in left)


def test_short_turns_are_folded_down_to_sixty_percent_and_no_further():
    _, left = folds_of(30, 1000)

    assert all(0.60 * SHARE - 30 <= tokens <= 0.60 * SHARE for tokens in left)


def test_nothing_is_folded_below_the_mark():
    assert due_to_leave([100] * 58, 7000, verbatim=4) == 0  # 83 %
    assert due_to_leave([100] * 60, 7000, verbatim=4) > 0  # 86 %


def test_the_last_turns_stay_as_far_as_they_fit():
    assert due_to_leave([1000, 900, 900, 900, 900], 5000, verbatim=4) == 2  # three are more than 60 %
    assert due_to_leave([3000, 500, 500, 500, 500], 5000, verbatim=4) == 1


def test_what_will_leave_is_known_before_it_does():
    turns = [150] * 35  # 76 %

    assert due_to_leave(turns, SHARE, verbatim=4) == 0
    assert leaving_next(turns, SHARE, verbatim=4) >= 20


def test_long_turns_leave_a_third_of_the_share():
    # Twenty more turns of 400 tokens would need 8,000 free: at least 35 % of the share stays all the same.
    assert due_to_leave([400] * 18, 8000, verbatim=4) == 11
    assert leaving_next([400] * 15, 8000, verbatim=4) == 10

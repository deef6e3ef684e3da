"""When a chat's oldest turns leave for a summary, and how many of them at once.

Each fold moves the prompt's prefix, and what stays is read again once. So it happens late, takes much, and
then not again for long: above HIGH_WATER of the history's share it folds down to LOW_WATER, or deeper where
the turns are so long that the next fold would come within CALM_TURNS.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["HIGH_WATER", "LOW_WATER", "PREPARED", "due_to_leave", "leaving_next"]

HIGH_WATER = 0.85
LOW_WATER = 0.60
# From here on a summary is made in the background, so that it is there when it is needed.
PREPARED = 0.70
# Turns of 150 tokens fill the quarter between the two marks of an 8k window in 12 turns.
CALM_TURNS = 20
# What a fold leaves at least, however long the turns are.
_LEAST_LEFT = 0.35


def due_to_leave(turn_tokens: Sequence[int], share: int, *, verbatim: int) -> int:
    """How many of the oldest turns leave now; 0 while they fill less than HIGH_WATER of the share.

    The last `verbatim` turns stay, as far as they fit below LOW_WATER; the last one always does.
    """
    total = sum(turn_tokens)
    if total <= HIGH_WATER * share:
        return 0
    return _oldest(turn_tokens, total - _low(turn_tokens, share), share, verbatim)


def leaving_next(turn_tokens: Sequence[int], share: int, *, verbatim: int) -> int:
    """How many of the oldest turns the next fold will take; 0 while it is far away."""
    if sum(turn_tokens) <= PREPARED * share:
        return 0
    return _oldest(turn_tokens, HIGH_WATER * share - _low(turn_tokens, share), share, verbatim)


def _low(turn_tokens: Sequence[int], share: int) -> float:
    mean = sum(turn_tokens) / len(turn_tokens)
    return max(min(LOW_WATER * share, HIGH_WATER * share - CALM_TURNS * mean), _LEAST_LEFT * share)


def _oldest(turn_tokens: Sequence[int], tokens: float, share: int, verbatim: int) -> int:
    """The least number of oldest turns with so many tokens together, but for those that stay."""
    left, n, taken = sum(turn_tokens), 0, 0
    while taken < tokens and n < len(turn_tokens) - 1:
        if n >= len(turn_tokens) - verbatim and left - taken <= LOW_WATER * share:
            break
        taken += turn_tokens[n]
        n += 1
    return n

"""How many tokens each category gets of the room that is left beside the system part and the user's text.

Three strategies. `dynamic`: by weights that follow the length of the conversation; `fixed`: by percentages;
`prioritized`: one after the other. No category is given more than it wants, so one with nothing to show gets
nothing; under `dynamic` what one leaves is shared by the others, by their weights.

All of it is integers and a fixed order: the same request gives the same budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from shepherd.context.parts import Category, Strategy
from shepherd.errors import UsageError
from shepherd.setting import listed, percentages

__all__ = [
    "ONE_SHOT_WEIGHTS",
    "ORDER",
    "SHARED",
    "allocate",
    "dynamic_weights",
    "parse_order",
    "parse_percentages",
]

# Those that share the room, in the order in which rounding favours them.
SHARED: tuple[Category, ...] = ("memory", "focus", "history", "knowledge", "entities")
# Whom the strategy `prioritized` serves first, unless another order is set.
ORDER: tuple[Category, ...] = ("memory", "history", "focus", "knowledge", "entities")
# For a prompt that is made once: of 4,096 tokens 1,000, 500 and 1,500, beside 500 for the system part and 596
# for the question. Facts, memories and focus have small weights of their own.
ONE_SHOT_WEIGHTS: dict[Category, int] = {
    "memory": 400,
    "focus": 100,
    "history": 1000,
    "knowledge": 1500,
    "entities": 500,
}

_MEMORY_WEIGHT, _FOCUS_WEIGHT = 10, 5
_MANY_ENTITIES = 10
# In tenths: more than ten active entities get 1.3 times their weight.
_TENTHS, _MANY_TENTHS = 10, 13


def dynamic_weights(*, turns: int, entities: int) -> dict[Category, int]:
    """Weights by the turns so far and the entities that are active."""
    if turns <= 3:
        history, known, knowledge = 15, 15, 60
    elif turns <= 10:
        history, known, knowledge = 30, 20, 40
    else:
        history, known, knowledge = 40, 25, 25
    return {
        "memory": _MEMORY_WEIGHT * _TENTHS,
        "focus": _FOCUS_WEIGHT * _TENTHS,
        "history": history * _TENTHS,
        "knowledge": knowledge * _TENTHS,
        "entities": known * (_MANY_TENTHS if entities > _MANY_ENTITIES else _TENTHS),
    }


def allocate(
    wanted: Mapping[Category, int],
    room: int,
    *,
    strategy: Strategy = "dynamic",
    weights: Mapping[Category, int],
    order: Sequence[Category] = ORDER,
    first: Sequence[Category] = (),
) -> dict[Category, int]:
    """Tokens for each category of SHARED, together at most `room`, each at most what it wanted.

    `weights` are percentages for `fixed`, of any sum for `dynamic`, and not read for `prioritized`, which
    follows `order`. Under `dynamic`, those of `first` are served before the rest shares.
    """
    room = max(room, 0)
    wants = {category: max(wanted.get(category, 0), 0) for category in SHARED}
    if strategy == "prioritized":
        return _in_order(wants, room, order)
    if strategy == "fixed":
        return {c: min(wants[c], room * weights.get(c, 0) // 100) for c in SHARED}
    served = _in_order(wants, room, first)
    rest = {c: wants[c] - served[c] for c in SHARED}
    shared = _shared(rest, room - sum(served.values()), weights)
    return {c: served[c] + shared[c] for c in SHARED}


def _in_order(wants: Mapping[Category, int], room: int, order: Sequence[Category]) -> dict[Category, int]:
    given: dict[Category, int] = dict.fromkeys(SHARED, 0)
    for category in order:
        given[category] = min(wants[category], room)
        room -= given[category]
    return given


def _shared(wants: Mapping[Category, int], room: int, weights: Mapping[Category, int]) -> dict[Category, int]:
    given: dict[Category, int] = dict.fromkeys(SHARED, 0)
    open_ones = [c for c in SHARED if wants[c] and weights.get(c, 0) > 0]
    while open_ones and room > 0:
        total = sum(weights[c] for c in open_ones)
        # Those whose share covers what they still want are served in full, and what they leave is shared
        # anew. When nobody is, all shares are final but for what rounding leaves, a token each.
        served = [c for c in open_ones if wants[c] - given[c] <= room * weights[c] // total]
        if not served:
            shares = {c: room * weights[c] // total for c in open_ones}
            left = room - sum(shares.values())
            for i, c in enumerate(open_ones):
                given[c] += shares[c] + (i < left)
            break
        for c in served:
            room -= wants[c] - given[c]
            given[c] = wants[c]
        open_ones = [c for c in open_ones if c not in served]
    return given


def parse_percentages(text: str) -> dict[Category, int]:
    """`history=40, entities=20, knowledge=30, memory=10` as percentages of the room; they make 100.

    Raises UsageError for anything else.
    """
    try:
        return cast(dict[Category, int], percentages(text, SHARED))
    except ValueError as error:
        raise UsageError(
            f"context_shares: {error}",
            hint="write it as history=40,entities=20,knowledge=25,memory=10,focus=5",
        ) from None


def parse_order(text: str) -> tuple[Category, ...]:
    """`memory, history, knowledge` as an order; those that it does not name come after, as in ORDER."""
    try:
        named = cast(tuple[Category, ...], listed(text, SHARED))
    except ValueError as error:
        raise UsageError(f"context_order: {error}", hint="parts: " + ", ".join(sorted(SHARED))) from None
    return tuple(dict.fromkeys([*named, *ORDER]))

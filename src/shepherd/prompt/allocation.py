"""Allocation of the window: how its room is shared, and which parts are chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from shepherd.config.schema import listed, percentages
from shepherd.errors import UsageError
from shepherd.prompt.plan import (
    CATEGORIES,
    Category,
    LeftOut,
    Part,
    Plan,
    Reason,
    Share,
    Strategy,
    opening,
    separated,
    separator,
)
from shepherd.prompt.window_budget import most_tokens

__all__ = [
    "ONE_SHOT_WEIGHTS",
    "ORDER",
    "SHARED",
    "Request",
    "Sharing",
    "allocate",
    "dynamic_weights",
    "make_plan",
    "make_uncounted_plan",
    "measured",
    "parse_order",
    "parse_percentages",
    "without_one",
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
        return _order_of(wants, room, order)
    if strategy == "fixed":
        return {c: min(wants[c], room * weights.get(c, 0) // 100) for c in SHARED}
    served = _order_of(wants, room, first)
    rest = {c: wants[c] - served[c] for c in SHARED}
    shared = _shared(rest, room - sum(served.values()), weights)
    return {c: served[c] + shared[c] for c in SHARED}


def _order_of(wants: Mapping[Category, int], room: int, order: Sequence[Category]) -> dict[Category, int]:
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


Count = Callable[[str], int]

_PLACES = {category: place for place, category in enumerate(CATEGORIES)}


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the room is shared. `weights`: percentages for `fixed`; for `dynamic` none takes those by turns.

    `first`: whom `dynamic` serves before the rest shares.
    """

    strategy: Strategy = "dynamic"
    weights: Mapping[Category, int] | None = None
    order: Sequence[Category] = ORDER
    first: Sequence[Category] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is made of. `fixed` is shown whatever it costs: the system part, the user's text.

    `history_tokens`: turns that the prompt holds anyway, as a chat's does; they want room and are not chosen
    here. `shown`: ids of parts that the model still has in front of it. `turns` and `entities`, those that
    are active, decide about the weights.
    """

    window_tokens: int
    reserve_tokens: int
    fixed: Sequence[Part]
    candidates: Sequence[Part]
    sharing: Sharing = field(default_factory=Sharing)
    history_tokens: int = 0
    shown: Collection[str] = ()
    turns: int = 0
    entities: int = 0

    @property
    def room(self) -> int:
        """What is left beside what is fixed; below zero when that alone is too much."""
        return self.window_tokens - self.reserve_tokens - sum(part.tokens for part in self.fixed)


def measured(part: Part, count: Count) -> Part:
    """The part with its tokens, separator included."""
    return part if part.tokens else replace(part, tokens=count(separated(part)))


def make_plan(request: Request, count: Count) -> Plan:
    """What is shown of the candidates, within the room; `count` gives the tokens of a text.

    What does not fit is left out, and what comes after it is still tried. Together the parts never have more
    tokens than the room, as `count` measures them one by one.
    """
    candidates, left_out = _distinct(request.candidates, request.shown)
    by_category: dict[Category, list[Part]] = {category: [] for category in SHARED}
    for part in candidates:
        by_category[part.category].append(measured(part, count))
    openings = {c: count(opening(c)) if opening(c) and by_category[c] else 0 for c in SHARED}
    wanted = {c: sum(p.tokens for p in parts) + openings[c] for c, parts in by_category.items()}
    wanted["history"] += request.history_tokens
    granted = _granted(request, wanted)
    chosen: list[Part] = list(request.fixed)
    used: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    for part in request.fixed:
        used[part.category] += part.tokens
    used["history"] += request.history_tokens
    for category in SHARED:
        budget = granted[category] - openings[category]
        if category == "history":
            taken, missed = _newest(by_category[category], budget - request.history_tokens)
        else:
            taken, missed = _fitting(by_category[category], budget, count)
        chosen += taken
        left_out += [LeftOut(part, "no room") for part in missed]
        used[category] += sum(part.tokens for part in taken) + (openings[category] if taken else 0)
    if request.history_tokens:
        # What the tail does not use is the history's.
        others = sum(used[c] for c in SHARED if c != "history")
        granted["history"] = max(request.room - others, 0)
    wanted |= {c: used[c] for c in CATEGORIES if c not in SHARED}
    shares = [Share(c, wanted[c], granted.get(c, used[c]), used[c]) for c in CATEGORIES]
    return Plan(
        request.sharing.strategy,
        request.window_tokens,
        request.reserve_tokens,
        tuple(shares),
        _in_order(chosen),
        tuple(left_out),
    )


def make_uncounted_plan(request: Request) -> Plan | None:
    """What `make_plan` chooses, without figures, where all fits by its bytes; None where it must be measured.

    The tokens of what is fixed, and of the history, may be more than they are.
    """
    if request.sharing.strategy == "fixed":  # a share is a limit there, whatever the others leave
        return None
    candidates, left_out = _distinct(request.candidates, request.shown)
    if any(part.category == "history" for part in candidates):  # turns to choose from, as a one-shot has them
        return None
    openings = sum(most_tokens(opening(category)) for category in {part.category for part in candidates})
    wanted = sum(most_tokens(separated(part)) for part in candidates) + openings + request.history_tokens
    if wanted > request.room:
        return None
    return Plan(
        request.sharing.strategy,
        request.window_tokens,
        request.reserve_tokens,
        chosen=_in_order([*request.fixed, *sorted(candidates, key=lambda part: -part.score)]),
        left_out=tuple(left_out),
    )


def without_one(plan: Plan) -> Plan | None:
    """The plan without the part that is missed least; None when only what is fixed is left.

    For a text whose tokens turned out to be more together than one by one.
    """
    for category in reversed(SHARED):
        parts = [part for part in plan.chosen if part.category == category]
        if parts:
            # Of turns the oldest, of everything else what was ranked last.
            turns = [part for part in parts if part.id != "summary"]
            gone = (turns or parts)[0] if category == "history" else parts[-1]
            shares = [
                replace(s, used=max(s.used - gone.tokens, 0)) if s.category == category else s
                for s in plan.shares
            ]
            return replace(
                plan,
                chosen=tuple(part for part in plan.chosen if part is not gone),
                left_out=(*plan.left_out, LeftOut(gone, "no room")),
                shares=tuple(shares),
            )
    return None


def _in_order(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: _PLACES[part.category]))


def _granted(request: Request, wanted: Mapping[Category, int]) -> dict[Category, int]:
    sharing = request.sharing
    weights = sharing.weights
    if weights is None:
        weights = dynamic_weights(turns=request.turns, entities=request.entities)
    return allocate(
        wanted,
        request.room,
        strategy=sharing.strategy,
        weights=weights,
        order=sharing.order,
        first=sharing.first,
    )


def _distinct(candidates: Sequence[Part], shown: Collection[str]) -> tuple[list[Part], list[LeftOut]]:
    """Each part once, by its id and by what it says; without those that are in front of the model."""
    kept: list[Part] = []
    left_out: list[LeftOut] = []
    ids: set[str] = set()
    texts: set[tuple[Category, str]] = set()
    for part in candidates:
        # Turns may well say the same twice; that is not a repetition of ours.
        said = (part.category, part.id if part.category == "history" else " ".join(part.text.split()))
        reason: Reason | None = None
        if part.id in ids or said in texts:
            reason = "duplicate"
        elif part.id in shown:
            reason = "shown before"
        if reason is None:
            ids.add(part.id)
            texts.add(said)
            kept.append(part)
        else:
            left_out.append(LeftOut(part, reason))
    return kept, left_out


def _fitting(parts: Sequence[Part], budget: int, count: Count) -> tuple[list[Part], list[Part]]:
    """The best parts that fit, in order of score; one too big is tried with less detail before it is left."""
    taken: list[Part] = []
    missed: list[Part] = []
    for part in sorted(parts, key=lambda part: -part.score):
        form = _form(part, budget, count)
        if form is None:
            missed.append(part)
        else:
            taken.append(form)
            budget -= form.tokens
    return taken, missed


def _form(part: Part, budget: int, count: Count) -> Part | None:
    """The longest form of a part that fits."""
    if part.tokens <= budget:
        return part
    for text in part.shorter:
        tokens = count(separator(part) + text)
        if tokens <= budget:
            return replace(part, text=text, tokens=tokens)
    return None


def _newest(parts: Sequence[Part], budget: int) -> tuple[list[Part], list[Part]]:
    """The newest turn, the summary, then older turns without a gap; given oldest first."""
    turns = [part for part in parts if part.id != "summary"]
    n, taken = 0, []
    if turns and turns[-1].tokens <= budget:
        n, budget = 1, budget - turns[-1].tokens
    for part in parts:
        if part.id == "summary" and part.tokens <= budget:
            taken.append(part)
            budget -= part.tokens
    while 0 < n < len(turns) and turns[-n - 1].tokens <= budget:
        n += 1
        budget -= turns[-n].tokens
    taken += turns[len(turns) - n :]
    ids = {part.id for part in taken}
    return taken, [part for part in parts if part.id not in ids]

"""Allocation of the window: each category's share of the available tokens, and the parts chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from shepherd.config.schema import listed, percentages
from shepherd.errors import UsageError
from shepherd.prompt.plan import (
    CATEGORIES,
    SUMMARY_ID,
    Category,
    LeftOut,
    Part,
    Plan,
    Reason,
    Share,
    Strategy,
)
from shepherd.prompt.rendering import opening, separated, separator
from shepherd.prompt.window_budget import most_tokens

__all__ = [
    "ORDER",
    "SHARED",
    "Request",
    "Sharing",
    "allocate",
    "dynamic_weights",
    "grouped_turns",
    "make_plan",
    "make_uncounted_plan",
    "measured",
    "parse_order",
    "parse_percentages",
    "without_one",
]


# Categories that share the available tokens, in the order in which rounding favours them.
SHARED: tuple[Category, ...] = ("memory", "focus", "history", "knowledge", "entities")
# Default order of the strategy `prioritized`.
ORDER: tuple[Category, ...] = ("memory", "history", "focus", "knowledge", "entities")

_MEMORY_WEIGHT, _FOCUS_WEIGHT = 10, 5
_MANY_ENTITIES = 10
# In tenths: with more than ten active entities, their weight is 1.3 times as large.
_TENTHS, _MANY_TENTHS = 10, 13


def dynamic_weights(*, turns: int, entities: int) -> dict[Category, int]:
    """Return weights for a number of past turns and of active entities."""
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
    available: int,
    *,
    strategy: Strategy = "dynamic",
    weights: Mapping[Category, int],
    order: Sequence[Category] = ORDER,
    first: Sequence[Category] = (),
) -> dict[Category, int]:
    """Return the tokens of each SHARED category: together at most `available`, each at most what it wanted.

    `weights` are percentages for `fixed`, of any sum for `dynamic`, and ignored by `prioritized`, which
    follows `order`. Under `dynamic`, the categories in `first` are served before the rest share.
    """
    available = max(available, 0)
    wants = {category: max(wanted.get(category, 0), 0) for category in SHARED}
    if strategy == "prioritized":
        return _order_of(wants, available, order)
    if strategy == "fixed":
        return {c: min(wants[c], available * weights.get(c, 0) // 100) for c in SHARED}
    served = _order_of(wants, available, first)
    rest = {c: wants[c] - served[c] for c in SHARED}
    shared = _shared(rest, available - sum(served.values()), weights)
    return {c: served[c] + shared[c] for c in SHARED}


def _order_of(
    wants: Mapping[Category, int], available: int, order: Sequence[Category]
) -> dict[Category, int]:
    given: dict[Category, int] = dict.fromkeys(SHARED, 0)
    for category in order:
        given[category] = min(wants[category], available)
        available -= given[category]
    return given


def _shared(
    wants: Mapping[Category, int], available: int, weights: Mapping[Category, int]
) -> dict[Category, int]:
    given: dict[Category, int] = dict.fromkeys(SHARED, 0)
    open_ones = [c for c in SHARED if wants[c] and weights.get(c, 0) > 0]
    while open_ones and available > 0:
        total = sum(weights[c] for c in open_ones)
        # Categories whose share covers what they still want are served in full, and the rest is shared again.
        # When there are none, all shares are final except for rounding, a token each.
        served = [c for c in open_ones if wants[c] - given[c] <= available * weights[c] // total]
        if not served:
            shares = {c: available * weights[c] // total for c in open_ones}
            left = available - sum(shares.values())
            for i, c in enumerate(open_ones):
                given[c] += shares[c] + (i < left)
            break
        for c in served:
            available -= wants[c] - given[c]
            given[c] = wants[c]
        open_ones = [c for c in open_ones if c not in served]
    return given


def parse_percentages(text: str) -> dict[Category, int]:
    """Parse `history=40, entities=20, knowledge=30, memory=10`, percentages that add up to 100.

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
    """Parse `memory, history, knowledge`; categories that are not named follow, as in ORDER."""
    try:
        named = cast(tuple[Category, ...], listed(text, SHARED))
    except ValueError as error:
        raise UsageError(f"context_order: {error}", hint="parts: " + ", ".join(sorted(SHARED))) from None
    return tuple(dict.fromkeys([*named, *ORDER]))


Count = Callable[[str], int]

_PLACES = {category: place for place, category in enumerate(CATEGORIES)}


@dataclass(frozen=True, slots=True)
class Sharing:
    """Settings for sharing the available tokens.

    `weights` are percentages for `fixed`; for `dynamic`, None takes weights by the number of turns and
    `first` names the categories to serve before the rest share.
    """

    strategy: Strategy = "dynamic"
    weights: Mapping[Category, int] | None = None
    order: Sequence[Category] = ORDER
    first: Sequence[Category] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """Input of a plan. `fixed` parts are always shown: the system part and the user's text.

    `history_tokens` belong to turns that the prompt holds anyway, as in a chat; they need tokens and are not
    chosen here. `shown` are the ids of parts that earlier messages still show. The numbers of `turns` and
    active `entities` determine the weights.
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
    fills: bool = False

    @property
    def available(self) -> int:
        """Tokens left beside the fixed parts; negative when these alone are too much."""
        return self.window_tokens - self.reserve_tokens - sum(part.tokens for part in self.fixed)


def measured(part: Part, count: Count) -> Part:
    """Return the part with its token count, separator included."""
    return part if part.tokens else part.with_tokens(count(separated(part)))


def make_plan(request: Request, count: Count) -> Plan:
    """Choose candidates within the available tokens; `count` gives the tokens of a text.

    A part that does not fit is left out, and later ones are still tried. Counted one by one, the chosen parts
    never exceed the available tokens.
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
    missed: dict[Category, list[Part]] = {}
    shown: dict[Category, list[Part]] = {}

    def choose(category: Category, tokens: int) -> None:
        budget, parts = tokens - openings[category], by_category[category]
        if category == "history":
            taken, missed[category] = _newest(parts, budget - request.history_tokens)
        else:
            taken, missed[category] = _fitting(parts, budget, count)
        shown[category] = taken
        used[category] = sum(part.tokens for part in taken) + (openings[category] if taken else 0)

    for category in SHARED:
        choose(category, granted[category])
    if request.fills and request.sharing.strategy != "fixed":
        for category in request.sharing.order:
            if missed[category]:
                left = request.available - sum(used[c] for c in SHARED if c != category)
                choose(category, left)
                granted[category] = max(granted[category], used[category])
    used["history"] += request.history_tokens
    for category in SHARED:
        chosen += shown[category]
        left_out += [LeftOut(part, "no room") for part in missed[category]]
    if request.history_tokens:
        # The history gets what the tail leaves.
        others = sum(used[c] for c in SHARED if c != "history")
        granted["history"] = max(request.available - others, 0)
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
    """Return what `make_plan` would choose, without token counts, where byte lengths prove that all fits.

    None where tokens must be counted. The request's tokens may be upper bounds.
    """
    if request.sharing.strategy == "fixed":  # a share is a limit there, whatever the others leave
        return None
    candidates, left_out = _distinct(request.candidates, request.shown)
    if any(part.category == "history" for part in candidates):  # only a one-shot prompt chooses turns
        return None
    openings = sum(most_tokens(opening(category)) for category in {part.category for part in candidates})
    wanted = sum(most_tokens(separated(part)) for part in candidates) + openings + request.history_tokens
    if wanted > request.available:
        return None
    return Plan(
        request.sharing.strategy,
        request.window_tokens,
        request.reserve_tokens,
        chosen=_in_order([*request.fixed, *sorted(candidates, key=lambda part: -part.score)]),
        left_out=tuple(left_out),
    )


def without_one(plan: Plan) -> Plan | None:
    """Return the plan without its least important part; None when only the fixed parts are left.

    For a text that has more tokens as a whole than its parts one by one.
    """
    for category in reversed(SHARED):
        parts = [part for part in plan.chosen if part.category == category]
        if parts:
            # Remove the oldest turn, or the part that ranks last.
            turns = grouped_turns(parts)
            gone = (turns[0] if turns else parts) if category == "history" else parts[-1:]
            tokens = sum(part.tokens for part in gone)
            shares = [
                replace(s, used=max(s.used - tokens, 0)) if s.category == category else s for s in plan.shares
            ]
            return replace(
                plan,
                chosen=tuple(part for part in plan.chosen if part not in gone),
                left_out=(*plan.left_out, *(LeftOut(part, "no room") for part in gone)),
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
        request.available,
        strategy=sharing.strategy,
        weights=weights,
        order=sharing.order,
        first=sharing.first,
    )


def _distinct(candidates: Sequence[Part], shown: Collection[str]) -> tuple[list[Part], list[LeftOut]]:
    """Drop parts with the same id or text as an earlier one, and those that earlier messages still show."""
    kept: list[Part] = []
    left_out: list[LeftOut] = []
    ids: set[str] = set()
    texts: set[tuple[Category, str]] = set()
    for part in candidates:
        # Two turns with the same text are not duplicates.
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
    """Choose the best parts that fit, in order of score; one that is too long is tried in its shorter
    forms.
    """
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
    """Return the longest form of a part that fits."""
    if part.tokens <= budget:
        return part
    for text in part.shorter:
        tokens = count(separator(part) + text)
        if tokens <= budget:
            return replace(part, text=text, tokens=tokens)
    return None


def _newest(parts: Sequence[Part], budget: int) -> tuple[list[Part], list[Part]]:
    """Choose the newest turn, the summary, then older turns without a gap; the parts come oldest first."""
    turns = grouped_turns(parts)
    sizes = [sum(part.tokens for part in turn) for turn in turns]
    n, taken = 0, []
    if turns and sizes[-1] <= budget:
        n, budget = 1, budget - sizes[-1]
    for part in parts:
        if part.id == SUMMARY_ID and part.tokens <= budget:
            taken.append(part)
            budget -= part.tokens
    while 0 < n < len(turns) and sizes[-n - 1] <= budget:
        n += 1
        budget -= sizes[-n]
    taken += [part for turn in turns[len(turns) - n :] for part in turn]
    ids = {part.id for part in taken}
    return taken, [part for part in parts if part.id not in ids]


def grouped_turns(parts: Iterable[Part]) -> list[list[Part]]:
    """Group the parts of a history, without the summary, by turn: ids have its number after `turn:`."""
    turns: dict[str, list[Part]] = {}
    for part in parts:
        if part.id != SUMMARY_ID:
            turns.setdefault(":".join(part.id.split(":")[:2]), []).append(part)
    return list(turns.values())

"""A chat's plan where the tail wants more than its room: it says less, level by level, before it is cut.

The levels are those of the one-shot form. Each category is compressed for its own room: many passages do not
make the entities terse, and the lines of memory have shorter forms of their own. Pure, as planning is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from shepherd.context.compression import LEVELS, Compressed, Level, compress
from shepherd.context.parts import Category, LeftOut, Part, Plan
from shepherd.context.planning import Request, make_plan, measured
from shepherd.context.rendering import opening

__all__ = ["make_fitted_plan"]

_COMPRESSED: tuple[Category, ...] = ("entities", "knowledge", "focus")
_ORDER: tuple[Level, ...] = ("", *LEVELS)


def make_fitted_plan(request: Request, count: Callable[[str], int]) -> Plan:
    """As `make_plan`; what has no room there is tried with less detail of everything in its category."""
    plan = make_plan(request, count)
    missed = {left.part.category for left in plan.left_out if left.reason == "no room"}
    crowded = [category for category in _COMPRESSED if category in missed]
    if not crowded:
        return plan
    wanted = {left.part.id for left in plan.left_out if left.reason == "no room"}
    wanted |= {part.id for part in plan.chosen}
    candidates = list(request.candidates)
    level: Level = ""
    gone: list[LeftOut] = []
    for category in crowded:
        granted = next(share.granted for share in plan.shares if share.category == category)
        parts = _distinct(part for part in candidates if part.category == category and part.id in wanted)
        less = _compressed(parts, granted - count(opening(category)), count)
        if not less.parts or len(less.parts) < len(plan.of(category)):
            continue  # the best ones whole, and one of them shorter, say more
        ids = {part.id for part in parts}
        doubles = [part for part in candidates if part.id in ids and not any(part is one for one in parts)]
        gone += [*less.left_out, *(LeftOut(part, "duplicate") for part in doubles)]
        candidates = [*(part for part in candidates if part.id not in ids), *less.parts]
        level = max(level, less.level, key=_ORDER.index)
    again = make_plan(replace(request, candidates=candidates), count)
    return replace(again, compression=level, left_out=(*again.left_out, *gone))


def _compressed(parts: Sequence[Part], room: int, count: Callable[[str], int]) -> Compressed:
    def measure(part: Part) -> int:
        return measured(replace(part, tokens=0), count).tokens

    return compress(parts, room, measure) if room > 0 else Compressed((), "bare", 0)


def _distinct(parts: Iterable[Part]) -> list[Part]:
    """Each once, by its id."""
    first: dict[str, Part] = {}
    for part in parts:
        first.setdefault(part.id, part)
    return list(first.values())

"""In which order found chunks are offered: the base score, and what a date and known names add to it.

Boosts only reorder; what is relevant enough is decided before, by the base score alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from shepherd.knowledge.records import ChunkResult
from shepherd.types import SECONDS_PER_DAY

__all__ = ["boosted"]

_YEAR_DAYS = 365.0
# What a boost of full weight adds to a score of 0..1.
_RECENCY_SHARE, _ENTITY_SHARE = 0.2, 0.3


def boosted(
    results: Sequence[ChunkResult],
    *,
    now: float,
    entities: Sequence[str] = (),
    recency_weight: float = 0.0,
    entity_weight: float = 0.0,
) -> list[ChunkResult]:
    """The same chunks, best first by score and boosts, their `score` from now on; ties as they came.

    score: as a share of the best one's, 0..1.
    recency: w · e^(-days / 365) · 0.2, of a node with an event date that is not to come.
    entities: w · matched / entities · 0.3, by whole words of the chunk.
    """
    patterns = [
        re.compile(rf"(?<!\w){re.escape(name.casefold())}(?!\w)") for name in entities if name.strip()
    ]

    best = max((result.score for result in results), default=0.0)

    def score(result: ChunkResult) -> float:
        value = result.score / best if best > 0.0 else 0.0
        days = _age_days(result.date, now)
        if days is not None and recency_weight:
            value += recency_weight * math.exp(-days / _YEAR_DAYS) * _RECENCY_SHARE
        if patterns and entity_weight:
            text = result.text.casefold()
            matched = sum(pattern.search(text) is not None for pattern in patterns)
            value += entity_weight * matched / len(patterns) * _ENTITY_SHARE
        return value

    scored = [replace(result, score=score(result)) for result in results]
    return sorted(scored, key=lambda result: -result.score)


def _age_days(written: str, now: float) -> float | None:
    try:
        day = date.fromisoformat(written[:10])
    except ValueError:
        return None
    days = now / SECONDS_PER_DAY - (day - date(1970, 1, 1)).days
    return days if days >= 0 else None

"""Plan of a turn: the parts that may be shown, and those that are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "CATEGORIES",
    "SUMMARY_ID",
    "Category",
    "LeftOut",
    "Part",
    "Plan",
    "Reason",
    "Share",
    "Strategy",
]


# In the order of the prompt. `system` is the frozen part with the tools, `memory` facts and memories, `query`
# the user's text.
Category = Literal["system", "history", "memory", "entities", "knowledge", "focus", "query"]
CATEGORIES: tuple[Category, ...] = (
    "system",
    "history",
    "memory",
    "entities",
    "knowledge",
    "focus",
    "query",
)
# Id of the part that holds the summary of a conversation.
SUMMARY_ID = "summary"
Strategy = Literal["dynamic", "fixed", "prioritized"]
Reason = Literal["no room", "duplicate", "shown before", "compressed"]


@dataclass(frozen=True, slots=True)
class Part:
    """A unit that may be shown: a turn, an entity, a chunk, a node, or the lines of facts and memories.

    `id` is unique among parts: `turn:3`, `memory`, `entity:ada`, `chunk:17`, `node:4`, `summary`. `text` is
    the escaped text. `shorter` are forms of it with less detail, the longest first. `tokens` counts `text`
    with the separator before it, 0 until it is measured. `score` orders the parts of a category, the best
    first. `about` is for the trace: title, relevance, type, attributes, speaker, age_days, source; values are
    text, numbers, or a mapping of text.
    """

    category: Category
    id: str
    text: str
    tokens: int = 0
    score: float = 0.0
    shorter: tuple[str, ...] = ()
    about: Mapping[str, object] = field(default_factory=dict)

    def with_tokens(self, tokens: int) -> Part:
        """Return the part with its token count. Every candidate of a plan needs it; `replace` is slow."""
        return Part(self.category, self.id, self.text, tokens, self.score, self.shorter, self.about)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part that is not shown, and the reason."""

    part: Part
    reason: Reason


@dataclass(frozen=True, slots=True)
class Share:
    """Tokens of a category: wanted, granted and used."""

    category: Category
    wanted: int
    granted: int
    used: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts that one turn shows the model, and why; equal requests give equal plans.

    Of `window_tokens`, `reserve_tokens` are kept for the answer. `chosen` are the parts in the order of the
    prompt. `compression` is the level that was needed, "" for none. `warnings` say which helper failed, which
    costs its block only. `timings_us` are those of the steps; `about` is for the trace (query_used,
    chunks_retrieved, reranking_used).
    """

    strategy: Strategy = "dynamic"
    window_tokens: int = 0
    reserve_tokens: int = 0
    shares: tuple[Share, ...] = ()
    chosen: tuple[Part, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    compression: str = ""
    warnings: tuple[str, ...] = ()
    timings_us: Mapping[str, float] = field(default_factory=dict, compare=False)
    about: Mapping[str, object] = field(default_factory=dict)

    @property
    def total_tokens(self) -> int:
        """Tokens of everything that is shown."""
        return sum(share.used for share in self.shares)

    @property
    def budget(self) -> dict[Category, int]:
        """Tokens used by category, in the order of the prompt; 0 for categories that show nothing."""
        used = {share.category: share.used for share in self.shares}
        return {category: used.get(category, 0) for category in CATEGORIES}

    def of(self, *categories: Category) -> tuple[Part, ...]:
        """Return the chosen parts of these categories."""
        return tuple(part for part in self.chosen if part.category in categories)

"""What may be shown to the model, and what became of it: parts, shares, plans. Records only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "CATEGORIES",
    "HEADLINES",
    "RECENT",
    "Category",
    "LeftOut",
    "Part",
    "Plan",
    "Reason",
    "Share",
    "Strategy",
    "opening",
    "render_one_shot",
    "render_tail",
    "separated",
    "separator",
]


# In the order of the prompt. `system` is P0 to P2 with the tools, `memory` facts and memories, `query` the
# text of the user.
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
Strategy = Literal["dynamic", "fixed", "prioritized"]
Reason = Literal["no room", "duplicate", "shown before", "compressed"]


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that may be shown: a turn, an entity, a chunk, a node, the line of facts and memories.

    `id` is unique among parts: `turn:3`, `memory`, `entity:ada`, `chunk:17`, `node:4`, `summary`. `text` is
    what would be shown, harmless already. `shorter` are forms of it with less detail, the longest first, for
    when it does not fit. `tokens` counts `text` with the separator before it, 0 until it is measured. `score`
    orders the parts of a category, the best first. `about` is what the trace says of it: title, relevance,
    type, attributes, speaker, age_days, source; values are text, numbers, or a mapping of text.
    """

    category: Category
    id: str
    text: str
    tokens: int = 0
    score: float = 0.0
    shorter: tuple[str, ...] = ()
    about: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part that is not shown, and why."""

    part: Part
    reason: Reason


@dataclass(frozen=True, slots=True)
class Share:
    """A category's tokens: what it asked for, what it was given, what it used."""

    category: Category
    wanted: int
    granted: int
    used: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one turn shows the model, and why; the same request gives the same plan.

    `window_tokens` holds everything, `reserve_tokens` of it are kept for the answer. `chosen` are the parts
    as they are shown, in the order of the prompt. `compression` is the level that was needed, "" for none.
    `warnings` say which helper failed: it cost its block, not the turn. `timings_us` are of the steps;
    `about` is what else the trace says (query_used, chunks_retrieved, reranking_used).
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
        """Of everything that is shown."""
        return sum(share.used for share in self.shares)

    @property
    def budget(self) -> dict[Category, int]:
        """Tokens used by category, in the order of the prompt; those that show nothing are 0."""
        used = {share.category: share.used for share in self.shares}
        return {category: used.get(category, 0) for category in CATEGORIES}

    def of(self, *categories: Category) -> tuple[Part, ...]:
        """The chosen parts of these categories."""
        return tuple(part for part in self.chosen if part.category in categories)


HEADLINES: dict[Category, str] = {"entities": "=== ENTITIES ===", "knowledge": "=== KNOWLEDGE ==="}
RECENT = "Recent conversation:"
# What stands before a part, which is counted with it.
_SEPARATORS: dict[Category, str] = {"entities": "\n", "history": "\n"}
_BLANK_LINE = "\n\n"
_TAIL: tuple[Category, ...] = ("memory", "entities", "knowledge", "focus")
# Of the one prompt; history has its own form.
_CONTEXT: tuple[Category, ...] = ("memory", "history", "entities", "focus")


def separated(part: Part) -> str:
    """A part's text with the separator before it, as it is measured."""
    return separator(part) + part.text


def separator(part: Part) -> str:
    """What stands before a part."""
    return _BLANK_LINE if part.id == "summary" else _SEPARATORS.get(part.category, _BLANK_LINE)


def opening(category: Category) -> str:
    """What a category costs beside its parts: its headline, with the separator before it."""
    headline = RECENT if category == "history" else HEADLINES.get(category, "")
    return f"{_BLANK_LINE}{headline}" if headline else ""


def render_tail(chosen: Sequence[Part]) -> str:
    """The tail of a message, empty when there is nothing to add."""
    return "".join(_block(category, chosen) for category in _TAIL)


def render_one_shot(chosen: Sequence[Part]) -> str:
    """`[SYSTEM]`, `[CONTEXT]`, `[KNOWLEDGE]` and `[USER]`, each only when it has something.

    The question comes last and as it is: nothing that it says can be followed by a section of ours.
    """
    context = "".join(_block(category, chosen) for category in _CONTEXT)
    sections = (
        ("SYSTEM", _joined(chosen, "system")),
        ("CONTEXT", context.removeprefix(_BLANK_LINE)),
        ("KNOWLEDGE", _joined(chosen, "knowledge")),
        ("USER", _joined(chosen, "query")),
    )
    return _BLANK_LINE.join(f"[{name}]\n{text}" for name, text in sections if text)


def _block(category: Category, chosen: Iterable[Part]) -> str:
    parts = [part for part in chosen if part.category == category]
    if category == "history":
        summaries = [part for part in parts if part.id == "summary"]
        turns = [part for part in parts if part.id != "summary"]
        recent = opening(category) + "".join(map(separated, turns)) if turns else ""
        return "".join(map(separated, summaries)) + recent
    return opening(category) + "".join(map(separated, parts)) if parts else ""


def _joined(chosen: Iterable[Part], category: Category) -> str:
    return _BLANK_LINE.join(part.text for part in chosen if part.category == category)

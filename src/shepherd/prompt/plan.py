"""Plan of a turn: the parts that may be shown, those that are, and their text.

A plan has two forms: the tail of a chat's newest message, which begins with the lines of memory (whose bytes
are a contract, see shepherd.memory.injection_format), and a one-shot prompt in four sections. Everything but
the user's text was escaped before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "CATEGORIES",
    "HEADLINES",
    "RECENT",
    "SUMMARY_ID",
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


HEADLINES: dict[Category, str] = {"entities": "=== ENTITIES ===", "knowledge": "=== KNOWLEDGE ==="}
RECENT = "Recent conversation:"
# Separators before a part, which are counted with it.
_SEPARATORS: dict[Category, str] = {"entities": "\n", "history": "\n"}
_BLANK_LINE = "\n\n"
_TAIL: tuple[Category, ...] = ("memory", "entities", "knowledge", "focus")
# Categories of the section [CONTEXT] of a one-shot prompt.
_CONTEXT: tuple[Category, ...] = ("memory", "history", "entities", "focus")


def separated(part: Part) -> str:
    """Return a part's text with the separator before it."""
    return separator(part) + part.text


def separator(part: Part) -> str:
    """Return the text between a part and what stands before it."""
    return _BLANK_LINE if part.id == SUMMARY_ID else _SEPARATORS.get(part.category, _BLANK_LINE)


def opening(category: Category) -> str:
    """Return the headline of a category, with the separator before it; "" where it has none."""
    headline = RECENT if category == "history" else HEADLINES.get(category, "")
    return f"{_BLANK_LINE}{headline}" if headline else ""


def render_tail(chosen: Sequence[Part]) -> str:
    """Return the tail of a message, empty when there is nothing to add."""
    return "".join(_block(category, chosen) for category in _TAIL)


def render_one_shot(chosen: Sequence[Part]) -> str:
    """Return the sections `[SYSTEM]`, `[CONTEXT]`, `[KNOWLEDGE]` and `[USER]` that are not empty.

    The question comes last and unchanged: no section of ours can follow its text.
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
        summaries = [part for part in parts if part.id == SUMMARY_ID]
        turns = [part for part in parts if part.id != SUMMARY_ID]
        recent = opening(category) + "".join(map(separated, turns)) if turns else ""
        return "".join(map(separated, summaries)) + recent
    return opening(category) + "".join(map(separated, parts)) if parts else ""


def _joined(chosen: Iterable[Part], category: Category) -> str:
    return _BLANK_LINE.join(part.text for part in chosen if part.category == category)

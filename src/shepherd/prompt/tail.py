"""The two forms of a plan: the tail of a chat's newest message, and one prompt in four sections.

The tail begins with the lines of memory, whose bytes are a contract (shepherd.memory.injection_format); what
follows has a headline of its own. Everything but the user's text was made harmless before it came here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shepherd.prompt.plan import Category, Part

__all__ = ["HEADLINES", "RECENT", "opening", "render_one_shot", "render_tail", "separated"]


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

"""The text of a plan: the tail of a chat's newest message, or a one-shot prompt in four sections.

The tail begins with the lines of memory, whose bytes are a contract (shepherd.memory.injection_format).
Everything but the user's text was escaped before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shepherd.prompt.plan import SUMMARY_ID, Category, Part

__all__ = ["HEADLINES", "RECENT", "opening", "render_one_shot", "render_tail", "separated", "separator"]


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

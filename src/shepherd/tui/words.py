"""Memories and facts as the lists of the screen show them."""

from __future__ import annotations

import time

from textual.content import Content

from shepherd.cli.explain import provenance
from shepherd.cli.render import age_in_words, printable, shortened
from shepherd.types import Fact, MemoryRecord, SearchResult

__all__ = ["Item", "in_full", "in_short"]

_SHOWN_CHARS = 120
# What a list holds and the user can change.
Item = Fact | MemoryRecord | SearchResult


def in_short(item: Item, *, gone: bool = False) -> Content:
    """A few lines: what it says, and where it comes from. `gone`: it has been forgotten since."""
    if isinstance(item, Fact):
        text = Content.assemble(
            (_line(item.key), "bold"),
            f" = {_line(item.value)}",
            (f" \N{MIDDLE DOT} {_age(item)}", "$text-muted"),
        )
    else:
        pin = ("\N{BLACK DIAMOND} ", "$accent") if item.pinned else ""
        text = Content.assemble(pin, (_line(item.question), "bold"))
        if item.answer:
            text += Content(f"\n{_line(item.answer)}")
        text += Content.styled(f"\n{provenance(item)}", "$text-muted")
    return Content.assemble(text.stylize("strike dim"), ("\nforgotten", "$warning")) if gone else text


def in_full(item: Item) -> Content:
    """All of it."""
    if isinstance(item, Fact):
        key, value = printable(item.key), printable(item.value)
        return Content.assemble((f"{key}\n\n", "bold"), value, (f"\n\na fact, {_age(item)}", "dim"))
    return Content.assemble(
        (f"{printable(item.question)}\n\n", "bold"),
        printable(item.answer),
        (f"\n\n{provenance(item)}", "dim"),
    )


def _age(fact: Fact) -> str:
    return age_in_words((time.time() - fact.updated_at) / 86_400)


def _line(text: str) -> str:
    return printable(shortened(text[:1000], _SHOWN_CHARS))

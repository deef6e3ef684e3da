"""Memories and facts as the lists of the screen show them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from shepherd.cli.explain import provenance
from shepherd.cli.render import age_in_words, printable, shortened
from shepherd.types import Fact, MemoryRecord, SearchResult

if TYPE_CHECKING:
    from shepherd.prompt.plan import Part

__all__ = ["Item", "Shown", "in_full", "in_short"]

_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class Shown:
    """Something else that goes with a message: of the knowledge, in focus, or spoken about. To read alone."""

    title: str
    text: str
    about: str

    @classmethod
    def of(cls, part: Part) -> Shown:
        """A part of a plan as the panel lists it."""
        title = str(part.about.get("title") or "") or shortened(part.text, _SHOWN_CHARS)
        score = f" \N{MIDDLE DOT} score {part.score:.2f}" if part.score else ""
        return cls(title, part.text.strip(), f"{part.category} \N{MIDDLE DOT} {part.id}{score}")


# What a list holds and the user can change.
Item = Fact | MemoryRecord | SearchResult | Shown


def in_short(item: Item, *, gone: bool = False) -> Content:
    """A few lines: what it says, and where it comes from. `gone`: it has been forgotten since."""
    if isinstance(item, Fact):
        text = Content.assemble(
            (_line(item.key), "bold"),
            f" = {_line(item.value)}",
            (f" \N{MIDDLE DOT} {_age(item)}", "$text-muted"),
        )
    elif isinstance(item, Shown):
        text = Content.assemble((_line(item.title), "bold"), (f"\n{item.about}", "$text-muted"))
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
    if isinstance(item, Shown):
        about = (f"\n\n{item.about}", "dim")
        return Content.assemble((f"{printable(item.title)}\n\n", "bold"), printable(item.text), about)
    return Content.assemble(
        (f"{printable(item.question)}\n\n", "bold"),
        printable(item.answer),
        (f"\n\n{provenance(item)}", "dim"),
    )


def _age(fact: Fact) -> str:
    return age_in_words((time.time() - fact.updated_at) / 86_400)


def _line(text: str) -> str:
    return printable(shortened(text[:1000], _SHOWN_CHARS))

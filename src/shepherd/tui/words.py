"""Memories and facts as the lists of the screen show them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from shepherd.commands.explain import provenance
from shepherd.commands.screen import age_in_words, printable, shortened
from shepherd.types import Fact, MemoryRecord, SearchResult

if TYPE_CHECKING:
    from shepherd.prompt.plan import Part

__all__ = ["Item", "Shown", "help_text", "in_full", "in_short"]


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


_KEYS = {
    "At the prompt": [
        ("Enter", "send"),
        ("Alt-Enter, Ctrl-J, \\ Enter", "begin a new line"),
        ("Up, Down", "lines that were sent before"),
        ("Tab", "complete a command, or leave the prompt"),
        ("Esc, Ctrl-C", "stop the answer"),
        ("Ctrl-D", "quit where nothing was typed, else delete a character"),
    ],
    "Everywhere": [
        ("F1, ? outside the prompt", "this help"),
        ("F2", "the panel, shown or hidden"),
        ("F3", "memories and facts"),
        ("F4", "knowledge and focus"),
        ("F5", "go on with another provider"),
        ("F6", "private: recall nothing, keep nothing"),
        ("Ctrl-P", "all commands, by name"),
        ("Ctrl-Q", "quit; Ctrl-C twice does, too"),
    ],
    "In a list": [
        ("Up, Down, j, k", "move"),
        ("Enter", "read it in full"),
        ("e", "change it"),
        ("f, Delete", "forget it"),
        ("p", "pin it: it stays when old ones make room"),
        ("/", "search, where there is a search"),
    ],
}


def help_text(usages: Mapping[str, tuple[str, str]]) -> Content:
    """Keys, then commands; each with what it does."""
    sections = [_section(title, rows) for title, rows in _KEYS.items()]
    sections.append(_section("Commands", usages.values()))
    sections.append(Content("A message that begins with a slash is written with two: //etc/fstab"))
    return Content("\n\n").join(sections)


def _section(title: str, rows: Iterable[tuple[str, str]]) -> Content:
    lines = [Content.styled(title, "bold $accent")]
    lines += [Content.assemble((f"  {key:28}", "bold"), text) for key, text in rows]
    return Content("\n").join(lines)

"""The panel beside the conversation: what memory added to the last message, and how the window is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, Static

from shepherd.cli.render import duration
from shepherd.tui.changes import Items
from shepherd.tui.words import Item
from shepherd.types import Injection, TurnStats

if TYPE_CHECKING:
    from shepherd.tui.conversation import Standing

__all__ = ["Side", "bar"]

# Parts of the window in the order in which they stand there, with their colours.
_REUSED, _READ, _WRITTEN = "$secondary", "$accent", "$success"
_FULL, _FREE = "\N{FULL BLOCK}", "\N{LIGHT SHADE}"
_NOTHING_YET = "What memory adds to a message is listed here."


class Side(Vertical):
    """Memories of this turn, with scores, ages and sources, and the budget of tokens."""

    def compose(self) -> ComposeResult:
        """The list and the bar."""
        yield Label("Remembered for this turn", classes="title")
        yield Items(id="remembered", empty=_NOTHING_YET)
        yield Label("Window", classes="title")
        yield Budget(id="budget")

    def show_standing(self, standing: Standing) -> None:
        """Between two turns: the tokens, and nothing of a conversation that is over."""
        self.query_one(Budget).show(None if standing.last is None else standing.last.stats)

    def forget(self) -> None:
        """The conversation is another one now."""
        self.query_one(Items).show([], None, "")
        self.query(".title").first(Label).update("Remembered for this turn")

    def show_injection(self, injection: Injection, standing: Standing) -> None:
        """What was added to the message that is being answered."""
        empty = ""
        if not injection:
            empty = "Nothing was added." if standing.recalls else "Memory is not used at the moment."
        items: list[Item] = [*injection.facts, *injection.results]
        self.query_one(Items).show(items, standing.memory, standing.user_id, empty=empty)
        took = f", {duration(injection.recall_us / 1000)}" if injection.recall_us else ""
        self.query(".title").first(Label).update(f"Remembered for this turn{took}")


class Budget(Static):
    """How many tokens of the window are used, and which of them the model had to read."""

    def __init__(self, *, id: str) -> None:
        super().__init__(Content.styled("No answer yet.", "dim"), id=id)
        self._stats: TurnStats | None = None

    def show(self, stats: TurnStats | None) -> None:
        """Of this turn."""
        self._stats = stats
        self._draw()

    def on_resize(self) -> None:
        """The bar is as wide as there is room."""
        self._draw()

    def _draw(self) -> None:
        stats, width = self._stats, self.content_size.width
        if stats is None:
            self.update(Content.styled("No answer yet.", "dim"))
            return
        parts = [
            ("reused", stats.reused_tokens, _REUSED),
            ("read", stats.decoded_tokens, _READ),
            ("written", stats.generated_tokens, _WRITTEN),
        ]
        used = sum(tokens for _, tokens, _ in parts)
        lines = [bar([(tokens, colour) for _, tokens, colour in parts], stats.window_tokens, width)]
        for name, tokens, colour in parts:
            lines.append(_legend(name, tokens, colour, width))
        lines.append(_legend("free", max(stats.window_tokens - used, 0), "$text-muted", width))
        if stats.is_estimated:
            lines.append(Content.styled("estimated", "dim"))
        self.update(Content("\n").join(lines))


def bar(parts: Sequence[tuple[int, str]], total: int, width: int) -> Content:
    """A bar of that many columns; each part that is not empty has one at least."""
    columns = [max(round(tokens * width / total), 1) if tokens and total else 0 for tokens, _ in parts]
    while sum(columns) > width and max(columns) > 1:
        columns[columns.index(max(columns))] -= 1
    drawn = [(_FULL * n, colour) for n, (_, colour) in zip(columns, parts, strict=True)]
    return Content.assemble(*drawn, (_FREE * (width - sum(columns)), "dim"))


def _legend(name: str, tokens: int, colour: str, width: int) -> Content:
    number = f"{tokens:,}"
    return Content.assemble(("\N{BLACK SQUARE} ", colour), name, f"{number:>{max(width - len(name) - 2, 1)}}")

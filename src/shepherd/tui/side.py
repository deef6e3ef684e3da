"""The panel beside the conversation: what was added to the last message, and how the window is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, Static

from shepherd.commands.screen import counted, duration
from shepherd.tui.changes import Items
from shepherd.tui.words import Item, Shown

if TYPE_CHECKING:
    from shepherd.prompt import Plan
    from shepherd.tui.conversation import Standing
    from shepherd.turn.events import Recalled
    from shepherd.types import TurnStats

__all__ = ["Side", "bar"]

# Parts of the prompt in its order, as a plan has them, with their colours.
_COLOURS = {
    "system": "$secondary",
    "history": "$primary",
    "memory": "$accent",
    "entities": "$warning",
    "knowledge": "$error",
    "focus": "$primary-lighten-2",
    "query": "$success",
}
_FULL, _FREE = "\N{FULL BLOCK}", "\N{LIGHT SHADE}"
_TITLE, _NOTHING_YET = "Remembered for this turn", "What memory adds to a message is listed here."


class Side(Vertical):
    """What was added to this turn's message, with scores, ages and sources, and the budget of tokens."""

    def compose(self) -> ComposeResult:
        """The list and the bar."""
        yield Label(_TITLE, classes="title")
        yield Items(id="remembered", empty=_NOTHING_YET)
        yield Label("Window", classes="title")
        yield Budget(id="budget")

    def show_standing(self, standing: Standing) -> None:
        """Between two turns: what the last one used."""
        last = standing.last
        self.query_one(Budget).show(None if last is None else last.plan, None if last is None else last.stats)

    def show_recalled(self, recalled: Recalled, standing: Standing) -> None:
        """What goes with the message that is being answered."""
        injection, plan = recalled.injection, recalled.plan
        items: list[Item] = [*injection.facts, *injection.results]
        items += [Shown.of(part) for part in plan.of("entities", "knowledge", "focus")]
        empty = "Nothing was added." if standing.recalls else "Memory is not used at the moment."
        self.query_one(Items).show(items, standing.memory, standing.user_id, empty=empty)
        took = f", {duration(injection.recall_us / 1000)}" if injection.recall_us else ""
        self.query(".title").first(Label).update(_TITLE + took)
        self.query_one(Budget).show(plan, None)

    def forget(self) -> None:
        """The conversation is another one now."""
        self.query_one(Items).show([], None, "")
        self.query(".title").first(Label).update(_TITLE)


class Budget(Static):
    """The tokens of the prompt by its parts, those of the answer, and what is free of the window."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._stats: TurnStats | None = None

    def show(self, plan: Plan | None, stats: TurnStats | None) -> None:
        """Of this turn; `stats` are there when it is over."""
        self._plan, self._stats = plan, stats
        self._draw()

    def on_resize(self) -> None:
        """The bar is as wide as there is room."""
        self._draw()

    def _draw(self) -> None:
        plan, stats, width = self._plan, self._stats, self.content_size.width
        if plan is None or not plan.window_tokens:
            self.update(Content.styled("No answer yet.", "dim"))
            return
        parts: list[tuple[str, int, str]]
        parts = [(name, tokens, _COLOURS[name]) for name, tokens in plan.budget.items() if tokens]
        if stats is not None:
            parts.append(("answer", stats.generated_tokens, "$text"))
        window = plan.window_tokens if stats is None else stats.window_tokens or plan.window_tokens
        free = max(window - sum(tokens for _, tokens, _ in parts), 0)
        lines = [bar([(tokens, colour) for _, tokens, colour in parts], window, width)]
        lines += [_legend(name, tokens, colour, width) for name, tokens, colour in parts]
        lines.append(_legend("free", free, "$text-muted", width))
        if stats is not None:
            estimated = ", estimated" if stats.is_estimated else ""
            read = f"{counted(stats.decoded_tokens, 'token')} read, {stats.reused_tokens:,} reused{estimated}"
            lines.append(Content.styled(read, "$text-muted"))
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

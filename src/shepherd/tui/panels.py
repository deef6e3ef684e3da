"""Panel beside the conversation, and status line below it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, Static

from shepherd.commands.screen import counted, duration, printable
from shepherd.errors import ShepherdError
from shepherd.tui.items import Item, Items, PlanPart

if TYPE_CHECKING:
    from shepherd.memory import ExtractionStats, Memory
    from shepherd.prompt import Plan
    from shepherd.tui.conversation import ChatState
    from shepherd.turn import Recalled
    from shepherd.types import TurnStats

__all__ = ["SidePanel", "StatusLine"]

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
# How often the status line looks at what the model does before an answer, and at the queue.
_LOOK_S = 0.2
_POLL_S = 1.0
_FULL, _FREE = "\N{FULL BLOCK}", "\N{LIGHT SHADE}"
_TITLE = "Recalled for this turn"
_NOTHING_YET = "Facts and memories that are added to your message are listed here."


class SidePanel(Vertical):
    """Additions to this turn's message, with scores, ages and sources, and the token budget."""

    def compose(self) -> ComposeResult:
        """Build the list and the bar."""
        yield Label(_TITLE, classes="title")
        yield Items(id="remembered", empty=_NOTHING_YET)
        yield Label("Window", classes="title")
        yield Budget(id="budget")

    def show_state(self, state: ChatState) -> None:
        """Show the tokens of the last turn."""
        last = state.last
        self.query_one(Budget).show(None if last is None else last.plan, None if last is None else last.stats)

    def show_recalled(self, recalled: Recalled, state: ChatState) -> None:
        """Show what was added to the message that is being answered."""
        injection, plan = recalled.injection, recalled.plan
        items: list[Item] = [*injection.facts, *injection.results]
        items += [PlanPart.of(part) for part in plan.of("entities", "knowledge", "focus")]
        empty = "Nothing was added." if state.recalls else "Memory is not used at the moment."
        self.query_one(Items).show(items, state.memory, state.user_id, empty=empty)
        took = f", {duration(injection.recall_us / 1000)}" if injection.recall_us else ""
        self.query(".title").first(Label).update(_TITLE + took)
        self.query_one(Budget).show(plan, None)

    def clear(self) -> None:
        """Empty the list for another conversation."""
        self.query_one(Items).show([], None, "")
        self.query(".title").first(Label).update(_TITLE)


class Budget(Static):
    """Tokens of the prompt by its parts, of the answer, and free ones."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._stats: TurnStats | None = None

    def show(self, plan: Plan | None, stats: TurnStats | None) -> None:
        """Show a turn; `stats` is None until it has ended."""
        self._plan, self._stats = plan, stats
        self._draw()

    def on_resize(self) -> None:
        """Draw the bar in the new width."""
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
        lines = [_bar([(tokens, colour) for _, tokens, colour in parts], window, width)]
        lines += [_legend(name, tokens, colour, width) for name, tokens, colour in parts]
        lines.append(_legend("free", free, "$text-muted", width))
        if stats is not None:
            estimated = ", estimated" if stats.is_estimated else ""
            read = f"{counted(stats.decoded_tokens, 'token')} read, {stats.reused_tokens:,} reused{estimated}"
            lines.append(Content.styled(read, "$text-muted"))
        self.update(Content("\n").join(lines))


def _bar(parts: Sequence[tuple[int, str]], total: int, width: int) -> Content:
    """Return a bar of `width` columns; each part that is not empty has at least one."""
    columns = [max(round(tokens * width / total), 1) if tokens and total else 0 for tokens, _ in parts]
    while sum(columns) > width and max(columns) > 1:
        columns[columns.index(max(columns))] -= 1
    drawn = [(_FULL * n, colour) for n, (_, colour) in zip(columns, parts, strict=True)]
    return Content.assemble(*drawn, (_FREE * (width - sum(columns)), "dim"))


def _legend(name: str, tokens: int, colour: str, width: int) -> Content:
    number = f"{tokens:,}"
    return Content.assemble(("\N{BLACK SQUARE} ", colour), name, f"{number:>{max(width - len(name) - 2, 1)}}")


class StatusLine(Static):
    """Status line: model, memory on or off, tokens, extraction queue, speed."""

    def __init__(self, waiting: Callable[[], str] = str) -> None:
        """`waiting` gives what the model does before its answer begins, "" otherwise."""
        super().__init__(Content("starting …"), id="status")
        self._waiting = waiting
        self._waits = ""  # what was drawn of it
        self._state: ChatState | None = None
        self._stats: TurnStats | None = None
        self._loading = ""
        self._is_answering = False
        self._queue: ExtractionStats | None = None

    def on_mount(self) -> None:
        """Poll the queue, and the model."""
        self.set_interval(_POLL_S, self._poll)
        self.set_interval(_LOOK_S, self._look)

    def show_state(self, state: ChatState) -> None:
        """Show the state between two turns."""
        self._state, self._is_answering = state, False
        self._stats = state.last.stats if state.last is not None else None
        self._draw()

    def show_answering(self) -> None:
        """Show that an answer is being generated."""
        self._is_answering = True
        self._draw()

    def show_loading(self, text: str) -> None:
        """Show what takes time; "" when it is over."""
        self._loading = text
        self._draw()

    def on_resize(self) -> None:
        """Draw the parts that fit."""
        self._draw()

    def _look(self) -> None:
        waits = self._waiting() if self._is_answering else ""
        if waits != self._waits:
            self._waits = waits
            self._draw()

    async def _poll(self) -> None:
        memory = self._state.memory if self._state is not None else None
        if memory is None or self._state is None:
            return
        queue = await asyncio.to_thread(_queue_of, memory, self._state.user_id)
        if queue != self._queue:
            self._queue = queue
            self._draw()

    def _draw(self) -> None:
        if self._loading:
            self.update(Content(printable(self._loading)))
            return
        if self._state is None:
            return
        # The last parts matter least.
        parts = [part for part in self._parts(self._state) if part.plain]
        gap = Content.styled(" \N{MIDDLE DOT} ", "dim")
        while len(parts) > 1 and sum(part.cell_length + 3 for part in parts) - 3 > self.content_size.width:
            parts.pop()
        self.update(gap.join(parts))

    def _parts(self, state: ChatState) -> list[Content]:
        memory = Content.styled("private", "bold $warning") if state.private else Content("memory on")
        if state.memory is None or not (state.recalls or state.private):
            memory = Content.styled("memory off", "$warning")
        model = printable(state.model)
        name = model if state.provider == "local" else f"{printable(state.provider)}: {model}"
        does = printable(self._waits) or "answering"
        stops = f"{does} \N{MIDDLE DOT} esc stops"
        parts = [Content.styled(stops, "bold $accent") if self._is_answering else Content("")]
        parts += [Content.styled(name, "bold"), memory]
        stats = self._stats
        if stats is not None:
            used = stats.prompt_tokens + stats.generated_tokens
            parts.append(Content(f"{used:,} of {stats.window_tokens:,} tokens"))
            parts.append(Content(f"{stats.reused_tokens:,} reused"))
        parts.append(self._learning())
        if stats is not None and stats.tokens_per_second:
            parts.append(Content(f"{stats.tokens_per_second:.0f} tokens/s"))
            parts.append(Content(f"first token after {duration(stats.ttft_ms)}"))
        return parts

    def _learning(self) -> Content:
        queue = self._queue
        if queue is None:
            return Content("")
        if waiting := queue.waiting + queue.running:
            return Content.styled(f"learning: {waiting:,} to do", "$accent")
        if queue.dead:
            return Content(f"{queue.dead:,} not learned")
        return Content("learning: done" if queue.done and not queue.open else "")


def _queue_of(memory: Memory, user_id: str) -> ExtractionStats | None:
    """Return counts of the jobs; None when the memory fails, which the next write reports."""
    try:
        return memory.extraction.stats(user_id)
    except ShepherdError:
        return None

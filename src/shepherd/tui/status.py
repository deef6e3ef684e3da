"""The line at the bottom: who answers, what the last turn read, what is still to be learned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from shepherd.commands.screen import duration, printable
from shepherd.errors import ShepherdError

if TYPE_CHECKING:
    from shepherd.memory import ExtractionStats, Memory
    from shepherd.tui.conversation import Standing
    from shepherd.types import TurnStats

__all__ = ["Status"]

_LOOK_S = 1.0


class Status(Static):
    """Provider and model, tokens, tokens reused, the worker's queue, memory on or off."""

    def __init__(self) -> None:
        super().__init__(Content("starting …"), id="status")
        self._standing: Standing | None = None
        self._stats: TurnStats | None = None
        self._loading = ""
        self._is_answering = False
        self._queue: ExtractionStats | None = None

    def on_mount(self) -> None:
        """Look at the queue now and then."""
        self.set_interval(_LOOK_S, self._look)

    def show_standing(self, standing: Standing) -> None:
        """Between two turns."""
        self._standing, self._is_answering = standing, False
        self._stats = standing.last.stats if standing.last is not None else None
        self._draw()

    def show_answering(self) -> None:
        """An answer is on its way."""
        self._is_answering = True
        self._draw()

    def show_loading(self, text: str) -> None:
        """What takes its time; empty when it is over."""
        self._loading = text
        self._draw()

    def on_resize(self) -> None:
        """What fits is shown."""
        self._draw()

    async def _look(self) -> None:
        memory = self._standing.memory if self._standing is not None else None
        if memory is None or self._standing is None:
            return
        queue = await asyncio.to_thread(_queue_of, memory, self._standing.user_id)
        if queue != self._queue:
            self._queue = queue
            self._draw()

    def _draw(self) -> None:
        if self._loading:
            self.update(Content(printable(self._loading)))
            return
        if self._standing is None:
            return
        # What matters least is left out first, where there is no room.
        parts = [part for part in self._parts(self._standing) if part.plain]
        gap = Content.styled(" \N{MIDDLE DOT} ", "dim")
        while len(parts) > 1 and sum(part.cell_length + 3 for part in parts) - 3 > self.content_size.width:
            parts.pop()
        self.update(gap.join(parts))

    def _parts(self, standing: Standing) -> list[Content]:
        memory = Content.styled("private", "bold $warning") if standing.private else Content("memory on")
        if standing.memory is None or not (standing.recalls or standing.private):
            memory = Content.styled("memory off", "$warning")
        model = printable(standing.model)
        name = model if standing.provider == "local" else f"{printable(standing.provider)}: {model}"
        parts = [
            Content.styled("answering, esc stops", "bold $accent") if self._is_answering else Content("")
        ]
        parts += [Content.styled(name, "bold"), memory]
        stats = self._stats
        if stats is not None:
            used = stats.prompt_tokens + stats.generated_tokens
            parts.append(Content(f"{used:,} of {stats.window_tokens:,} tokens"))
            parts.append(Content(f"{stats.reused_tokens:,} reused"))
        parts.append(self._learning())
        if stats is not None and stats.tokens_per_second:
            parts.append(Content(f"{stats.tokens_per_second:.0f} tokens/s"))
            parts.append(Content(f"first after {duration(stats.ttft_ms)}"))
        return parts

    def _learning(self) -> Content:
        queue = self._queue
        if queue is None:
            return Content("")
        if waiting := queue.waiting + queue.running:
            return Content.styled(f"learning: {waiting:,} to do", "$accent")
        if queue.dead:
            return Content(f"{queue.dead:,} not learned")
        return Content("learned all" if queue.done else "")


def _queue_of(memory: Memory, user_id: str) -> ExtractionStats | None:
    """Counts of the jobs; None when the memory does not answer, which whoever writes to it will report."""
    try:
        return memory.extraction.stats(user_id)
    except ShepherdError:
        return None

"""Transcript: messages, streaming answers, output of commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message as UiMessage
from textual.widget import Widget
from textual.widgets import Static

from shepherd.commands.explain import recalled_in_words
from shepherd.commands.screen import hint_with_command, printable, shortened
from shepherd.tui.answer import Answer
from shepherd.types import Injection, Message

__all__ = ["Transcript"]

_BINDINGS: list[BindingType] = [
    ("up,k", "scroll_up", "Up"),
    ("down,j", "scroll_down", "Down"),
    ("home,g", "scroll_home", "Top"),
    ("end,G", "scroll_end", "Bottom"),
]


class Said(Static):
    """A message of the user."""

    def __init__(self, text: str) -> None:
        super().__init__(Content(printable(text)))


class Remark(Static):
    """Output of a command, a warning or an error."""

    def __init__(self, content: Content, kind: str) -> None:
        super().__init__(content, classes=f"-{kind}")


class RecallNote(Static):
    """One line about what memory added to the message above; a click opens the panel."""

    class Wanted(UiMessage):
        """A click on the line."""

    def on_click(self) -> None:
        """Request the panel."""
        self.post_message(self.Wanted())


class Transcript(VerticalScroll):
    """The whole conversation; follows its end until the user scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = _BINDINGS

    def __init__(self, runnable: Callable[[str], str] = str) -> None:
        super().__init__(id="transcript")
        self._runnable = runnable  # commands in remarks, as they can be run here
        self.typed_at = -math.inf  # when a key was last pressed, on time.monotonic's clock
        self._answer: Answer | None = None
        self._thought = ""
        self._thinking: Static | None = None

    def compose(self) -> ComposeResult:
        """Build nothing yet."""
        yield from ()

    def on_mount(self) -> None:
        """Follow the end."""
        self.anchor()

    async def show_history(self, messages: Iterable[Message]) -> None:
        """Replace everything with the messages of a conversation."""
        await self.end_answer()
        await self.remove_children()
        said: list[Widget] = []
        for message in messages:
            if message.role == "user":
                said.append(Said(message.raw))
            elif message.role == "assistant" and message.raw.strip():
                said.append(Answer(message.raw))
        await self.mount_all(said)
        self.anchor()

    async def show_message(self, text: str) -> None:
        """Append a message or command of the user."""
        await self.mount(Said(text))
        self.anchor()

    async def show_recall(self, injection: Injection) -> None:
        """Append a line about what memory added."""
        if not injection:
            return
        names = ", ".join(f"{fact.key}={shortened(fact.value, 24)}" for fact in injection.facts[:4])
        text = recalled_in_words(injection)
        await self.mount(RecallNote(Content(printable(f"{text}: {names}" if names else text))))

    async def think(self, text: str) -> None:
        """Show the last words of the model's thoughts while it thinks."""
        self._thought += text
        line = shortened(self._thought[-400:], 400)[-100:]
        if self._thinking is None:
            self._thinking = Static(classes="thinking")
            await self.mount(self._thinking)
        self._thinking.update(Content(printable(f"thinking: {line}")))

    async def write(self, text: str) -> None:
        """Append a piece of the answer."""
        await self._end_thinking()
        if self._answer is None:
            self._answer = Answer(typed_at=lambda: self.typed_at)
            await self.mount(self._answer)
        self._answer.write(text)

    async def end_answer(self) -> None:
        """Finish the answer, complete or not; the next piece starts another one."""
        await self._end_thinking()
        if self._answer is not None:
            await self._answer.complete()
        self._answer = None

    async def remark(self, text: str, kind: str, hint: str = "") -> None:
        """Append a line of that kind: note, warning or error."""
        await self.end_answer()
        content = Content(printable(text))
        if hint:
            shown = printable(self._runnable(hint_with_command(hint)))
            content += Content.styled(f"\n{shown}", "$text-muted")
        await self.mount(Remark(content, kind))

    async def show_output(self, lines: Iterable[tuple[bool, str]]) -> None:
        """Append the output of a command, with dim remarks."""
        parts = [
            Content(printable(text))
            if is_result
            else Content.styled(printable(self._runnable(text)), "$text-muted")
            for is_result, text in lines
        ]
        await self.mount(Remark(Content("\n").join(parts), "output"))

    async def _end_thinking(self) -> None:
        self._thought = ""
        if self._thinking is not None:
            await self._thinking.remove()
            self._thinking = None

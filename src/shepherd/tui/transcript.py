"""What was said, as it is said: messages, streaming answers, what commands show."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message as UiMessage
from textual.widget import Widget
from textual.widgets import Static

from shepherd.commands.screen import counted, hint_with_command, printable, shortened
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
    """A message of the user's, as it was typed."""

    def __init__(self, text: str) -> None:
        super().__init__(Content(printable(text)))


class Remark(Static):
    """A line beside the conversation: what a command showed, a warning, an error."""

    def __init__(self, content: Content, kind: str) -> None:
        super().__init__(content, classes=f"-{kind}")


class Recollection(Static):
    """One line on what memory added to the message above; a click shows it."""

    class Wanted(UiMessage):
        """The user wants to see what was added."""

    def on_click(self) -> None:
        """Ask for the panel that shows it."""
        self.post_message(self.Wanted())


class Transcript(VerticalScroll):
    """The conversation from its beginning; stays at its end until the user scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = _BINDINGS

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.typed_at = -math.inf  # when a key was last pressed, on time.monotonic's clock
        self._answer: Answer | None = None
        self._thought = ""
        self._thinking: Static | None = None

    def compose(self) -> ComposeResult:
        """Nothing yet."""
        yield from ()

    def on_mount(self) -> None:
        """Stay at the end."""
        self.anchor()

    async def show_history(self, messages: Iterable[Message]) -> None:
        """Begin anew, with what was said in this conversation."""
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
        """What the user said, or the command that was given."""
        await self.mount(Said(text))
        self.anchor()

    async def show_recollection(self, injection: Injection) -> None:
        """What memory added, in one line."""
        if not injection:
            return
        facts = [counted(len(injection.facts), "fact")] if injection.facts else []
        found = [counted(len(injection.results), "memory", "memories")] if injection.results else []
        names = ", ".join(f"{fact.key}={shortened(fact.value, 24)}" for fact in injection.facts[:4])
        text = f"remembered {' and '.join(facts + found)}" if facts or found else "remembered something"
        await self.mount(Recollection(Content(printable(f"{text}: {names}" if names else text))))

    async def think(self, text: str) -> None:
        """The end of what the model thinks, while it thinks."""
        self._thought += text
        line = shortened(self._thought[-400:], 400)[-100:]
        if self._thinking is None:
            self._thinking = Static(classes="thinking")
            await self.mount(self._thinking)
        self._thinking.update(Content(printable(f"thinking: {line}")))

    async def write(self, text: str) -> None:
        """More of the answer."""
        await self._end_thinking()
        if self._answer is None:
            self._answer = Answer(typed_at=lambda: self.typed_at)
            await self.mount(self._answer)
        self._answer.write(text)

    async def end_answer(self) -> None:
        """The answer is complete, or broken off; what comes next begins another one."""
        await self._end_thinking()
        if self._answer is not None:
            await self._answer.complete()
        self._answer = None

    async def remark(self, text: str, kind: str, hint: str = "") -> None:
        """A line of that kind: note, warning or error."""
        await self.end_answer()
        content = Content(printable(text))
        if hint:
            content += Content.styled(f"\n{printable(hint_with_command(hint))}", "$text-muted")
        await self.mount(Remark(content, kind))

    async def show_output(self, lines: Iterable[tuple[bool, str]]) -> None:
        """What a command showed; remarks beside its result are dim."""
        parts = [
            Content(printable(text)) if is_result else Content.styled(printable(text), "$text-muted")
            for is_result, text in lines
        ]
        await self.mount(Remark(Content("\n").join(parts), "output"))

    async def _end_thinking(self) -> None:
        self._thought = ""
        if self._thinking is not None:
            await self._thinking.remove()
            self._thinking = None

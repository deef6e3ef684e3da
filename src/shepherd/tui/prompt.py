"""Prompt: several lines, a history shared with `shepherd chat`, completion of commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static, TextArea

from shepherd.encryption import Sealer

if TYPE_CHECKING:
    from shepherd.commands.history import LineHistory

__all__ = ["Hints", "Prompt", "PromptHistory"]


_MOST_HINTS = 6


class Prompt(TextArea):
    """Input of messages and commands: Enter sends, Ctrl-J, Alt-Enter or a \\ at the end starts a new line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+enter,shift+enter,ctrl+j", "new_line", "New line", show=False),
        Binding("tab", "complete", "Complete", show=False),
        Binding("f6", "app.private", "Private", show=False),  # overrides TextArea's
        Binding("f7", "app.learned", "Learned", show=False),
        Binding("ctrl+d", "delete_or_quit", "Quit", show=False),
    ]

    is_private: reactive[bool] = reactive(False)

    class Sent(Message):
        """A line was sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, commands: Mapping[str, str]) -> None:
        super().__init__(id="prompt", compact=True, highlight_cursor_line=False)
        self._commands = commands
        self._past: list[str] = []
        self._place = 0  # in the history; its length stands for the line being written
        self._draft = ""

    @property
    def past(self) -> list[str]:
        """The lines that were sent, oldest first."""
        return list(self._past)

    def prepend(self, lines: list[str]) -> None:
        """Add the lines of earlier conversations, oldest first."""
        self._past = [*lines, *self._past]
        self._place = len(self._past)

    def forget(self, lines: Collection[str]) -> None:
        """Delete these lines from the history."""
        self._past = [line for line in self._past if line not in lines]
        self._place = len(self._past)

    def watch_is_private(self, is_private: bool) -> None:
        """Show it in the border."""
        self.set_class(is_private, "-private")
        self.border_title = "private: nothing is recalled or stored" if is_private else ""

    def matching(self) -> list[str]:
        """Return the commands that begin with the text; none unless it is one slash and a word."""
        text = self.text
        if not text.startswith("/") or text.startswith("//") or any(mark.isspace() for mark in text):
            return []
        return [name for name in self._commands if name.startswith(text[1:])]

    def action_new_line(self) -> None:
        """Start a new line, unless the prompt is empty."""
        if self.text:
            self.insert("\n")

    async def action_delete_or_quit(self) -> None:
        """Delete the character after the cursor, as shells do; quit if the prompt is empty."""
        if self.text:
            self.action_delete_right()
        else:
            await self.app.action_quit()

    def action_complete(self) -> None:
        """Complete the command as far as it is unambiguous; without one, focus the next widget."""
        names = self.matching()
        if not names:
            self.screen.focus_next()
            return
        common = names[0]
        for name in names[1:]:
            while not name.startswith(common):
                common = common[:-1]
        self.put(f"/{common} " if len(names) == 1 else f"/{common}")

    def put(self, text: str) -> None:
        """Replace the text, with the cursor at its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
        elif event.key in self._bindings.key_to_bindings:
            # At once: otherwise the event passes the queue of each ancestor, and a letter that was typed
            # after a backspace would be inserted before it.
            event.stop()
            event.prevent_default()
            for binding in self._bindings.get_bindings_for_key(event.key):
                if await self.app.run_action(binding.action, self):
                    break
        else:
            await super()._on_key(event)

    def action_cursor_up(self, select: bool = False) -> None:
        """Move a line up; from the first line, to the previous entry of the history."""
        if select or not self.cursor_at_first_line or self._place == 0:
            super().action_cursor_up(select)
        else:
            self._go(self._place - 1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move a line down; from the last line, to the next entry of the history, or the new line."""
        if select or not self.cursor_at_last_line or self._place == len(self._past):
            super().action_cursor_down(select)
        else:
            self._go(self._place + 1)

    def _enter(self) -> None:
        text = self.text
        if text.endswith("\\") and self.cursor_location == self.document.end:
            self.action_delete_left()
            self.action_new_line()
        elif text.strip():
            self.post_message(self.Sent(text))

    def sent(self, text: str) -> None:
        """Clear the prompt after a line was accepted, and add the line to the history."""
        if not self._past or self._past[-1] != text:
            self._past.append(text)
        self._place = len(self._past)
        self._draft = ""
        self.load_text("")

    def _go(self, place: int) -> None:
        if self._place == len(self._past):
            self._draft = self.text
        self._place = place
        self.put(self._draft if place == len(self._past) else self._past[place])


class Hints(Static):
    """Commands that begin with the text at the prompt."""

    _names: tuple[str, ...] = ()

    def show(self, names: list[str], usages: Mapping[str, tuple[str, str]]) -> None:
        """List them with their help; draws nothing when they are the same as before."""
        if tuple(names) == self._names:
            return
        self._names = tuple(names)
        self.display = bool(names)
        lines = []
        width = max((len(usages[name][0]) for name in names[:_MOST_HINTS]), default=0)
        for name in names[:_MOST_HINTS]:
            usage, text = usages[name]
            lines.append(Content.assemble((f"{usage:{width}}", "$accent"), f"  {text}"))
        if len(names) > _MOST_HINTS:
            lines.append(Content.styled(f"and {len(names) - _MOST_HINTS} more; /help lists them", "dim"))
        self.update(Content("\n").join(lines))


_MOST_LINES = 1000


class PromptHistory:
    """History file; private lines are not written to it. `place`: see commands/history_place.py.

    Use it from one thread.
    """

    def __init__(self, place: tuple[Path | None, Sealer | None], warn: Callable[[str], None]) -> None:
        self.is_private = False
        self._place = place
        self._warn = warn
        self._history: LineHistory | None = None

    def lines(self) -> list[str]:
        """Return the latest lines, oldest first."""
        newest_first = self._opened().load_history_strings()
        return [line for line, _ in zip(newest_first, range(_MOST_LINES), strict=False)][::-1]

    def add(self, line: str) -> None:
        """Add a line."""
        self._opened().store_string(line)

    def remove(self, lines: Collection[str]) -> None:
        """Delete these lines."""
        self._opened().remove(lines)

    def _opened(self) -> LineHistory:
        if self._history is None:
            # Here, since it imports prompt_toolkit.
            from shepherd.commands.history import open_history

            path, sealer = self._place
            self._history = open_history(path, lambda: self.is_private, self._warn, sealer)
        return self._history

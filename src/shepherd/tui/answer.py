"""A streaming answer: one widget that draws lines, so that the cost does not grow with its length."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from shepherd.commands.screen import printable
from shepherd.tui.lines import Blank, Line, Piece
from shepherd.tui.markup import Document

__all__ = ["Answer"]

# Pauses between two frames; longer while the user types.
_PAUSE_S, _PAUSE_WHILE_TYPING_S, _TYPING_S = 0.04, 0.1, 0.5
# Idle time after a piece, as a multiple of the time to parse it.
_IDLE_SHARE = 2.0
# Most characters to parse at once: 2 to 3 ms.
_PIECE_CHARS = 2000
# Cached lines: a few screens.
_MOST_STRIPS = 200
_BETWEEN = Blank()


class Answer(Widget):
    """Markdown, rendered while it arrives. `typed_at`: time.monotonic() of the last key press.

    Pieces wait for the next frame. Finished blocks become lines once; only the last one is parsed again.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("h1", "h2", "h3", "h4", "h5", "h6", "bullet", "bar", "quote", "code", "code_inline"),
        *("em", "strong", "s", "link", "rule", "head"),
    }

    def __init__(self, text: str = "", *, typed_at: Callable[[], float] = lambda: -math.inf) -> None:
        super().__init__()
        self._typed_at = typed_at
        self._document = Document()
        self._pending = ""
        self._rendering: asyncio.Task[None] | None = None
        self._n_blocks = 0  # finished blocks whose lines are in _lines
        self._lines: list[Line] = []
        self._last: list[Line] = []
        self._width = 0
        self._strips: dict[int, Strip] = {}
        if text:
            self._document.append(printable(text), is_complete=True)

    def write(self, text: str) -> None:
        """Append a piece."""
        self._pending += printable(text)
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._render_pending())

    async def complete(self) -> None:
        """Finish; waits until everything is drawn."""
        if self._rendering is not None:
            await self._rendering
        self._read("", is_complete=True)

    async def _render_pending(self) -> None:
        while self._pending and self.is_attached:
            text, self._pending = self._pending[:_PIECE_CHARS], self._pending[_PIECE_CHARS:]
            began = time.monotonic()
            self._read(text)
            await asyncio.sleep(max(self._pause_s(), _IDLE_SHARE * (time.monotonic() - began)))

    def _pause_s(self) -> float:
        is_typing = time.monotonic() - self._typed_at() < _TYPING_S
        return _PAUSE_WHILE_TYPING_S if is_typing else _PAUSE_S

    def _read(self, text: str, *, is_complete: bool = False) -> None:
        n_before, before = len(self._lines), self._last
        self._document.append(text, is_complete=is_complete)
        if not self._width:  # not drawn yet
            self.refresh(layout=True)
            return
        self._lay_out()
        # Lines of finished blocks do not change; of the others, the first ones mostly do not.
        lines = self._lines[n_before:] + self._last
        n_same = 0
        while n_same < min(len(before), len(lines)) and before[n_same].is_same(lines[n_same]):
            n_same += 1
        if n_same == len(lines) == len(before):
            return
        first = n_before + n_same
        for y in range(first, n_before + len(before)):
            self._strips.pop(y, None)
        changed = Region(0, first, self._width, max(len(before), len(lines)) - n_same)
        self.refresh(changed, layout=len(lines) != len(before))

    def _lay_out(self) -> None:
        for block in self._document.blocks[self._n_blocks :]:
            self._lines += self._lines_of(block, is_first=not self._n_blocks)
            self._n_blocks += 1
        self._last = []
        for number, block in enumerate(self._document.last):
            self._last += self._lines_of(block, is_first=not (self._n_blocks or number))

    def _lines_of(self, block: list[Piece], *, is_first: bool) -> list[Line]:
        pieces = block if is_first else [_BETWEEN, *block]
        return [line for piece in pieces for line in piece.lines(self._width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines at that width."""
        self._fit(width)
        return len(self._lines) + len(self._last)

    def _fit(self, width: int) -> None:
        if width == self._width:
            return
        self._width, self._n_blocks, self._lines, self._last = width, 0, [], []
        self._strips.clear()
        if width:
            self._lay_out()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        self._fit(self.size.width)
        strip = self._strips.get(y)
        if strip is None:
            if len(self._strips) > _MOST_STRIPS:
                self._strips.clear()
            strip = self._strips[y] = self._strip(y)
        return strip

    def _line(self, y: int) -> Line | None:
        if y < len(self._lines):
            return self._lines[y]
        return self._last[y - len(self._lines)] if y - len(self._lines) < len(self._last) else None

    def _strip(self, y: int) -> Strip:
        base, width = self.visual_style, self.size.width
        line = self._line(y)
        if line is None:
            return Strip.blank(width, base.rich_style)
        text = line.before + (Content(" " * line.padding) + line.text).stylize_before(line.style)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            end = len(text.plain) if span[1] < 0 else span[1]
            marked = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            text = text.stylize(marked, span[0], end)
        rendered = text.render(base, end="", parse_style=self._style_of)
        strip = Strip(
            [Segment(part, (base + style).rich_style) for part, style in rendered], text.cell_length
        )
        fill = (base + self._style_of(line.style)).rich_style if line.style else base.rich_style
        return strip.adjust_cell_length(width, fill).apply_offsets(0, y)

    def _style_of(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return name
        if name.startswith("."):
            return self.get_visual_style(name[1:], partial=True)
        return Style.parse(name, self.app.theme_variables)

    def notify_style_update(self) -> None:
        """Draw all lines again, in new colours."""
        self._strips.clear()
        super().notify_style_update()

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the new selection."""
        self._strips.clear()
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, unwrapped, and without bars and padding."""
        said: list[str] = []
        for y in range(len(self._lines) + len(self._last)):
            line, span = self._line(y), selection.get_span(y)
            if line is None or span is None:
                continue
            before = 0 if line.is_marked else len(line.before.plain) + line.padding
            whole = line.before.plain + " " * line.padding + line.text.plain
            end = len(whole) if span[1] < 0 else span[1]
            if said:
                said.append("\n" if line.continues is None else line.continues)
            said.append(whole[max(span[0], before) : end])
        return ("".join(said), "\n") if said else None

    def action_follow(self, target: str) -> None:
        """Show the target of a link without opening it, since the model chose it."""
        self.notify(printable(target), title="the link leads to", markup=False)

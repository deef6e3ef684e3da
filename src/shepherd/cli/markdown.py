"""Markdown on a terminal while it streams: finished blocks stay, the last one is drawn again as it grows."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from typing import ClassVar, TextIO

from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from shepherd.commands.screen import printable, terminal_size

__all__ = ["MarkdownStream"]

_NARROWEST = 20
# The default has a black background, which a light terminal shows as a box.
_THEME = Theme({"markdown.code": "bold cyan"})
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)\Z")


def _pause_s(cost_s: float) -> float:
    # A long block costs milliseconds, and the model needs the processor.
    return max(1 / 30, 5 * cost_s)


class MarkdownStream:
    """Rendering of an answer onto a terminal.

    `size` gives the terminal's columns and rows at each drawing, `pause_s` the seconds until the next one by
    the cost of the last in seconds.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        has_colour: bool,
        size: Callable[[], tuple[int, int]] | None = None,
        pause_s: Callable[[float], float] = _pause_s,
    ) -> None:
        self._out = out
        self._has_colour = has_colour
        self._size, self._pause_s = size or (lambda: terminal_size(out)), pause_s
        self._parser = _parser()
        self._open = ""  # text behind the finished blocks
        self._has_finished = False  # a block was finished: an empty line precedes the next one
        # Lines of the open text that are on the screen; the cursor is at the end of the last one.
        self._drawn: list[str] = []
        self._drawn_at, self._cost_s = float("-inf"), 0.0

    def write(self, text: str) -> None:
        """Append a piece of the answer."""
        self._open += printable(text)
        if time.monotonic() - self._drawn_at >= self._pause_s(self._cost_s):
            self._draw()

    def finish(self) -> None:
        """Draw the rest and end the last line. A text that follows is another answer."""
        self._draw()
        if self._drawn or self._has_finished:
            self._out.write("\n")
        self._out.flush()
        self._open, self._drawn, self._has_finished = "", [], False

    def _draw(self) -> None:
        started = time.monotonic()
        columns, rows = self._size()
        columns = max(columns, _NARROWEST)
        source = self._open.split("\n")
        tokens = self._parser.parse(self._open)
        begins = [token.map[0] for token in tokens if token.level == 0 and token.map]
        # A line that is not complete may turn out to continue the block before.
        n_finished = max((n for n, begin in enumerate(begins) if begin < len(source) - 1), default=0)
        lines: list[str] = []
        n_finished_lines = 0
        for number, begin in enumerate(begins):
            if number == n_finished:
                n_finished_lines = len(lines)
            end = begins[number + 1] if number + 1 < len(begins) else len(source)
            rendered = self._rendered("\n".join(source[begin:end]), columns)
            if rendered and (lines or self._has_finished):
                lines.append("")
            lines += rendered
        self._replace(lines, columns, rows)
        if n_finished_lines:
            self._has_finished = True
            self._drawn = lines[n_finished_lines:]
        if n_finished:
            self._open = "\n".join(source[begins[n_finished] :])
        self._drawn_at = time.monotonic()
        self._cost_s = self._drawn_at - started

    def _replace(self, lines: list[str], columns: int, rows: int) -> None:
        """Draw the lines in place of those that are drawn, as far as these are still on the screen."""
        drawn = self._drawn
        pairs = zip(drawn, lines, strict=False)
        start = next((n for n, (old, new) in enumerate(pairs) if old != new), min(len(drawn), len(lines)))
        if start == len(drawn):
            is_behind_a_line = bool(drawn) or self._has_finished
            text = "\n".join(["", *lines[start:]] if is_behind_a_line else lines) if lines[start:] else ""
        elif start == len(drawn) - 1 and len(lines) > start and lines[start].startswith(drawn[start]):
            text = "\n".join([lines[start][len(drawn[start]) :], *lines[start + 1 :]])
        else:
            # Lines above the screen cannot be changed any more.
            heights = [_height(line, columns) for line in drawn]
            start = min(start, max(0, len(lines) - 1))  # the cursor ends behind a line
            while start < len(drawn) - 1 and sum(heights[start:]) > rows:
                start += 1
            up = min(sum(heights[start:]), rows) - 1
            # Row by row: when all below the top of the screen is erased, tmux keeps the old text as history.
            text = "\r\x1b[2K" + "\x1b[A\x1b[2K" * up + "\n".join(lines[start:])
        self._out.write(text)
        self._out.flush()
        self._drawn = lines

    def _rendered(self, source: str, columns: int) -> list[str]:
        tokens = self._parser.parse(source)
        console = Console(
            file=self._out,
            force_terminal=True,
            no_color=not self._has_colour,
            width=columns,
            highlight=False,
            legacy_windows=False,
            theme=_THEME,
        )
        with console.capture() as capture:
            if len(tokens) == 1 and tokens[0].type in ("fence", "code_block"):
                # Not wrapped: the terminal copies a line that it wrapped itself as one line.
                console.print(_highlighted(tokens[0].content, tokens[0].info), soft_wrap=True)
            else:
                console.print(_AnswerMarkdown(source))
        lines = [_PADDING.sub(r"\1", line) for line in capture.get().split("\n")]
        said = [number for number, line in enumerate(lines) if _ESCAPES.sub("", line).strip()]
        return lines[said[0] : said[-1] + 1] if said else []


class _Title(Heading):
    """A heading at the left; rich centres it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the heading."""
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """Code in a list or a quotation, without a background, so that it is copied as it is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the code."""
        yield _highlighted(str(self.text), self.lexer_name)


class _AnswerMarkdown(Markdown):
    """Markdown of an answer. HTML and link definitions in it are shown as text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Title,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, source: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = source
        self.parsed = _parser().parse(source)


def _parser() -> MarkdownIt:
    """Return a parser for which HTML is text, since a terminal draws no HTML: `List<String>` stays whole.

    So do definitions such as `[1]: https://…`: blocks are drawn one by one, and none could refer to another.
    """
    parser = MarkdownIt("commonmark", {"html": False})
    return parser.enable(["table", "strikethrough"]).disable("reference")


def _highlighted(code: str, info: str) -> Text:
    language = info.split(maxsplit=1)[0] if info.strip() else "text"
    syntax = Syntax("", language, theme=_code_theme(), background_color="default")
    text = syntax.highlight(code.rstrip("\n").expandtabs(4))
    text.rstrip()
    return text


def _code_theme() -> str:
    """Return the theme whose colours can be read: some terminals say whether their background is light."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "ansi_light" if background in ("7", "15") else "ansi_dark"


def _height(line: str, columns: int) -> int:
    return max(1, math.ceil(cell_len(_ESCAPES.sub("", line)) / columns))

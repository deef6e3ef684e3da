"""Layout of text in lines: wrapped, with bullets and bars, in columns.

Nothing here knows Markdown or widgets; a style is a name that the widget resolves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.content import Content

__all__ = ["Blank", "Grid", "Line", "Margin", "Paragraph", "Piece", "Rule", "Verbatim"]

_EMPTY = Content("")
# Least width of a text, however deep it is nested; beyond it the ends of lines are cut.
_LEAST_COLUMNS = 8
# Least width of a table's column; in less space the cells follow each other instead.
_LEAST_CELL_COLUMNS = 5
_PADDING = 2
_ACROSS, _DOWN = "\N{BOX DRAWINGS LIGHT HORIZONTAL}", "\N{BOX DRAWINGS LIGHT VERTICAL}"
_CROSSING = "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its margin `before`, and its text.

    `continues` is None for the first line of a paragraph, else what wrapping removed before it: " " or "".
    `is_marked`: the margin belongs to the text, as a bullet does. `style` is that of text and padding, to the
    end of the screen's line.
    """

    before: Content
    text: Content
    continues: str | None = None
    padding: int = 0
    style: str = ""
    is_marked: bool = False

    def is_same(self, other: Line) -> bool:
        """Return whether it looks the same; equal contents may differ in styles."""
        mine = (self.continues, self.padding, self.style)
        return (
            mine == (other.continues, other.padding, other.style)
            and self.before.is_same(other.before)
            and self.text.is_same(other.text)
        )


@dataclass(frozen=True, slots=True)
class Margin:
    """Margins of the first line and of the other lines of a piece, of the same width."""

    first: Content = _EMPTY
    rest: Content = _EMPTY

    @property
    def is_marked(self) -> bool:
        """Return whether the first line begins an item of a list."""
        return self.first is not self.rest

    def columns_left(self, width: int) -> int:
        """Return the columns left for the text."""
        return max(width - self.rest.cell_length, _LEAST_COLUMNS)

    def line(
        self, text: Content, number: int, *, continues: str | None = None, padding: int = 0, style: str = ""
    ) -> Line:
        """Make the line of that number, counted from 0."""
        is_marked = number == 0 and self.is_marked
        return Line(self.first if number == 0 else self.rest, text, continues, padding, style, is_marked)


class Piece(Protocol):
    """A block of lines."""

    def lines(self, width: int) -> list[Line]:
        """Lay it out in that width."""
        ...


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line."""

    margin: Margin = Margin()

    def lines(self, width: int) -> list[Line]:
        """Return the empty line."""
        return [Line(self.margin.rest, _EMPTY)]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text that is wrapped at blanks; it can contain line feeds."""

    margin: Margin
    text: Content
    style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Wrap the text."""
        found: list[Line] = []
        room = self.margin.columns_left(width)
        for text in self.text.split(allow_blank=True):
            continues: str | None = None
            for piece, joined in _wrapped(text, room):
                continues = joined
                found.append(self.margin.line(piece, len(found), continues=continues, style=self.style))
        return found


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Preformatted lines, folded where they are too long, with padding in their style."""

    margin: Margin
    texts: Sequence[Content]
    style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Fold the lines, with an empty one before and after them."""
        found = [self._line(_EMPTY, 0)]
        room = max(self.margin.columns_left(width) - 2 * _PADDING, _LEAST_COLUMNS)
        for text in self.texts:
            for number, piece in enumerate(text.fold(room)):
                found.append(self._line(piece, len(found), continues="" if number else None))
        found.append(self._line(_EMPTY, len(found)))
        return found

    def _line(self, text: Content, number: int, continues: str | None = None) -> Line:
        return self.margin.line(text, number, continues=continues, padding=_PADDING, style=self.style)


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal rule."""

    margin: Margin
    style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Draw the rule."""
        return [self.margin.line(Content(_ACROSS * self.margin.columns_left(width)), 0, style=self.style)]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; its first row has the headers."""

    margin: Margin
    rows: Sequence[Sequence[Content]]
    head_style: str = ""
    rule_style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Lay out the rows; one with wrapped cells takes several lines."""
        n_columns = max(map(len, self.rows), default=0)
        rows = [[*row, *[_EMPTY] * (n_columns - len(row))] for row in self.rows]
        room = self.margin.columns_left(width) - 3 * (n_columns - 1)
        if room < _LEAST_CELL_COLUMNS * n_columns:
            return self._lines_one_by_one(rows, width)
        widths = _shares(
            [max(cell.cell_length for cell in column) for column in zip(*rows, strict=True)], room
        )
        bar = Content.styled(f" {_DOWN} ", self.rule_style)
        texts: list[Content] = []
        for number, row in enumerate(rows):
            texts += _row(row, widths, bar, self.head_style if number == 0 else "")
            if number == 0:
                rule = f"{_ACROSS}{_CROSSING}{_ACROSS}".join(_ACROSS * columns for columns in widths)
                texts.append(Content.styled(rule, self.rule_style))
        return [self.margin.line(text, number) for number, text in enumerate(texts)]

    def _lines_one_by_one(self, rows: Iterable[Sequence[Content]], width: int) -> list[Line]:
        found: list[Line] = []
        for row in rows:
            margin = self.margin if not found else Margin(self.margin.rest, self.margin.rest)
            found += Paragraph(margin, Content(f" {_DOWN} ").join(row)).lines(width)
        return found


def _wrapped(text: Content, width: int) -> Iterable[tuple[Content, str | None]]:
    """Wrap a paragraph; each line comes with the text removed between it and the previous one."""
    plain, position = text.plain, 0
    for number, line in enumerate(text.wrap(width)):
        begin = plain.find(line.plain, position)
        yield line, (" " if begin > position else "") if number else None
        position = max(begin, position) + len(line.plain)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return the width of each column: what it wants, or a fair share of what narrower ones leave."""
    shares = [0] * len(wanted)
    for place, (columns, index) in enumerate(
        sorted((columns, index) for index, columns in enumerate(wanted))
    ):
        shares[index] = max(min(columns, room // (len(wanted) - place)), 1)
        room -= shares[index]
    return shares


def _row(cells: Sequence[Content], widths: Sequence[int], bar: Content, style: str) -> list[Content]:
    wrapped = [cell.wrap(columns) or [_EMPTY] for cell, columns in zip(cells, widths, strict=True)]
    texts = []
    for number in range(max(map(len, wrapped))):
        parts = []
        for lines, columns in zip(wrapped, widths, strict=True):
            part = lines[number] if number < len(lines) else _EMPTY
            parts.append(part.stylize(style).pad_right(columns - part.cell_length))
        texts.append(bar.join(parts))
    return texts

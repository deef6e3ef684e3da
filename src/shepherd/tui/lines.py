"""Lines of text as they stand on the screen: wrapped, behind bullets and bars, in columns.

Nothing here knows Markdown, nor widgets: a style is a name that whoever draws the lines resolves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.content import Content

__all__ = ["Blank", "Grid", "Line", "Margin", "Paragraph", "Piece", "Rule", "Verbatim"]

_EMPTY = Content("")
# A text is never narrower, however deep it is nested: its end is out of sight then.
_LEAST_COLUMNS = 8
# A column of a table: below it words fall apart, and the cells follow each other instead.
_LEAST_CELL_COLUMNS = 5
_PADDING = 2
_ACROSS, _DOWN = "\N{BOX DRAWINGS LIGHT HORIZONTAL}", "\N{BOX DRAWINGS LIGHT VERTICAL}"
_CROSSING = "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"


@dataclass(frozen=True, slots=True)
class Line:
    """What stands before the text, and the text. `continues`: how the line before is joined to it.

    That is None for a line that begins a paragraph, else what the wrapping took away: a blank, or nothing.
    `is_marked`: what stands before it is part of what is said, as a bullet is. `style`: of text and padding,
    to the end of the screen's line.
    """

    before: Content
    text: Content
    continues: str | None = None
    padding: int = 0
    style: str = ""
    is_marked: bool = False

    def is_same(self, other: Line) -> bool:
        """Whether it looks as the other one does; contents that are equal may have other styles."""
        mine = (self.continues, self.padding, self.style)
        return (
            mine == (other.continues, other.padding, other.style)
            and self.before.is_same(other.before)
            and self.text.is_same(other.text)
        )


@dataclass(frozen=True, slots=True)
class Margin:
    """What stands before the first line of a piece, and before each other one; as wide as each other."""

    first: Content = _EMPTY
    rest: Content = _EMPTY

    @property
    def is_marked(self) -> bool:
        """Whether the first line says more than the others: the item of a list begins."""
        return self.first is not self.rest

    def room(self, width: int) -> int:
        """The columns that are left for the text."""
        return max(width - self.rest.cell_length, _LEAST_COLUMNS)

    def line(
        self, text: Content, number: int, *, continues: str | None = None, padding: int = 0, style: str = ""
    ) -> Line:
        """The line of that number, counted from 0."""
        is_marked = number == 0 and self.is_marked
        return Line(self.first if number == 0 else self.rest, text, continues, padding, style, is_marked)


class Piece(Protocol):
    """Something that stands on lines of its own."""

    def lines(self, width: int) -> list[Line]:
        """As many as it needs at that width."""
        ...


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line."""

    margin: Margin = Margin()

    def lines(self, width: int) -> list[Line]:
        """That line."""
        return [Line(self.margin.rest, _EMPTY)]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text that is wrapped at its blanks; it may have line ends of its own."""

    margin: Margin
    text: Content
    style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Those of its words."""
        found: list[Line] = []
        room = self.margin.room(width)
        for text in self.text.split(allow_blank=True):
            continues: str | None = None
            for piece, joined in _wrapped(text, room):
                continues = joined
                found.append(self.margin.line(piece, len(found), continues=continues, style=self.style))
        return found


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that stand as they are, folded where there is no room; with a rim of their own style."""

    margin: Margin
    texts: Sequence[Content]
    style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Those lines, and an empty one before and after them."""
        found = [self._line(_EMPTY, 0)]
        room = max(self.margin.room(width) - 2 * _PADDING, _LEAST_COLUMNS)
        for text in self.texts:
            for number, piece in enumerate(text.fold(room)):
                found.append(self._line(piece, len(found), continues="" if number else None))
        found.append(self._line(_EMPTY, len(found)))
        return found

    def _line(self, text: Content, number: int, continues: str | None = None) -> Line:
        return self.margin.line(text, number, continues=continues, padding=_PADDING, style=self.style)


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across."""

    margin: Margin
    style: str = ""

    def lines(self, width: int) -> list[Line]:
        """That line."""
        return [self.margin.line(Content(_ACROSS * self.margin.room(width)), 0, style=self.style)]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its first row names the columns."""

    margin: Margin
    rows: Sequence[Sequence[Content]]
    head_style: str = ""
    rule_style: str = ""

    def lines(self, width: int) -> list[Line]:
        """Its rows; one whose cells are wrapped takes several."""
        n_columns = max(map(len, self.rows), default=0)
        rows = [[*row, *[_EMPTY] * (n_columns - len(row))] for row in self.rows]
        room = self.margin.room(width) - 3 * (n_columns - 1)
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
    """The lines of one paragraph, each with what stood between it and the line before."""
    plain, position = text.plain, 0
    for number, line in enumerate(text.wrap(width)):
        begin = plain.find(line.plain, position)
        yield line, (" " if begin > position else "") if number else None
        position = max(begin, position) + len(line.plain)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Columns for each: what it wants, or a fair share of what the smaller ones leave."""
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

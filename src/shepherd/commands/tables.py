"""Tables on a terminal: cells side by side, or texts below the other cells of their row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["print_table"]

_GAP = 2
_INDENT = 4
# Columns of a terminal: a wider cell is a text, which is broken between words.
_WIDEST_WORD = 32
# Columns that each text needs beside the other cells.
_LEAST_TEXT = 12
# Rows that show which form is shorter.
_TRIED = 50


def print_table(out: TextIO, headers: Sequence[str], rows: Sequence[Sequence[str]], *, colour: bool) -> None:
    """Write rows with a line of headers, in the form that takes fewer lines.

    Either texts share the columns that the other cells leave, or each text has lines of its own below the
    other cells of its row. It then has its header beside it if there are several, and columns that are empty
    in all rows are left out. Cells that are no texts are broken only where there is no room for them.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, no_color=not colour, highlight=False)
    widths = [max(map(cell_len, "\n".join(cells).split("\n"))) for cells in zip(headers, *rows, strict=True)]
    texts = [i for i, width in enumerate(widths) if width > _WIDEST_WORD]
    cells = [[Text(cell) for cell in row] for row in rows]
    room = console.width - sum(width for i, width in enumerate(widths) if i not in texts)
    room -= _GAP * (len(widths) - 1)
    has_room = room >= _LEAST_TEXT * len(texts)
    whole = [i for i in range(len(widths)) if has_room and i not in texts]
    is_beside = not texts or room >= sum(widths[i] for i in texts) or len(texts) == len(widths)
    if not is_beside:
        some = cells[:_TRIED]
        beside = _n_lines(console, _side_by_side(headers, some, whole))
        is_beside = has_room and beside <= _n_lines(console, _stacked(headers, some, widths, texts))
        if not is_beside:
            console.print(_stacked(headers, cells, widths, texts))
            return
    console.print(_side_by_side(headers, cells, whole))


def _n_lines(console: Console, table: RenderableType) -> int:
    return len(console.render_lines(table, pad=False))


def _side_by_side(
    headers: Sequence[str], rows: Sequence[Sequence[Text]], whole: Sequence[int]
) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, _GAP, 0, 0))
    for i, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=i in whole)
    for row in rows:
        table.add_row(*row)
    return table


def _stacked(
    headers: Sequence[str], rows: Sequence[Sequence[Text]], widths: Sequence[int], texts: Sequence[int]
) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    used = [i for i in range(len(headers)) if i not in texts and any(row[i].plain for row in rows)]

    def line(row: Sequence[Text]) -> Text:
        padded = [Text.assemble(row[i], " " * (widths[i] - row[i].cell_len)) for i in used]
        joined = Text(" " * _GAP).join(padded)
        joined.rstrip()
        return joined

    def below(row: Sequence[Text]) -> Padding:
        grid = Table.grid(padding=(0, _GAP, 0, 0))
        if len(texts) > 1:
            grid.add_column(style="dim", width=max(len(headers[i]) for i in texts))
        grid.add_column(overflow="fold")
        for i in texts:
            if row[i].plain:
                grid.add_row(*([headers[i]] if len(texts) > 1 else []), row[i])
        return Padding(grid, (0, 0, 0, _INDENT))

    parts: list[RenderableType] = [line([Text(header, "dim") for header in headers])]
    for row in rows:
        parts.append(line(row))
        if any(row[i].plain for i in texts):
            parts.append(below(row))
    return Group(*parts)

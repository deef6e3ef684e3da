"""Incremental Markdown: finished blocks are parsed once, only the last one again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.content import Content, Span
from textual.highlight import highlight
from textual.style import Style

from shepherd.tui.lines import Blank, Grid, Margin, Paragraph, Piece, Rule, Verbatim

__all__ = ["Document"]

_BULLETS = "\N{BULLET}\N{BLACK SMALL SQUARE}\N{TRIANGULAR BULLET}\N{WHITE BULLET}"
_BAR = "\N{LEFT HALF BLOCK} "
_TAB_COLUMNS = 4
# Code is highlighted in stretches of one to two times so many lines, up to an empty line if there is one, so
# that later lines change none of them; 500 lines at once take 28 ms for each frame. In finished code they are
# longer, since a string that crosses the end of a stretch gets wrong colours.
_STRETCH_LINES, _FINISHED_STRETCH_LINES = 40, 400
_NOTHING = Content("")
# A last line of these alone may become a list, a rule, a heading or the end of code, as more text will show.
_UNDECIDED = re.compile(r"(?:[-=*_#>+|`~: \t]+|[ \t]*\d{1,9}[.)]?[ \t]*)\Z")
_STYLES = {"em_open": ".em", "strong_open": ".strong", "s_open": ".s"}


class Document:
    """A growing Markdown text; its blocks are the elements of the outermost level."""

    def __init__(self) -> None:
        self.blocks: list[list[Piece]] = []  # finished
        self.last: list[list[Piece]] = []  # those behind, as far as they are known
        self._open = ""
        self._definitions: dict[str, object] = {}
        self._outline = MarkdownIt("gfm-like")
        self._outline.core.ruler.enableOnly(["normalize", "block"])
        self._inline = MarkdownIt("gfm-like")
        self._contents: dict[str, Content] = {}
        self._codes: dict[tuple[str, str], list[Content]] = {}

    def append(self, text: str, *, is_complete: bool = False) -> None:
        """Append text; `is_complete` says that it is the end. The cost is that of the last block."""
        self._open += text
        source = self._open
        if not is_complete:
            head, _, line = source.rpartition("\n")
            source = source if not _UNDECIDED.match(line) else head + "\n"
        groups = _groups(self._outline.parse(source, self._definitions))
        # A line that is not complete may turn out to continue the block before.
        n_complete = source.count("\n")
        n_finished = max((n for n, group in enumerate(groups) if _begin(group) < n_complete), default=0)
        known = _Known(self._contents, self._codes)
        self._contents, self._codes = {}, {}
        self.blocks += [self._pieces(group, known, _FINISHED_STRETCH_LINES) for group in groups[:n_finished]]
        lines = _FINISHED_STRETCH_LINES if is_complete else _STRETCH_LINES
        self.last = [self._pieces(group, known, lines) for group in groups[n_finished:]]
        if n_finished:
            # Not splitlines(): the parser counted lines by "\n" alone.
            self._open = "\n".join(self._open.split("\n")[_begin(groups[n_finished]) :])

    def _pieces(self, group: Sequence[Token], known: _Known, stretch_lines: int) -> list[Piece]:
        def content(text: str) -> Content:
            found = self._contents.get(text, known.contents.get(text))
            if found is None:
                found = _content(self._inline.parseInline(text, self._definitions)[0].children or [])
            self._contents[text] = found
            return found

        def code(text: str, language: str) -> list[Content]:
            lines: list[Content] = []
            for stretch in _stretches(text.expandtabs(_TAB_COLUMNS).rstrip("\n"), stretch_lines):
                key = (stretch, language)
                found = self._codes.get(key, known.codes.get(key))
                if found is None:
                    found = highlight(stretch, language=language or "text").split(allow_blank=True)
                    found += [_NOTHING] * (
                        stretch.count("\n") + 1 - len(found)
                    )  # it drops the last empty ones
                self._codes[key] = found
                lines += found
            return lines

        return _Layout(content, code).pieces(group)


@dataclass(frozen=True, slots=True)
class _Known:
    """Cache of the previous frame."""

    contents: Mapping[str, Content]
    codes: Mapping[tuple[str, str], list[Content]]


def _begin(group: Sequence[Token]) -> int:
    return group[0].map[0] if group[0].map else 0


def _groups(tokens: Sequence[Token]) -> list[list[Token]]:
    """Group the tokens by block."""
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        groups[-1].append(token)
    return groups


@dataclass(slots=True)
class _Level:
    """Margins of a list's item or a quotation."""

    first: Content
    rest: Content
    style: str = ""
    n_pieces: int = 0
    ends_apart: bool = False  # an empty line follows its last piece


@dataclass(slots=True)
class _Layout:
    """Conversion of one block's tokens into pieces."""

    read: Callable[[str], Content]
    colour: Callable[[str, str], list[Content]]  # code and its language
    _found: list[Piece] = field(default_factory=list)
    _levels: list[_Level] = field(default_factory=lambda: [_Level(_NOTHING, _NOTHING)])
    _markers: list[Iterator[str]] = field(default_factory=list)  # of the enclosing lists: the next ones
    _is_apart: bool = False  # an empty line precedes the paragraph that begins
    _style: str = ""
    _rows: list[list[Content]] | None = None

    def pieces(self, tokens: Sequence[Token]) -> list[Piece]:
        """Return the pieces of the block, in order."""
        for number, token in enumerate(tokens):
            self._take(token, tokens[number:])
        return self._found

    def _take(self, token: Token, following: Sequence[Token]) -> None:
        match token.type:
            case "paragraph_open":
                self._is_apart, self._style = not token.hidden, self._levels[-1].style
            case "heading_open":
                self._is_apart, self._style = True, f".{token.tag}"
            case "inline" if self._rows is not None:
                self._rows[-1].append(self.read(token.content))
            case "inline":
                text, style = self.read(token.content), self._style
                self._add(lambda margin: Paragraph(margin, text, style), is_apart=self._is_apart)
            case "fence" | "code_block":
                code = self.colour(token.content, token.info.split()[0] if token.info.strip() else "")
                self._add(lambda margin: Verbatim(margin, code, ".code"))
            case "hr":
                self._add(lambda margin: Rule(margin, ".rule"))
            case "table_open" | "tr_open" | "table_close":
                self._take_table(token)
            case _ if token.nesting:
                self._take_nesting(token, following)
            case _ if token.content:  # HTML and anything else is shown as it is
                text = Content(token.content.rstrip("\n"))
                self._add(lambda margin: Paragraph(margin, text))

    def _take_table(self, token: Token) -> None:
        if token.type == "table_open":
            self._rows = []
        elif token.type == "tr_open" and self._rows is not None:
            self._rows.append([])
        elif token.type == "table_close":
            rows, self._rows = self._rows or [], None
            self._add(lambda margin: Grid(margin, rows, ".head", ".rule"))

    def _take_nesting(self, token: Token, following: Sequence[Token]) -> None:
        """Begin or end a list, an item or a quotation."""
        level = self._levels[-1]
        if token.type in ("bullet_list_open", "ordered_list_open") and level.n_pieces and level.ends_apart:
            self._found.append(Blank(self._margin(is_first=False)))
        match token.type:
            case "bullet_list_open":
                self._markers.append(repeat(f"{_BULLETS[len(self._markers) % len(_BULLETS)]} "))
            case "ordered_list_open":
                self._markers.append(_numbers(int(token.attrs.get("start", 1)), _n_items(token, following)))
            case "bullet_list_close" | "ordered_list_close":
                self._markers.pop()
            case "list_item_open":
                marker = next(self._markers[-1])
                blank = Content(" " * len(marker))
                self._levels.append(_Level(Content.styled(marker, ".bullet"), blank, level.style))
            case "blockquote_open":
                bar = Content.styled(_BAR, ".bar")
                if level.n_pieces:
                    self._found.append(Blank(self._margin(is_first=False)))
                self._levels.append(_Level(bar, bar, ".quote"))
            case "list_item_close" | "blockquote_close":
                if not level.n_pieces:  # an empty item is shown, too
                    self._add(lambda margin: Paragraph(margin, Content("")), is_apart=False)
                self._levels.pop()

    def _add(self, piece: Callable[[Margin], Piece], *, is_apart: bool = True) -> None:
        level = self._levels[-1]
        if level.n_pieces and (is_apart or level.ends_apart):
            self._found.append(Blank(self._margin(is_first=False)))
        self._found.append(piece(self._margin(is_first=True)))
        for each in self._levels:
            each.first = each.rest
            each.n_pieces += 1
            each.ends_apart = is_apart

    def _margin(self, *, is_first: bool) -> Margin:
        rest = Content("").join([level.rest for level in self._levels])
        if not is_first or all(level.first is level.rest for level in self._levels):
            return Margin(rest, rest)
        return Margin(Content("").join([level.first for level in self._levels]), rest)


def _n_items(token: Token, following: Sequence[Token]) -> int:
    """Return the number of items in the list that this token begins."""
    found = 0
    for each in following:
        if each.type == "ordered_list_close" and each.level == token.level:
            break
        found += each.type == "list_item_open" and each.level == token.level + 1
    return found


def _numbers(start: int, n: int) -> Iterator[str]:
    """Return the markers of a list, as wide as the last one."""
    markers = [f"{number}. " for number in range(start, start + n)]
    width = max(map(len, markers), default=0) + 1
    return (marker.rjust(width) for marker in markers)


def _stretches(code: str, n_lines: int) -> Iterator[str]:
    """Split code into stretches; the end of one does not depend on later lines."""
    stretch: list[str] = []
    for line in code.split("\n"):
        stretch.append(line)
        if len(stretch) >= 2 * n_lines or (len(stretch) >= n_lines and not line.strip()):
            yield "\n".join(stretch)
            stretch = []
    if stretch:
        yield "\n".join(stretch)


def _content(children: Sequence[Token]) -> Content:
    """Return a paragraph's text with its styles."""
    parts: list[str] = []
    spans: list[Span] = []
    begun: list[tuple[int, list[str | Style]]] = []
    position = 0
    for child in children:
        text, styles = "", list[str | Style]()
        match child.type:
            case "em_open" | "strong_open" | "s_open":
                begun.append((position, [_STYLES[child.type]]))
            case "link_open":
                begun.append((position, _link(child.attrs.get("href", ""))))
            case "softbreak":
                text = " "
            case "hardbreak":
                text = "\n"
            case "code_inline":
                text, styles = child.content, [".code_inline"]
            case "image":
                text, styles = child.content or "image", _link(child.attrs.get("src", ""))
            case _ if child.nesting < 0 and begun:
                begin, ended = begun.pop()
                spans += [Span(begin, position, style) for style in ended]
            case _:
                text = child.content.replace("\n", " ")
        spans += [Span(position, position + len(text), style) for style in styles]
        parts.append(text)
        position += len(text)
    return Content("".join(parts), spans)


def _link(target: object) -> list[str | Style]:
    return [".link", Style.from_meta({"@click": f"follow({str(target)!r})"})]

"""Readable text of a web page: its main part, without scripts, menus and footers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from typing import NamedTuple

__all__ = ["BrokenPageError", "Page", "read"]

_SKIPPED = frozenset(
    {
        *("script", "style", "template", "noscript", "object", "iframe", "svg", "math"),
        *("nav", "aside", "footer", "button", "select", "dialog"),
    }
)
# Some pages are nothing but a menu: then only these elements are skipped.
_NEVER_SHOWN = frozenset({"script", "style", "template", "svg"})
_BLOCKS = frozenset(
    {
        *("html", "body", "main", "article", "section", "header", "address", "div", "p", "pre", "hr", "form"),
        *("blockquote", "figure", "figcaption", "details", "summary", "fieldset"),
        *("ul", "ol", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr"),
    }
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MAIN = frozenset({"main", "article"})
# A shorter <main> is a teaser.
_LEAST_MAIN_CHARS = 200
# A longer one is a title without an end.
_LONGEST_TITLE = 10_000
# Versions of HTMLParser look for the end of each tag in all that follows: 20,000 without one take a minute.
# A page that somebody can read takes nothing of this.
_MOST_WASTED_S = 1.0
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_NAMES = frozenset({"article:published_time", "date", "dc.date", "dcterms.created", "datepublished"})


class BrokenPageError(ValueError):
    """Too many tags or comments of a page have no end."""


class Page(NamedTuple):
    """Contents of a page; `date` is YYYY-MM-DD or empty."""

    title: str
    text: str
    description: str
    date: str


def read(markup: str) -> Page:
    """Return title, text, description and date of an HTML document, however broken.

    Raises BrokenPageError if that would take longer than linear time, and what HTMLParser raises.
    """
    reader = _Reader(_SKIPPED)
    reader.feed(markup)
    reader.close()
    if not reader.text():
        reader = _Reader(_NEVER_SHOWN)
        reader.feed(markup)
        reader.close()
    title = reader.title or reader.heading
    return Page(" ".join(title.split()), reader.text(), reader.description, reader.date)


class _Reader(HTMLParser):
    def __init__(self, skipped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.title = self.heading = self.description = self.date = ""
        self._skipped = skipped
        self._skipping: list[str] = []  # the skipped element, once for each nested one of its name
        self._pre = self._main = 0
        self._wasted_s = 0.0
        self._in_title = False
        self._in_heading = False
        self._all: list[str] = []
        self._mains: list[str] = []

    def text(self) -> str:
        """Return the main part if it is long enough, else everything."""
        main = _tidy("".join(self._mains))
        return main if len(main) >= _LEAST_MAIN_CHARS else _tidy("".join(self._all))

    # ---- what HTMLParser calls

    def parse_starttag(self, i: int) -> int:
        """Parse `<a …>`."""
        return self._timed(super().parse_starttag, i)

    def parse_endtag(self, i: int) -> int:
        """Parse `</a>`."""
        return self._timed(super().parse_endtag, i)

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Parse `<!--…-->`."""
        return self._timed(super().parse_comment, i, report)

    def parse_pi(self, i: int) -> int:
        """Parse `<?…>`."""
        return self._timed(super().parse_pi, i)

    def parse_html_declaration(self, i: int) -> int:
        """Parse `<!…>`."""
        return self._timed(super().parse_html_declaration, i)

    def _timed(self, parse: Callable[..., int], *arguments: int) -> int:
        """Return where something ends, negative if it does not; what searching in vain costs is added up."""
        begun = time.thread_time()
        end = parse(*arguments)
        if end < 0:
            self._wasted_s += time.thread_time() - begun
            if self._wasted_s > _MOST_WASTED_S:
                raise BrokenPageError("too many tags have no end")
        return end

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Parse `<![CDATA[…]]>`; other marked sections are comments, as for browsers."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.append(tag)
            return
        attributes = {name: value or "" for name, value in attrs}
        if tag in self._skipped:
            self._skipping = [tag]
        elif tag == "title":
            self._in_title = not self.title
        elif tag == "meta":
            self._read_meta(attributes)
        elif tag == "time" and not self.date:
            self.date = _day(attributes.get("datetime", ""))
        elif tag == "img":
            alternative = attributes.get("alt", "").strip()
            self._write(f" {alternative} " if alternative else " ")
        else:
            self._begin(tag)

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.pop()
            return
        if tag == "title":
            self._in_title = False
        elif tag == "pre":
            self._pre = max(self._pre - 1, 0)
        if tag in _HEADINGS or tag in _BLOCKS:
            self._in_heading = self._in_heading and tag not in _HEADINGS
            self._write("\n\n" if tag != "tr" else "\n", is_break=True)
        if tag in _MAIN:
            self._main = max(self._main - 1, 0)

    def handle_data(self, data: str) -> None:
        """Add text."""
        if self._in_title:
            if len(self.title) < _LONGEST_TITLE:
                self.title += data
        elif not self._skipping:
            if self._in_heading and len(self.heading) < _LONGEST_TITLE:
                self.heading += data
            self._write(data if self._pre else re.sub(r"\s+", " ", data))

    # ---- writing

    def _begin(self, tag: str) -> None:
        if tag in _MAIN:
            self._main += 1
        if tag == "pre":
            self._pre += 1
        if tag in _HEADINGS:
            self._in_heading = not self.heading
            self._write(f"\n\n{'#' * _HEADINGS[tag]} ", is_break=True)
        elif tag == "li":
            self._write("\n- ", is_break=True)
        elif tag == "br":
            self._write("\n", is_break=True)
        elif tag in ("td", "th"):
            self._write(" ")
        elif tag in _BLOCKS:
            self._write("\n" if tag == "tr" else "\n\n", is_break=True)

    def _write(self, text: str, *, is_break: bool = False) -> None:
        for pieces in (self._all, self._mains) if self._main else (self._all,):
            if (
                is_break
                or self._pre
                or not (text.startswith(" ") and pieces and pieces[-1].endswith((" ", "\n")))
            ):
                pieces.append(text)
            else:
                pieces.append(text[1:])

    def _read_meta(self, attributes: dict[str, str]) -> None:
        name = (
            attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
        ).lower()
        content = attributes.get("content", "")
        if name in ("description", "og:description"):
            self.description = self.description or " ".join(content.split())
        elif name == "og:title":
            self.heading = self.heading or content
        elif name in _DATE_NAMES:
            self.date = self.date or _day(content)


def _tidy(text: str) -> str:
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _day(written: str) -> str:
    found = _DATE.match(written.strip())
    return found[0] if found else ""

"""Text, title and date of a document's bytes: text, Markdown, HTML, PDF."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NamedTuple

from shepherd.errors import DocumentError, EmptyDocumentError, NotTextError
from shepherd.escaping import storable
from shepherd.knowledge.importing import html, pdf
from shepherd.wording import counted

__all__ = ["SNIFFED_BYTES", "SUFFIXES", "Document", "read", "seems_readable"]

SUFFIXES = {
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
    ".org": "text",
    ".log": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
}
SNIFFED_BYTES = 8192
_TYPES = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n(.*?\n)---[^\S\n]*(?:\n|\Z)", re.DOTALL)
# Text has line breaks, tabs, form feeds and, for colours, escapes.
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# Trailing white space is stripped afterwards: in the patterns it would take quadratic time.
_FIELD = re.compile(r"^(title|date)[^\S\n]*:(.*)$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r"^#{1,6}[^\S\n]+(\S.*)$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# Browsers read pages with these names in another encoding (WHATWG's Encoding Standard).
_MEANT = {"iso8859-1": "cp1252"}
# Encodings of Python that no page has; some take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})


class Document(NamedTuple):
    """Contents of a document; `date` is YYYY-MM-DD or empty. `remark` says what could not be read of it."""

    title: str
    text: str
    kind: str
    description: str
    date: str
    metadata: dict[str, Any]
    remark: str = ""


def read(
    data: bytes,
    name: str,
    *,
    content_type: str = "",
    charset: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Document:
    """Return the document in `data`; `name` is a file's or the end of an address. Raises DocumentError."""
    form = _form(data, name, content_type)
    name = storable(name)  # a file's name can be any bytes
    stem = PurePath(name).stem.strip() or name.strip() or form
    if form == "pdf":
        pages = pdf.read(data, name, progress)
        title = " ".join(pages.title.split()) or stem
        metadata = {"pages": len(pages.starts), "page_starts": pages.starts}
        return Document(storable(title), _clean(pages.text), form, "", "", metadata)
    written, n_bad = _decoded(data, name, charset, form)
    text = _clean(written)
    remark = f"{name}: {counted(n_bad, 'letter')} could not be read (\ufffd); is it damaged?" if n_bad else ""
    if not text.strip():
        raise EmptyDocumentError(f"{name}: there is no text in it")
    if form == "html":
        try:
            page = html.read(text)
        except html.BrokenPageError as error:
            raise DocumentError(
                f"{name}: the page cannot be read: {error}", hint="open it in a browser, and save it again"
            ) from error
        except (AssertionError, ValueError) as error:  # HTMLParser has its limits
            raise DocumentError(
                f"{name}: the page cannot be read ({type(error).__name__})", hint="is it damaged?"
            ) from error
        if not page.text:
            raise DocumentError(
                f"{name}: the page has no text", hint="pages that a script writes cannot be imported"
            )
        return Document(page.title or stem, page.text, form, page.description, page.date, {}, remark)
    if form == "markdown":
        title, date = _marked(text)
        return Document(title or stem, text, form, "", date, {}, remark)
    return Document(stem, text, form, "", "", {}, remark)


def seems_readable(beginning: bytes) -> bool:
    """Return whether a file whose name tells nothing begins like a text in UTF-8 or UTF-16, or like a PDF."""
    if beginning.startswith(b"%PDF-"):
        return True
    is_utf16 = beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:  # the last letter can be cut
        text = codecs.getincrementaldecoder("utf-16" if is_utf16 else "utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and _BINARY.search(text) is None


def _form(data: bytes, name: str, content_type: str) -> str:
    if data[:1024].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if content_type in _TYPES:
        return _TYPES[content_type]
    form = SUFFIXES.get(PurePath(name).suffix.lower(), "")
    if not form:
        begins = data[:1024].lstrip().lower()
        form = "html" if begins.startswith((b"<!doctype html", b"<html")) else "text"
    return form


def _decoded(data: bytes, name: str, charset: str, form: str) -> tuple[str, int]:
    """Return the text, and how many letters of UTF-8 in it are damaged."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace"), 0
    if b"\0" in data[:SNIFFED_BYTES]:
        raise NotTextError(f"{name}: this is not text", hint="use a text, Markdown, HTML or PDF file")
    declared = _META_CHARSET.search(data[:4096]) if form == "html" and not charset else None
    named = _encoding(charset or (declared[1].decode() if declared else ""))
    for encoding in filter(None, (named, "utf-8")):
        try:
            return data.decode(encoding), 0
        except (ValueError, LookupError):
            continue
    text = data.decode("utf-8", "replace")
    n_bad = text.count("\ufffd") - data.count("\ufffd".encode())
    # Other encodings hardly have any letters that are valid in UTF-8, which one byte spoils or a cut ends.
    if len(text) - len(text.encode("ascii", "ignore")) > 2 * n_bad:
        return text, n_bad
    # Most texts that are neither UTF-8 nor declare an encoding are in cp1252, which decodes every byte.
    return data.decode("cp1252", "replace"), 0


def _encoding(charset: str) -> str:
    """Return Python's name of a page's encoding; "" for an unknown one."""
    try:
        name = codecs.lookup(charset).name
    except (ValueError, LookupError):
        return ""
    return "" if name in _NO_CHARSETS else _MEANT.get(name, name)


def _clean(text: str) -> str:
    """Return the text with \n as line break, and without characters that cannot be stored."""
    return storable(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd"))


def _marked(text: str) -> tuple[str, str]:
    """Return title and date of a Markdown text, from its front matter or first heading."""
    title = date = ""
    front = _FRONT_MATTER.match(text)
    if front:
        fields = {
            name.lower(): value.strip().strip("\"'").strip() for name, value in _FIELD.findall(front[1])
        }
        title = fields.get("title", "")
        found = _DATE.match(fields.get("date", ""))
        date = found[0] if found else ""
    if not title:
        headings = _HEADING.finditer(text, front.end() if front else 0)
        title = next(filter(None, (_without_closing(heading[1]) for heading in headings)), "")
    return title, date


def _without_closing(heading: str) -> str:
    """Return a heading without the closing `#`s: `Notes ##` is Notes, `C#` is C#."""
    words = heading.rstrip()
    bare = words.rstrip("#")
    return words if bare and not bare[-1].isspace() else bare.rstrip()

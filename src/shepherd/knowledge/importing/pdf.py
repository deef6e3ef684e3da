"""Text of a PDF, page by page, read by pypdf in a process of its own.

A hostile or broken page can take hours or all memory. In a process of its own, it costs this document alone.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from shepherd import subprocess_sandbox
from shepherd.errors import DocumentError
from shepherd.installation import pip_install

__all__ = ["Pages", "read"]

Progress = Callable[[int, int], None]

# A usual page takes a hundredth of a second, the largest scanned drawings some seconds.
LONGEST_PAGE_S = 60.0
_MOST_MEMORY = 2 << 30
# PDFs can contain "fi" as one character, which a search for "fifth" doesn't match.
_LIGATURES = str.maketrans(
    {
        "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st",
        "\ufb06": "st",
    }
)  # fmt: skip
_DAMAGED = "it may be damaged; open it in a PDF viewer, and print it to a new PDF"


class Pages(NamedTuple):
    """Contents of a PDF; `starts` has the place in the text where each page begins."""

    title: str
    text: str
    starts: list[int]


def read(
    data: bytes,
    name: str,
    progress: Progress = lambda done, total: None,
    *,
    longest_page_s: float = LONGEST_PAGE_S,
) -> Pages:
    """Return title and text of a PDF; DocumentError if it is damaged, locked, empty or takes too long."""
    found = _Found(progress)
    if subprocess_sandbox.can_run():
        ending = subprocess_sandbox.stream(__name__, [], data, found.line, silence_s=longest_page_s)
        if ending.kind == "hung":
            page = len(found.pages) + 1
            raise DocumentError(
                f"{name}: page {page} of the PDF was not read within {longest_page_s:.0f} s",
                hint="leave it out, or print it to a new PDF",
            )
        if ending.kind == "refused":
            raise DocumentError(f"{name}: {ending.what}", hint=ending.hint)
        if ending.kind != "good":
            raise DocumentError(f"{name}: the PDF cannot be read ({ending.what})", hint=_DAMAGED)
    else:  # a frozen program has no interpreter to run
        try:
            for record in _records(data):
                found.take(record)
        except DocumentError as error:
            raise DocumentError(f"{name}: {error}", hint=error.hint) from error
    if not any(found.pages):
        raise DocumentError(f"{name}: the PDF has no text", hint="if it is a scan, run OCR on it first")
    return Pages(found.title, *_joined(found.pages))


class _Found:
    """Records that the process has written so far."""

    def __init__(self, progress: Progress) -> None:
        self.title = ""
        self.pages: list[str] = []
        self._total = 0
        self._progress = progress

    def line(self, line: bytes) -> None:
        """Parse a line of output."""
        try:
            self.take(json.loads(line))
        except ValueError:
            return  # output of a library

    def take(self, record: dict[str, Any]) -> None:
        """Add a record: title and number of pages first, then a page each."""
        if "pages" in record:
            self.title, self._total = str(record["title"]), int(record["pages"])
        elif "text" in record:
            self._progress(len(self.pages), self._total)
            self.pages.append(str(record["text"]))


def _joined(pages: list[str]) -> tuple[str, list[int]]:
    starts, place = [], 0
    for page in pages:
        starts.append(place)
        place += len(page) + 2
    return "\n\n".join(pages), starts


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield title and number of pages, then the text of each page; DocumentError without the file's name."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise DocumentError("PDF needs pypdf", hint=pip_install("pypdf")) from error
    # Hides pypdf's warnings about defects that it repairs.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentError("the PDF asks for a password", hint="save it without one")
        title = (reader.metadata.title or "") if reader.metadata else ""
        yield {"title": str(title), "pages": len(reader.pages)}
        for page in reader.pages:
            yield {"text": page.extract_text().strip().translate(_LIGATURES)}
    except DocumentError:
        raise
    except MemoryError as error:
        raise DocumentError(
            f"the PDF needs more than {_MOST_MEMORY >> 30} GiB of memory", hint="print it to a new PDF"
        ) from error
    # pypdf raises all kinds of exceptions for broken files.
    except Exception as error:
        raise DocumentError("the PDF cannot be read", hint=_DAMAGED) from error


def _print_records() -> None:
    subprocess_sandbox.limit_memory(_MOST_MEMORY)
    for record in _records(sys.stdin.buffer.read()):
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(subprocess_sandbox.answer(_print_records))

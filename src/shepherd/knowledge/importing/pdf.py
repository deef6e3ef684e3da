"""The text of a PDF, page by page, by pypdf."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from shepherd.errors import DocumentError

__all__ = ["Pages", "read"]


class Pages(NamedTuple):
    """What was found; `starts` is where in the text each page begins."""

    title: str
    text: str
    starts: list[int]


def read(data: bytes, name: str, progress: Callable[[int, int], None] = lambda done, total: None) -> Pages:
    """Title and text of a PDF; DocumentError for one that is damaged, locked or has no text."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise DocumentError(f"{name}: PDF needs pypdf", hint="pip install pypdf") from error
    with _quiet():
        try:
            reader = PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise DocumentError(f"{name}: the PDF asks for a password", hint="save it without one")
            title = (reader.metadata.title or "") if reader.metadata else ""
            pages = []
            for done, page in enumerate(reader.pages):
                progress(done, len(reader.pages))
                pages.append(page.extract_text().strip())
        except DocumentError:
            raise
        # A PDF may be wrong in every way there is, and pypdf raises accordingly.
        except Exception as error:
            raise DocumentError(
                f"{name}: the PDF cannot be read ({type(error).__name__})", hint="is it damaged?"
            ) from error
    if not any(pages):
        raise DocumentError(f"{name}: the PDF has no text", hint="a scan has to be recognised (OCR) first")
    return Pages(str(title), *_joined(pages))


def _joined(pages: list[str]) -> tuple[str, list[int]]:
    starts, place = [], 0
    for page in pages:
        starts.append(place)
        place += len(page) + 2
    return "\n\n".join(pages), starts


@contextmanager
def _quiet() -> Iterator[None]:
    """Without pypdf's remarks about what it could mend."""
    logger = logging.getLogger("pypdf")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)

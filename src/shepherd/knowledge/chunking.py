"""Cuts a text into overlapping pieces: at paragraphs, else lines, else sentences, else words, else anywhere.

Pieces are spans of characters of the text as it is: nothing is trimmed or joined, so an offset is true.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["CHUNK_CHARS", "spans"]

CHUNK_CHARS = 1000

# In percent of the size: what a piece has in common with the one before.
_LEAST_OVERLAP, _MOST_OVERLAP = 15, 20
# From the best place to cut to the worst. A match is the gap: the piece before ends where it begins.
_GAPS = tuple(
    re.compile(gap)
    for gap in (
        r"\n[^\S\n]*\n\s*",
        r"\n\s*",
        # A full stop of CJK needs no blank after it.
        "(?:(?<=[.!?…])|(?<=[.!?…][\"')\\]»”\u2019]))\\s+|(?<=[。\uff01\uff1f｡])\\s*",
        r"\s+",
    )
)
_BLANKS = re.compile(r"\s*")
# A letter with more marks than this is cut.
_MOST_MARKS = 16


def spans(text: str, size: int = CHUNK_CHARS) -> list[tuple[int, int]]:
    """(start, end) of pieces of at most `size` characters, in order.

    Together they have every character that is not white space, and none begins or ends with white space.
    """
    if size < 20:
        raise ValueError(f"a piece has at least 20 characters, not {size}")
    return list(_pieces(text, size))


def _pieces(text: str, size: int) -> Iterator[tuple[int, int]]:
    least, most = size * _LEAST_OVERLAP // 100, size * _MOST_OVERLAP // 100
    last = len(text.rstrip())
    start = _after_blanks(text, 0)
    while last - start > size:
        end = _end(text, start, size)
        yield start, end
        start = _after_blanks(text, _overlap(text, end - most, end - least) if end - most > start else end)
    if start < last:
        yield start, last


def _end(text: str, start: int, size: int) -> int:
    """Where the piece from `start` ends: the last of the best gaps in its second half."""
    low, high = start + size // 2, start + size
    for gap in _GAPS:
        places = [found.start() for found in gap.finditer(text, low + 1, high + 1)]
        if places:
            # A gap may reach back over what is blank before it.
            return start + len(text[start : places[-1]].rstrip())
    return start + len(text[start : _between_letters(text, high)].rstrip())


def _overlap(text: str, low: int, high: int) -> int:
    """Where the next piece begins: after the first of the best gaps."""
    for gap in _GAPS:
        found = gap.search(text, low, high)
        if found is not None and found.end() <= high:
            return found.end()
    return _between_letters(text, low)


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return start if blanks is None else blanks.end()


def _between_letters(text: str, index: int) -> int:
    """The place at or a little before `index` that parts no letter from its marks."""
    for place in range(index, max(index - _MOST_MARKS, 0), -1):
        if place >= len(text) or not (unicodedata.combining(text[place]) or text[place] == "\u200d"):
            return place
    return index

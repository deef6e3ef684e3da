"""Search for a word in the bytes of any file, whatever the file's format.

A text can be stored as UTF-8 or UTF-16, as JSON with escapes, in another case, or with its accents apart. A
compressed or encrypted file hides it, and an index can share the beginning of a word with the word before.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

__all__ = ["WordSearch"]

_BLOCK_BYTES = 1 << 22
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
# A match with so many bytes of a known text beside it is what is left of that text.
_BESIDE_BYTES = 16


class WordSearch:
    """Finds a word, or several words with single blanks between them, in bytes and in texts.

    `known` are texts that files have though nobody said them, such as the statements of a database's schema:
    in `edges_fromEdges` there is no Rome.

    >>> WordSearch("Größe").in_bytes(b'{"said": "DIE GR\\\\u00d6SSE"}')
    True
    """

    def __init__(self, word: str, known: Iterable[bytes] = ()) -> None:
        self.word = word
        forms = {unicodedata.normalize(form, word) for form in ("NFC", "NFD")} | {word}
        patterns = {_pattern(form, encoding) for form in forms for encoding in _ENCODINGS}
        self._pattern = re.compile(b"|".join(sorted(patterns)), re.IGNORECASE)
        # Texts without other letters are found by the fast search of bytes.
        self._needles = [word.lower().encode(encoding) for encoding in _ENCODINGS] if word.isascii() else []
        self._known = sorted(known, key=len, reverse=True)
        self._parts = {_around(text, found) for text in self._known for found in self._pattern.finditer(text)}
        self._longest = max(map(len, self._known), default=0) + _BESIDE_BYTES
        self._overlap = 16 * len(word) + 16

    def in_bytes(self, data: bytes) -> bool:
        """Return whether the word is in these bytes."""
        return self._has(data) and self._is_said(self._without_known(data), 0, len(data))

    @property
    def forms(self) -> list[str]:
        """The word as rows of a database can have it: with other letters in several cases, and as JSON."""
        forms = {unicodedata.normalize(form, self.word) for form in ("NFC", "NFD")}
        forms |= {case for form in forms for case in (form.lower(), form.upper(), form.title())}
        return sorted(forms | {json.dumps(form)[1:-1] for form in forms})

    def in_file(self, path: Path) -> bool:
        """Return whether the word is in a file, which is read piece by piece. Raises OSError."""
        kept, start = b"", 0
        with open(path, "rb", buffering=0) as file:
            block = file.read(_BLOCK_BYTES)
            while block:
                following = file.read(_BLOCK_BYTES)
                data = kept + block
                # A known text that is cut by the end of the piece is whole in the next one.
                end = max(len(data) - self._longest, 0) if following else len(data)
                if self._has(data):
                    data = self._without_known(data)
                    if self._is_said(data, start, end):
                        return True
                kept = data[-self._overlap - self._longest :]
                start = max(end - (len(data) - len(kept)), 0)
                block = following
        return False

    def _is_said(self, data: bytes, start: int, end: int) -> bool:
        """Return whether a match ends between two positions of data without known texts."""
        return any(
            start < found.end() <= end and not self._is_known(data, found)
            for found in self._pattern.finditer(data)
        )

    def _is_known(self, data: bytes, found: re.Match[bytes]) -> bool:
        """Return whether a match is in what is left of a known text, such as in the unused end of a page."""
        before, written, behind = _around(data, found)
        return any(
            written == part
            and _n_common(before[::-1], known_before[::-1]) + _n_common(behind, known_behind) >= _BESIDE_BYTES
            for known_before, part, known_behind in self._parts
        )

    def _without_known(self, data: bytes) -> bytes:
        for text in self._known:
            data = data.replace(text, bytes(len(text)))
        return data

    def _has(self, data: bytes) -> bool:
        if self._needles:
            folded = data.lower()
            if any(needle in folded for needle in self._needles):
                return True
            if b"\\" not in folded:
                return False
        return self._pattern.search(data) is not None


def _around(data: bytes, found: re.Match[bytes]) -> tuple[bytes, bytes, bytes]:
    """Return the bytes before a match, the match, and the bytes behind it."""
    start, end = found.span()
    return data[max(start - _BESIDE_BYTES, 0) : start], data[start:end], data[end : end + _BESIDE_BYTES]


def _n_common(one: bytes, other: bytes) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _pattern(word: str, encoding: str) -> bytes:
    return b"".join(_alternatives(letter, encoding) for letter in word)


def _alternatives(letter: str, encoding: str) -> bytes:
    """Return a pattern for a letter in each case, and as JSON escapes it."""
    cases = {letter, letter.lower(), letter.upper()}
    forms = {re.escape(case.encode(encoding)) for case in cases}
    if encoding == "utf-8":
        units = {case.encode("utf-16-be").hex() for case in cases}
        forms |= {
            b"".join(b"\\\\u" + unit[i : i + 4].encode() for i in range(0, len(unit), 4)) for unit in units
        }
        forms |= {rb"\\" + re.escape(case.encode()) for case in cases if case in '"\\/'}
    return b"(?:" + b"|".join(sorted(forms)) + b")"

"""Search for a word in the bytes of any file, whatever the file's format.

A text can be stored as UTF-8 or UTF-16, as JSON with escapes, in another case, or with its accents apart. A
compressed or encrypted file hides it, and an index can share the beginning of a word with the word before.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

__all__ = ["WordSearch"]

_BLOCK_BYTES = 1 << 22
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")


class WordSearch:
    """Finds a word, or several words with single blanks between them, in bytes and in texts.

    >>> WordSearch("Größe").in_bytes(b'{"said": "DIE GR\\\\u00d6SSE"}')
    True
    """

    def __init__(self, word: str) -> None:
        self.word = word
        forms = {unicodedata.normalize(form, word) for form in ("NFC", "NFD")} | {word}
        patterns = {_pattern(form, encoding) for form in forms for encoding in _ENCODINGS}
        self._find = re.compile(b"|".join(sorted(patterns)), re.IGNORECASE).search
        # Texts without other letters are found by the fast search of bytes.
        self._needles = [word.lower().encode(encoding) for encoding in _ENCODINGS] if word.isascii() else []
        self._overlap = 16 * len(word) + 16

    def in_bytes(self, data: bytes) -> bool:
        """Return whether the word is in these bytes."""
        if self._needles:
            folded = data.lower()
            if any(needle in folded for needle in self._needles):
                return True
            if b"\\" not in folded:
                return False
        return self._find(data) is not None

    @property
    def forms(self) -> list[str]:
        """The word as rows of a database can have it: with other letters in several cases, and as JSON."""
        forms = {unicodedata.normalize(form, self.word) for form in ("NFC", "NFD")}
        forms |= {case for form in forms for case in (form.lower(), form.upper(), form.title())}
        return sorted(forms | {json.dumps(form)[1:-1] for form in forms})

    def in_file(self, path: Path) -> bool:
        """Return whether the word is in a file, which is read piece by piece. Raises OSError."""
        return any(self.in_bytes(data) for data in self._pieces(path))

    def _pieces(self, path: Path) -> Iterator[bytes]:
        kept = b""
        with open(path, "rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                data = kept + block
                yield data
                kept = data[-self._overlap :]


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

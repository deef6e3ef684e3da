"""A message cut into its sentences: a small model errs less over one at a time.

This file imports nothing of the package: the small model is measured with it where that is not installed.
"""

from __future__ import annotations

import re

__all__ = ["sentences"]

# A full stop behind one of these ends no sentence.
_SHORTENED = re.compile(
    r"dr|mr|mrs|ms|prof|st|jr|sr|inc|ltd|co|corp|no|vs|etc|approx|[^\W\d_]", re.IGNORECASE
)
_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\s*\n\s*")
_LAST_WORD = re.compile(r"(\w+)\.$")


def sentences(text: str) -> list[str]:
    """The sentences in their order; what has neither letter nor digit stays with the one before."""
    found: list[str] = []
    begin = 0
    for end in _END.finditer(text):
        sentence, rest = text[begin : end.start()].strip(), text[end.end() :]
        if _goes_on(sentence) or not re.match(r"\W{0,3}\w", rest):
            continue
        found.append(text[begin : end.end()].strip())
        begin = end.end()
    found.append(text[begin:].strip())
    return found


def _goes_on(sentence: str) -> bool:
    """Whether the full stop belongs to the word before it."""
    word = _LAST_WORD.search(sentence)
    return word is not None and _SHORTENED.fullmatch(word[1]) is not None

"""Rules that are tried only where they can begin.

`re` tries a pattern of many alternatives at every character, and if case does not count, none of its short
cuts applies. Nearly all rules begin with one of a few strings, and looking for those in a text in small
letters takes a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

from shepherd.pattern_index import needed_words
from shepherd.secret_detection.vocabulary import lowered

__all__ = ["Anchored", "folded"]

_parser: ModuleType
try:
    from re import _parser  # type: ignore[attr-defined, no-redef]
except ImportError:  # Python 3.10
    import sre_parse as _parser

# What `re` takes for an i or an s as well, ignoring case, and lower() does not make one.
_OTHERS = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"))
# Letters that have others of this kind, in scripts of which few words are in the rules.
_UNSURE = re.compile(
    "[\u0370-\u03ff\u1f00-\u1fff\u1c80-\u1c8f\u0432\u0434\u043e\u0441\u0442\u044a\u0463\u00b5\u00df]"
)
_LONGEST, _MOST = 4, 400
# In a shorter text a pattern is searched for as it is: finding out how its matches begin takes longer.
_SHORT = 600
# Looking for so many strings, one after the other, is faster than looking for all beginnings at once.
_MOST_NEEDED = 16


def folded(text: str) -> str:
    """Return a text of the same length in small letters, in which the beginnings of rules are looked for."""
    lower = lowered(text)
    if not lower.isascii():
        for other, letter in _OTHERS:
            lower = lower.replace(other, letter)
    return lower


class Anchored:
    """A pattern and the strings with which its matches begin; finds what the pattern alone would find.

    A pattern that can begin with anything is searched for as usual.
    """

    def __init__(self, pattern: str, flags: int = re.IGNORECASE) -> None:
        self._source, self._flags = pattern, flags

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self._source, self._flags)

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """Strings in small letters, with one of which each match begins; none if that is not known."""
        strings = _beginnings(_parser.parse(self._source, self._flags & ~re.DEBUG)) or {("", False)}
        found = frozenset(string for string, _ in strings)
        return frozenset() if "" in found else found

    @cached_property
    def _needed(self) -> frozenset[str]:
        """Strings in small letters, of which each text with a match has one; none if they are many."""
        words = needed_words(self._source, self._flags)
        return words if len(words) <= _MOST_NEEDED else frozenset()

    @cached_property
    def _anchors(self) -> re.Pattern[str] | None:
        return _one_of(self.beginnings) if self.beginnings else None

    def finditer(self, text: str, in_small: str) -> Iterator[re.Match[str]]:
        """Yield what the pattern finds in a text; `in_small` is the folded text."""
        if len(text) < _SHORT:
            yield from self.pattern.finditer(text)
            return
        if self._needed and not any(word in in_small for word in self._needed):
            return
        if self._anchors is None:
            yield from self.pattern.finditer(text)
            return
        match, end = self.pattern.match, 0
        for anchor in self._anchors.finditer(in_small):
            start = anchor.start()
            if start >= end and (found := match(text, start)):
                end = found.end()
                yield found


def _one_of(strings: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of one character with which one of the strings begins, so that none hides another."""
    by_first: dict[str, list[str]] = {}
    for string in sorted(strings):
        by_first.setdefault(string[0], []).append(string[1:])
    branches = []
    for first, rests in by_first.items():
        shortest = [rest for rest in rests if not any(rest != one and rest.startswith(one) for one in rests)]
        ahead = "" if "" in shortest else f"(?={'|'.join(map(re.escape, shortest))})"
        branches.append(re.escape(first) + ahead)
    return re.compile("|".join(branches))


# A string with which a match begins, and whether the rest of the pattern could make it longer.
_Strings = set[tuple[str, bool]]


def _beginnings(sequence: Sequence[tuple[Any, Any]]) -> _Strings | None:
    """Return the strings with which a match of parsed items begins; None if they are not known."""
    strings: _Strings = {("", True)}
    for kind, value in sequence:
        added = _of_item(str(kind), value)
        if added is None:
            strings = {(string, False) for string, _ in strings}
        else:
            longer = {(string, False) for string, is_open in strings if not is_open}
            longer |= {
                _cut(string + more, goes_on)
                for string, is_open in strings
                if is_open
                for more, goes_on in added
            }
            strings = longer if len(longer) <= _MOST else {(string, False) for string, _ in strings}
        if not any(is_open for _, is_open in strings):
            break
    return strings


def _cut(string: str, is_open: bool) -> tuple[str, bool]:
    return string[:_LONGEST], is_open and len(string) < _LONGEST


def _of_item(kind: str, value: Any) -> _Strings | None:
    if kind in ("ASSERT", "ASSERT_NOT", "AT"):
        return {("", True)}
    if kind == "LITERAL":
        return _letter(value)
    if kind == "IN":
        letters: _Strings = set()
        for part, of_part in value:
            if str(part) != "LITERAL" or (one := _letter(of_part)) is None:
                return None
            letters |= one
        return letters
    if kind == "SUBPATTERN":
        return _beginnings(value[3])
    if kind == "ATOMIC_GROUP":
        return _beginnings(value)
    if kind == "BRANCH":
        found: _Strings = set()
        for branch in value[1]:
            if (strings := _beginnings(branch)) is None:
                return None
            found |= strings
        return found
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, repeated = value
        strings = _beginnings(repeated)
        if strings is None:
            return None
        # Once, and then whatever comes.
        once = strings if (least, most) in ((0, 1), (1, 1)) else {(string, False) for string, _ in strings}
        return once | {("", True)} if least == 0 else once
    return None


def _letter(code: int) -> _Strings | None:
    letter = chr(code).lower()
    if letter == "\u0131":
        letter = "i"
    return None if len(letter) != 1 or _UNSURE.match(letter) else {(letter, True)}

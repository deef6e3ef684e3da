"""Many regular expressions, of which a text can match few: those whose words it has.

Hundreds of wordings are looked for in every message, one after the other, and nearly all of them need a word
that the message lacks. An index finds the others by that word. It only ever leaves out what cannot match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

__all__ = ["PatternIndex", "Replacements", "needed_words"]

_parser: ModuleType
try:
    from re import _parser  # type: ignore[attr-defined, no-redef]
except ImportError:  # Python 3.10
    import sre_parse as _parser

# Characters that are found in a text in lower case wherever `re`, ignoring case, finds them.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789' -äöüàâçéèêëîïôûñáíóúãõìòùåæø")
# What `re` takes for an i or an s as well, and lower() does not make one.
_FOLDED = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s"})
_SHORTEST = 2
_BEGINNING = 3
# How often texts have a string of so many letters, roughly; longer ones are rare. Of the strings that a
# pattern needs, the rarest say most.
_FREQUENCY = {2: 24, 3: 8, 4: 3}
_FREQUENT = frozenset(
    ("the", "and", "you", "for", "that", "with", "have", "are", "this", "not", "but", "what", "can", "i'm")
)
_MOST_FREQUENT = 24
# More alternatives are hardly ever all missing.
_MOST_WORDS = 80


class PatternIndex:
    """The numbers of the patterns that may match in a text, by the words that each of them needs.

    `needed` has the words of each pattern as `needed_words` returns them.
    """

    def __init__(self, needed: Iterable[frozenset[str]]) -> None:
        self._always = 0
        numbers: dict[str, int] = {}
        for n, words in enumerate(needed):
            if not words:
                self._always |= 1 << n
            for word in words:
                numbers[word] = numbers.get(word, 0) | 1 << n
        # By their first letters, so that only a few are looked for in a text.
        self._short: list[tuple[str, int]] = []
        self._long: dict[str, list[tuple[str, int]]] = {}
        for word, of_word in numbers.items():
            beginning = word[:_BEGINNING]
            same = self._long.setdefault(beginning, []) if len(beginning) == _BEGINNING else self._short
            same.append((word, of_word))

    def among(self, text: str) -> int:
        """Return the patterns that may match in a text, as the bits of a number."""
        folded = text.translate(_FOLDED).lower() if not text.isascii() else text.lower()
        beginnings = {folded[i : i + _BEGINNING] for i in range(len(folded) - _BEGINNING + 1)}
        found = self._always
        for words in (self._short, *map(self._long.__getitem__, beginnings & self._long.keys())):
            for word, numbers in words:
                if word in folded:
                    found |= numbers
        return found

    def possible(self, text: str) -> Iterator[int]:
        """Yield the numbers of the patterns that may match in a text, rising."""
        return _bits(self.among(text))


class Replacements:
    """Patterns that are replaced one after the other, each in what the ones before have left.

    `needed` has the words of each pattern; `replace` replaces the n-th in a text.
    """

    def __init__(self, needed: Iterable[frozenset[str]], replace: Callable[[int, str], str]) -> None:
        self._index = PatternIndex(needed)
        self._replace = replace

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], flags: int = re.IGNORECASE) -> Replacements:
        """Return the replacements of patterns by templates; few of them are ever compiled."""
        compiled: dict[int, re.Pattern[str]] = {}

        def replace(n: int, text: str) -> str:
            pattern, template = pairs[n]
            if n not in compiled:
                compiled[n] = re.compile(pattern, flags)
            return compiled[n].sub(template, text)

        return cls([needed_words(pattern, flags) for pattern, _ in pairs], replace)

    def apply(self, text: str, first: int = 0) -> str:
        """Return the text with all patterns from the `first` on replaced."""
        waiting = self._index.among(text) >> first << first
        while waiting:
            n = (waiting & -waiting).bit_length() - 1
            changed = self._replace(n, text)
            waiting &= waiting - 1
            if changed != text:
                # What stands there now may have words of others.
                text, waiting = changed, self._index.among(changed) >> n + 1 << n + 1
        return text


def _bits(number: int) -> Iterator[int]:
    while number:
        yield (number & -number).bit_length() - 1
        number &= number - 1


def needed_words(pattern: str, flags: int = re.IGNORECASE) -> frozenset[str]:
    """Return strings in lower case of which every text has one in which the pattern matches.

    They are empty if there are none. The best ones are chosen: few, and such as are rare in texts.
    """
    try:
        return _needed(_parser.parse(pattern, flags & ~re.DEBUG)) or frozenset()
    except (re.error, RecursionError):
        return frozenset()


def _needed(sequence: Iterable[tuple[Any, Any]]) -> frozenset[str] | None:
    """Return the best strings of a sequence of parsed items; None if it may match without any."""
    found: list[frozenset[str]] = []
    run = ""
    for kind, value in sequence:
        letter = chr(value).lower() if kind is _parser.LITERAL else ""
        if letter in _PLAIN:
            run += letter
            continue
        found.append(frozenset((run,)))
        run = ""
        found.append(_needed_by_item(str(kind), value) or frozenset())
    found.append(frozenset((run,)))
    good = [
        words for words in found if words and len(words) <= _MOST_WORDS and min(map(len, words)) >= _SHORTEST
    ]
    return min(good, key=_frequency, default=None)


def _needed_by_item(kind: str, value: Any) -> frozenset[str] | None:
    if kind == "SUBPATTERN":
        return _needed(value[3])
    if kind == "ATOMIC_GROUP":
        return _needed(value)
    # What has to follow, or to stand before, is in the text as well.
    if kind == "ASSERT":
        return _needed(value[1])
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _needed(value[2]) if value[0] else None
    if kind == "BRANCH":
        each = [_needed(branch) for branch in value[1]]
        return None if None in each else frozenset().union(*filter(None, each))
    return None


def _frequency(words: frozenset[str]) -> int:
    return sum(
        _MOST_FREQUENT if word.strip() in _FREQUENT else _FREQUENCY.get(len(word), 1) for word in words
    )

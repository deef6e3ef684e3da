"""Index of names: the entities that a run of words can name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["ALIAS", "CANONICAL", "PART", "WORD", "Entry", "NameIndex", "is_short_for", "key_of"]

# Ranks of a name: the whole name, another name, a part of it. Lower is more certain.
CANONICAL = 0
ALIAS = 1
PART = 2

# A word of a name: Node.js, .NET, C++, J.K, AT&T, O'Brien. A full stop without a blank after it ("Anna.She")
# still ends the word.
WORD = re.compile(
    r"(?:(?<![\w.])\.(?=[^\W\d_]))?"
    r"[^\W_]+(?:(?:[-'\u2019&]|\.(?![A-Z][a-z]))[^\W_]+)*"
    r"(?:(?:\+\+(?![^\W\d_]|\+)|[+#](?![^\W_]|[+#]))(?:['\u2019]s\b)?)?"
)
_POSSESSIVE = re.compile(r"'s$")
# Endings that names are used without: "Acme Corp" is called Acme.
_TRIMMED = frozenset(("inc", "corp", "corporation", "ltd", "llc", "gmbh", "ag", "plc", "company", "co"))


class Entry(NamedTuple):
    """One name of one entity."""

    words: tuple[str, ...]
    id: int
    rank: int


def key_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in their compared form; empty if it has none."""
    # Before casefold(), since WORD needs the capital after a full stop.
    words = tuple(_POSSESSIVE.sub("", word.casefold().replace("\u2019", "'")) for word in WORD.findall(name))
    return words[1:] if len(words) > 1 and words[0] == "the" else words


def is_short_for(words: Sequence[str], short: Sequence[str]) -> bool:
    """Return whether `short` is `words` without a legal ending: Acme for Acme Corp."""
    n = len(short)
    return len(words) > n and tuple(words[:n]) == tuple(short) and all(one in _TRIMMED for one in words[n:])


class NameIndex:
    """Ids by name. Cheap to copy, since entries are immutable."""

    def __init__(self, entries: dict[str, tuple[Entry, ...]] | None = None) -> None:
        self._entries = {} if entries is None else entries

    def copy(self) -> NameIndex:
        """Return an independent index of the same names."""
        return NameIndex(self._entries.copy())

    def add(self, entity_id: int, name: str, *, is_alias: bool = False, is_person: bool = False) -> None:
        """Add a name of an entity and, where that is usual, parts of it."""
        words = key_of(name)
        if not words:
            return
        self._put(Entry(words, entity_id, ALIAS if is_alias else CANONICAL))
        if len(words) > 1 and words[-1] in _TRIMMED:
            self._put(Entry(words[:-1], entity_id, PART))
        elif len(words) in (2, 3) and is_person:
            self._put(Entry(words[:1], entity_id, PART))
            self._put(Entry(words[-1:], entity_id, PART))

    def remove(self, entity_id: int, names: Sequence[str]) -> None:
        """Remove an entity's names."""
        for name in names:
            words = key_of(name)
            for first in {words[0], words[-1]} if words else ():
                kept = tuple(entry for entry in self._entries.get(first, ()) if entry.id != entity_id)
                if kept:
                    self._entries[first] = kept
                else:
                    self._entries.pop(first, None)

    def begins_with(self, word: str) -> bool:
        """Return whether a name begins with the word."""
        return word in self._entries

    def longest(self, words: Sequence[str], start: int) -> tuple[int, list[Entry]]:
        """Return the length of the longest name from `start` on, and its entries, the most certain first."""
        best: list[Entry] = []
        length = 0
        for entry in self._entries.get(words[start], ()):
            n = len(entry.words)
            if n < length or (n > 1 and tuple(words[start : start + n]) != entry.words):
                continue
            if n > length:
                best, length = [], n
            best.append(entry)
        best.sort(key=lambda entry: entry.rank)
        return length, best

    def find(self, name: str) -> list[Entry]:
        """Return the entries of a name, the most certain first."""
        words = key_of(name)
        found = [entry for entry in self._entries.get(words[0], ()) if entry.words == words] if words else []
        return sorted(found, key=lambda entry: entry.rank)

    def _put(self, entry: Entry) -> None:
        known = self._entries.get(entry.words[0], ())
        for other in known:
            if other.id == entry.id and other.words == entry.words and other.rank <= entry.rank:
                return
        self._entries[entry.words[0]] = (
            *(other for other in known if not (other.id == entry.id and other.words == entry.words)),
            entry,
        )

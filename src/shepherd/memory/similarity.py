"""Finds memories whose sets of keywords are nearly equal, without comparing every pair.

Two sets of words are alike when |x & y| / |x | y| (Jaccard) is at least t. Then k of the n - ceil(t n) + k
rarest of the n words of x are among as many of the rarest of y (prefix filtering; Chaudhuri, Ganti, Kaushik
2006). Rare words are in few sets, so few pairs are left to compare.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable

__all__ = ["NearDuplicates"]

# t, as a fraction: four fifths.
_ALIKE, _OF = 4, 5
# k: with 1, twenty times as many pairs are compared in ordinary text.
_SHARED = 3
# Of sets that have a word among their rarest, the nearest in size that are looked at: where that is one of
# thousands (lines of a log), all pairs would take hours.
_MOST_CANDIDATES = 200


class NearDuplicates:
    """Collects sets of words, then tells which are alike."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # of each word
        self._counts = array("I")  # how many sets have it
        self._ids: dict[bytes, list[int]] = defaultdict(list)  # of equal sets, by their sorted words

    def add(self, memory_id: int, words: Iterable[str]) -> None:
        """One more set."""
        numbers = sorted({self._numbers.setdefault(word, len(self._numbers)) for word in words})
        if not numbers:
            return
        self._counts.extend([0] * (len(self._numbers) - len(self._counts)))
        for number in numbers:
            self._counts[number] += 1
        self._ids[array("I", numbers).tobytes()].append(memory_id)

    def groups(self) -> list[tuple[int, ...]]:
        """Groups of ids that are alike, directly or through others, each in order of id."""
        sets = sorted(self._ids, key=lambda packed: (len(packed), packed))
        parents = list(range(len(sets)))
        for place, other in self._pairs(sets):
            parents[_root(parents, place)] = _root(parents, other)
        groups: dict[int, list[int]] = defaultdict(list)
        for place, packed in enumerate(sets):
            groups[_root(parents, place)] += self._ids[packed]
        return sorted(tuple(sorted(ids)) for ids in groups.values() if len(ids) > 1)

    def _pairs(self, sets: list[bytes]) -> Iterable[tuple[int, int]]:
        """Places of sets that are alike, the larger first; `sets` is in order of size."""
        by_word: dict[int, list[int]] = defaultdict(list)
        for place, packed in enumerate(sets):
            words = _unpacked(packed)
            least = -(-len(words) * _ALIKE // _OF)  # of words that a set alike must share, rounded up
            if least < _SHARED:
                continue  # so small that only an equal set is alike
            rarest = sorted(words, key=lambda word: (self._counts[word], word))[
                : len(words) - least + _SHARED
            ]
            candidates: Counter[int] = Counter()
            for word in rarest:
                candidates.update(by_word[word][-_MOST_CANDIDATES:])
                by_word[word].append(place)
            own = set(words)
            for other, n_shared in candidates.items():
                if n_shared >= _SHARED and _is_alike(own, _unpacked(sets[other])):
                    yield place, other


def _is_alike(words: set[int], others: array[int]) -> bool:
    shared = len(words.intersection(others))
    return _OF * shared >= _ALIKE * (len(words) + len(others) - shared)


def _unpacked(packed: bytes) -> array[int]:
    words = array("I")
    words.frombytes(packed)
    return words


def _root(parents: list[int], place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place

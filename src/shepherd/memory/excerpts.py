"""A long text as it is shown in a message: where the words are that it was found by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from shepherd._native.text import terms
from shepherd.escaping import ELLIPSIS, escape_text, storable

__all__ = ["escape_excerpt"]

# Of a text that is longer still, what stands further on is not looked for: this takes some milliseconds.
_LOOKED_THROUGH = 32_768
# A sentence or a few short ones; of a long one as much as ends with a space, or anywhere where there is none.
_PIECE = re.compile(
    r"(?s).{1,24}\Z|.{24,120}?(?:[.!?…][\"')\]]?\s|[\n\u3002\uff01\uff1f]|\Z)|.{1,120}(?<=\s)|.{1,120}"
)
# Shares of a keyword that stands in one piece alone; in whole numbers, so that sums can be compared.
_SHARES = 1 << 20


def escape_excerpt(text: str, limit: int, keywords: Collection[str] = ()) -> str:
    """`escape_text`, but what is too long may be shown from its middle, where most of the keywords are.

    The rarer a keyword is in the text, the more it counts. The beginning is shown when it has as much.
    """
    shown = escape_text(text, limit)
    if not keywords or not shown.endswith(ELLIPSIS) or len(escape_text(text, 2 * limit)) <= limit:
        return shown
    text = storable(text).strip()
    begin, end = _best(text, limit - 2 * len(ELLIPSIS), frozenset(keywords))
    if begin == 0:
        return shown
    after = ELLIPSIS if end < len(text) else ""
    part = text[begin:end].strip()
    return ELLIPSIS + escape_text(part, limit - len(ELLIPSIS) - len(after)).removesuffix(after) + after


def _best(text: str, room: int, keywords: frozenset[str]) -> tuple[int, int]:
    """From where to where the pieces stand that have most of the keywords, in at most `room` characters."""
    starts = [match.start() for match in _PIECE.finditer(text, 0, _LOOKED_THROUGH)]
    ends = [*starts[1:], min(len(text), _LOOKED_THROUGH)]
    # A line break is shown by two characters.
    sizes = [end - start + text.count("\n", start, end) for start, end in zip(starts, ends, strict=True)]
    found = [keywords.intersection(terms(text[start:end])) for start, end in zip(starts, ends, strict=True)]
    first, last = _best_run(sizes, found, room)
    return starts[first], ends[last]


def _best_run(sizes: Sequence[int], found: Sequence[frozenset[str]], room: int) -> tuple[int, int]:
    """The first and the last of the pieces to be shown."""
    n = len(sizes)
    n_pieces = Counter(word for words in found for word in words)
    inside: Counter[str] = Counter()
    worth = size = stop = 0
    runs = []
    for first in range(n):
        while stop < n and (size + sizes[stop] <= room or stop == first):
            for word in found[stop]:
                inside[word] += 1
                worth += _SHARES // n_pieces[word] if inside[word] == 1 else 0
            size += sizes[stop]
            stop += 1
        runs.append((worth, stop - 1))
        for word in found[first]:
            inside[word] -= 1
            worth -= _SHARES // n_pieces[word] if inside[word] == 0 else 0
        size -= sizes[first]
    most = max(worth for worth, _ in runs)
    if runs[0][0] == most:
        return 0, runs[0][1]
    # Of the runs with the same words the one in the middle: they stand in the midst of what is around them.
    first = end = next(i for i, (worth, _) in enumerate(runs) if worth == most)
    while end + 1 < n and runs[end + 1][0] == most:
        end += 1
    first = (first + end) // 2
    last = runs[first][1]
    left = room - sum(sizes[first : last + 1])
    while first > 0 and sizes[first - 1] <= left:
        first -= 1
        left -= sizes[first]
    return first, last

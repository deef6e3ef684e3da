"""The plain loop over all patterns, in the place of the index that leaves out what cannot match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shepherd.pattern_index import PatternIndex


@contextmanager
def without_an_index() -> Iterator[None]:
    """Within the block, every pattern may match in every text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PatternIndex, "among", lambda self, text: _all_of(self))
        yield


def _all_of(index: PatternIndex) -> int:
    found = index._always
    for words in (index._short, *index._long.values()):
        for _, numbers in words:
            found |= numbers
    return found

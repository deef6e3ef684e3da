"""The first seeds of the fuzz loops; tools/sanitize runs more of them."""

from __future__ import annotations

import pytest

from tests.native.fuzz import gguf, hot, store, text


@pytest.mark.parametrize(
    "loop", [gguf.run, hot.run, store.run, text.run], ids=["gguf", "hot", "store", "text"]
)
def test_the_first_seeds_find_nothing(loop) -> None:
    for seed in range(2):
        loop(seed)

"""Whether the benches run in small: SHEPHERD_BENCH_SMALL=1, to see in minutes that all of them work.

Everything is done as ever, peers and processes too, with a hundredth of the memories, turns, tokens and
rounds. What is right or wrong is asserted at any size. What is fast or slow is printed and not judged: where
there is little to do the peers are as fast, and figures of one round are none.
"""

from __future__ import annotations

import os
from typing import TypeVar

__all__ = ["IN_SMALL", "JUDGED", "count", "sized"]

IN_SMALL = os.environ.get("SHEPHERD_BENCH_SMALL", "") not in ("", "0")
# Whether a bar of speed, bytes or a ratio between contestants is asserted: `assert us < BAR or not JUDGED`.
JUDGED = not IN_SMALL

_Size = TypeVar("_Size")


def sized(full: _Size, small: _Size) -> _Size:
    """Return the full size, or with SHEPHERD_BENCH_SMALL the small one."""
    return small if IN_SMALL else full


def count(variable: str, full: int, small: int) -> int:
    """As `sized`; a number in the environment wins."""
    return int(os.environ.get(variable) or sized(full, small))

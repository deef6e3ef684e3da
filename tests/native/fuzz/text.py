"""Fuzz the tokenizer: any Unicode and hostile sequences, against the twin where that is fast enough."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable

from shepherd._native import text
from tests.native import twin_text

_MOST_COMPARED = 1500
_RANGES = (
    *((0x20, 0x7E), (0x20, 0x7E), (0, 0x1F), (0x80, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF)),
    *((0x900, 0x97F), (0xE00, 0xEFF), (0x1100, 0x11FF), (0x2000, 0x206F), (0x3000, 0x30FF), (0x4E00, 0x9FFF)),
    *((0xAC00, 0xD7A3), (0xD800, 0xDFFF), (0xF900, 0xFDFF), (0xFE00, 0xFFFF), (0x1F300, 0x1FAFF)),
    *((0x20000, 0x20100), (0xE0000, 0xE01EF), (0, sys.maxunicode)),
)
# What the grammar is about, glued without blanks.
_JOINTS = "' '' '' . .. - _ @ & + ++ # 's 're 'll \u2019 \u2010 \u200d \u0301 \x00 \ud800".split(" ")  # noqa: SIM905
_WORDS = "a I don't C++ c# .NET GPUs pdfs thus DNS me@x.com v2.31 running skies 日本 é ﬁ ŉ 가 ๆ 7".split()  # noqa: SIM905


def _characters(rng: random.Random) -> str:
    first, last = rng.choice(_RANGES)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randrange(40)))


def _glued(rng: random.Random) -> str:
    return "".join(rng.choice(_WORDS) + rng.choice(_JOINTS) for _ in range(rng.randrange(12)))


def _repeated(rng: random.Random) -> str:
    unit = rng.choice([_characters, _glued])(rng)[: rng.choice([1, 2, 3, 20])]
    return unit * rng.choice([2, 31, 63, 64, 65, 300])


def _tower(rng: random.Random) -> str:
    return rng.choice("aék日") + "".join(
        rng.choices("\u0301\u0323\u093c\u064b\uff9e", k=rng.choice([3, 29, 30, 31, 90]))
    )


def _near_a_seam(rng: random.Random) -> str:
    return "é" + "x" * (2048 + rng.randrange(-8, 8)) + rng.choice([" ", "\u3000", "x"])


_PARTS: tuple[Callable[[random.Random], str], ...] = (_characters, _glued, _repeated, _tower, _near_a_seam)


def sample(rng: random.Random) -> str:
    """Return a text of a few parts."""
    parts = rng.choices(_PARTS, (6, 6, 3, 2, 1), k=rng.choice([1, 2, 5, 20]))
    return rng.choice(["", " ", "."]).join(part(rng) for part in parts)


def run(seed: int) -> None:
    """Read a hundred texts in every way."""
    rng = random.Random(seed)
    for _ in range(100):
        one = sample(rng)
        found = text.terms(one)
        cap = rng.choice([0, 1, 3, 64, 1000])
        assert text.keywords(one, cap) == list(dict.fromkeys(found))[:cap]
        column, n = text.scoped(one, 1 << rng.randrange(40))
        assert n == len(found) == (column.count(b" ") + 1 if column else 0)
        text.match_expression(found, 3)
        text.match_expression([one], 3)
        text.keywords_compat(one)
        text.folded(one)
        text.stem(re.sub("[^a-z']", "", one))
        if len(one) <= _MOST_COMPARED:
            assert found == twin_text.terms(one), ascii(one)

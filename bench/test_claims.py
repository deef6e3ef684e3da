"""How long does the judge of claims look at a message, and does the time stay linear for hostile text?

Learning judges each line of a user on the thread in the background. Measured are a sentence, a long paste,
and texts that repeat what the patterns begin with: twice the text may take three times as long.

    python -m pytest bench/test_claims.py --benchmark-only -s
"""

from __future__ import annotations

import time
from typing import Any

from bench.small import JUDGED, sized
from shepherd.claims import learned

ROUNDS = sized(20, 2)
MOST_RATIO = 3.0
MOST_PASTE_MS = 3.0
SENTENCE = (
    "hi, I'm Ada, I live in Ulm and I work at Bosch. The report says that we should move on, but I doubt it. "
)
HOSTILE = (
    "i ", "i'm ", "my a ", "my dog ", ", ", "and i ", "i have a a a ", "i now really ", "a-", "a=b ",
    '"a ', "{[", "A b ", ". ", "for my ", "born in ", "im not A ",
)  # fmt: skip
CLAIMS = {"name": "Ada", "location": "Ulm", "employer": "Bosch"}


def milliseconds(text: str) -> float:
    """Return the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        learned(CLAIMS, [text])
        best = min(best, time.perf_counter() - begin)
    return best * 1000


def test_time_of_judging(benchmark: Any) -> None:
    benchmark.pedantic(learned, (CLAIMS, [SENTENCE]), rounds=ROUNDS)
    assert learned(CLAIMS, [SENTENCE])[0]
    paste = milliseconds(SENTENCE * 100)
    print(f"\na sentence: {milliseconds(SENTENCE):.2f} ms, a hundred: {paste:.2f} ms")
    assert paste < MOST_PASTE_MS or not JUDGED
    for start in HOSTILE:
        once, twice = (milliseconds((start * 4000)[:n]) for n in (1900, 3800))
        print(f"{start!r}: {once:.2f} ms for 1,900 characters, {twice:.2f} ms for 3,800")
        assert twice < MOST_RATIO * once or not JUDGED

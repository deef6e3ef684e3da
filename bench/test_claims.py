"""How long does the judge of claims look at a message, and does the time stay linear for hostile text?

Learning judges each line of a user on the thread in the background. Measured are a sentence, a long paste,
and texts that repeat what the patterns begin with: twice the text may take three times as long.

The second question is what the index of patterns saves: its peer tries every pattern in every message, finds
the same, and has to take several times as long.

    python -m pytest bench/test_claims.py --benchmark-only -s
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from bench.small import JUDGED, sized
from shepherd.claims.judge import learned
from shepherd.claims.statements import assertions
from shepherd.prompt.concepts import content_words
from tests.claims.lines import lines_of
from tests.claims.plain_patterns import without_an_index

ROUNDS = sized(20, 2)
MOST_RATIO = 3.0
MOST_PASTE_MS = 3.0
LEAST_GAIN = {"assertions": 4.0, "content_words": 2.0}
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


def _answers(messages: list[str], find: Callable[[str], Any]) -> tuple[list[Any], float]:
    """Return what is found in each message, and the sum of the best times of each, in milliseconds of CPU."""
    best = [float("inf")] * len(messages)
    found: list[Any] = []
    for _ in range(sized(4, 2)):
        found = []
        for n, message in enumerate(messages):
            begin = time.thread_time()
            found.append(find(message))
            best[n] = min(best[n], time.thread_time() - begin)
    return found, 1000 * sum(best)


@pytest.mark.parametrize("find", [assertions, content_words])
def test_what_the_index_of_patterns_saves(benchmark: Any, find: Callable[[str], Any]) -> None:
    messages = [line["say"] for line in lines_of("corpus.jsonl", "none", "want", "ended", "secret")]
    messages = messages[:: sized(16, 120)]

    found, took = benchmark.pedantic(_answers, (messages, find), rounds=1)
    with without_an_index():
        expected, plain = _answers(messages, find)

    ours, theirs = took / len(messages), plain / len(messages)
    print(f"\n{find.__name__}: {ours:.3f} ms a message, every pattern {theirs:.3f} ms: {plain / took:.1f}")
    assert found == expected
    assert plain > LEAST_GAIN[find.__name__] * took or not JUDGED

"""The lines of memory where there is no room for all of them: fewer results, then the facts alone."""

from __future__ import annotations

import pytest

from shepherd.memory.injection_format import facts_block, render_tail
from shepherd.prompt.gathering import memory_part, shown_injection
from shepherd.types import Fact, Injection, SearchResult

FACTS = (Fact("editor", "a | b ] c", 0, 0), Fact("name", "Steve, the | first", 0, 0))
RESULTS = tuple(
    SearchResult(n, f"question {n} | or [context: {n}", f"answer\n{n} | x", 0, 1.0, 1.0, 0.0)
    for n in range(3)
)


@pytest.mark.parametrize("facts", [(), FACTS])
@pytest.mark.parametrize("n_results", [0, 1, 2, 3])
def test_shorter_forms_are_the_tails_of_fewer_results(facts, n_results):
    def tail(n):
        return render_tail(facts_block(facts), RESULTS[:n])

    injection = Injection(tail(n_results), facts, RESULTS[:n_results])

    part = memory_part(injection)

    assert part.text == tail(n_results).removeprefix("\n\n")
    fewer = [tail(n).removeprefix("\n\n") for n in range(n_results - 1, -1, -1)]
    assert list(part.shorter) == [text for text in fewer if text]


def test_what_is_shown_of_an_injection_is_said():
    injection = Injection(render_tail(facts_block(FACTS), RESULTS), FACTS, RESULTS)
    part = memory_part(injection)

    assert shown_injection(injection, part) == injection
    assert shown_injection(injection, None).facts == ()
    for n, text in enumerate(reversed(part.shorter)):
        shown = type(part)("memory", "memory", text)
        assert shown_injection(injection, shown).results == RESULTS[:n]

"""The lines of memory where there is no room for all of them: fewer results, then the facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shepherd.memory.injection_format import facts_block, fewer_facts, render_tail
from shepherd.prompt.allocation import Request, Sharing, make_plan
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


def test_in_order_of_time_the_worst_memory_is_left_out_first():
    by_score = [replace(result, score=score) for result, score in zip(RESULTS, (0.2, 0.9, 0.5), strict=True)]
    injection = Injection(render_tail(facts_block(FACTS), by_score), FACTS, tuple(by_score))
    part = memory_part(injection)

    kept = [by_score[1:], by_score[1:2]]
    assert list(part.shorter) == [
        render_tail(facts_block(FACTS), results).removeprefix("\n\n") for results in (*kept, [])
    ]
    for text, results in zip(part.shorter, kept, strict=False):
        assert shown_injection(injection, type(part)("memory", "memory", text)).results == tuple(results)


def test_facts_line_beyond_its_fixed_share_shows_the_latest_changed_facts():
    facts = tuple(Fact(f"key {n:02}", f"value, with a comma {n}", 0, (n * 7) % 40) for n in range(40))
    block = facts_block(facts)
    injection = Injection(f"\n\n{block}", facts, (), fewer_facts=fewer_facts(facts))
    part = memory_part(injection)
    request = Request(10_000, 0, [], [part], Sharing("fixed", {"memory": 5, "history": 95}))

    plan = make_plan(request, len)

    [shown] = plan.of("memory")
    assert 350 < shown.tokens <= 500 < len(block)
    assert not plan.left_out
    kept = shown_injection(injection, shown)
    assert shown.text == facts_block(kept.facts)
    assert kept.results == ()
    newest = sorted(facts, key=lambda fact: -fact.updated_at)[: len(kept.facts)]
    assert set(kept.facts) == set(newest)
    assert list(kept.facts) == [fact for fact in facts if fact in kept.facts]


def test_single_fact_beyond_its_share_is_cut():
    fact = Fact("address", "a long way from here, " * 15, 0, 0)
    injection = Injection(f"\n\n{facts_block([fact])}", (fact,), RESULTS, fewer_facts=fewer_facts([fact]))

    [shown] = make_plan(
        Request(1000, 0, [], [memory_part(injection)], Sharing("fixed", {"memory": 10, "history": 90})), len
    ).of("memory")

    assert shown.text.startswith("[facts: address=a long way from here, a long")
    assert shown.text.endswith("…]")
    assert shown_injection(injection, shown).facts == (fact,)


def test_short_facts_have_no_form_that_is_not_shorter():
    assert fewer_facts(()) == ()
    assert fewer_facts((Fact("name", "Ann", 0, 0),)) == ()
    assert [text for text, _ in fewer_facts((Fact("a", "1", 0, 5), Fact("b", "2", 0, 9)))] == ["[facts: b=2]"]


def test_the_facts_alone_keep_the_instructions():
    facts = (Fact("instructions", "never use emoji", 0, 0), Fact("name", "Ann", 0, 0))
    block = facts_block(facts)
    injection = Injection(render_tail(block, RESULTS), facts, RESULTS)

    assert memory_part(injection).shorter[-1] == block

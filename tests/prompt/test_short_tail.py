"""The short tail for very small models: what the message is about, in the same bytes as always."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shepherd.config import Config
from shepherd.memory.injection_format import facts_block, fewer_facts, render_tail, with_past_facts
from shepherd.prompt.gathering import (
    QUERY_CHARS,
    Gatherer,
    memory_part,
    short_injection,
    shown_injection,
)
from shepherd.prompt.plan import Part
from shepherd.prompt.system_prompt import Snapshot, SystemPrompt
from shepherd.types import Fact, Injection, SearchResult

VALUES = {
    "allergy": "wasp stings",
    "bike": "Brompton",
    "cat_name": "Mingau",
    "employer": "Casa do Som",
    "job": "luthier",
    "laptop": "ThinkPad X13",
    "name": "Marta | Silva",
}
# In key order, as they come; the last is the newest.
FACTS = tuple(Fact(key, value, n, n) for n, (key, value) in enumerate(sorted(VALUES.items())))
LONG = "We moved the rehearsal to 19:30 because the parish hall was locked. " * 4


def result(number: int, question: str, answer: str = "Noted.") -> SearchResult:
    return SearchResult(number, question, answer, 0, 1.0, 1.0, 0.0)


def injection(*results: SearchResult, facts: tuple[Fact, ...] = FACTS, line: str = "") -> Injection:
    tail = render_tail(line or facts_block(facts), results)
    return Injection(tail, facts, results, fewer_facts=fewer_facts(facts))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("What's my cat called?", "cat_name"),
        ("Where do I work?", "employer"),
        ("What am I allergic to?", "allergy"),
        ("That allergic reaction again!", "allergy"),
        ("Someone stole my bike.", "bike"),
    ],
)
def test_facts_that_the_message_is_about_come_before_the_newest(text, key):
    short = short_injection(injection(), text)

    assert len(short.facts) == 4
    assert {key, "name"} <= {fact.key for fact in short.facts}
    assert short.tail == render_tail(facts_block(short.facts), ())


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("¿Cómo se llama mi mujer?", "wife_name"),
        ("Wie alt ist meine Tochter?", "daughter_age"),
        ("Comment s'appelle mon chat ?", "cat_name"),
    ],
)
def test_facts_about_somebody_are_kept_in_whatever_language_they_are_asked_for(text, key):
    others = (Fact("daughter_age", "9", 0, 0), Fact("wife_name", "Carmen", 0, 0))

    assert key in {fact.key for fact in short_injection(injection(facts=(*FACTS, *others)), text).facts}


def test_message_about_everything_keeps_all_facts():
    assert short_injection(injection(), "What do you know about me?") == injection()


def test_best_memory_stays_and_more_of_them_if_they_are_short():
    brief = [result(n, f"I like tea {n}.") for n in range(3)]
    long = [result(n, LONG) for n in range(3)]

    assert short_injection(injection(*brief, facts=()), "tea?") == injection(*brief, facts=())
    assert short_injection(injection(*long, facts=()), "hall?") == injection(long[0], facts=())
    both = short_injection(injection(*brief[:2], long[0]), "What is my job?")
    assert both.results == tuple(brief[:2])
    assert both.tail == render_tail(facts_block(both.facts), brief[:2])


def test_best_memories_stay_in_order_of_time():
    worst, best, second = (
        replace(result(n, text), score=score)
        for n, (text, score) in enumerate([(LONG, 0.1), ("Tea at two.", 0.9), ("Tea at four.", 0.5)])
    )

    short = short_injection(injection(worst, best, second, facts=()), "tea?")
    assert short == injection(best, second, facts=())
    assert short_injection(injection(second, best, worst, facts=()), "tea?") == injection(
        second, best, facts=()
    )


def test_each_of_several_questions_keeps_its_best_memory():
    first, second, third = (result(n, f"{n} {LONG}") for n in range(3))
    whole = injection(first, second, third, facts=())
    each = [injection(first, third, facts=()), injection(second, facts=()), injection(first, facts=())]

    short = short_injection(whole, "tea? hall? tea?", each)
    assert short == injection(first, second, facts=())


def test_facts_of_another_time_stay():
    line = with_past_facts(facts_block(FACTS), [("job (2019)", "baker")])
    whole = injection(result(1, LONG), line=line)

    assert short_injection(whole, "What was my job in 2019?") == whole


def test_instructions_are_left_out_unless_they_are_asked_for():
    told = Fact("instructions", "answer in verse", 200, 200)
    facts = tuple(sorted((*FACTS[:2], told), key=lambda fact: fact.key))

    short = short_injection(injection(result(1, LONG), facts=facts), "What is my job?")
    assert short == injection(result(1, LONG), facts=FACTS[:2])
    assert short_injection(injection(facts=(told,)), "What is my job?").tail == ""
    assert "answer in verse" in short_injection(injection(facts=facts), "Which instructions do I have?").tail


def test_what_finally_fits_is_known_of_each_shorter_form():
    short = short_injection(
        injection(result(1, "I like tea."), result(2, "I like it hot.")), "What is my job?"
    )
    part = memory_part(short)

    for text in part.shorter:
        shown = shown_injection(short, Part("memory", "memory", text))
        facts = text.partition("\n")[0]
        assert facts_block(shown.facts) == facts
        assert len(shown.results) == text.count("User: ")


def test_what_is_asked_far_behind_the_beginning_of_a_message_is_not_looked_for():
    gatherer = Gatherer(Config(), None)

    def first_facts(text: str) -> set[str]:
        gathered = gatherer.gather(text, injection(), Snapshot(SystemPrompt("")), short=True)
        return {fact.key for fact in gathered.injection.facts}

    asked = "What am I allergic to?"
    assert "allergy" in first_facts(asked + "\n" * QUERY_CHARS)
    assert "allergy" not in first_facts("\n" * QUERY_CHARS + asked)

"""Questions of forty-eight invented people about their facts and notes, written by others than the rules.

Each was measured before any rule was changed for it, and has served for development since (see the card).
"""

import json
from pathlib import Path

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.near_facts import nearest_fact
from shepherd.prompt.questions import questions_in
from shepherd.types import Fact

PEOPLE = [
    json.loads(line)
    for line in Path(__file__).with_name("people.jsonl").read_text(encoding="utf-8").splitlines()
]


def facts_of(person) -> list[Fact]:
    return [Fact(key, value, 0, 0) for key, value in person["facts"].items()]


def found(question: str, facts: list[Fact]) -> list[str]:
    return [fact.value.casefold() for meant in asked_facts(question, facts) for fact in meant]


def nearest(question: str, facts: list[Fact]) -> list[str]:
    near = (nearest_fact(one, question, facts) for one in questions_in(question))
    return [one.fact.value.casefold() for one in near if one]


def test_nearly_all_questions_about_facts_find_theirs():
    right = [
        any(wanted.casefold() in value for value in found(question, facts))
        for person in PEOPLE
        for facts in [facts_of(person)]
        for question, wanted in person["fact_questions"]
    ]

    assert len(right) > 690
    assert sum(right) >= 0.985 * len(right)


def test_few_questions_are_answered_by_other_facts_once_theirs_is_gone():
    answered = [
        (question, values)
        for person in PEOPLE
        for facts in [facts_of(person)]
        for question, wanted in person["fact_questions"]
        for rest in [[fact for fact in facts if wanted.casefold() not in fact.value.casefold()]]
        for values in [found(question, rest)]
        if values and len(questions_in(question)) == 1
    ]

    # Most of them tell for whom the user works, where the job was asked for.
    assert len(answered) <= 28, answered


@pytest.mark.parametrize("person", PEOPLE, ids=lambda person: next(iter(person["facts"].values())))
def test_no_fact_answers_what_nobody_told_or_a_note_tells(person):
    facts = facts_of(person)
    about_notes = [question for _, asked in person["notes"].values() for question, _ in asked]

    assert [question for question in (*person["unknown"], *about_notes) if found(question, facts)] == []
    assert [question for question in person["unknown"] if nearest(question, facts)] == []

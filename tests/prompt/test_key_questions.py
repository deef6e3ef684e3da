"""Questions of very different wording about 171 keys, each in a memory with fourteen other facts.

A third of the keys was held back while the rules were written (see `is_held_back`): nobody looked at what was
missed of them, and 86 % of their questions found the fact when 94 % of the others did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.value_parts import key_of
from shepherd.types import Fact

N_OTHERS, N_OF_TOPIC = 14, 3


@dataclass
class Asked:
    """A fact with the questions that ask for it, and those that do not."""

    topic: str
    key: str
    value: str
    asking: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)


@cache
def all_asked() -> list[Asked]:
    found: list[Asked] = []
    topic = ""
    for line in Path(__file__).with_name("key_questions.txt").read_text(encoding="utf-8").splitlines():
        mark, _, text = line.partition(" ")
        if mark == "##":
            topic = text
        elif mark == "?":
            found[-1].asking.append(text)
        elif mark == "!":
            found[-1].beside.append(text)
        elif line and mark != "#":
            key, value = line.split(" = ", 1)
            found.append(Asked(topic, key, value))
    return found


def memory_of(one: Asked) -> list[Fact]:
    """The fact among others, none of its topic."""
    random, chosen = Random(one.key), {one.key: one}
    others = [other for other in all_asked() if other.topic != one.topic]
    random.shuffle(others)
    for other in others:
        of_topic = sum(known.topic == other.topic for known in chosen.values())
        if len(chosen) <= N_OTHERS and of_topic < N_OF_TOPIC:
            chosen.setdefault(other.key, other)
    known = list(chosen.values())
    random.shuffle(known)
    return [Fact(each.key, each.value, 0, 0) for each in known]


def is_held_back(n: int) -> bool:
    return n % 3 == 2


@cache
def keys_found() -> list[tuple[Asked, str, set[str]]]:
    """For each question, those that ask for a fact first, the keys of the facts that it finds."""
    return [
        (one, question, {key_of(fact) for meant in asked_facts(question, facts) for fact in meant})
        for one in all_asked()
        for facts in [memory_of(one)]
        for question in (*one.asking, *one.beside)
    ]


@pytest.mark.parametrize(("is_held", "least"), [(False, 0.93), (True, 0.85)])
def test_questions_of_any_wording_find_the_fact_that_they_ask_for(is_held, least):
    held = {one.key for n, one in enumerate(all_asked()) if is_held_back(n)}
    found = [
        one.key in keys
        for one, question, keys in keys_found()
        if question in one.asking and (one.key in held) == is_held
    ]

    assert len(found) > 300
    assert sum(found) >= least * len(found)


def test_questions_that_come_near_find_nothing():
    answered = [(question, keys) for one, question, keys in keys_found() if question in one.beside and keys]

    assert len(answered) <= 6, answered


def test_no_question_finds_another_fact():
    wrong = [
        (question, keys)
        for one, question, keys in keys_found()
        if question in one.asking and keys and one.key not in keys
    ]

    assert len(wrong) <= 2, wrong


def test_no_fact_of_a_person_answers_what_was_not_told():
    known: list[Fact] = []
    answered, n_asked = [], 0
    for line in Path(__file__).with_name("near_misses.txt").read_text(encoding="utf-8").splitlines():
        mark, _, question = line.partition(" ")
        if mark == "?":
            n_asked += 1
            answered += [(question, meant) for meant in asked_facts(question, known) if meant]
        elif mark != "#":
            pairs = (pair.strip().split("=", 1) for pair in line.split(";"))
            known = [Fact(key, value, 0, 0) for key, value in pairs]

    assert n_asked > 80
    assert answered == []

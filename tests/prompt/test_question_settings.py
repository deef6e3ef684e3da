"""Words of questions that say where or when, and clauses behind them."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.question_settings import setting_of, without_clause
from shepherd.types import Fact

FACTS = {
    "babysitter": "Lotte",
    "commute": "the 8:07 from Didcot",
    "cooking_class": "Thursdays at 19:00",
    "gp": "Dr Okonjo",
    "evening_pills": "ramipril",
    "plumber": "Dermot",
    "research_field": "glaciology",
    "seat_preference": "aisle",
    "supervisor": "Dr Ono",
    "thesis_deadline": "30 June",
}


def found(question: str) -> list[str]:
    facts = [Fact(key, value, 0, 0) for key, value in FACTS.items()]
    return [fact.key for meant in asked_facts(question, facts) for fact in meant]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Who is supervising my PhD?", "supervisor"),
        ("What subject am I doing my doctorate in?", "research_field"),
        ("When do I have to hand in my thesis?", "thesis_deadline"),
        ("Which train do I take in the morning?", "commute"),
        ("Who do I see when I'm ill?", "gp"),
        ("who do we call when the drain is blocked", "plumber"),
        ("Who minds the children when we go out?", "babysitter"),
        ("Where do I like to sit on a plane?", "seat_preference"),
        ("What pills do I take in the evening?", "evening_pills"),
    ],
)
def test_where_and_when_need_not_be_in_the_key(question, key):
    assert found(question) == [key]


@pytest.mark.parametrize(
    "question",
    [
        "Who examines my PhD?",
        "What is the title of my thesis?",
        "Which train do I take in the evening?",
        "What pills do I take in the morning?",
        "who do we call when the roof leaks",
        "When did I start my PhD?",
    ],
)
def test_a_setting_alone_asks_for_nothing(question):
    assert found(question) == []


def test_a_setting_stands_behind_a_preposition_a_verb_or_in_a_clause():
    assert setting_of("Which train do I take in the morning?") == {"morn"}
    assert "phd" in setting_of("Who is supervising my PhD?")
    assert {"drain", "block"} <= setting_of("Who do we call when the drain is blocked?")
    assert setting_of("What is my thesis deadline?") == frozenset()
    assert setting_of("Who looks in for my mother?") == frozenset()


def test_only_a_clause_behind_a_question_is_cut():
    assert without_clause("Who do we call if the fuse blows?") == "Who do we call"
    assert without_clause("When is my thesis due?") == "When is my thesis due?"

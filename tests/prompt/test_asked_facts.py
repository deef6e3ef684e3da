"""Which facts a question plainly asks for, by its words."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.types import Fact

FACTS = [
    Fact(key, value, 0, 0)
    for key, value in {
        "allergy": "hazelnuts",
        "cat_age": "7",
        "cat_name": "Pebble",
        "email": "nora@example.org",
        "employer": "Lindqvist & Co",
        "favorite_dish": "pelmeni",
        "job": "glazier",
        "location": "Turku",
        "name": "Nora Lind",
        "number_of_boats": "2",
        "sister_allergy": "wool",
        "sister_location": "Oulu",
        "sister_name": "Elsa",
        "project": "a greenhouse",
    }.items()
]


def keys(question: str) -> list[list[str]]:
    return [[fact.key for fact in meant] for meant in asked_facts(question, FACTS)]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What's my name?", "name"),
        ("What is my full name?", "name"),
        ("What is my cat called?", "cat_name"),
        ("Who is my sister?", "sister_name"),
        ("How old is my cat?", "cat_age"),
        ("How old is Pebble?", "cat_age"),
        ("Where does my sister live?", "sister_location"),
        ("What is Elsa allergic to?", "sister_allergy"),
        ("What am I allergic to?", "allergy"),
        ("What's my favourite dish?", "favorite_dish"),
        ("What's my email address?", "email"),
        ("Give me my email, please.", "email"),
        ("How many boats do I own?", "number_of_boats"),
        ("What am I working on?", "project"),
        ("Where do I live?", "location"),
        ("Do you remember who I am?", "name"),
        ("I forgot what my cat's name is.", "cat_name"),
    ],
)
def test_a_plain_question_asks_for_its_fact(question, key):
    assert keys(question) == [[key]]


def test_what_one_does_for_a_living_is_no_place():
    assert keys("What do I do for a living?") == [["employer", "job"]]


@pytest.mark.parametrize(
    "question",
    [
        "What was my cat called?",
        "What is my cat's vet called?",
        "What is my sister's cat called?",
        "What is the name of my school?",
        "Who is Pebble?",
        "How old am I?",
        "How old is Elsa?",
        "What is my brother called?",
        "Why do I live here?",
        "Where did I live before?",
        "My cat is called Pebble.",
        "Do you know Elsa?",
        "What will my next job be?",
    ],
)
def test_where_it_is_not_sure_no_fact_is_asked_for(question):
    assert keys(question) == [[]]


def test_several_questions_ask_for_facts_each_by_itself():
    assert keys("What's my name and where do I live?") == [["name"], ["location"]]
    assert keys("How old is Pebble? And what is my sister called?") == [["cat_age"], ["sister_name"]]
    assert keys("What's my name and who is my landlord?") == [["name"], []]
    assert keys("Who is Elsa? What is my sister called and where does she live?") == [
        [],
        ["sister_name"],
        ["sister_location"],
    ]

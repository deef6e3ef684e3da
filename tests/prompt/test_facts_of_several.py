"""Facts whose keys count, rank or join: twins, a first and a second dog, a side job, a former one."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts, companions
from shepherd.types import Fact

FACTS = {
    "business_name": "Birch & Wren",
    "daughter_name": "Frida",
    "dream_destination": "Iceland",
    "first_goat": "Clover, a pygmy goat",
    "food_intolerance": "fructose",
    "former_job": "geography teacher",
    "main_car": "Opel Corsa",
    "oldest_niece": "Ottilie, a cellist",
    "retired_since": "2016",
    "second_car": "a blue Citroën",
    "second_goat": "Juniper, a Boer goat",
    "side_project": "repairing clocks",
    "son_name": "Anton",
    "twins_age": "8",
    "weekend_job": "usher at the Odeon",
}


def found(question: str, **others: str) -> list[str]:
    facts = [Fact(key, value, 0, 0) for key, value in {**FACTS, **others}.items()]
    return [fact.key for fact in asked_facts(question, facts)[0]]


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("How old is Frida?", ["twins_age"]),
        ("how old is my son", ["twins_age"]),
        ("how old are the twins", ["twins_age"]),
        ("What breed is Clover?", ["first_goat"]),
        ("what are my goats called, both of them", ["first_goat", "second_goat"]),
        ("what instrument does Ottilie play", ["oldest_niece"]),
        ("What did I do before I retired?", ["former_job"]),
        ("What subject did I teach at school?", ["former_job"]),
        ("which year did i stop working", ["retired_since"]),
        ("where do I work next to my studies?", ["weekend_job"]),
        ("what do i do on saturdays to earn a bit extra", ["weekend_job"]),
        ("What is my shop called?", ["business_name"]),
        ("what other car do we have besides the opel", ["second_car"]),
        ("where would i love to travel one day", ["dream_destination"]),
        ("What am I repairing in my spare time?", ["side_project"]),
        ("Is there any food I have to stay away from when we eat out?", ["food_intolerance"]),
        ("I'm at a café, what was it again that my stomach doesn't tolerate?", ["food_intolerance"]),
    ],
)
def test_a_key_of_several_words_is_found_by_what_it_means(question, keys):
    assert found(question) == keys


@pytest.mark.parametrize(
    "question",
    [
        "How old is Ottilie?",
        "What position does Ottilie play?",
        "What breed is Frida?",
        "What was my first business called?",
        "What am I knitting in my spare time?",
        "what other goat do we have besides Clover and Juniper",
        "Where did I travel last year?",
    ],
)
def test_what_only_comes_near_is_not_found(question):
    assert "goat" in question or found(question) == []
    assert "first_goat" not in found(question)


def test_twins_are_the_two_children_and_no_others():
    assert found("How old is Frida?", younger_daughter="Mila") == []
    assert found("How old is Frida?", twins="Kurt and Ida") == []


def test_what_is_called_by_its_kind_is_told_by_a_name_with_it():
    assert found("What is the joinery called?", business_name="Birch & Wren Joinery") == ["business_name"]
    assert found("What is the joinery called?", project="a joinery") == ["business_name"]
    assert found("What is the brewery called?", first_goat="the brewery goat") == ["business_name"]
    assert found("What is the chapel called?", project="the chapel") == []


def test_what_tells_of_several_brings_along_those_it_is_about():
    facts = [Fact(key, value, 0, 0) for key, value in FACTS.items()]

    assert {fact.key for fact in companions(["twins_age"], facts)} == {"daughter_name", "son_name"}
    assert {fact.key for fact in companions(["second_goat"], facts)} == {"first_goat", "second_goat"}
    assert companions(["main_car"], facts) == []


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("How old is Mia?", ["cat_age"]),
        ("How old is my cat?", ["cat_age"]),
        ("How old is Tom?", []),
        ("Tell me about Tom", ["late_cat"]),
        ("How old is Max?", ["son_age"]),
        ("How old is Leo?", ["second_son_age"]),
    ],
)
def test_the_late_cat_has_not_the_age_of_the_cat(question, found):
    values = {
        "cat": "Mia",
        "late_cat": "Tom",
        "cat_age": "3",
        "son": "Max",
        "son_age": "5",
        "second_son": "Leo",
        "second_son_age": "8",
    }
    facts = [Fact(key, value, 0, 0) for key, value in values.items()]

    assert [fact.key for meant in asked_facts(question, facts) for fact in meant] == found

"""Questions about a date or about somebody, and questions with a story or a choice in them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.types import Fact

FACTS = [
    Fact(key, value, 0, 0)
    for key, value in {
        "name": "Ottilie Brandt",
        "age": "29",
        "husband": "Emeka",
        "kids": "Juno (7), Caspar (4)",
        "mother_name": "Waltraud",
        "mother_birthday": "14 May",
        "dog_name": "Fips",
        "dog_breed": "dachshund",
        "rabbit": "Nimbus",
        "sister": "Catriona, a vet in Perth",
        "flatmates": "Piotr and Len",
        "choir_practice": "Wednesday 19:00",
        "marathon_date": "2027-04-19",
        "club": "Stirling Harriers",
    }.items()
]


def keys(question: str) -> list[str]:
    return [fact.key for meant in asked_facts(question, FACTS) for fact in meant]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What is on the 14th of May?", "mother_birthday"),
        ("whose birthday is on May 14", "mother_birthday"),
        ("what happens on 19 April", "marathon_date"),
        ("What's on Wednesday at 19:00?", "choir_practice"),
        ("what do I have on wednesdays", "choir_practice"),
        ("When am I running the marathon?", "marathon_date"),
        ("who is piotr", "flatmates"),
        ("Which of my kids is seven?", "kids"),
        ("Which of my relatives is a vet?", "sister"),
        ("who in my family lives in Perth", "sister"),
        ("Am I 30 yet?", "age"),
        ("am i over 40, i mean how old am i", "age"),
        ("What's my rabbit called, Nimbus or Nemo?", "rabbit"),
        ("Is Nimbus a rabbit or a tortoise?", "rabbit"),
        ("We have a new vet and she wanted to know the dog's breed. What was it again?", "dog_breed"),
        ("For the entry form I need my club, can you tell me?", "club"),
        ("The organisers ask for my club.", "club"),
    ],
)
def test_questions_find_facts_the_other_way_round(question, key):
    assert keys(question) == [key]


@pytest.mark.parametrize(
    "question",
    [
        "What is on the 15th of May?",
        "Whose birthday is on 19 April?",
        "What did we decide on 14 May?",
        "What's on Thursday?",
        "Who is George?",
        "Which of my kids is nine?",
        "Which of my relatives is a judge?",
        "When am I running the half marathon in Oslo?",
        "I need my club to win today.",
        "Tell me about Lotte",
        "Tell me about the French revolution",
    ],
)
def test_nothing_is_found_on_other_dates_or_about_others(question):
    assert keys(question) == []


def test_all_facts_about_somebody_are_told():
    assert keys("Tell me about Fips") == keys("What do you know about my dog?") == ["dog_name", "dog_breed"]
    assert keys("what do you know about Waltraud") == ["mother_name", "mother_birthday"]
    assert keys("Tell me about my dog, and when is choir?") == ["dog_name", "dog_breed", "choir_practice"]


@pytest.mark.parametrize(
    "question",
    [
        "Tell me about dogs",
        "tell me about a dog",
        "Tell me about dog training",
        "Tell me about dogs and rabbits",
        "Tell me about his dog",
        "My boss Tom is coming tomorrow. Tell me about his husband",
        "Tell me about your mother",
        "What do you know about mothers?",
        "Tell me about the husband of Queen Victoria",
        "Tell me something about the mother of Jesus",
        "What do you know about the sister of Moses?",
        "Tell me everything about the husband in Emma",
        "Tell me about the dog in the film Turner & Hooch",
        "Tell me about my neighbour's dog",
        "Tell me about Emeka Ihedigba",
    ],
)
def test_people_and_animals_of_others_are_not_the_users(question):
    assert keys(question) == []


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Tell me about the dog, please!", ["dog_name", "dog_breed"]),
        ("Tell me about my dog for the vet form", ["dog_name", "dog_breed"]),
        ("Tell me about my dog so I can tell the vet", ["dog_name", "dog_breed"]),
        ("I'm bored. Tell me about my dog.", ["dog_name", "dog_breed"]),
        ("Tell me about my dog Fips", ["dog_name", "dog_breed"]),
        ("Tell me about all my dogs", ["dog_name", "dog_breed"]),
        ("What do you know about both of our kids?", ["kids"]),
        ("Tell me about mum", ["mother_name", "mother_birthday"]),
        ("Tell me about my mother and my husband", ["mother_name", "mother_birthday", "husband"]),
        ("Tell me about Emeka & Nimbus", ["husband", "rabbit"]),
        ("Tell me about my dog's breed", ["dog_breed"]),
        ("Tell me about my club", ["club"]),
    ],
)
def test_the_people_and_animals_of_the_user_are_told_of(question, found):
    assert keys(question) == found


def test_of_two_dogs_the_one_that_is_named_is_told_of():
    dogs = {"first_dog": "Fips", "second_dog": "Rex", "first_dog_age": "3", "second_dog_age": "9"}
    facts = [Fact(key, value, 0, 0) for key, value in dogs.items()]

    [found] = asked_facts("Tell me about Rex", facts)
    [both] = asked_facts("Tell me about my dogs", facts)

    assert [fact.key for fact in found] == ["second_dog", "second_dog_age"]
    assert [fact.key for fact in both] == list(dogs)


@pytest.mark.parametrize(
    "question",
    ["What do I do for work?", "what's my job again", "Where do I work?", "and what business am I in?"],
)
def test_work_is_what_somebody_runs_or_teaches_where_no_job_is_known(question):
    runs, teaches = Fact("runs", "small bakery", 0, 0), Fact("teaches", "physics", 0, 0)
    job, name = Fact("job", "nurse", 0, 0), Fact("name", "Tomasz", 0, 0)

    assert asked_facts(question, [name, runs, teaches]) == [[runs, teaches]]
    assert asked_facts("What's my job?", [name, runs, job]) == [[job]]
    assert asked_facts("What do I do for my mother?", [name, runs]) == [[]]


DATES = {
    "birthday": "14 May 1990",
    "wedding_anniversary": "3 June 2010",
    "meeting": "20 May at 10:00",
    "mother_birthday": "2 July",
    "choir_practice": "Wednesday 19:00",
}
NEXT_YEAR = datetime.now(timezone.utc).year + 1


def on_date(question: str) -> list[str]:
    facts = [Fact(key, value, 0, 0) for key, value in DATES.items()]
    return [fact.key for meant in asked_facts(question, facts) for fact in meant]


@pytest.mark.parametrize(
    "question",
    [
        "What happened on 14 May 1948?",
        "What happened on May 14, 1948?",
        "What happened on 1948-05-14?",
        "what special event was on 14 May, 1066?",
        "Who was born on 14 May 1944?",
        "Who was born on 14 May 2020?",
        "What happened on 20 May 1940?",
        "What happened on 3 June 1989?",
        "What happened on 2 July 1776?",
        "What happened on Wednesday 5 May 1948?",
    ],
)
def test_what_happened_in_another_year_is_no_date_of_the_user(question):
    assert on_date(question) == []


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What happened on 14 May 1990?", "birthday"),
        ("Who was born on 1990-05-14?", "birthday"),
        ("Whose birthday was on 14 May 2020?", "birthday"),
        (f"What is on 14 May {NEXT_YEAR}?", "birthday"),
        ("What happened on June 3, 2010?", "wedding_anniversary"),
        ("What's on 20 May?", "meeting"),
        (f"What's on 20 May {NEXT_YEAR}?", "meeting"),
        ("What happens on 2 July?", "mother_birthday"),
        ("What's on Wednesday?", "choir_practice"),
    ],
)
def test_a_date_is_found_by_its_year_or_every_year(question, key):
    assert on_date(question) == [key]

"""Whom a sentence tells something of."""

from __future__ import annotations

import pytest

from shepherd.turn.subjects import names_a_person, tells_of_another, tells_of_theirs, tells_of_user


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("I'm allergic to nuts.", "nuts"),
        ("I live in Paris with my wife.", "paris"),
        ("My wife and I live in Rome", "rome"),
        ("My wife Dora lives with me in Ulm", "ulm"),
        ("My alarm goes off at 5.", "5"),
        ("My car is a Skoda", "skoda"),
        ("Got myself a Skoda", "skoda"),
        ("Moved to Kiel last week", "kiel"),
        ("Porsche is what I drive", "porsche"),
        ("Vim is my editor", "vim"),
        ("My husband drives an old Saab, I drive a Fiat", "fiat"),
        ("I saw my doctor in Graz and live in Bern", "bern"),
        ("I have a cat and play the piano", "piano"),
        ("My doctor says I'm allergic to nuts", "nuts"),
        ("45, single, 2 small kids.", "2"),
        ("User lives in Braga", "braga"),
    ],
)
def test_what_users_tell_of_themselves_is_theirs(sentence, value):
    assert tells_of_user(sentence, value.split())
    assert not tells_of_another(sentence)


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("My neighbour Paul drives a Porsche.", "porsche"),
        ("My son Tim is allergic to nuts.", "nuts"),
        ("My flatmate gets up at 5.", "5"),
        ("My bandleader plays the oud", "oud"),
        ("My parents live in Graz", "graz"),
        ("At work my boss speaks Finnish", "finnish"),
        ("Paul has three cats", "three"),
        ("Anna and Ben live in Rome", "rome"),
        ("She drives a Mini", "mini"),
        ("Paul's car is a Volvo", "volvo"),
        ("Nuts make my son sick", "nuts"),
        ("My husband drives an old Saab, I drive a Fiat", "old saab"),
        ('My boss said "I drive a BMW and I am 50 years old".', "bmw"),
        ("I dream of living in Rome", "rome"),
        ("If I were rich I would live in Monaco.", "monaco"),
        ("I would love to drive a Tesla.", "tesla"),
        ("I am allergic to eggs.", "nuts"),
    ],
)
def test_what_is_told_of_others_or_of_a_dream_is_not_the_users(sentence, value):
    assert not tells_of_user(sentence, value.split())


def test_a_wish_bears_out_what_the_user_wants():
    assert tells_of_user("I want to travel to Peru", ["peru"], of_wishes=True)
    assert not tells_of_user("I want to travel to Peru", ["peru"])
    assert not tells_of_user("My brother wants to travel to Peru", ["peru"], of_wishes=True)


@pytest.mark.parametrize(
    ("sentence", "thing", "value", "is_told"),
    [
        ("My phone number is 0171 555.", "phone number", "0171 555", True),
        ("My mum's phone number is 0171 555.", "phone number", "0171 555", False),
        ("My mum's phone number is 0171 555.", "mum's phone number", "0171 555", True),
        ("My dog is called Bello", "dog", "bello", True),
        ("My friend's dog is called Bello.", "dog", "bello", False),
        ("The neighbour's cat is called Tiger.", "cat", "tiger", False),
        ("I have two kids, Mia and Ben.", "children", "mia and ben", True),
        ("My sister Ida has two kids, Mia and Ben.", "children", "mia and ben", False),
        ("I have a brother called Tom", "brother", "tom", True),
        ("My sister lives in Bern and my brother in Graz", "brother", "graz", True),
        ("My sister lives in Bern and my brother in Graz", "brother", "bern", False),
        ("I live in Lisbon and my wife works", "wife", "lisbon", False),
        ("My son would love to live in Tokyo", "son", "tokyo", False),
        ("Blood type: A negative", "blood type", "a negative", True),
        ("The plumber is called Meier", "plumber", "meier", True),
    ],
)
def test_a_thing_is_told_of_the_one_who_has_it(sentence, thing, value, is_told):
    assert tells_of_theirs(sentence, thing.split(), value.split()) is is_told


def test_somebody_is_told_of_by_name():
    assert tells_of_theirs("My friend Leo lives in Paris.", ["leo"], ["paris"], by_name=True)
    assert not tells_of_theirs("My friend Leo lives in Paris.", ["anna"], ["paris"], by_name=True)


def test_people_and_animals_are_named_by_what_they_are():
    assert all(map(names_a_person, ("boss", "neighbours", "wife", "ex-wife", "dog", "mother-in-law")))
    assert not any(map(names_a_person, ("car", "job", "number", "Ulm")))

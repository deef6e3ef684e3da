"""Names that a pronoun gets go to whom they belong, and nowhere else."""

from __future__ import annotations

import pytest

from shepherd.claims.judge import plain_facts


def names(message: str) -> dict[str, str]:
    return {verdict.key: verdict.value for verdict in plain_facts(message) if verdict.key.endswith("_name")}


@pytest.mark.parametrize(
    ("message", "key", "name"),
    [
        ("My wife works at the library, her name's Belinda.", "wife_name", "Belinda"),
        ("My wife and my son are away, he's called Tim.", "son_name", "Tim"),
        ("We adopted a cat on Sunday. His name is Boots.", "cat_name", "Boots"),
        ("guess who got a hamster!! hes mine and hes called Biscuit", "hamster_name", "Biscuit"),
        ("My daughter? Her name's Saoirse.", "daughter_name", "Saoirse"),
        ("I've got a boyfriend now, his name is Ben", "boyfriend_name", "Ben"),
        ("We've a cat upstairs, she's called Ida", "cat_name", "Ida"),
        ("Wir haben drei Katzen, die älteste heißt Minka.", "cat_name", "Minka"),
        ("Wir haben einen Hund, der Bruno heißt.", "dog_name", "Bruno"),
        ("Ma femme est prof, elle s'appelle Solène.", "wife_name", "Solène"),
        ("Tenemos un perro, se llama Trufa.", "dog_name", "Trufa"),
        ("Mia moglie lavora a Lecce, si chiama Fiorella.", "wife_name", "Fiorella"),
        ("Temos um cão, chama-se Bolinha.", "dog_name", "Bolinha"),
        ("We hebben een kat, hij heet Moppie.", "cat_name", "Moppie"),
    ],
)
def test_a_later_name_belongs_to_the_one_who_is_meant(message: str, key: str, name: str) -> None:
    assert names(message) == {key: name}


@pytest.mark.parametrize(
    "message",
    [
        "My wife has a colleague, her name's Belinda.",  # somebody else
        "My sister has a dog, her name is Bella.",
        "My wife's sister lives in Ulm, her name is Petra.",
        "My brother and my son argue, his name is Tim.",  # one of two
        "I wish I had a cat. Her name is Luna.",  # nobody
        "Our dog died last week. His name is Bruno.",
        "I have a meeting tomorrow, her name is Petra",  # what is no person
        "I've got a problem now, his name is Kevin",
        "My wife says her name is Belinda.",  # others' words
        "Is that my daughter? Her name's Saoirse.",
        "Meine Frau hat eine Kollegin, sie heißt Petra.",
        "Mia sorella ha un cane, si chiama Fido.",
    ],
)
def test_a_name_that_may_be_somebody_elses_is_learned_of_nobody(message: str) -> None:
    assert names(message) == {}

"""Parts of values: what a question asks of a full name, an address, a date of birth."""

from datetime import datetime, timezone

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.value_parts import key_of, parts_asked_for
from shepherd.types import Fact

FACTS = {
    "name": "Dr Ilse van der Berg",
    "wife_name": "Annelies Dijkgraaf",
    "son": "Teddy",
    "home_address": "14 Quarry Lane, Ludlow SY8 2KT",
    "date_of_birth": "4 July 1972",
    "sister_birthday": "19 May",
    "email": "ilse@devlet.example",
}
ALL = [Fact(key, value, 0, 0) for key, value in FACTS.items()]


def asked(question: str, facts=ALL) -> list[tuple[str, str]]:
    return [(fact.key, fact.value) for meant in asked_facts(question, facts) for fact in meant]


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("What's my last name?", ("surname", "van der Berg")),
        ("my family name?", ("surname", "van der Berg")),
        ("the physio form wants my surname, fill me in", ("surname", "van der Berg")),
        ("My surname, how is it written?", ("surname", "van der Berg")),
        ("What's my first name?", ("first_name", "Ilse")),
        ("what are my initials", ("initials", "I.B.")),
        ("What is my wife's surname?", ("wife_surname", "Dijkgraaf")),
        ("I'm ordering online and it wants my postcode", ("postcode", "SY8 2KT")),
        ("Which town do I live in?", ("town", "Ludlow")),
    ],
)
def test_a_question_for_a_part_is_answered_by_it(question, part):
    assert asked(question) == [part]


@pytest.mark.parametrize(
    "question",
    ["What's my son's surname?", "How old is my sister?", "What's the postcode of my wife?"],
)
def test_what_a_value_does_not_have_is_no_part(question):
    assert asked(question) == []


def test_the_whole_is_told_where_it_is_asked_for_or_cannot_be_divided():
    three = [Fact("name", "Maria Lopez Garcia", 0, 0)]

    assert asked("What's my name?") == [("name", "Dr Ilse van der Berg")]
    assert asked("Full name please, first and last") == [("name", "Dr Ilse van der Berg")]
    assert asked("What's my surname?", three) == [("name", "Maria Lopez Garcia")]
    assert asked("What's my surname?", [Fact("name", "Cher", 0, 0)]) == []


def test_a_fact_of_its_own_goes_before_a_part():
    facts = [*ALL, Fact("surname", "Berg-Smit", 0, 0)]

    assert asked("What's my surname?", facts) == [("surname", "Berg-Smit")]


def test_an_age_is_counted_from_the_whole_date_of_birth():
    today = datetime.now(timezone.utc).astimezone().date()
    birthday = today.replace(year=today.year - 30, day=min(today.day, 28))
    facts = [Fact("daughter_birthday", birthday.isoformat(), 0, 0), Fact("birthday", "19 May", 0, 0)]

    assert asked("How old is my daughter?", facts) == [("daughter_age", "30")]
    assert asked("How old am I?", facts) == []


def test_a_part_knows_the_key_that_it_is_stored_under():
    (part,) = parts_asked_for("What domain is my email with?", ALL)

    assert (part.key, part.value, key_of(part)) == ("email_domain", "devlet.example", "email")
    assert key_of(ALL[0]) == "name"


def part_of_address(question: str, address: str) -> list[str]:
    found = asked(question, [Fact("address", address, 0, 0)])
    return [value for key, value in found if key != "address"]


@pytest.mark.parametrize(
    ("address", "postcode"),
    [
        ("12345 Main Street, Springfield, IL 62704", "62704"),
        ("12-14 High Street, Leeds LS1 4AB", "LS1 4AB"),
        ("2200 NW Market Street, Seattle, WA 98107", "98107"),
        ("1600 SE Oak Street, Portland OR 97214", "97214"),
        ("350 Fifth Ave, New York, NY 10118, USA", "10118"),
        ("Apt 12345, 3 Elm St, Springfield, IL 62704", "62704"),
        ("Postfach 12345, 10115 Berlin", "10115"),
        ("Lange Str. 12, D-10115 Berlin", "10115"),
        ("Musterstraße 5 10115 Berlin", "10115"),
        ("10115 Berlin, Musterstraße 5", "10115"),
        ("75004 Paris, 12 rue de Rivoli", "75004"),
        ("12 rue de Rivoli, 75004 Paris, France", "75004"),
        ("Av. Reforma 12345, 06600 Ciudad de México", "06600"),
        ("Kerkstraat 5, 1017 GC Amsterdam", "1017 GC"),
        ("Storgatan 1, 111 22 Stockholm", "111 22"),
        ("24 Sussex Drive, Ottawa, ON K1M 1M4", "K1M 1M4"),
        ("Springfield IL 62704", "62704"),
        ("Berlin 10115", "10115"),
    ],
)
def test_the_postcode_of_an_address_is_told(address, postcode):
    assert part_of_address("What's my postcode?", address) == [postcode]


@pytest.mark.parametrize(
    "address",
    [
        "12345 Main Street, Springfield",
        "12345 Main Street",
        "12345 Broadway, Apt 5, New York",
        "12345 rue de Rivoli, Paris",
        "Calle Mayor 12345",
        "12-14 High Street, Leeds",
        "Unit 5, 12-14 High Street, Leeds",
        "2200 NW Market Street, Seattle",
        "1200 SE Hawthorne, Portland",
        "20500 Pennsylvania Avenue NW, Washington DC",
        "Flat 12345, Elm House, Leeds",
        "PO Box 12345, Springfield",
        "12345 " * 1000,
    ],
)
def test_the_number_of_a_house_is_no_postcode(address):
    assert part_of_address("What's my postcode?", address) == []


@pytest.mark.parametrize(
    ("address", "town"),
    [
        ("5 Oak Rd, Hull", ["Hull"]),
        ("5 Oak Rd, New York", ["New York"]),
        ("5 Main St, Springfield IL 62704", ["Springfield"]),
        ("Lange Str. 12, D-10115 Berlin", ["Berlin"]),
        ("5 Oak Rd, Ireland", []),
        ("5 Oak Rd, Texas", []),
        ("5 Oak Rd, NY", []),
        ("5 Oak Rd, Co. Cork", []),
        ("Hauptstr. 5, Deutschland", []),
    ],
)
def test_a_country_is_no_town(address, town):
    assert part_of_address("Which town do I live in?", address) == town

"""Requests that are no questions by their form, and short messages that tell something."""

import pytest

from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.requests import indirect_request, is_bare_request
from shepherd.types import Fact

FACTS = {
    "languages_spoken": "Basque and Norwegian",
    "husband": "Tobiah",
    "diet": "vegan",
    "emergency_contact": "Oihane, 600 555 218",
    "car": "Fiat Panda",
}
ALL = [Fact(key, value, 0, 0) for key, value in FACTS.items()]


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("languages I speak", "languages_spoken"),
        ("husband's name", "husband"),
        ("the car I drive", "car"),
        ("The organisers are ordering lunch and need to know whether I have a special diet", "diet"),
        ("The captain wants a number that he can ring if something happens to me.", "emergency_contact"),
    ],
)
def test_requests_find_the_fact(message, key):
    assert [[fact.key for fact in meant] for meant in asked_facts(message, ALL)] == [[key]]


@pytest.mark.parametrize(
    "message",
    [
        "languages I speak",
        "husband's name",
        "my own surname for the label, please",
        "name both of my animals please",
        "remind me of my bird's name",
        "ok, list all my allergies again",
        "Could you tell me my sister's name, please",
    ],
)
def test_a_bare_request_states_nothing(message):
    assert is_bare_request(message)
    assert not is_statement(message)


@pytest.mark.parametrize(
    "message",
    [
        "husband's name Tobiah",
        "husband's birthday 4 May",
        "my husband's new job",
        "Rex, my dog",
        "languages I speak: Basque",
        "my sister's wedding was lovely",
        "vegan food I love",
        "the tea I drink every morning",
        "mum's garden shed key under the pot",
        "my car needs new tyres please",
        "name my new dog Rex",
        "remind me to call my mother",
        "remind me of my appointment tomorrow at 9",
    ],
)
def test_what_tells_something_is_no_bare_request(message):
    assert not is_bare_request(message)


@pytest.mark.parametrize(
    "message",
    [
        "I want to know whether it rains",
        "My sister wants a pony",
        "She asked if the shop is open",
        "I need a number",
    ],
)
def test_what_others_want_of_somebody_else_is_no_request(message):
    assert indirect_request(message) is None

"""Values that replace known ones, and parts of known values that a message corrects."""

from __future__ import annotations

import pytest

from shepherd.claims.corrections import corrected_facts
from shepherd.claims.judge import learned
from shepherd.claims.statements import assertions
from shepherd.extraction.answer import Extracted, select
from shepherd.memory import Memory
from shepherd.types import Fact

FACTS = {"car": "grey Skoda Octavia", "boss_name": "Ingrid", "bike": "Brompton", "likes": "grey cats"}


def facts_of(message: str) -> dict[str, str]:
    return {verdict.key: verdict.value for verdict in learned({}, [message])[0]}


@pytest.mark.parametrize(
    ("message", "key", "value"),
    [
        ("My doctor isn't Dr. Roth any more, it's Dr. Lang now.", "doctor_name", "Dr. Lang"),
        ("My boss isn't Ingrid any more, it's Tobias now.", "boss_name", "Tobias"),
        ("My boss isn't Ingrid any more. It's Tobias now.", "boss_name", "Tobias"),
        ("our landlord is no longer Mr. Pike, it's Mrs. Shaw", "landlord_name", "Mrs. Shaw"),
        ("My dentist was Kern, but now it's Wolf.", "dentist_name", "Wolf"),
        ("I don't work at Siemens any more, it's Bosch now.", "employer", "Bosch"),
        ("We no longer live in Graz, it's Linz now.", "location", "Linz"),
        ("I used to drive a Golf, now it's a Tesla.", "car", "Tesla"),
        ("My favourite colour isn't blue any more, it's green.", "favorite_color", "green"),
        ("My number isn't 0664 123456 any more, it's 0699 654321.", "phone", "0699 654321"),
        ("My name isn't Tobi, it's Tobias.", "name", "Tobias"),
    ],
)
def test_what_takes_the_place_of_something_is_learned_of_the_same_thing(message, key, value):
    assert facts_of(message) == {key: value}


@pytest.mark.parametrize(
    "message",
    [
        "My wifi isn't down any more, it's Friday.",
        "I don't work at Siemens any more, it's Friday now.",
        "My boss isn't Head of Sales any more, it's Tobias now.",
        "My sister isn't Anna's boss any more, it's Tom now.",
        "If my boss isn't Ingrid any more, it's Tobias now.",
        "She said my boss isn't Ingrid any more, it's Tobias now.",
        "Is it so that my boss isn't Ingrid any more, it's Tobias now?",
        "My boss quit last week. It's Tobias now.",
        "I have a new neighbour, it's Tobias.",
        "Hi! My trainer has changed. It's Tobias.",
    ],
)
def test_somebody_else_is_nobody_of_the_users_and_not_the_user(message):
    assert facts_of(message) == {}
    assert not [one for one in assertions(message) if one.kind == "name"]


@pytest.mark.parametrize(
    "message", ["Hi, it's Tobias.", "Hello there! It's Tobias from Graz.", "It's Tobias"]
)
def test_who_only_greets_before_it_gives_a_name(message):
    assert [one.value for one in assertions(message) if one.kind == "name"] == ["Tobias"]


@pytest.mark.parametrize(
    "before",
    [
        "No, that's wrong: ", "No, that's not right: ", "That's wrong, ", "That isn't true. ", "Wrong: ",
        "You're wrong, ", "You got that wrong: ", "You have it completely wrong, ",
    ],
)  # fmt: skip
def test_what_stands_behind_a_contradiction_is_learned(before):
    assert facts_of(f"{before}I live in Graz.") == {"location": "Graz"}
    assert facts_of(f"{before}my sister is called Ana.") == {"sister_name": "Ana"}


def test_a_thing_of_nobody_corrects_no_fact():
    assert corrected("The car is blue, not grey.") == {}
    assert corrected("The bike is a Birdy, not a Brompton.") == {}


def corrected(message: str) -> dict[str, str]:
    found = corrected_facts(message, [Fact(*item, 0, 0) for item in FACTS.items()])
    return {one.key: one.value for one in found}


@pytest.mark.parametrize(
    "message",
    [
        "No, that's wrong: my car is blue, not grey.",
        "My car isn't grey, it's blue.",
        "My car is not grey but blue",
        "Actually the Skoda is blue, and not grey as you said.",
    ],
)
def test_a_corrected_word_changes_the_value_that_it_is_part_of(message):
    assert corrected(message) == {"car": "blue Skoda Octavia"}


@pytest.mark.parametrize(
    "message",
    [
        "My car is parked, not grey.",
        "My bike is blue, not grey.",
        "My car is a Tesla, not a Skoda.",
        "My car is blue, not green.",
        "Is my car blue, not grey?",
        "If my car is blue, not grey, what then?",
        "My wife says my car is blue, not grey.",
        "I wish my car were blue, not grey.",
        "My neighbour's car is blue, not grey.",
        "I painted my car blue, not grey.",
    ],
)
def test_what_corrects_no_known_word_changes_nothing(message):
    assert corrected(message) == {}


def test_of_two_facts_that_may_be_meant_none_is_changed():
    facts = [Fact("car", "grey Skoda", 0, 0), Fact("car_seat", "grey leather", 0, 0)]

    assert corrected_facts("My car is blue, not grey.", facts) == []


@pytest.mark.parametrize("claimed", [{}, {"car": "blue"}])
def test_the_corrected_value_is_stored_in_place_of_the_word_alone(tmp_path, claimed):
    with Memory(tmp_path / "memory.db") as memory:
        memory.set_fact("car", "grey Skoda Octavia", "steve")
        lines = ["No, that's wrong: my car is blue, not grey."]
        kept = select(Extracted(claimed), lines, memory, "steve", facts_only=True, secrets=False)

    assert kept.facts == {"car": "blue Skoda Octavia"}
    assert [claim.statement for claim in kept.claims] == lines


@pytest.mark.parametrize(
    ("message", "day"),
    [
        ("My wedding has been moved to 19 June.", "19 June"),
        ("we've had to push the wedding to the 4th of October", "4th of October"),
        ("They've moved our wedding from 12 June to Friday at 3pm", "Friday at 3pm"),
        ("My sister's wedding has been moved to 19 June.", None),
        ("The wedding of my boss has been moved to 19 June.", None),
        ("They might move my wedding to 19 June.", None),
        ("My wedding hasn't been moved to 19 June.", None),
        ("I put my wedding dress off to Friday.", None),
        ("My wedding moved to tears", None),
    ],
)
def test_an_event_that_is_put_off_has_the_new_day(message, day):
    facts = [Fact("wedding", "12 June", 0, 0), Fact("likes", "12 June", 0, 0)]

    found = [(one.key, one.value, one.changes) for one in corrected_facts(message, facts)]

    assert found == ([] if day is None else [("wedding", day, True)])

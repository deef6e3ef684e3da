"""What a message says is over is ended if it was learned, and proposed if the user has set it."""

from __future__ import annotations

import pytest

from shepherd.claims.endings import KNOWN
from shepherd.extraction.answer import Extracted, select
from shepherd.memory import Claim, Memory
from tests.learned import learn


def said(memory: Memory, user: str, message: str) -> list[tuple[str, str, str]]:
    """Kind, key and state of what is learned from a message whose model claims nothing."""
    kept = select(Extracted(), [message], memory, user, facts_only=True, secrets=False)
    return [(item.kind, item.key, item.state) for item in learn(memory, user, message, *kept.claims)]


@pytest.fixture
def memory(database: str):
    with Memory(database) as memory:
        learn(
            memory, "ann", "I drive a Kia Picanto.", Claim("car", "Kia Picanto", "I drive a Kia Picanto.", 0)
        )
        told = "I play the violin and chess."
        learn(memory, "ann", told, Claim("plays", "violin, chess", told, 0))
        memory.set_fact("car", "Kia Picanto", "bob")
        memory.set_fact("plays", "violin, chess", "bob")
        yield memory


def test_a_learned_fact_ends_and_can_be_undone(memory):
    assert said(memory, "ann", "A lad came for it this morning, so the car is sold.") == [
        ("ended", "car", "new")
    ]
    assert memory.get_fact("car", "ann") is None
    memory.undo(memory.learned(1, user_id="ann")[0].id, "ann")

    assert memory.get_fact("car", "ann") == "Kia Picanto"


def test_an_item_of_a_list_ends_alone(memory):
    said(memory, "ann", "I've packed in the violin.")

    assert memory.get_fact("plays", "ann") == "chess"


def test_a_fact_that_the_user_has_set_is_only_proposed_to_end(memory):
    assert said(memory, "bob", "A lad came for it this morning, so the car is sold.") == [
        ("proposed", "car", "new")
    ]
    assert said(memory, "bob", "My violin went on eBay.") == [("proposed", "plays", "new")]

    assert memory.get_fact("car", "bob") == "Kia Picanto"
    assert memory.get_fact("plays", "bob") == "violin, chess"


def test_nobody_elses_facts_end(memory):
    assert said(memory, "eve", "The Kia is sold and I gave up chess.") == []

    assert memory.get_fact("car", "ann") == "Kia Picanto"


def test_the_sentence_that_ended_it_is_kept_unless_it_has_a_secret(memory):
    message = "I sold the Kia, and my password is hunter2xyz99!"
    kept = select(Extracted(), [message], memory, "ann", facts_only=True, secrets=False)

    assert [(one.kind, one.statement) for one in kept.claims if one.kind == KNOWN] == [(KNOWN, "")]


@pytest.mark.parametrize(
    "told",
    [
        "I joined Bosch in 2019 and left in May.",
        "I drive a Seat. I sold it in May.",
        "I bought a Kindle in March and sold it in May.",
        "I moved to Oslo in 2019 and left again in 2021.",
        "I work at Bosch. I no longer work at Bosch.",
        "I play the cello. I gave it up in March.",
    ],
)
def test_nothing_current_comes_of_what_is_told_and_ended_in_one_message(memory, told):
    assert said(memory, "eve", told) == []
    assert not memory.get_all_facts("eve")


def test_of_two_that_were_told_together_one_stays(memory):
    told = "I play the cello and oboe."
    learn(memory, "eve", told, Claim("plays", "cello and oboe", told, 0))

    said(memory, "eve", "I've packed in the cello.")

    assert memory.get_fact("plays", "eve") == "oboe"


def test_what_is_left_of_a_list_is_learned(memory):
    said(memory, "eve", "I play the cello and oboe. I've packed in the cello.")

    assert memory.get_fact("plays", "eve") == "oboe"


def test_a_later_line_of_the_same_reading_ends_what_an_earlier_one_told(memory):
    lines = ["I drive a Seat.", "The car's gone."]
    kept = select(Extracted(), lines, memory, "eve", facts_only=True, secrets=False)

    assert [(type(claim).__name__, claim.value) for claim in kept.claims] == [
        ("Claim", "Seat"),
        ("EndedValue", "Seat"),
    ]


@pytest.mark.parametrize(
    "message",
    [
        "I don't work at Bosch on Fridays any more.",
        "I left Bosch at five.",
        "I left Bosch a bad review.",
        "I quit Bosch's newsletter.",
        "I left Bosch early.",
        "We left Bonn early to beat the traffic.",
        "I moved out of Bonn's way.",
    ],
)
def test_what_is_over_for_today_or_of_something_else_ends_nothing(memory, message):
    for key, value, told in (("employer", "Bosch", "I'm at Bosch."), ("location", "Bonn", "I live in Bonn.")):
        learn(memory, "eve", told, Claim(key, value, told, 0))

    assert said(memory, "eve", message) == []

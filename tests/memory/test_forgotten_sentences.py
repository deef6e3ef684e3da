"""Undoing, rejecting or clearing a fact also takes its sentence out of memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.memory import Turn
from tests.memory.test_learned import Teller

WALNUTS = "I'm allergic to walnuts."


@pytest.fixture
def teller(database: str) -> Iterator[Teller]:
    teller = Teller(database)
    with teller.memory:
        yield teller


def archive(teller: Teller, said: str, answer: str = "", session: str = "") -> int:
    number = teller.memory.archive_turn(Turn(said, answer, int(teller.now), session or teller.session))
    assert number is not None
    return number


def remembered(teller: Teller) -> list[tuple[str, str]]:
    return [(record.question, record.answer) for record in teller.memory.list_memories()]


def learn_allergy(teller: Teller, said: str = WALNUTS) -> None:
    archive(teller, said, "Walnuts, noted.")
    teller.tell(said, facts={"allergy": "walnuts"})
    assert teller.facts() == {"allergy": "walnuts"}


def test_an_undone_fact_takes_its_sentence_along(teller: Teller) -> None:
    learn_allergy(teller)

    assert teller.memory.undo() is not None
    assert (teller.facts(), remembered(teller)) == ({}, [])
    assert teller.memory.search("What am I allergic to? walnuts") == []


def test_what_else_was_said_stays(teller: Teller) -> None:
    rest = "The meeting with Tove was moved to Friday."
    learn_allergy(teller, f"{WALNUTS} {rest}")

    teller.memory.undo()

    assert remembered(teller) == [(rest, "")]
    assert [hit.question for hit in teller.memory.search("meeting with Tove")] == [rest]


REST = "The meeting with Tove was moved to Friday."


@pytest.mark.parametrize(
    ("key", "known", "line", "answer", "left"),
    [
        # Nothing of the end is in the answer.
        ("employer", "Bosch", "I no longer work at Bosch.", "Friday it is.", "Friday it is."),
        ("employer", "Bosch", "I no longer work at Bosch.", "How was it at Bosch?", ""),
        # Of a list, only the item was told.
        ("allergy", "cats", WALNUTS, "Walnuts, noted.", ""),
        ("allergy", "cats", WALNUTS, "And no cats, I know.", "And no cats, I know."),
        ("allergy", "cats, nuts", "I'm no longer allergic to cats.", "Good for you!", "Good for you!"),
        ("allergy", "cats, nuts", "I'm no longer allergic to cats.", "Then get two cats!", ""),
        # Another word has the letters of the value.
        ("location", "Oslo", "I moved to Weißenburg.", "Weißenburg has walls.", ""),
        ("allergy", "cats", "I'm allergic to ham.", "Hamlet is on Friday.", "Hamlet is on Friday."),
    ],
)
def test_an_answer_goes_only_if_it_has_what_was_undone(
    teller: Teller, key: str, known: str, line: str, answer: str, left: str
) -> None:
    teller.memory.set_fact(key, known)
    teller.now += 60
    said = f"{line} {REST}"
    archive(teller, said, answer)
    teller.tell(said)

    [item] = [item for item in teller.memory.learned() if item.key == key]
    assert teller.memory.undo(item.id).state == "undone"

    assert teller.facts()[key] == known
    assert remembered(teller) == [(REST, left)]


def test_another_conversation_and_what_is_pinned_stay(teller: Teller) -> None:
    learn_allergy(teller)
    other = teller.memory.start_session()
    archive(teller, WALNUTS, "In another conversation.", other)
    pinned = archive(teller, f"Again: {WALNUTS}")
    teller.memory.pin_memory(pinned)

    teller.memory.undo()

    assert {question for question, _ in remembered(teller)} == {WALNUTS, f"Again: {WALNUTS}"}


def test_a_rejected_sentence_is_not_remembered(teller: Teller) -> None:
    teller.memory.set_fact("location", "Oslo", since=teller.now - 100)
    archive(teller, "I live in Bergen.", "Bergen is rainy.")
    teller.tell("I live in Bergen.", facts={"location": "Bergen"})
    assert teller.last().kind == "proposed"

    assert teller.memory.reject() is not None
    assert remembered(teller) == []
    assert teller.facts()["location"] == "Oslo"


@pytest.mark.parametrize(("source", "n_left"), [("user", 0), ("tool", 1)])
def test_a_fact_that_the_user_clears_takes_its_sentence_along(
    teller: Teller, source: str, n_left: int
) -> None:
    learn_allergy(teller)

    assert teller.memory.clear_fact("allergy", source=source)
    assert len(remembered(teller)) == n_left


def test_a_list_that_the_user_clears_takes_the_sentences_of_its_items_along(teller: Teller) -> None:
    for line in (
        "I'm allergic to cats.",
        "I'm no longer allergic to cats.",
        WALNUTS,
        "I'm allergic to kiwi.",
    ):
        archive(teller, line, "I see.")
        teller.tell(line)
        teller.now += 60
    assert teller.facts() == {"allergy": "walnuts, kiwi"}

    assert teller.memory.clear_fact("allergy")

    said = {question for question, _ in remembered(teller)}
    assert not said & {WALNUTS, "I'm allergic to kiwi."}

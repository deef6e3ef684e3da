"""Answers of the bundled model to tasks, and to messages with attached documents."""

from __future__ import annotations

import pytest

from shepherd.knowledge import attached_block
from shepherd.prompt.archive_policy import archived_answer
from shepherd.turn.small_model import Promise, Review
from shepherd.types import Fact, Message

DIARY = "My name is Gerald Okafor. I live in Porto with my wife Beatriz.\n\nI have two cats. I am a plumber."
NO_REMINDERS = "I can't set reminders, alarms or timers: I only answer when you write to me."
UNKNOWN = "I don't know that."
NOTHING = "I have nothing stored about that."


def attached(text: str, document: str = DIARY) -> Message:
    return Message("user", text, composed=f"{text}\n\n{attached_block('diary.txt', document)}")


def shown(message: Message, written: str, *before: Message, facts=(), stores=True) -> str:
    review = Review([*before, message], facts, Promise(stores=stores))
    return review.feed(written) + review.end("stop")


@pytest.mark.parametrize("task", ["summarise this", "Translate it into French", "Summarise my diary"])
@pytest.mark.parametrize(
    "written", ["I see.", "Nice, I'll remember that.", "I don't know that.", "Your wife is Porto."]
)
def test_task_with_an_attached_document_is_declined(task, written):
    assert shown(attached(task), written).startswith("I'm only the bundled demo model and can't help")


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("Who am I?", "Your name is Gerald Okafor."),
        ("What do you know about me?", "Nice to meet you, Gerald Okafor."),
        ("Do I work?", "You work as a plumber."),
        ("How many cats do I have?", "You have two cats."),
    ],
)
def test_attached_document_is_never_taken_for_what_the_user_said(question, written):
    said = shown(Message("user", question), written, attached("here is a diary"))
    now = shown(attached(question), written)

    assert said == now
    assert said in (UNKNOWN, NOTHING) or said.startswith('Your document "diary.txt" says: "')


def test_fact_is_told_beside_an_attached_document_that_says_otherwise():
    facts = [Fact("name", "Zoe Hart", 0, 0)]

    assert shown(attached("Who am I?"), "Your name is Gerald.", facts=facts) == "Your name is Zoe Hart."


@pytest.mark.parametrize("asked", ["Remind me to call mum at 5", "remind me tomorrow to pay the rent"])
@pytest.mark.parametrize("written", ["I don't know that.", "Nice, I'll remember that.", "Your mum is 5."])
def test_no_reminder_is_promised(asked, written):
    assert shown(Message("user", asked), written) == NO_REMINDERS


@pytest.mark.parametrize(
    ("stores", "answer"),
    [
        (True, f"I'll remember that, but {NO_REMINDERS}"),
        (False, f"I'll keep that in mind, but {NO_REMINDERS}"),
    ],
)
def test_no_reminder_is_promised_of_what_is_remembered(stores, answer):
    told = Message("user", "I have to be at the dentist's at 5, remind me to leave at 4")
    said = shown(told, "Nice, I'll remember that.", stores=stores)

    assert said == answer
    assert not archived_answer(said)


def test_question_beside_a_reminder_is_answered():
    asked = Message("user", "Remind me to call mum. What is my name?")
    said = shown(asked, "Your name is Zoe Hart.", facts=[Fact("name", "Zoe Hart", 0, 0)])

    assert said == f"{NO_REMINDERS} Your name is Zoe Hart."

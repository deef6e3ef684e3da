"""Tasks that a message sets, which a model that only remembers cannot do."""

from __future__ import annotations

import pytest

from shepherd.prompt.tasks import asks_for_reminder, is_task


@pytest.mark.parametrize(
    "text",
    [
        "summarise this",
        "Summarize the lease, please",
        "Summarise my lease",
        "Translate my name into Japanese",
        "Can you proofread this?",
        "fix the spelling in this text",
        "Explain recursion",
        "Write a poem about herons",
        "Thanks. Now translate it into French.",
    ],
)
def test_work_on_a_text_is_a_task(text):
    assert is_task(text)


@pytest.mark.parametrize(
    "text",
    [
        "Correct",
        "Fine, thanks",
        "Answer in German",
        "Be brief",
        "List my pets",
        "What is my name?",
        "My brother translates novels",
        "I write poems about herons, so explain metre to me",
        "The lease ends in March",
        "ok",
    ],
)
def test_statement_or_agreement_is_no_task(text):
    assert not is_task(text)


@pytest.mark.parametrize(
    "text",
    [
        "Remind me to call mum at 5",
        "remind me tomorrow to pay the rent",
        "Can you remind me at six?",
        "Please remind me on Friday",
        "Wake me at 7",
        "set a timer",
        "Hey Shepherd, set me an alarm for 6",
        "Create a daily reminder",
        "I have to be at the dentist's at 5, remind me to leave at 4",
        "The bins go out tonight. Don\u2019t forget to remind me to do it.",
    ],
)
def test_reminder_is_recognised_beside_what_is_told(text):
    assert asks_for_reminder(text)


@pytest.mark.parametrize(
    "text",
    [
        "Remind me of my sister's name",
        "Remind me what I said about Lisbon",
        "remind me to whom I lent the ladder",
        "Remind me in which street Ida lives",
        "remind me at what time I get up",
        "My alarm is set for 6",
        "I set an alarm for 6 every day",
        "The burglars set off the alarm",
        "What reminders did I set?",
        "My mother wakes me at 7",
    ],
)
def test_question_or_statement_about_reminders_asks_for_none(text):
    assert not asks_for_reminder(text)

"""A message's questions, each by itself."""

from __future__ import annotations

import pytest

from shepherd.prompt.questions import Question, core_of, questions_in, relations_in


def texts(message: str) -> list[str]:
    return [question.text for question in questions_in(message)]


@pytest.mark.parametrize(
    ("message", "questions"),
    [
        ("What is my name? And where do I work?", ["What is my name?", "And where do I work?"]),
        ("What's my name and where do I live?", ["What's my name?", "where do I live?"]),
        (
            "How tall is Ida, and what does Leo fear?",
            ["How tall is Ida?", "what does Leo fear?"],
        ),
        (
            "What's my job, where does Ida live and do I have a car?",
            ["What's my job?", "where does Ida live?", "do I have a car?"],
        ),
        ("Where is it, and is smoking permitted?", ["Where is it?", "is smoking permitted?"]),
        ("What car do I drive; which bike do I ride", ["What car do I drive?", "which bike do I ride?"]),
        ("Tell me who I am and where I live.", ["Tell me who I am?", "where I live?"]),
        ("Hi! Tell me my cat's name. Who feeds the fish?", ["Tell me my cat's name?", "Who feeds the fish?"]),
        ("Hello all, what is it called? Who made it?", ["Hello all, what is it called?", "Who made it?"]),
        # Several things of one question.
        ("What are my name and age?", ["What are my name?", "What are my age?"]),
        ("What is my wife's name and hat size?", ["What is my wife's name?", "What is my wife's hat size?"]),
        (
            "What is my wife's job, age and my car?",
            ["What is my wife's job?", "What is my wife's age?", "What is my car?"],
        ),
        ("What are my dog and my cat called?", ["What are my dog called?", "What are my cat called?"]),
    ],
)  # fmt: skip
def test_each_question_of_a_message_stands_alone(message, questions):
    assert texts(message) == questions


@pytest.mark.parametrize(
    "message",
    [
        "What is my name?",
        "When and where is the concert?",
        "Do you know when and where we meet?",
        "Hello Kim, what is my name?",
        "Can you tell me, where do I live?",
        "What did I eat in Rome, when I was there?",
        "What did I eat in Rome and when I was in Bari?",
        "What is the difference between salt and pepper?",
        "What is my opinion of salt and pepper?",
        "My dog is called Rex. What is my job? Where do I live?",
        "My dog is called Rex, what is my job?",
        "I like tea.",
        "",
    ],
)
def test_message_with_one_question_or_a_statement_stays_whole(message):
    assert questions_in(message) == [Question(message)]


def test_name_of_an_attached_document_is_no_part_of_a_question():
    assert texts("@notes/lease.md: when does it end?") == ["when does it end?"]
    assert texts('When does it end, and what is in @"my lease.md"?') == ["When does it end?", "what is in?"]
    assert texts("Who is @anna?") == ["Who is @anna?"]
    assert texts("@lease.md") == ["@lease.md"]


@pytest.mark.parametrize(
    ("message", "later"),
    [
        ("What is my dog called and how old is he?", Question("how old is my dog?")),
        ("Who is my sister? What is her job?", Question("What is my sister's job?")),
        ("How old is Ida Berg and who is her teacher?", Question("who is Ida Berg's teacher?")),
        ("How old is Ida, and when did I last see her?", Question("when did I last see Ida?")),
        ("How many kids do I have? What are they called?", Question("What are my kids called?")),
        # Not sure what it refers to.
        ("Who has the key? Where is it?", Question("Where is it?", "Who has the key?")),
        ("Does Ida know Leo? Where does he live?", Question("Where does he live?", "Does Ida know Leo?")),
        ("What is my dog's name? How many fleas are there?", Question("How many fleas are there?")),
        ("Who leads the survey, and when?", Question("when?", "Who leads the survey?")),
    ],
)
def test_later_question_says_what_it_refers_to(message, later):
    assert questions_in(message)[1] == later


@pytest.mark.parametrize(
    ("text", "core", "around"),
    [
        ("My card is lost, what's my bank?", "what's my bank?", "My card is lost"),
        ("What is my bank? My card is lost.", "What is my bank?", "My card is lost."),
        ("My student number, what is it?", "what is it?", "My student number"),
        ("where is the cat, and I mean Pebble", "where is the cat", "and I mean Pebble"),
        ("I like tea.", "I like tea.", ""),
        (
            "I moved. Where do I live now, since I moved? Thanks a lot.",
            "Where do I live now",
            "I moved. since I moved? Thanks a lot.",
        ),
        (
            "My card is lost; it was blue. Tell me my bank. It is urgent. Really.",
            "Tell me my bank.",
            "My card is lost it was blue. It is urgent. Really.",
        ),
    ],
)
def test_what_asks_is_told_from_what_stands_around_it(text, core, around):
    assert core_of(text) == (core, around)


def test_people_and_animals_of_the_user_are_told_from_things():
    assert relations_in("Is my dog here with my sister and my van?") == ["dog", "sister"]
    assert relations_in("Is the dog here?") == []

"""The bundled model answers with what was told of those who are asked about, and not with others' facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import resolve
from shepherd.memory import Memory

# What is told, a question, and the beginning of an answer that would be wrong.
WRONG = (
    ("My neighbour Paul drives a Porsche.", "What car do I drive?", "You drive"),
    ("My neighbour Paul drives a Porsche.", "Which car do I own?", "You drive"),
    ("My son Tim is allergic to nuts. I'm not allergic to anything.", "What am I allergic to?", "You are"),
    ("My boss has three children.", "How many children do I have?", "You have"),
    ("My boss supports Ajax.", "Which team do I support?", "You support"),
    ("My boss plays the piano.", "What instrument do I play?", "You play"),
    ("My brother Jan works as a baker.", "What is my job?", "You work"),
    ("My brother works as a baker.", "What do I do for a living?", "You told me"),
    ("My friend Leo lives in Paris.", "Where do I live?", "You live"),
    ("My sister Ida has two kids, Mia and Ben.", "What are my kids called?", "Your children"),
    ("My sister Ida has two kids, Mia and Ben.", "How many kids do I have?", "You told me"),
    ("I dream of living in Rome.", "Where do I live?", "You live"),
    ("If I were rich I would live in Monaco.", "Where do I live?", "You live"),
    ("I would love to drive a Tesla.", "What car do I drive?", "You drive"),
    ('My boss said "I drive a BMW and I am 50 years old".', "What car do I drive?", "You drive"),
    ('My boss said "I drive a BMW and I am 50 years old".', "How old am I?", "You are"),
    ('Paul told me: "I live in Oslo."', "Where do I live?", "You live|You told me"),
    ("My boss works at Philips in Eindhoven.", "Where do I work?", "You work"),
    (
        "My name is Anna. My twin brother's name is Jonas and he is left-handed.",
        "Am I left-handed?",
        "You told me",
    ),
    ("My dad takes warfarin.", "What does my dad take?", "Your dad"),
    ("My son drinks milk and eats bananas.", "What does my son eat?", "Your son"),
    ("My son drinks milk and eats bananas.", "What is my son allergic to?", "Your son"),
    ("My wife is called Dora.", "What is my ex-wife called?", "Your ex-wife"),
    (
        "My ex-wife Carla lives in Rome. My wife Dora lives with me in Ulm.",
        "Where does Dora live?",
        r'You told me earlier: "My ex-wife Carla lives in Rome\."$',
    ),
    ("I live in Kiel.", "Where did I live before?", "You live"),
    ("My colleague Sven speaks Finnish.", "Which languages do I speak?", "You speak"),
    ("My flatmate gets up at 5.", "When do I get up?", "You get"),
    ("My teacher is 61 years old.", "How old am I?", "You are|You told me"),
    ("My dad is allergic to cats.", "What am I allergic to?", "You told me"),
    ("My neighbour is 1.95 m tall.", "How tall am I?", "You are"),
    ("My mum's phone number is 0171 555 123.", "What is my phone number?", "Your phone"),
    ("My wife's shoe size is 38.", "What is my shoe size?", "Your shoe"),
    ("My friend's dog is called Bello.", "What is my dog called?", "Your dog"),
    ("My brother wants to travel to Peru.", "Where do I want to travel?", "You want"),
    ("Paul has three cats.", "How many cats do I have?", "You told me"),
    ("My husband drives an old Saab.", "What do I drive?", "You drive|You told me"),
    ("My parents live in Graz.", "Where do I live?", "You live"),
    ("Anna and Ben live in Rome.", "Where do I live?", "You live|You told me"),
    ("She drives a Mini.", "What car do I drive?", "You drive"),
    ("My son would love to live in Tokyo.", "Where does my son live?", "Your son"),
    ("My cousin's favourite colour is red.", "What is my favourite colour?", "Your favorite"),
    ("Our neighbours have two dogs.", "How many dogs do I have?", "You told me"),
    ("My colleague's wife is called Petra.", "What is my wife called?", "Your wife"),
    ("My friend's son plays chess.", "What does my son play?", "Your son"),
    ("My dad's car is a Volvo.", "What is my car?", "You drive"),
    ("The neighbour's cat is called Tiger.", "What is my cat called?", "Your cat"),
    ("Maybe I am allergic to eggs.", "What am I allergic to?", "You are"),
    ("My son's teacher is called Ms Bell.", "What is my teacher called?", "Your teacher"),
    ("My first car was a Fiat. I drive a Volvo.", "What car did I drive before?", "You drive"),
)
# What is told, a question, and what its answer has.
RIGHT = (
    ("I drive a Porsche.", "What car do I drive?", "Porsche"),
    ("I'm allergic to nuts. My son is allergic to eggs.", "What am I allergic to?", "nuts"),
    ("I'm allergic to nuts. My son is allergic to eggs.", "What is my son allergic to?", "eggs"),
    ("I have three children.", "How many children do I have?", "three"),
    ("I support Ajax.", "Which team do I support?", "Ajax"),
    ("I play the piano.", "What instrument do I play?", "piano"),
    ("My brother works as a plumber.", "What does my brother do?", "plumber"),
    ("My brother Jan works as a baker.", "What is my brother called?", "Jan"),
    ("My friend Leo lives in Paris.", "Where does Leo live?", "Paris"),
    ("My friend Leo lives in Paris.", "Where does my friend Leo live?", "Paris"),
    ("My friend Leo lives in Paris.", "Who lives in Paris?", "Leo"),
    ("My neighbour Paul drives a Porsche.", "What car does Paul drive?", "Porsche"),
    ("My neighbour Paul drives a Porsche.", "What does my neighbour drive?", "Porsche"),
    ("My boss has three children.", "How many children does my boss have?", "three"),
    ("My boss supports Ajax.", "Which team does my boss support?", "Ajax"),
    ("My sister Ida has two kids, Mia and Ben.", "What are my sister's kids called?", "Mia and Ben"),
    ("My sister Ida has two kids, Mia and Ben.", "What is my sister called?", "Ida"),
    ("I have two kids, Mia and Ben.", "What are my kids called?", "Mia and Ben"),
    ("My kids are called Mia and Ben.", "What are my kids called?", "Mia and Ben"),
    ("I live in Rome.", "Where do I live?", "Rome"),
    ("We live in Rome.", "Where do we live?", "Rome"),
    ("My boss works at Philips.", "Where does my boss work?", "Philips"),
    ("I work at Philips.", "Where do I work?", "Philips"),
    ("I'm left-handed.", "Am I left-handed?", "left-handed"),
    ("My dad takes warfarin.", "What does my dad take?", "warfarin"),
    ("My son drinks milk and eats bananas.", "What does my son eat?", "bananas"),
    ("My brother is called Tom.", "What is my brother called?", "Tom"),
    ("My wife is called Dora.", "What is my wife called?", "Dora"),
    ("My wife works as a nurse.", "What does my wife do?", "nurse"),
    ("My wife lives in Lisbon.", "Where does my wife live?", "Lisbon"),
    ("My ex-wife is called Carla.", "What is my ex-wife called?", "Carla"),
    ("My ex-wife Carla lives in Rome. My wife Dora lives with me in Ulm.", "Where does Carla live?", "Rome"),
    ("I hate fish.", "What do I hate?", "fish"),
    ("I used to work at Shell but now I work at BP.", "Where do I work?", "BP"),
    ("I speak Finnish and Dutch.", "Which languages do I speak?", "Finnish"),
    ("I get up at 5.", "When do I get up?", "5"),
    ("I am 61 years old.", "How old am I?", "61"),
    ("My teacher is 61 years old.", "How old is my teacher?", "61"),
    ("I program in Rust.", "Which programming language do I use?", "Rust"),
    ("I'm 1.95 m tall.", "How tall am I?", "1.95"),
    ("I parked the van on Elm Street.", "Where did I park?", "Elm"),
    ("My phone number is 0171 555 123.", "What is my phone number?", "0171"),
    ("My mum's phone number is 0171 555 123.", "What is my mum's phone number?", "0171"),
    ("My shoe size is 38.", "What is my shoe size?", "38"),
    ("My dog is called Bello.", "What is my dog called?", "Bello"),
    ("I'm reading Dune.", "What book am I reading?", "Dune"),
    ("I want to travel to Peru.", "Where do I want to travel?", "Peru"),
    ("I have three cats.", "How many cats do I have?", "three"),
    ("My birthday is 3 May.", "When is my birthday?", "3 May"),
    ("My dad's birthday is 3 May.", "When is my dad's birthday?", "3 May"),
    ("My daughter Mia is 6. My son Ben is 9.", "How old is Mia?", "6"),
    ("My sister lives in Bern. My brother lives in Graz.", "Where does my brother live?", "Graz"),
    ("The boiler code word is on the fridge.", "Where is the boiler code word?", "fridge"),
    ("I lent my drill to Paul.", "Who has my drill?", "Paul"),
    ("My car is a Skoda.", "What car do I have?", "Skoda"),
    ("My wife Dora drives a Fiat.", "What does Dora drive?", "Fiat"),
    ("My wife Dora drives a Fiat.", "What car does my wife drive?", "Fiat"),
    ("Tim, my son, is allergic to nuts.", "What is Tim allergic to?", "nuts"),
    ("The plumber is called Meier and his number is 555 1234.", "What is the plumber called?", "Meier"),
    ("Our landlord is called Hopkins.", "What is our landlord called?", "Hopkins"),
    ("My blood type is A negative.", "What is my blood type?", "A negative"),
    ("I'm married to Ben, who works as a cook.", "Who am I married to?", "Ben"),
    ("My husband is a cook.", "What does my husband do?", "cook"),
    ("My older brother is called Max and my younger brother Tim.", "What is my older brother called?", "Max"),
    ("My favourite colour is green.", "What is my favourite colour?", "green"),
    ("My wife and I live in Rome.", "Where do I live?", "Rome"),
    ("My wife and I live in Rome.", "Where do we live?", "Rome"),
    ("My girlfriend Eva and I have a cat called Miro.", "What is my cat called?", "Miro"),
    ("I work for Siemens, my wife works for Bosch.", "Where do I work?", "Siemens"),
    ("I'm 42 and my son is 9.", "How old is my son?", "9"),
    ("My son plays the violin and I play the cello.", "What instrument do I play?", "cello"),
    ("My son plays the violin and I play the cello.", "What does my son play?", "violin"),
    ("My mum lives in Bath and my dad lives in Leeds.", "Where does my mum live?", "Bath"),
    ("My mum lives in Bath and my dad lives in Leeds.", "Where does my dad live?", "Leeds"),
    ("I support Arsenal but my dad supports Chelsea.", "Which team do I support?", "Arsenal"),
    ("I support Arsenal but my dad supports Chelsea.", "Which team does my dad support?", "Chelsea"),
    ("I am allergic to cats, my wife is allergic to dogs.", "What is my wife allergic to?", "dogs"),
    ("I am allergic to cats, my wife is allergic to dogs.", "What am I allergic to?", "cats"),
    ("My ex-husband is called Ralf and my husband is called Jan.", "What is my husband called?", "Jan"),
    ("My ex-husband is called Ralf and my husband is called Jan.", "What is my ex-husband called?", "Ralf"),
)


@pytest.fixture(scope="module")
def bundled() -> Iterator[Engine]:
    with Engine(resolve(""), settings=EngineSettings(n_threads=1)) as engine:
        yield engine


def answers(engine: Engine, path: Path, said: str, question: str) -> list[str]:
    """Return the answers in the same conversation and in a new one."""
    with Memory(path, user_id="steve") as memory:
        first, second = (
            Assistant(engine, memory, user_id="steve", config=Config(trace_turns=False)) for _ in range(2)
        )
        for _ in first.ask(said):
            pass
        return [str([*one.ask(question)][-1].answer) for one in (first, second)]


@pytest.mark.parametrize(("said", "question", "wrong"), WRONG)
def test_what_was_told_of_others_is_not_said_of_whom_is_asked_about(bundled, tmp_path, said, question, wrong):
    for answer in answers(bundled, tmp_path / "own.db", said, question):
        assert not re.match(f"(?:{wrong})", answer)


@pytest.mark.parametrize(("said", "question", "right"), RIGHT)
def test_what_was_told_of_them_is_answered(bundled, tmp_path, said, question, right):
    assert all(right in answer for answer in answers(bundled, tmp_path / "own.db", said, question))

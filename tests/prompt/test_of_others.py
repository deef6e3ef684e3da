"""Questions about somebody else, in words that a fact of the user's has as well."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.types import Fact

FACTS = [
    Fact(key, value, 0, 0)
    for key, value in {
        "name": "Peter Maier",
        "dentist": "Dr Ross",
        "doctor": "Dr Patel",
        "vet": "Dr Lee",
        "school": "Oak Primary",
        "employer": "Siemens",
        "car": "VW Golf",
        "car_color": "red",
        "phone": "0999 111",
        "birthday": "14 May 1990",
        "landlord": "Mr Bell",
        "landlord_phone": "0123 44",
        "gym": "FitBox",
        "gym_phone": "0222 1",
        "wife": "Anna",
        "wife_phone": "0333 1",
        "son": "Leo",
        "son_school": "Elm High",
        "dog": "Rex",
        "boss": "Tina",
        "boss_birthday": "3 May",
        "emergency_contact": "Ida 0771",
    }.items()
]


def keys(question: str) -> list[str]:
    return [fact.key for meant in asked_facts(question, FACTS) for fact in meant]


@pytest.mark.parametrize(
    "question",
    [
        "My boss has toothache. What's the name of his dentist?",
        "My landlord has toothache. What's the name of his dentist?",
        "Paul went to the dentist. What's the name of his dentist?",
        "My wife has toothache. What's the name of her dentist?",
        "My mate broke a tooth. Which dentist does he go to?",
        "Tom starts tomorrow. What's the name of his school?",
        "What's the name of their school?",
        "What's the colour of his car?",
        "My neighbours moved. What's the colour of their car?",
        "What car does she drive?",
        "Tom's moving. What's the name of her employer?",
        "He has a new job. What's the name of his employer?",
        "My neighbour is ill. Who is her doctor?",
        "The Queen was ill. Who is her doctor?",
        "My colleague has a cat. What's the name of her vet?",
        "My friend's dog is ill. Who is his vet?",
        "My sister's cat is ill. Who's her vet?",
        "Tell me his phone number",
        "Tom rang. What's his phone number?",
        "Trump is 80. When is his birthday?",
    ],
)
def test_what_is_his_or_hers_is_not_the_users(question):
    assert keys(question) == []


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("My landlord rang. What's his number?", "landlord_phone"),
        ("My gym called. What's their number?", "gym_phone"),
        ("My wife wants a call. What's her number?", "wife_phone"),
        ("My boss is 50 soon. When is her birthday?", "boss_birthday"),
        ("My car is dirty. What colour is she?", "car_color"),
        ("Leo starts tomorrow. What's the name of his school?", "son_school"),
        ("My son starts tomorrow. What's the name of his school?", "son_school"),
        ("My dog's ill. Who is his vet?", "vet"),
        ("We have a dog. Who's her vet?", "vet"),
        ("What is the emergency contact they should ring?", "emergency_contact"),
        ("My tooth hurts. What's the name of the dentist?", "dentist"),
        ("My vet said she needs my name. What's my name?", "name"),
        ("She wants to know my employer. What is my employer?", "employer"),
        ("Where do I work, they ask me?", "employer"),
    ],
)
def test_whom_the_message_names_is_asked_about(question, key):
    assert keys(question) == [key]


@pytest.mark.parametrize(
    "question",
    [
        "Who is the doctor in Doctor Who?",
        "Who is the doctor in the series House?",
        "Who plays the doctor in Doctor Who?",
        "Who is the boss in The Office?",
        "What's the name of the school in Harry Potter?",
        "Who's the dentist in Finding Nemo?",
        "Who is the landlord in Eastenders?",
        "Who is the doctor of the Pope?",
    ],
)
def test_what_is_of_a_work_or_of_another_place_is_not_the_users(question):
    assert keys(question) == []


@pytest.mark.parametrize(
    ("question", "key", "facts"),
    [
        ("Who is the doctor?", "doctor", {"doctor": "Dr Patel"}),
        ("Who is the doctor at the hospital?", "doctor", {"doctor": "Dr Patel"}),
        ("Who is the dentist in the Old Mill?", "dentist", {"dentist": "Dr Ross, Old Mill"}),
        ("Who is my dentist in Leeds?", "dentist", {"dentist": "Dr Ross in Leeds"}),
        ("What's the wifi password at Home?", "wifi_password", {"wifi_password": "x1"}),
        ("When is the exam in May?", "exam_date", {"exam_date": "3 May"}),
        ("Who was my doctor again?", "doctor", {"doctor": "Dr Patel", "vet": "Dr Lee"}),
        (
            "Who was my doctor?",
            "former_doctor",
            {"doctor": "Dr Patel", "former_doctor": "Dr Wu", "vet": "Dr Lee"},
        ),
        ("Who was my vet?", "vet", {"doctor": "Dr Patel", "vet": "Dr Lee"}),
        ("Who is the doctor of my dog?", "vet", {"doctor": "Dr Patel", "vet": "Dr Lee", "dog": "Rex"}),
        ("What was my phone number?", "old_phone", {"phone": "0999", "old_phone": "0777"}),
        ("Where did I grow up?", "hometown", {"location": "Berlin", "hometown": "Ulm"}),
    ],
)
def test_what_is_the_users_is_told(question, key, facts):
    found = asked_facts(question, [Fact(name, value, 0, 0) for name, value in facts.items()])
    assert [fact.key for meant in found for fact in meant] == [key]


def test_where_the_very_thing_is_of_another_time_a_related_one_is_no_answer():
    facts = [Fact("doctor", "Dr Patel", 0, 0), Fact("vet", "Dr Lee", 0, 0)]

    assert asked_facts("Who was my doctor?", facts) == [[]]

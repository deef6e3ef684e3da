"""Questions that the value of a fact can answer, and phrases that stand for one word."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts, is_of_others, names_a_thing
from shepherd.types import Fact


def found(question: str, **facts: str) -> list[str]:
    known = [Fact(key, value, 0, 0) for key, value in facts.items()]
    return [fact.key for meant in asked_facts(question, known) for fact in meant]


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("When does my passport run out?", "passport_expiry", "14 June 2031"),
        ("What time is choir practice?", "choir_practice", "Mondays at 19:30"),
        ("How long are my skis?", "ski_length", "165"),
        ("How many grandchildren do I have?", "grandchildren", "Ayo, Bisi and Tunde"),
        ("Where do I work out?", "gym", "Iron Lodge"),
        ("Where's the spare key?", "spare_key", "with Mrs Ekwueme"),
        ("What's my library card number?", "library_card", "LC-55810"),
        ("emergency contact number?", "emergency_contact", "Yusuf, 07700 900417"),
        ("Where did I go to uni?", "university", "Uppsala"),
        ("What did my dad do for a living?", "father_occupation", "glazier"),
        ("Where am I moving next?", "next_move", "Tallinn in February"),
        ("Where did I live before this?", "previous_city", "Accra"),
        ("Which food can't I stand?", "disliked_food", "beetroot"),
        ("What should I not eat?", "allergies", "cashews"),
        ("How do I get to work?", "commute", "tram 6 to Holmen"),
        ("Which time zone am I in?", "timezone", "Africa/Lagos"),
        ("What's the place called where I work?", "workplace", "Hilltop Clinic"),
        ("what should they call me", "preferred_name", "Rike"),
        ("What's my husband's mother called?", "mother_in_law", "Rosamund"),
        ("when is Caleb's birthday", "brother_birthday", "3 November"),
    ],
)
def test_questions_find_what_answers_them(question, key, value):
    assert found(question, **{key: value}, sibling="older brother Caleb") == [key]


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("When is my passport's photo due?", "passport_country", "Namibia"),
        ("Who is my piano teacher?", "piano_lesson", "Fridays at four"),
        ("How long is my commute?", "commute", "tram 6 to Holmen"),
        ("How many employees do we have?", "employee_number", "70413"),
        ("Where is my gym?", "gym", "Iron Lodge"),
        ("Where does my father work?", "father_occupation", "glazier"),
        ("What's my car's number?", "car", "a 2016 Volvo V60 estate"),
        ("What's my passport number?", "passport_expiry", "14 June 2031"),
        ("When did we marry?", "name", "Marta Silva"),
        ("What food do I like?", "disliked_food", "beetroot"),
        ("What food do I hate?", "favorite_food", "pierogi"),
        ("What book am I reading?", "favorite_book", "The Leopard"),
        ("What band did I play in?", "favorite_band", "Tinariwen"),
        ("What's my eldest called?", "youngest_child", "Pim"),
        ("What's my sister's name?", "sibling", "older brother Caleb"),
        ("What's my dog called?", "pet", "a ferret called Dub"),
        ("Who is my godfather?", "godfather_of", "little Amadou"),
        ("What do I take for my allergy?", "allergy", "pollen"),
        ("Who fixes my car?", "car", "Fiat Panda"),
        ("Who gave me the dog?", "dog_name", "Bolt"),
        ("What is my phone PIN?", "phone_pin_hint", "grandad's house"),
        ("When do I move out?", "move_in_date", "1 March 2021"),
        ("What's the registration of my car?", "car", "Fiat Panda"),
    ],
)
def test_a_fact_answers_no_question_for_something_else(question, key, value):
    assert found(question, **{key: value}) == []


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("When did I last give blood?", "blood_type", "AB positive"),
        ("How do I clean the printer?", "printer", "Brother HL-L2350"),
        ("How long is my commute?", "commute", "tram 6 to Holmen"),
    ],
)
def test_a_sentence_with_a_fact_that_cannot_answer_is_about_others(question, key, value):
    fact = Fact(key, value, 0, 0)

    assert is_of_others(question, fact, [fact])
    assert not is_of_others(f"What is my {key.replace('_', ' ')}?", fact, [fact])


def test_a_thing_alone_is_asked_for():
    assert all(map(names_a_thing, ("my shoe size pls", "number of my locker", "my library card no.")))
    assert not any(map(names_a_thing, ("my sister is called Ida", "I moved to Ulm", "thanks a lot")))

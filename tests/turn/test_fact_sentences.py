"""What is known, and what was learned, in sentences."""

import pytest

from shepherd.memory import LearnedItem
from shepherd.turn.fact_sentences import (
    asked_for,
    ended_clause,
    fact_clause,
    former_clause,
    learned_clause,
    sentence,
)


@pytest.mark.parametrize(
    ("key", "value", "said", "ended"),
    [
        ("location", "Ulm", "you live in Ulm", "you no longer live in Ulm"),
        ("allergy", "nuts", "you are allergic to nuts", "you are no longer allergic to nuts"),
        ("allergies", "nuts", "you are allergic to nuts", "you are no longer allergic to nuts"),
        ("wedding", "12 June 2027", "your wedding is on 12 June 2027", None),
        ("exam", "hard", "your exam is hard", None),
        ("condition", "asthma", "you have asthma", "you no longer have asthma"),
        ("condition", "left-handed", "you are left-handed", "you are no longer left-handed"),
        ("condition", "asthma, colour-blind", "you are colour-blind and have asthma", None),
        ("condition", "diabetic, left-handed", "you are diabetic and left-handed", None),
        ("condition", "wheelchair user", "you are a wheelchair user", "you are no longer a wheelchair user"),
        ("condition", "high blood pressure", "you have high blood pressure", None),
        ("sister_condition", "deaf", "your sister is deaf", "your sister is no longer deaf"),
        ("son_condition", "asthma, deaf", "your son is deaf and has asthma", None),
        ("twins_condition", "asthma", "your twins have asthma", "your twins no longer have asthma"),
        ("car", "rusty Berlingo", "your car is a rusty Berlingo", "you no longer have a rusty Berlingo"),
        ("boss_name", "Ingrid", "your boss is called Ingrid", "your boss is no longer called Ingrid"),
        ("bus", "13A", "your bus is 13A", "your bus is no longer 13A"),
        ("camera_lens", "Tamron", "your camera lens is Tamron", None),
        ("twins_name", "Isla and Wren", "your twins are called Isla and Wren", None),
        ("car", "Audi", "your car is an Audi", "you no longer have an Audi"),
        ("pets", "tortoise, two cats", "you have a tortoise and two cats", None),
        ("pets", "rabbit, two hens, goat", "you have a rabbit, two hens and a goat", None),
        ("children", "three kids, daughter", "you have three kids, among them a daughter", None),
        ("children", "Mia, Ben", "your children are Mia, Ben", None),
        ("community_role", "lead singer in a band", "you are the lead singer in a band", None),
        ("community_role", "deacon in our parish", "you are a deacon in your parish", None),
        ("community_role", "captain of our team", "you are captain of your team", None),
        ("teaches", "maths", "you teach maths", "you no longer teach maths"),
        ("learns", "Dutch", "you are learning Dutch", "you are no longer learning Dutch"),
        ("coffee", "black", "your coffee is black", "your coffee is no longer black"),
        ("hobbies", "chess", "your hobbies are chess", "your hobbies are no longer chess"),
        ("sister_location", "Rome", "your sister lives in Rome", "your sister no longer lives in Rome"),
        ("cats_name", "Jo, Di", "your cats are called Jo, Di", "you no longer have cats called Jo, Di"),
        ("children", "2", "you have 2 children", "you no longer have 2 children"),
        ("children", "two sons", "you have two sons", "you no longer have two sons"),
        ("pets", "iguana", "you have an iguana", "you no longer have an iguana"),
        ("pickle_age", "11", "Pickle is 11 years old", "Pickle is no longer 11 years old"),
        ("instructions", "Use emoji", "you want me to use emoji", "you no longer want me to use emoji"),
        ("nut_allergy", "Mateo has one", "Mateo has one", "no longer: Mateo has one"),
        ("vegan", "yes", "vegan: yes", "no longer yes (vegan)"),
        ("retired_since", "2017", "retired since 2017", "no longer: retired since 2017"),
        ("retired_in", "2019", "retired in 2019", "no longer: retired in 2019"),
        ("twins_age", "9", "your twins are 9 years old", "your twins are no longer 9 years old"),
        ("lives_in", "Cork", "you live in Cork", "you no longer live in Cork"),
        ("keeps", "bees", "you keep bees", "you no longer keep bees"),
        ("listens_to", "jazz", "you listen to jazz", "you no longer listen to jazz"),
        ("volunteers_at", "hospice", "you volunteer at the hospice", None),
        ("banks_with", "Nationwide", "you bank with Nationwide", "you no longer bank with Nationwide"),
        ("coaches", "under-12s", "you coach under-12s", None),
        ("member_of", "Bach choir, Rotary", "you are a member of the Bach choir and Rotary", None),
        ("member_of", "book club in Leeds", "you are a member of a book club in Leeds", None),
        ("employment", "retired", "you are retired", "you are no longer retired"),
        ("employment", "en paro", "your employment is en paro", None),
        ("marital_status", "divorced", "you are divorced", None),
        ("trait", "night owl", "you are a night owl", None),
        ("trait", "stubborn", "you are stubborn", None),
        ("aid", "wheelchair", "you use a wheelchair", "you no longer use a wheelchair"),
        ("tea", "with oat milk", "you take your tea with oat milk", None),
        ("hobby", "brew my own cider", "you brew your own cider", "you no longer brew your own cider"),
        ("degree", "law", "you have a degree in law", None),
        ("study", "law", "you study law", "you no longer study law"),
        ("keys", "in the hall", "your keys are in the hall", None),
        ("routine", "swim on Mondays", "routine: swim on Mondays", "no longer swim on Mondays (routine)"),
    ],
)  # fmt: skip
def test_a_fact_holds_or_holds_no_longer(key, value, said, ended):
    assert fact_clause(key, value) == said
    assert ended is None or ended_clause(key, value) == ended


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which train does the user take to work?", "which train you take to work"),
        ("What is the user allergic to?", "what you are allergic to"),
        ("Which books has the user read?", "which books you have read"),
        ("What is the user's dog called?", "what your dog is called"),
        ("When is the user\N{RIGHT SINGLE QUOTATION MARK}s sister's birthday?", "your sister's birthday"),
        ("What does the user call the user's dog?", "what you call your dog"),
        ("How do I prune tomatoes?", ""),
        ("What did the user say?", ""),
        ("", ""),
    ],
)
def test_a_question_about_the_user_becomes_what_it_asks_for(question, asked):
    assert asked_for(question) == asked


def item(kind: str, value: str, before: str | None = None, key: str = "location") -> LearnedItem:
    return LearnedItem(1, kind, key, value, before, "I said so.", "s", 0, "new")


@pytest.mark.parametrize(
    ("learned", "now", "former"),
    [
        (item("learned", "Paris"), "You live in Paris", ""),
        (item("changed", "Paris", "Ulm"), "You live in Paris", "You live in Ulm"),
        (item("ended", "", "Ulm"), "You no longer live in Ulm", "You live in Ulm"),
        (item("proposed", "", "Ulm"), "You no longer live in Ulm", "You live in Ulm"),
        (item("remembered", "green", key="Which tea does the user like?"), "Which tea you like: green", ""),
        (item("remembered", "the 7:42", key="Which train?"), "Which train? the 7:42", ""),
    ],
)
def test_what_was_learned_is_said_with_what_was_known_before(learned, now, former):
    assert sentence(learned_clause(learned)) == now
    assert sentence(former_clause(learned)) == former

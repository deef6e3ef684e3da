"""Facts told in sentences."""

import pytest

from shepherd.installation import program_from_anywhere
from shepherd.prompt.near_facts import NearFact
from shepherd.turn.answer_judge import _names
from shepherd.turn.answers import joined
from shepherd.turn.quotation import Quote
from shepherd.types import Fact


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("age", "83", "You are 83 years old."),
        ("cat_age", "7", "Your cat is 7 years old."),
        ("pickle_age", "11", "Pickle is 11 years old."),
        ("brother_job", "nurse", "Your brother's job is nurse."),
        ("parents_address", "Elm 3", "Your parents' address is Elm 3."),
        ("mother_in_law", "Gunborg", "Your mother in law is Gunborg."),
        ("mother_in_law_phone", "0498 12", "Your mother in law's phone is 0498 12."),
        ("twin_sons", "Finn and Mateo", "Your twin sons are Finn and Mateo."),
        ("hobbies", "rowing and chess", "Your hobbies are rowing and chess."),
        ("address", "Elm 3", "Your address is Elm 3."),
        ("sister_allergy", "wool", "Your sister is allergic to wool."),
        ("nut_allergy", "Mateo is allergic to cashews", "You told me: Mateo is allergic to cashews."),
        ("nut_allergy", "cashews", "Your nut allergy is cashews."),
    ],
)
def test_a_fact_is_told_as_people_say_it(key, value, said):
    assert joined([(Fact(key, value, 0, 0),)]) == said


def test_a_covered_code_is_explained():
    covered = Quote("document", "Bike", "The lock code is ••••", is_sure=True)
    open_one = Quote("document", "Bike", "The saddle is at 68 cm.", is_sure=True)

    assert joined([covered]) == (
        'Your document "Bike" says: The lock code is ••••. Codes and passwords are masked when a document is'
        " imported; your own file still shows them."
    )
    assert joined([open_one]) == 'Your document "Bike" says: The saddle is at 68 cm.'
    for kind in ("told", "stored", "answered"):
        told = Quote(kind, "What is it?", "Our wifi is called ••••••••.", is_sure=True)
        assert joined([told]).endswith(
            '"Our wifi is called ••••••••." Anything that could be a code or a password is masked in memory. '
            f"If this is neither, store it with `{program_from_anywhere(for_strangers=True)} facts set KEY"
            " VALUE`."
        )


def test_a_document_speaks_in_quotation_marks_where_it_says_i_or_you():
    mine = Quote("document", "Letter", "I pay 900 euros for my room.", is_sure=True)
    yours = Quote("document", "stdin", "Your train leaves at nine.", is_sure=True)
    nobodys = Quote("document", "stdin", "The mine closed in 1911.", is_sure=True)

    assert joined([mine]) == 'Your document "Letter" says: "I pay 900 euros for my room."'
    assert joined([yours]) == 'The text that you piped in says: "Your train leaves at nine."'
    assert joined([nobodys]) == "The text that you piped in says: The mine closed in 1911."


@pytest.mark.parametrize(
    ("key", "word", "is_named"),
    [
        ("favorite_colors", "color", True),
        ("boat", "boats", True),
        ("sister_name", "sisters", True),
        ("location", "name", True),  # of everything
        ("location", "city", False),
        ("cat_name", "dog", False),
    ],
)
def test_a_word_names_a_key_whatever_its_number(key, word, is_named):
    assert _names(key, word) == is_named


def test_a_fact_that_may_be_meant_is_told_as_it_is_stored():
    near = NearFact(Fact("riding_discipline", "eventing", 0, 0), is_sure=False)

    assert joined([near]) == "I don't know for sure, but I have this stored: riding discipline: eventing."


def test_two_quotations_are_told_in_their_order_where_the_later_one_may_replace_the_other():
    both = Quote("told", "", "The exam is in room 12.", is_sure=True, later="My exam is in room 30.")

    assert joined([both]) == (
        'You told me earlier: "The exam is in room 12.", and later: "My exam is in room 30."'
    )


def test_another_assistants_answer_is_told_with_its_question_and_with_doubt():
    asked = f"How do I get to {'Bardsey ' * 20}?"
    found = Quote("answered", asked, "By boat.")

    said = joined([found])

    assert said.startswith("I don't know for sure, but when you asked another assistant \"How do I get to ")
    assert said.endswith('…", it answered: "By boat."')
    assert len(said) < 200

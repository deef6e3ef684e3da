"""Facts told in sentences."""

import pytest

from shepherd.turn.answers import joined
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

"""Facts about the thing that is asked for which tell something else of it."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts
from shepherd.types import Fact


def found(question: str, **facts: str) -> list[str]:
    known = [Fact(key, value, 0, 0) for key, value in facts.items()]
    return [fact.key for meant in asked_facts(question, known) for fact in meant]


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("Do you know what I'm called?", "phone", "0900 555 0142"),
        ("do you know what i'm called", "club_role", "Treasurer"),
        ("do you know my name?", "cb_handle", "Dust Devil"),
        ("What's my full name?", "github_username", "rohan-orbits"),
        ("whats my first name", "surname", "Ito"),
        ("What should you call me?", "seat_preference", "aisle"),
        ("What's my gym called?", "training_days", "Tuesdays"),
        ("What's the name of my shop?", "shop_closing_day", "Monday"),
        ("Who's my accountant?", "iban", "NL91 ABNA 0417"),
        ("What car do I drive?", "licence_number", "DRV 4471"),
        ("What is my occupation?", "work_phone", "0900 555 0142"),
        ("what do I do for a living", "working_languages", "Dutch and French"),
        ("what do I do for a living", "shift", "night shift"),
        ("what position do I play in football", "part_time_job", "usher"),
        ("Where do I work?", "children", "two"),
        ("Which department do I work in?", "shop_closing_day", "Monday"),
        ("Which hospital am I registered with?", "shop_name", "Birch & Wren"),
    ],
)
def test_something_else_of_a_thing_is_no_answer(question, key, value):
    assert found(question, **{key: value}) == []


def test_of_several_children_another_one_is_no_answer():
    assert found("who is my oldest child?", middle_child="Sami") == []
    assert found("who is my oldest child?", babysitter="Lotte") == []
    assert found("what's my older cat called", younger_cat="Pip") == []
    assert found("And my youngest, what is she called?", youngest_child="Salma", middle_child="Sami") == [
        "youngest_child"
    ]


def test_a_name_is_told_by_any_key_that_holds_it():
    for key in ("name", "preferred_name", "user_name", "full_name", "first_name"):
        assert found("Who am I?", **{key: "Imogen Akhtar"}) == [key]


def test_an_employer_is_asked_for_by_its_kind_or_by_a_trade():
    facts = {"works_at": "Los Quillayes", "job_title": "vineyard foreman", "favourite_team": "the Rooks"}

    assert found("Which vineyard employs me?", **facts) == ["works_at"]
    assert found("Which foundry do I weld for?", **facts) == ["works_at"]
    assert found("What outfit do I drive for?", **facts) == ["works_at"]
    assert found("Who am I writing for?", **facts) == ["works_at"]
    assert found("Which floor do I work on?", **facts) == []
    assert found("Which team do I drive for?", **facts) != ["works_at"]
    assert found("Who employs me?", job_title="vineyard foreman") == []


def test_a_number_of_a_room_is_its_own_value():
    assert found("What's the number of my office?", office_room="H 42.3") == ["office_room"]
    assert found("What's the number of my office?", office_chair="Aeron 42") == []

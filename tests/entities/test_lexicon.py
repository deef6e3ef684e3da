"""Words about people: which roles one person can have, plurals of roles, and words that are no names."""

from __future__ import annotations

import pytest

from shepherd.entities.lexicon import (
    family_of,
    gender_of_name,
    go_together,
    is_plain_word,
    singular_role,
)


@pytest.mark.parametrize(
    ("label", "other", "can_be_both"),
    [
        ("sister of", "friend of", True),
        ("sister of", "sister of", True),
        ("sister of", "brother of", False),
        ("parent of", "mother of", True),
        ("sister of", "cousin of", False),
        ("boss of", "manager of", True),
        ("boss of", "sister of", False),
        ("friend of", "colleague of", True),
        ("lives in", "sister of", True),
        ("spouse of", "husband of", True),
        ("wife of", "husband of", False),
    ],
)
def test_roles_go_together_within_a_group_and_gender(label, other, can_be_both):
    assert go_together(label, other) is can_be_both
    assert go_together(other, label) is can_be_both


def test_relatives_have_a_family_and_others_have_none():
    assert family_of("sister of") == family_of("stepbrother of") != family_of("cousin of")
    assert family_of("cousin of")
    assert [family_of(label) for label in ("boss of", "friend of", "lives in", "")] == [""] * 4


@pytest.mark.parametrize(
    ("word", "role"),
    [
        ("friends", "friend"),
        ("bosses", "boss"),
        ("boss", ""),
        ("friend", ""),
        ("cats", ""),
        ("s", ""),
        ("", ""),
    ],
)
def test_a_plural_is_that_of_a_role(word, role):
    assert singular_role(word) == role


@pytest.mark.parametrize(
    ("name", "gender"),
    [("Anna", "f"), ("anna weber", "f"), ("Tom", "m"), ("Weber Anna", ""), ("Kim", ""), ("", "")],
)
def test_the_first_name_has_the_gender(name, gender):
    assert gender_of_name(name) == gender


def test_ordinary_words_and_roles_are_more_likely_themselves_than_names():
    plain = ["will", "monday", "the", "sister", "company", "i'd", "english"]

    assert [word for word in [*plain, "anna", "berlin", "zorbax"] if is_plain_word(word)] == plain

"""Names as texts write them, with signs and full stops: found whole, and nothing else for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.entities import EntityRegistry, Known
from shepherd.entities.names import key_of

TITLES = ("C++", ".NET", "C#", "Node.js", "McDonald's", "St. Gallen", "AT&T", "Vue", "J.K. Rowling", "R")


def found(text: str, titles: tuple[str, ...] = TITLES) -> list[str]:
    registry = EntityRegistry(known=[Known(title, "object", node_id=n) for n, title in enumerate(titles, 1)])
    return [registry[one.entity_id].name for one in registry.register(text)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Is C# hard?", ["C#"]),
        ("is c++ hard, and c++'s syntax?", ["C++", "C++"]),
        ("We use C++11 and node.js, then .NET.", ["C++", "Node.js", ".NET"]),
        ("I ate at McDonald's.", ["McDonald's"]),
        ("Was St. Gallen nice?", ["St. Gallen"]),
        ("Does AT&T pay?", ["AT&T"]),
        ("I like R.", ["R"]),
        ("Who is J.K. Rowling?", ["J.K. Rowling"]),
        ("Plan C failed, vitamin C helps", ["Plan C"]),
        ("Is net neutrality dead? My net income", []),
        ("what r you up to", []),
        ("a+b and b#c", []),
    ],
)
def test_a_name_with_signs_is_found_as_it_is_written(text, names):
    assert found(text) == names


def test_plan_c_is_not_the_language():
    assert found("Plan C failed.", ("C", "C++")) == ["Plan C"]


@given(st.sampled_from(TITLES), st.sampled_from(("{}", "Is {} good?", "I like {}.", "({})", "{}, you know")))
def test_every_title_is_found_wherever_it_stands(title, sentence):
    assert found(sentence.format(title)) == [title]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We use Node.js and Amazon.com here.", ["Node.js", "Amazon.com"]),
        ("I read J.K. Rowling and J. Smith.", ["J.K. Rowling", "J. Smith"]),
        ("We were in St. Gallen.", ["St. Gallen"]),
        ("I met Anna.She is nice.", ["Anna", "Anna"]),
        ("I met Anna...and Tom.", ["Anna", "Tom"]),
        ("We moved to the U.S. Anna did not.", ["Anna"]),
        ("I know Node.js. Tom said so.", ["Node.js", "Tom"]),
    ],
)
def test_a_full_stop_inside_a_name_does_not_cut_it(text, names):
    assert found(text, ()) == names


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("the Rolling Stones", ("rolling", "stones")),
        ("The Acme Corp", ("acme", "corp")),
        ("the Hague", ("hague",)),
        ("The", ("the",)),
        ("Anna's", ("anna",)),
        ("Into the Wild", ("into", "the", "wild")),
    ],
)
def test_a_leading_article_is_no_part_of_a_name_and_every_other_word_is(name, key):
    assert key_of(name) == key


def test_a_name_of_several_words_is_found_with_and_without_its_article():
    for text in ("I saw the Rolling Stones.", "Rolling Stones forever"):
        assert found(text, ("the Rolling Stones",)) == ["the Rolling Stones"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("The Rolling Stones", ("rolling", "stones")),
        ("the", ("the",)),
        ("Theo", ("theo",)),
        ("Acme of the North", ("acme", "of", "the", "north")),
    ],
)
def test_article_before_a_name_is_no_word_of_it(name, words):
    assert key_of(name) == words


def test_part_of_a_known_name_means_people_alone():
    registry = EntityRegistry(known=[Known("Anna Smith", "person"), Known("Blue Whale", "object")])

    def meant(text):
        return [registry[one.entity_id].name for one in registry.register(text)]

    assert meant("Ask Smith.") == ["Anna Smith"]
    assert "Blue Whale" not in meant("I saw Whale there.")

"""Names as texts write them, with signs and full stops: found whole, and nothing else for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.entities import EntityRegistry, Known
from shepherd.entities.names import ALIAS, CANONICAL, PART, NameIndex, is_short_for, key_of

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


def entries(index: NameIndex, name: str) -> list[tuple[int, int]]:
    return [(entry.id, entry.rank) for entry in index.find(name)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("The Beatles", ("beatles",)),
        ("The", ("the",)),
        ("Anna's", ("anna",)),
        ("O\u2019Brien", ("o'brien",)),
        ("!?", ()),
    ],
)
def test_names_are_compared_by_their_words(name, words):
    assert key_of(name) == words


def test_parts_of_a_name_are_less_certain_than_aliases_and_those_than_names():
    index = NameIndex()
    index.add(1, "Anna Maria Weber", is_person=True)
    index.add(2, "Weber", is_alias=True)
    index.add(3, "Weber")
    index.add(4, "Acme Corp")
    index.add(5, "One Two Three Four", is_person=True)
    index.add(6, "Old Town")
    index.add(7, "!?")

    assert entries(index, "weber") == [(3, CANONICAL), (2, ALIAS), (1, PART)]
    assert entries(index, "Anna") == [(1, PART)]
    assert entries(index, "Maria") == []
    assert entries(index, "the Acme") == [(4, PART)]
    assert entries(index, "Acme Corp") == [(4, CANONICAL)]
    assert [entries(index, name) for name in ("One", "Four", "Old", "")] == [[], [], [], []]
    assert index.begins_with("acme")
    assert not index.begins_with("corp")


def test_a_name_keeps_its_best_rank():
    index = NameIndex()
    index.add(1, "Bob")
    index.add(1, "Bob", is_alias=True)
    index.add(2, "Tom", is_alias=True)
    index.add(2, "Tom")

    assert (entries(index, "Bob"), entries(index, "Tom")) == ([(1, CANONICAL)], [(2, CANONICAL)])


def test_the_longest_name_is_found_with_all_who_have_it():
    index = NameIndex()
    index.add(1, "New York")
    index.add(2, "New York Times")
    index.add(3, "New York", is_alias=True)
    index.add(4, "New")
    words = ["i", "like", "new", "york", "times"]

    def longest(words: list[str], start: int) -> tuple[int, list[tuple[int, int]]]:
        length, found = index.longest(words, start)
        return length, [(entry.id, entry.rank) for entry in found]

    assert longest(words, 2) == (3, [(2, CANONICAL)])
    assert longest(words[:4], 2) == (2, [(1, CANONICAL), (3, ALIAS)])
    assert longest(words[:3], 2) == (1, [(4, CANONICAL)])
    assert longest(words, 0) == (0, [])


def test_removed_names_are_gone_and_those_of_others_stay():
    index = NameIndex()
    index.add(1, "Anna Weber", is_person=True)
    index.add(2, "Anna Kahn", is_person=True)
    copied = index.copy()

    index.remove(1, ["Anna Weber", "!?"])

    assert [entries(index, name) for name in ("Anna Weber", "Weber", "Anna")] == [[], [], [(2, PART)]]
    assert entries(index, "Anna Kahn") == [(2, CANONICAL)]
    assert not index.begins_with("weber")
    assert entries(copied, "Anna") == [(1, PART), (2, PART)]
    index.remove(2, ["Anna Kahn"])
    assert not index.begins_with("anna")


@pytest.mark.parametrize(
    ("name", "short", "is_short"),
    [
        ("acme corp", "acme", True),
        ("acme co ltd", "acme", True),
        ("acme corp", "acme corp", False),
        ("acme bank", "acme", False),
        ("acme corp bank", "acme", False),
        ("acme corp", "corp", False),
    ],
)
def test_a_name_without_its_legal_ending_is_short_for_it(name, short, is_short):
    assert is_short_for(name.split(), short.split()) is is_short

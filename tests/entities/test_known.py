"""Names that facts and nodes tell, with the kind, gender and relation that follow from them."""

from __future__ import annotations

import pytest

from shepherd.entities import EntityRegistry, Known, known_from_facts
from shepherd.entities.known import KnownNames, known_from_nodes
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.types import Fact


def known(key: str, value: str) -> list[Known]:
    return known_from_facts([Fact(key, value, 0, 0)])


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sister", "Kim", Known("Kim", "person", "f", relation="sister of")),
        ("brother", "Kim", Known("Kim", "person", "m", relation="brother of")),
        ("friend", "Anna", Known("Anna", "person", "f", relation="friend of")),
        ("friend", "Kim Doe", Known("Kim Doe", "person", "", relation="friend of")),
        ("Older-Sister name", "Kim", Known("Kim", "person", "f", relation="sister of")),
        *((key, "Acme", Known("Acme", "organization", relation="employer of"))
          for key in ("employer", "company", "workplace", "works at", "works_for", "organisation")),
        ("school", "Acme", Known("Acme", "organization", relation="school of")),
        ("alma mater", "Acme", Known("Acme", "organization", relation="alma mater of")),
        *((key, "Oslo", Known("Oslo", "location", relation="home of"))
          for key in ("city", "home_city", "current location", "lives in", "home")),
        ("hometown", "Oslo", Known("Oslo", "location", relation="place of origin of")),
        ("birth_place", "Oslo", Known("Oslo", "location", relation="place of origin of")),
        ("dog", "Rex", Known("Rex", "unknown", relation="dog of")),
        ("favourite singer", "Anna Lee", Known("Anna Lee", "person", "f", relation="favourite singer of")),
        ("favourite trip", "Berlin", Known("Berlin", "location", relation="favourite trip of")),
        ("favourite band", "Xyzzy", Known("Xyzzy", "unknown", relation="band of")),
        ("motto", "Xyzzy", Known("Xyzzy", "unknown", relation="motto of")),
    ],
)  # fmt: skip
def test_a_fact_names_somebody_or_something(key, value, expected):
    assert known(key, value) == [expected]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, "Kim") for key in ("name", "first name", "nickname", "surname", "username", "Full-Name")),
        ("sister", "kim"),
        ("sister", ""),
        ("city", "Oslo and then Bergen, where it rains all the time"),
        ("city", "One Two Three Four Five Six"),
        ("phone", "+47 123"),
    ],
)
def test_other_facts_name_nobody(key, value):
    assert known(key, value) == []


def test_a_role_can_have_several_names_and_other_keys_have_one():
    assert [one.name for one in known("sisters", "Kim, Lea and Mia & Eva; Zoe")] == [
        "Kim",
        "Lea",
        "Mia",
        "Eva",
        "Zoe",
    ]
    assert [one.name for one in known("employer", "Smith & Sons")] == ["Smith & Sons"]
    assert [one.name for one in known("city", "One Two Three Four Five")] == ["One Two Three Four Five"]


def test_a_node_is_known_by_a_title_of_six_words_at_most(database):
    with Memory(database, user_id="steve") as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        kinds = ["", " People ", "company", "place", "meeting", "book", "idea", "other"]
        nodes = [knowledge.add_node(f"Anna {kind.strip()}", kind=kind, description="d") for kind in kinds]
        six, seven = (knowledge.add_node(" ".join("abcdefg"[:n])) for n in (6, 7))
        found = {one.node_id: one for one in known_from_nodes(knowledge.list_nodes(limit=50))}

    types = ["unknown", "person", "organization", "location", "event", "object", "abstract", "unknown"]
    assert [found[node.id].type for node in nodes] == types
    assert [found[node.id].gender for node in nodes] == ["", "f", *[""] * 6]
    assert {one.description for one in found.values()} == {"d", ""}
    assert six.id in found
    assert seven.id not in found


def test_names_are_read_again_when_facts_or_nodes_change(database):
    rex, bo = Fact("dog", "Rex", 0, 0), Fact("dog", "Bo", 0, 0)
    with Memory(database, user_id="steve") as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        names = KnownNames(knowledge)
        before = names.of([rex], knowledge.latest_change())
        again = names.of([rex], knowledge.latest_change())
        knowledge.add_node("Ulm Minster")
        with_node = names.of([rex], knowledge.latest_change())
        with_fact = names.of([bo], knowledge.latest_change())

    assert again is before
    assert [[one.name for one in found.known] for found in (before, with_node, with_fact)] == [
        ["Rex"],
        ["Rex", "Ulm Minster"],
        ["Bo", "Ulm Minster"],
    ]


def test_without_knowledge_and_with_a_database_that_fails_facts_are_known(path):
    rex = [Fact("dog", "Rex", 0, 0)]
    with Memory(path, user_id="steve") as memory:
        closed = Knowledge(memory.transactions, "steve")

    for knowledge in (None, closed):
        assert [one.name for one in KnownNames(knowledge).of(rex, (1, 1)).known] == ["Rex"]


def test_a_relation_implies_the_kind_of_both():
    registry = EntityRegistry()
    registry.register("Xander Quill works at Zorbax. Zorbax is based in Quorn.")

    kinds = {one.name: one.type for one in registry}

    assert kinds == {"Xander Quill": "person", "Zorbax": "organization", "Quorn": "location"}


def test_a_longer_name_says_more_of_somebody():
    registry = EntityRegistry()
    registry.register("I met Anna.")
    registry.register("I met Anna Weber.")

    [one] = registry
    assert (one.name, one.type, one.gender) == ("Anna Weber", "person", "f")


def test_an_alias_of_a_node_is_found_and_goes_with_it():
    node = Known("Robert Miller", "person", "m", aliases=("Bobby",), node_id=7)
    registry = EntityRegistry(known=[node])

    [first] = registry.register("Call Robert Miller.")
    [second] = registry.register("Call Bobby.")

    assert registry[first.entity_id].aliases == ("Bobby",)
    assert first.entity_id == second.entity_id
    assert registry.roll_back()
    assert registry.find("Bobby") is None
    assert registry.find("Robert Miller") is None


def test_they_are_the_people_of_the_latest_sentence_that_names_several():
    registry = EntityRegistry()
    anna, tom, bob, eva = (
        registry.register(text)[-1].entity_id for text in ("Anna.", "Anna and Tom.", "Bob.", "Bob met Eva.")
    )

    found = registry.register("Kim met Lea. Then Max came. What did they say?")

    names = [registry[one.entity_id].name for one in found]
    assert names == ["Kim", "Lea", "Max", "Kim", "Lea"]
    assert len({anna, tom, bob, eva}) == 4


@pytest.mark.parametrize(("turns", "is_meant"), [(0, True), (1, True), (2, True), (3, False)])
def test_it_is_something_of_the_latest_turns(turns, is_meant):
    registry = EntityRegistry()
    [acme] = registry.register("I work for Initech Corp.")
    registry.end_turn()
    for _ in range(turns):
        registry.end_turn()

    meant = [one.entity_id for one in registry.resolve("Is it large?")]

    assert meant == ([acme.entity_id] if is_meant else [])


def test_the_most_salient_come_first_and_not_the_latest():
    registry = EntityRegistry()
    for text in ("Tom is here.", *[""] * 7, "Anna is here.", "Tom is here."):
        registry.register(text)
        registry.end_turn()

    (first, much), (second, little) = registry.salient()

    assert (first.name, second.name) == ("Anna", "Tom")
    # 8 turns after a first mention, half of the full salience is added.
    assert (much, little) == (pytest.approx(0.8), pytest.approx(0.8**8 + 0.5))


def test_only_the_beginning_of_a_long_text_is_read():
    registry = EntityRegistry()
    near, far = "x" * (3999 - len("Tom ")) + " Tom", "x" * 3999 + " Tom"

    assert [registry[one.entity_id].name for one in registry.register(f"Then {near[5:]}")] == ["Tom"]
    assert registry.resolve(far) == ()

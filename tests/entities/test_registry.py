"""The registry of a session: salience by the rules, who is new, what can be taken back."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.entities import USER, EntityRegistry, Known, known_from_facts, known_from_nodes
from shepherd.knowledge import Node
from shepherd.types import Fact

NAMES = ("Anna", "Tom", "Maria", "Berlin", "Initech Corp")
# What a turn says, of names and of nothing.
SAID = st.lists(st.sampled_from([*(f"I met {name}." for name in NAMES), "ok", ""]), max_size=3)
TURNS = st.lists(SAID, max_size=30)


def told(*turns: str) -> EntityRegistry:
    registry = EntityRegistry()
    for text in turns:
        registry.register(text)
        registry.end_turn()
    return registry


def everything(registry: EntityRegistry) -> tuple[int, list[dict[str, object]]]:
    return registry.turn, [asdict(entity) for entity in registry]


def expected_salience(turns: list[list[str]], name: str) -> float | None:
    """The rules as they are written: 1 when new, half more per mention, a fifth less per turn without."""
    salience: float | None = None
    for said in turns:
        n = sum(name in text for text in said)
        for _ in range(n):
            salience = 1.0 if salience is None else min(1.0, salience + 0.5)
        if n == 0 and salience is not None:
            salience *= 0.8
    return salience


def test_new_entity_is_in_full_focus():
    registry = told("I met Priya in Berlin.")

    assert [registry.salience(entity.id) for entity in registry] == [1.0, 1.0]


def test_entity_that_is_not_mentioned_fades_and_leaves_the_focus():
    registry = told("I met Priya.", *["ok"] * 10)

    [priya] = registry
    assert registry.salience(priya.id) == pytest.approx(0.8**10)
    assert [entity.name for entity, _ in registry.salient()] == ["Priya"]

    registry.end_turn()
    assert registry.salient() == []
    assert registry.find("Priya") is not None


def test_a_mention_adds_half_and_never_more_than_one():
    registry = told("I met Priya.", *["ok"] * 5, "Priya called.")

    assert registry.salience(1) == pytest.approx(0.8**5 + 0.5)

    registry.register("Priya and Priya.")
    assert registry.salience(1) == 1.0


@given(TURNS)
def test_salience_follows_the_rules_for_every_conversation(turns):
    registry = EntityRegistry()
    for said in turns:
        for text in said:
            registry.register(text)
        registry.end_turn()

    for name in NAMES:
        wanted = expected_salience(turns, name)
        found = registry.find(name)
        if wanted is None:
            assert found is None
        else:
            assert found is not None
            assert registry.salience(found.id) == pytest.approx(wanted, abs=1e-9)
            in_focus = found.id in [entity.id for entity, _ in registry.salient()]
            assert in_focus == (registry.salience(found.id) >= 0.1)


@given(TURNS, SAID)
def test_a_turn_that_is_taken_back_leaves_no_trace(turns, last):
    registry = EntityRegistry()
    for said in turns:
        for text in said:
            registry.register(text)
        registry.end_turn()
    before = everything(registry)

    for text in [*last, "My sister is called Anna and Tom works at Initech Corp."]:
        registry.register(text)
    assert registry.roll_back()
    assert everything(registry) == before

    registry.register("Anna is a dentist.")
    registry.end_turn()
    assert registry.roll_back()
    assert everything(registry) == before


def test_the_last_twenty_turns_can_be_taken_back():
    registry = told(*["I met Anna."] * 30)

    n = 0
    while registry.roll_back():
        n += 1

    assert n == 20


def test_nothing_can_be_taken_back_where_nothing_was_said():
    assert not EntityRegistry().roll_back()


def test_a_copy_goes_its_own_way():
    registry = EntityRegistry(known=known_from_facts([Fact("wife", "Carla", 0, 0)]))
    registry.register("I met Priya.")
    before = everything(registry)

    copy = registry.copy()
    assert everything(copy) == before
    assert not copy.roll_back()
    copy.register("Priya works at Initech Corp, and my wife does.")
    copy.end_turn()

    assert everything(registry) == before
    assert {entity.name for entity in copy} == {"Priya", "Initech Corp", "Carla"}
    assert registry.roll_back()


def test_resolving_changes_nothing():
    registry = told("My sister Anna works at Acme.")
    before = everything(registry)

    registry.resolve("Did she meet Tom in Berlin?")

    assert everything(registry) == before


def test_the_longest_unmentioned_one_makes_room():
    registry = told(*[f"I met Priya and Zq{'x' * (n % 7)}{n}ab." for n in range(2010)])

    assert len(registry) == 2000
    assert registry.find("Priya") is not None


def test_what_is_known_less_surely_does_not_replace_what_is_known():
    registry = told("I met Priya.")
    registry.set_attribute(1, "title", "dentist", confidence=0.9)

    registry.set_attribute(1, "title", "plumber", confidence=0.5)

    assert [(one.value, one.confidence) for one in registry[1].attributes] == [("dentist", 0.9)]


def test_secrets_are_not_noted():
    registry = told("I met Priya.")

    registry.set_attribute(1, "password", "hunter2-Xy9!pQ")

    assert registry[1].attributes == ()


def test_a_relation_to_nobody_is_not_noted():
    registry = told("I met Priya.")

    registry.relate(1, "sister of", 99)
    registry.relate(1, "sister of", 1)
    registry.relate(1, "friend of", USER)

    assert [(one.label, one.target) for one in registry[1].relations] == [("friend of", USER)]


def test_facts_say_who_is_meant():
    facts = [
        Fact("name", "Steve", 0, 0),
        Fact("sister", "Anna", 0, 0),
        Fact("employer", "Initech", 0, 0),
        Fact("children", "Max and Mia", 0, 0),
        Fact("likes", "tea", 0, 0),
    ]

    known = {one.name: (one.type, one.relation) for one in known_from_facts(facts)}

    assert known["Anna"] == ("person", "sister of")
    assert known["Initech"] == ("organization", "employer of")
    assert "Steve" not in known
    assert "tea" not in known


def test_somebody_of_the_conversation_gets_the_relation_that_a_fact_states_later():
    registry = told("I met Carla.")

    registry.set_known(known_from_facts([Fact("wife", "Carla", 0, 0)]))
    registry.register("My wife called.")

    [carla] = registry
    assert [(one.label, one.target) for one in carla.relations] == [("wife of", USER)]


def test_nodes_are_known_by_short_titles():
    nodes = [
        Node(7, "Vector databases", kind="concept", description="where vectors are kept"),
        Node(8, "What I thought about all the talks of the third day in Berlin"),
    ]

    assert known_from_nodes(nodes) == [
        Known("Vector databases", "abstract", description="where vectors are kept", node_id=7)
    ]


def known(**facts: str) -> list[Known]:
    return known_from_facts([Fact(key, value, 0, 0) for key, value in facts.items()])


def of_user(registry: EntityRegistry) -> dict[str, list[str]]:
    return {entity.name: [one.label for one in entity.relations] for entity in registry}


def heard_of_all() -> EntityRegistry:
    registry = EntityRegistry(known=known(city="Austin", employer="Acme", wife="Lisa"))
    for text in ("Is Austin warm?", "Acme pays well.", "What does Lisa like?"):
        registry.register(text)
        registry.end_turn()
    return registry


def test_who_was_the_wife_by_a_fact_is_not_when_it_has_changed():
    registry = heard_of_all()
    assert of_user(registry) == {"Lisa": ["wife of"], "Acme": ["employer of"], "Austin": ["home of"]}

    registry.set_known(known(city="Berlin", employer="Initech", wife="Paula"))

    assert of_user(registry) == {"Lisa": [], "Acme": [], "Austin": []}
    [wife] = registry.register("What does my wife like?")
    assert registry[wife.entity_id].name == "Paula"


def test_taking_a_turn_back_does_not_bring_former_facts_back():
    registry = heard_of_all()
    registry.set_known(known(wife="Paula"))

    assert registry.roll_back()
    assert registry.roll_back()

    assert of_user(registry) == {"Austin": []}


def test_what_was_said_goes_with_the_fact_that_was_made_of_it():
    registry = told("My wife Lisa called.")
    registry.set_known(known(wife="Lisa"))
    assert of_user(registry) == {"Lisa": ["wife of"]}

    registry.set_known(known(wife="Paula"))

    assert of_user(registry) == {"Lisa": []}


def test_what_was_only_said_stays_whatever_the_facts_are():
    registry = told("My cousin Tom called.")

    registry.set_known(known(wife="Paula"))
    registry.set_known([])

    assert of_user(registry) == {"Tom": ["cousin of"]}


def test_a_fact_that_gains_a_surname_is_still_held():
    registry = told("My sister Anna called.")
    registry.set_known(known(sister="Anna"))

    registry.set_known(known(sister="Anna Weber"))

    assert of_user(registry) == {"Anna": ["sister of"]}

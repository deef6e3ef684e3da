"""Of two changes the later one counts, in whatever order they are heard; what did not change stays."""

from __future__ import annotations

import pytest

from shepherd.sync import Report
from tests.sync.replicas import NOW, Machine, settle


def exchange(machine: Machine, other: Machine) -> Report:
    """Let a machine sync, and then the other one, which reports."""
    machine.sync()
    machine.carry_to(other)
    report = other.sync()
    assert report is not None
    return report


def test_an_older_pin_that_is_heard_later_changes_nothing(machines) -> None:
    a, b = machines("a", "b")
    one = a.memory.store_memory("Which editor?", "Vim")
    a.memory.store_memory("Which shell?", "Fish")
    settle([a, b], 1)
    there = {memory.question: memory.id for memory in b.memory.list_memories()}
    b.do(lambda: b.memory.pin_memory(there["Which editor?"], True), NOW + 10)
    b.sync()
    a.do(lambda: a.memory.pin_memory(one, True), NOW + 15)
    a.do(lambda: a.memory.pin_memory(one, False), NOW + 20)
    a.sync()
    settle([a, b], 2)

    for machine in (a, b):
        assert [memory.pinned for memory in machine.memory.list_memories()] == [False, False]


def test_the_same_memory_of_two_machines_is_pinned_on_both_or_on_none(machines) -> None:
    a, b = machines("a", "b")
    settle([a, b], 1)
    one = a.do(lambda: a.memory.store_memory("Which editor?", "Vim", timestamp=NOW + 1), NOW + 1)
    b.do(lambda: b.memory.store_memory("Which editor?", "Vim", timestamp=NOW + 2), NOW + 2)
    a.do(lambda: a.memory.pin_memory(one, True), NOW + 3)
    settle([a, b], 2)
    [here], [there] = a.memory.list_memories(), b.memory.list_memories()
    assert (here.pinned, here.timestamp) == (there.pinned, there.timestamp)
    assert here.pinned

    # An edit leaves one of the two, which stays pinned.
    b.do(lambda: b.memory.edit_memory(there.id, answer="Helix"), NOW + 10)
    settle([b, a], 2)
    for machine in (a, b):
        assert [(memory.answer, memory.pinned) for memory in machine.memory.list_memories()] == [
            ("Helix", True)
        ]
    [there] = b.memory.list_memories()
    b.do(lambda: b.memory.pin_memory(there.id, False), NOW + 20)
    settle([b, a], 2)
    assert not a.memory.list_memories()[0].pinned
    assert a.exported() == b.exported()


def test_the_same_memory_of_three_machines_is_forgotten_as_one(machines) -> None:
    made = machines("a", "b", "c")
    settle(made, 1)
    for n, machine in enumerate(made):
        machine.do(
            lambda one=machine, n=n: one.memory.store_memory("Which editor?", "Vim", timestamp=NOW - n),
            NOW + n,
        )
    settle(made, 2)
    assert len({tuple(machine.exported()) for machine in made}) == 1
    assert [machine.memory.count_memories() for machine in made] == [1, 1, 1]

    a, b, c = made
    c.do(lambda: c.memory.clear_memory("Which editor?"), NOW + 20)
    settle([c, b, a], 2)
    assert [machine.memory.count_memories() for machine in made] == [0, 0, 0]


def test_the_same_value_set_twice_is_no_conflict(machines) -> None:
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("city", "Ulm"), NOW + 10)
    b.do(lambda: b.memory.set_fact("city", "Ulm"), NOW + 20)

    assert exchange(a, b).conflicts == []
    assert exchange(b, a).conflicts == []


def test_a_value_that_was_set_and_lost_is_in_the_history_and_not_proposed(machines) -> None:
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("home town", "Ulm"), NOW + 10)
    b.do(lambda: b.memory.set_fact("home town", "Bonn"), NOW + 20)
    assert exchange(a, b).conflicts == []
    [conflict] = exchange(b, a).conflicts

    assert conflict.what == "fact home town"
    assert conflict.kept == "the other value is in its history: shepherd facts history 'home town'"
    assert not a.memory.learned(waiting_only=True)


@pytest.mark.parametrize(("last", "waits"), [("sets", True), ("learns", False)])
def test_what_was_learned_and_lost_is_proposed_against_what_was_set_alone(machines, last, waits) -> None:
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.learn("city", "Ulm"), NOW + 10)
    b.do(lambda: b.memory.set_fact("city", "Bonn") if last == "sets" else b.learn("city", "Bonn"), NOW + 20)
    [conflict] = exchange(b, a).conflicts

    assert conflict.kept.startswith("what was learned here is proposed" if waits else "the other value is in")
    assert [one.value for one in a.memory.learned(waiting_only=True)] == (["Ulm"] if waits else [])
    if waits:
        [proposal] = a.memory.learned(waiting_only=True)
        assert (proposal.at, proposal.statement) == (NOW + 10, "My city is Ulm.")


def test_a_change_of_the_same_second_can_be_forgotten_everywhere(machines) -> None:
    """Its row gets another number where the other machine's change comes before it."""
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("city", "Ulm"), NOW + 10)
    b.do(lambda: b.memory.set_fact("city", "Bonn"), NOW + 10)
    settle([a, b], 2)
    b.do(lambda: b.memory.set_fact("city", "Rome"), NOW + 30)
    settle([b, a], 2)
    for machine in (a, b):
        assert [one.value for one in machine.memory.fact_history("city")] == ["Bonn", "Ulm", "Rome"]

    b.do(lambda: b.memory.clear_fact("city", with_history=True), NOW + 40)
    settle([b, a], 2)
    for machine in (a, b):
        assert {one.value for one in machine.memory.fact_history("city")} == {None}
    assert a.exported() == b.exported()


def test_changes_after_an_undone_conflict_are_written(machines) -> None:
    """The database gives the number of an entry that a merge had added to the next change."""
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("city", "Ulm"), NOW + 10)
    b.do(lambda: b.learn("city", "Bonn"), NOW + 20)
    settle([a, b], 2)
    assert [one.value for one in b.memory.fact_history("city")] == ["Ulm", "Bonn", "Ulm"]
    b.do(lambda: b.memory.clear_fact("city", with_history=True), NOW + 30)
    settle([b, a], 2)
    for machine in (a, b):
        for n in range(4):
            fact = f"{machine.name} {n}"
            machine.do(lambda m=machine, fact=fact: m.memory.set_fact(fact, "value"), NOW + 40 + n)
    settle([a, b], 2)

    assert {fact.key for fact in a.memory.get_all_facts()} == {
        f"{name} {n}" for name in "ab" for n in range(4)
    }
    assert a.exported() == b.exported()


def test_an_edge_that_gets_another_text_is_the_same_and_of_another_type_another(machines) -> None:
    a, b = machines("a", "b")
    one, two = (a.knowledge.add_node(title) for title in ("one", "two"))
    edge = a.knowledge.connect(one.id, two.id, "because", type="supports", confidence=0.5)
    settle([a, b], 1)
    b.sync()

    a.do(lambda: a.knowledge.update_edge(edge.id, explanation="therefore", confidence=0.75), NOW + 10)
    assert exchange(a, b).read == {"e": 1}
    [there] = b.knowledge.list_edges()
    assert (there.type, there.explanation, there.confidence) == ("supports", "therefore", 0.75)

    a.do(lambda: a.knowledge.update_edge(edge.id, type="contradicts"), NOW + 20)
    assert exchange(a, b).read == {"e": 1, "e-": 1}
    [there] = b.knowledge.list_edges()
    assert (there.type, there.explanation, there.source) == ("contradicts", "therefore", "user")

    a.do(lambda: a.knowledge.delete_edge(edge.id), NOW + 30)
    assert exchange(a, b).has_forgotten


def test_a_text_of_a_node_that_is_replaced_is_forgotten_and_other_changes_are_none(machines) -> None:
    a, b = machines("a", "b")
    node = a.knowledge.add_node("Kites", notes="of paper", link="https://kites.example")
    settle([a, b], 1)
    b.sync()
    a.do(lambda: a.knowledge.update_node(node.id, link="https://new.example", dimensions=["red"]), NOW + 10)
    assert not exchange(a, b).has_forgotten
    a.do(lambda: a.knowledge.update_node(node.id, notes="of silk"), NOW + 20)
    assert exchange(a, b).has_forgotten

    [there] = b.knowledge.list_nodes()
    assert (there.notes, there.link, there.dimensions) == ("of silk", "https://new.example", ("red",))
    assert (there.created_at, there.updated_at) == (node.created_at, NOW + 20)


def test_of_two_dimensions_that_were_removed_each_can_come_back(machines) -> None:
    a, b = machines("a", "b")
    a.knowledge.add_node("one", dimensions=["red"])
    settle([a, b], 1)
    a.do(lambda: a.knowledge.set_dimension("blue"), NOW + 10)
    for n, name in enumerate(("blue", "green"), 11):
        a.do(lambda name=name: a.knowledge.set_dimension(name), NOW + n)
        a.do(lambda name=name: a.knowledge.delete_dimension(name), NOW + n)
    b.do(lambda: b.knowledge.add_node("two", dimensions=["blue", "green"]), NOW + 20)
    b.sync()
    for name in ("blue", "green"):
        a.do(lambda name=name: a.knowledge.set_dimension(name), NOW + 30)
        a.do(lambda name=name: a.knowledge.delete_dimension(name), NOW + 31)
    settle([a, b], 2)
    for n, name in enumerate(("blue", "green")):
        a.do(lambda name=name: a.knowledge.set_dimension(name), NOW + 40 + n)
        settle([a, b], 2)
    for machine in (a, b):
        tags = {node.title: set(node.dimensions) for node in machine.knowledge.list_nodes()}
        assert tags == {"one": {"red"}, "two": {"blue", "green"}}


def test_a_dimension_that_comes_back_is_given_to_those_that_had_it_alone(machines) -> None:
    a, b = machines("a", "b")
    a.knowledge.add_node("had", dimensions=["blue", "red"])
    a.knowledge.add_node("had not", dimensions=["red"])
    settle([a, b], 1)
    b.sync()
    a.do(lambda: a.knowledge.delete_dimension("blue"), NOW + 10)
    report = exchange(a, b)
    assert report.has_forgotten
    assert report.read["d-"] == 1
    a.do(lambda: a.knowledge.set_dimension("blue", description="cold", icon="b", is_priority=True), NOW + 20)
    assert not exchange(a, b).has_forgotten
    [blue] = [one for one in b.knowledge.list_dimensions() if one.name == "blue"]
    assert (blue.description, blue.icon, blue.is_priority) == ("cold", "b", True)
    # It was taken over as it is: nothing is left to say about it.
    assert b.sync().written == {}

    # Removed once more, while the other machine gives it to a node.
    b.do(lambda: b.knowledge.add_node("given", dimensions=["blue", "red"]), NOW + 30)
    b.sync()
    a.do(lambda: a.knowledge.delete_dimension("blue"), NOW + 40)
    settle([a, b], 2)
    a.do(lambda: a.knowledge.set_dimension("blue"), NOW + 50)
    settle([a, b], 2)
    for machine in (a, b):
        tags = {node.title: sorted(node.dimensions) for node in machine.knowledge.list_nodes()}
        assert tags == {"had": ["red"], "had not": ["red"], "given": ["blue", "red"]}
    assert a.exported() == b.exported()


def test_the_passages_of_a_removed_node_are_gone_and_its_edges_too(machines) -> None:
    a, b, c = machines("a", "b", "c")
    one = a.knowledge.add_node("Kites", source_text="A kite needs wind and a long string.")
    a.knowledge.add_node("Wind")
    settle([a, b, c], 1)
    settle([b, c], 1)
    ids = {node.title: node.id for node in c.knowledge.list_nodes()}
    c.do(lambda: c.knowledge.connect(ids["Kites"], ids["Wind"], "need it"), NOW + 5)
    c.sync()
    a.do(lambda: a.knowledge.delete_node(one.id), NOW + 10)
    a.sync()
    for machine, other in ((a, b), (c, b), (a, c), (c, a), (b, a), (b, c)):
        machine.carry_to(other)
        other.sync()
    settle([a, b, c], 2)

    for machine in (a, b, c):
        assert [node.title for node in machine.knowledge.list_nodes()] == ["Wind"]
        assert machine.knowledge.list_edges() == []
        counts = machine.memory.transactions.read(
            lambda connection: connection.execute("SELECT count(*) FROM chunks WHERE text LIKE '%kite%'")
        )
        assert counts == [(0,)]

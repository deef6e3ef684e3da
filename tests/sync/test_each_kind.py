"""One change of each kind of thing, and what the other machine has of it."""

from __future__ import annotations

from typing import Any

from tests.sync.replicas import NOW, Machine, settle


def graph(machine: Machine) -> tuple[dict[str, tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Return the nodes by title, and the edges by the titles of their nodes."""
    nodes = {node.id: node for node in machine.knowledge.list_nodes()}
    told = {
        node.title: (node.kind, node.description, node.notes, node.dimensions, node.created_at)
        for node in nodes.values()
    }
    edges = {
        (nodes[one.from_node_id].title, nodes[one.to_node_id].title, one.type, one.explanation)
        for one in machine.knowledge.list_edges()
    }
    return told, edges


def test_nodes_are_changed_and_removed_with_their_edges(machines) -> None:
    a, b = machines("a", "b")
    one, two, three = (
        a.do(lambda n=n: a.knowledge.add_node(f"node {n}", description=f"d{n}"), NOW + n) for n in (1, 2, 3)
    )
    a.knowledge.connect(one.id, two.id, "because", type="supports")
    a.knowledge.connect(two.id, three.id, "so")
    settle([a, b], 1)
    b.sync()
    assert graph(b) == graph(a)
    assert graph(b)[1] == {
        ("node 1", "node 2", "supports", "because"),
        ("node 2", "node 3", "related_to", "so"),
    }
    assert graph(b)[0]["node 2"][4] == NOW + 2

    a.do(lambda: a.knowledge.update_node(one.id, title="first", notes="new", dimensions=["red"]), NOW + 10)
    a.do(lambda: a.knowledge.delete_node(three.id), NOW + 11)
    settle([a, b], 2)
    assert graph(b) == graph(a)
    assert graph(b)[0].keys() == {"first", "node 2"}
    assert graph(b)[0]["first"][1:4] == ("d1", "new", ("red",))
    assert graph(b)[1] == {("first", "node 2", "supports", "because")}

    there = {node.title: node.id for node in b.knowledge.list_nodes()}
    b.do(lambda: b.knowledge.update_node(there["node 2"], title="second"), NOW + 20)
    b.do(lambda: b.knowledge.connect(there["node 2"], there["first"], "back"), NOW + 21)
    settle([b, a], 2)
    assert graph(a) == graph(b)
    assert ("second", "first", "related_to", "back") in graph(a)[1]


def test_an_edge_is_changed_and_removed(machines) -> None:
    a, b = machines("a", "b")
    one, two = (a.knowledge.add_node(title) for title in ("one", "two"))
    edge = a.knowledge.connect(one.id, two.id, "because", type="supports")
    settle([a, b], 1)
    b.sync()

    a.do(lambda: a.knowledge.delete_edge(edge.id), NOW + 10)
    settle([a, b], 2)

    assert graph(b) == graph(a)
    assert graph(b)[1] == set()
    again = a.do(lambda: a.knowledge.connect(one.id, two.id, "again", type="supports"), NOW + 20)
    settle([a, b], 2)
    assert graph(b)[1] == {("one", "two", "supports", "again")}
    assert again.id


def test_dimensions_have_their_descriptions_and_leave(machines) -> None:
    a, b = machines("a", "b")
    a.knowledge.add_node("one", dimensions=["red", "blue"])
    a.do(lambda: a.knowledge.set_dimension("red", description="warm", icon="r", is_priority=True), NOW + 5)
    settle([a, b], 1)
    b.sync()

    def told(machine: Machine) -> dict[str, tuple[str, str, bool]]:
        found = machine.knowledge.list_dimensions()
        return {one.name: (one.description, one.icon, one.is_priority) for one in found}

    assert told(b) == told(a) == {"red": ("warm", "r", True), "blue": ("", "", False)}
    a.do(lambda: a.knowledge.delete_dimension("blue"), NOW + 10)
    settle([a, b], 2)
    assert told(b).keys() == {"red"}
    assert graph(b)[0]["one"][3] == ("red",)


def test_a_fact_that_is_forgotten_takes_what_was_made_of_it_along(machines) -> None:
    a, b = machines("a", "b")
    a.do(lambda: a.memory.set_fact("bird", "canaryone"), NOW + 1)
    a.do(lambda: a.memory.set_fact("city", "Ulm"), NOW + 2)
    settle([a, b], 1)
    b.do(lambda: b.memory.set_fact("city", "Bonn"), NOW + 10)
    settle([b, a], 2)
    assert a.memory.get_fact("city") == "Bonn"
    assert [one.value for one in a.memory.fact_history("city")] == [
        one.value for one in b.memory.fact_history("city")
    ]
    assert {one.value for one in a.memory.fact_history("city")} == {"Ulm", "Bonn"}

    a.do(lambda: a.memory.clear_fact("bird", with_history=True), NOW + 20)
    settle([a, b], 2)
    for machine in (a, b):
        assert machine.memory.get_fact("bird") is None
        assert machine.memory.get_fact("city") == "Bonn"
        assert all(one.value is None for one in machine.memory.fact_history("bird"))


def test_machines_are_read_one_after_the_other(machines) -> None:
    """What one of them cannot offer yet keeps none of the others back."""
    made = machines("a", "b", "c", "d")
    for number, machine in enumerate(made):
        machine.do(lambda one=machine, n=number: one.memory.store_memory(f"of {n}", "x" * 400), NOW + number)
        machine.do(
            lambda one=machine, n=number: one.memory.store_memory(f"2 of {n}", "y" * 900), NOW + number
        )
    settle(made, 1)
    a, *others = made
    report = a.sync()

    assert {one.question for one in a.memory.list_memories()} == {
        f"{two}of {n}" for n in range(4) for two in ("", "2 ")
    }
    assert report.machines == len(others)
    assert report.conflicts == []


def test_a_pin_goes_along_and_back(machines) -> None:
    a, b = machines("a", "b")
    one = a.memory.store_memory("Which editor?", "Vim")
    a.do(lambda: a.memory.pin_memory(one, True), NOW + 1)
    settle([a, b], 1)
    b.sync()
    [there] = b.memory.list_memories()
    assert there.pinned
    assert there.timestamp == a.memory.get_memory(one).timestamp

    b.do(lambda: b.memory.pin_memory(there.id, False), NOW + 10)
    settle([b, a], 2)
    assert not a.memory.get_memory(one).pinned

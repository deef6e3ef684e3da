"""Two machines change the same without knowing of each other."""

from __future__ import annotations

import pytest

from shepherd.memory import learned
from shepherd.sequences import sequence_of
from tests.sync.replicas import NOW, Machine, settle

DAY = 86_400


def values(machine) -> dict[str, str]:
    return {fact.key: fact.value for fact in machine.memory.get_all_facts()}


def said(machine) -> set[tuple[str, str]]:
    return {(one.question, one.answer) for one in machine.memory.list_memories()}


def test_what_was_set_wins_over_what_was_learned_later_elsewhere(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("location", "Texas"), NOW + 10)
    b.do(lambda: b.learn("location", "Berlin"), NOW + 20)
    a.sync()
    a.carry_to(b)
    report = b.sync()

    assert report is not None
    assert [conflict.what for conflict in report.conflicts] == ["fact location"]
    settle([a, b], 2)

    assert values(a) == values(b) == {"location": "Texas"}
    assert a.exported() == b.exported()
    [proposal] = b.memory.learned(waiting_only=True)
    assert (proposal.value, proposal.before, proposal.statement) == (
        "Berlin",
        "Texas",
        "My location is Berlin.",
    )
    assert not a.memory.learned(waiting_only=True)


def test_what_was_changed_here_and_forgotten_elsewhere_is_named(machines):
    a, b = machines("a", "b")
    memory = a.do(lambda: a.memory.store_memory("We plan the trip to Oslo.", ""), NOW)
    node = a.do(lambda: a.knowledge.add_node("Oslo", notes="By train."), NOW)
    a.do(lambda: a.memory.store_memory("We plan the trip to Rome.", ""), NOW)
    settle([a, b], 1)
    there = {one.question: one.id for one in b.memory.list_memories()}
    a.do(lambda: a.memory.delete_memory(memory), NOW + 10)
    a.do(lambda: a.knowledge.delete_node(node.id), NOW + 10)
    b.do(lambda: b.memory.edit_memory(there["We plan the trip to Oslo."], answer="By train."), NOW + 20)
    [other] = b.knowledge.list_nodes()
    b.do(lambda: b.knowledge.update_node(other.id, notes="By ship."), NOW + 20)
    a.sync()
    a.carry_to(b)
    report = b.sync()

    assert report is not None
    told = {conflict.what for conflict in report.conflicts}
    assert told == {f"memory {sequence_of(there['We plan the trip to Oslo.'])}", f"node {other.id}"}
    assert all("changed here and forgotten on" in conflict.kept for conflict in report.conflicts)
    settle([a, b], 2)
    assert said(a) == said(b) == {("We plan the trip to Rome.", "")}


def test_what_was_forgotten_elsewhere_and_not_changed_here_is_no_conflict(machines):
    a, b = machines("a", "b")
    memory = a.do(lambda: a.memory.store_memory("We plan the trip to Oslo.", ""), NOW)
    settle([a, b], 1)
    a.do(lambda: a.memory.delete_memory(memory), NOW + 10)
    b.do(lambda: b.memory.store_memory("We plan the trip to Rome.", ""), NOW + 20)
    a.sync()
    a.carry_to(b)
    report = b.sync()

    assert report is not None
    assert report.conflicts == []


def test_a_fact_that_won_still_counts_as_set(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("location", "Texas"), NOW + 10)
    b.do(lambda: b.learn("location", "Berlin"), NOW + 20)
    settle([a, b], 2)

    a.do(lambda: a.learn("location", "Paris"), NOW + 30)

    assert values(a) == {"location": "Texas"}
    assert [item.value for item in a.memory.learned(waiting_only=True)] == ["Paris"]


def test_accepting_the_proposal_ends_the_conflict_everywhere(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("location", "Texas"), NOW + 10)
    b.do(lambda: b.learn("location", "Berlin"), NOW + 20)
    settle([a, b], 2)

    b.do(b.memory.accept, NOW + 40)
    settle([a, b], 2)

    assert values(a) == values(b) == {"location": "Berlin"}
    assert a.exported() == b.exported()


def test_a_change_that_knows_the_other_wins_though_its_clock_is_a_day_behind(machines):
    a, b = machines("a", "b", b=-DAY)
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("location", "Texas"), NOW + 10)
    settle([a, b], 1)
    b.do(lambda: b.memory.set_fact("location", "Berlin"), NOW + 20)
    settle([a, b], 2)

    assert values(a) == values(b) == {"location": "Berlin"}


def test_the_newer_of_two_set_values_wins_and_the_other_is_in_the_history(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.do(lambda: a.memory.set_fact("name", "Ann"), NOW + 20)
    b.do(lambda: b.memory.set_fact("name", "Bea"), NOW + 10)
    settle([a, b], 2)

    assert values(a) == values(b) == {"name": "Ann"}
    assert [change.value for change in b.memory.fact_history("name")] == ["Bea", "Ann"]


def change(machine: Machine, what: str, value: str, after_s: int) -> None:
    work = {
        "sets": lambda: machine.memory.set_fact("city", value),
        "learns": lambda: machine.learn("city", value),
        "clears": lambda: machine.memory.clear_fact("city"),
        "undoes": machine.memory.undo,
    }[what]
    machine.do(work, NOW + after_s)


ULM, BONN, ROME = ("Ulm", 10, 10), ("Bonn", 20, 20), ("Rome", 30, 30)


@pytest.mark.parametrize(
    ("changes", "fact", "history"),
    [
        # The fact: value, creation, last change, since when it holds. An entry: value, change, since when.
        ("a sets Ulm 10, b sets Bonn 20, sync", ("Bonn", 10, 20, 20), [ULM, BONN]),
        ("a sets Ulm 10, b learns Bonn 20, sync", ("Ulm", 10, 20, 10), [ULM, BONN, ("Ulm", 20, 10)]),
        ("a sets Ulm 10, b learns Bonn 20, sync, a sets Rome 30, sync", ("Rome", 10, 30, 30),
         [ULM, BONN, ROME]),
        ("a sets Ulm 10, b sets Bonn 10, sync", ("Ulm", 10, 10, 10), [("Bonn", 10, 10), ULM]),
        ("a learns Ulm 10, b learns Bonn 20, sync, b undoes - 30, sync", ("Ulm", 10, 10, 10), [ULM]),
        ("b learns Bonn 20, sync, b undoes - 30, sync", None, []),
        ("a sets Ulm 10, sync, b clears - 20, a sets Rome 15, sync", None,
         [ULM, ("Rome", 15, 15), (None, 20, 20)]),
    ],
)  # fmt: skip
def test_a_fact_and_its_history_are_the_same_on_both_machines(machines, changes, fact, history):
    a, b = machines("a", "b")
    settle([a, b], 1)
    for step in changes.split(", "):
        if step == "sync":
            settle([a, b], 2)
        else:
            name, what, value, after_s = step.split()
            change({"a": a, "b": b}[name], what, value, int(after_s))

    assert a.exported() == b.exported()
    for machine in (a, b):
        assert [
            (one.value, *(at - NOW for at in (one.created_at, one.updated_at, one.valid_from)))
            for one in machine.memory.get_all_facts()
        ] == ([fact] if fact else [])
        assert [
            (one.value, one.changed_at - NOW, one.valid_from - NOW)
            for one in machine.memory.fact_history("city")
        ] == history


def test_two_edits_of_a_memory_are_both_kept(machines):
    a, b = machines("a", "b")
    one = a.memory.store_memory("Which editor?", "Vim")
    settle([a, b], 1)
    [other] = b.memory.list_memories()
    a.do(lambda: a.memory.edit_memory(one, answer="Helix"), NOW + 10)
    b.do(lambda: b.memory.edit_memory(other.id, answer="Emacs"), NOW + 20)
    settle([a, b], 3)

    assert said(a) == said(b) == {("Which editor?", "Helix"), ("Which editor?", "Emacs")}


def test_two_versions_of_a_node_are_both_kept(machines):
    a, b = machines("a", "b")
    node = a.knowledge.add_node("Plan", notes="first")
    settle([a, b], 1)
    a.do(lambda: a.knowledge.update_node(node.id, notes="of a"), NOW + 10)
    b.do(lambda: b.knowledge.update_node(1, notes="of b"), NOW + 20)
    settle([a, b], 3)

    assert {node.notes for node in a.knowledge.list_nodes()} == {"of a", "of b"}
    plain, copy = sorted(node.title for node in a.knowledge.list_nodes())
    assert plain == "Plan"
    assert copy.startswith("Plan (version of ")
    assert a.exported() == b.exported()


def test_the_same_memory_of_two_machines_is_one(machines):
    a, b = machines("a", "b")
    a.do(lambda: a.memory.store_memory("Which editor?", "Vim"), NOW + 10)
    b.do(lambda: b.memory.store_memory("Which editor?", "Vim"), NOW + 20)
    settle([a, b], 2)

    assert a.exported() == b.exported()
    assert a.memory.count_memories() == b.memory.count_memories() == 1

    a.memory.clear_memory("Which editor?")
    settle([a, b], 2)

    assert not said(a)
    assert not said(b)


def test_an_edge_waits_for_its_nodes(machines):
    a, b, c = machines("a", "b", "c")
    first, second = (a.knowledge.add_node(title) for title in ("one", "two"))
    a.sync()
    a.carry_to(b)
    b.sync()
    b.knowledge.connect(1, 2, "because")
    b.sync()
    b.carry_to(c)
    (c.folder / "shepherd-sync.json").write_bytes((a.folder / "shepherd-sync.json").read_bytes())
    c.sync()
    assert c.knowledge.list_nodes() == []
    a.carry_to(c)
    c.sync()

    assert [edge.explanation for edge in c.knowledge.list_edges()] == ["because"]
    assert {first.title, second.title} == {node.title for node in c.knowledge.list_nodes()}


def test_a_dimension_that_was_removed_and_added_again_keeps_its_nodes(machines):
    a, b = machines("a", "b")
    a.knowledge.add_node("one", dimensions=["blue"])
    settle([a, b], 1)
    a.do(lambda: a.knowledge.delete_dimension("blue"), NOW + 10)
    b.do(lambda: b.knowledge.add_node("two", dimensions=["blue"]), NOW + 20)
    settle([a, b], 2)
    assert a.exported() == b.exported()
    a.do(lambda: a.knowledge.add_node("three", dimensions=["blue"]), NOW + 30)
    settle([a, b], 2)

    assert a.exported() == b.exported()
    assert {node.title: node.dimensions for node in b.knowledge.list_nodes()}["two"] == ("blue",)


def in_conflict(a: Machine, b: Machine) -> None:
    """Let both learn a city, the second one later, and hear of it."""
    settle([a, b], 1)
    a.do(lambda: a.learn("city", "Paris", "old"), NOW + 10)
    b.do(lambda: b.learn("city", "Rome", "new"), NOW + 20)
    settle([a, b], 2)
    assert values(a) == values(b) == {"city": "Rome"}


def test_forgetting_the_sentence_of_a_value_that_lost_does_not_let_it_win(machines):
    a, b = machines("a", "b")
    in_conflict(a, b)
    store = a.memory.transactions
    a.do(lambda: store.write(a.user, lambda c: learned.forget_session(c, a.user, "old")), NOW + 30)
    settle([a, b], 2)

    assert values(a) == values(b) == {"city": "Rome"}
    assert a.exported() == b.exported()


def test_writing_a_value_that_lost_again_does_not_let_it_win(machines):
    a, b = machines("a", "b")
    in_conflict(a, b)
    for machine in (a, b):
        for segment in machine.folder.glob(f"{a.id()}-*"):
            segment.unlink()
    settle([a, b], 2)

    assert values(a) == values(b) == {"city": "Rome"}
    assert a.exported() == b.exported()

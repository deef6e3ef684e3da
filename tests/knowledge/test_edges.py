"""Edges: what they say, who may be connected, and the count of them that makes a hub."""

from __future__ import annotations

import random

import pytest

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge


def test_an_edge_reads_from_one_node_to_the_other(knowledge):
    book, author = knowledge.add_node("Emma"), knowledge.add_node("Jane Austen")

    edge = knowledge.connect(book.id, author.id, "Emma was written by Jane Austen", type="created_by")

    assert (edge.from_title, edge.type, edge.to_title) == ("Emma", "created_by", "Jane Austen")
    assert (edge.confidence, edge.source) == (1.0, "user")
    assert knowledge.list_edges(book.id) == knowledge.list_edges(author.id) == [edge]
    assert knowledge.list_edges(type="extends") == []


def test_the_same_connection_is_made_once(knowledge):
    a, b = knowledge.add_node("a"), knowledge.add_node("b")
    first = knowledge.connect(a.id, b.id, "because")

    assert knowledge.connect(a.id, b.id, "another reason") == first
    assert knowledge.connect(b.id, a.id, "the other way").id != first.id
    assert knowledge.connect(a.id, b.id, "more", type="extends").id != first.id
    assert knowledge.get_node(a.id).n_edges == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"to_node_id": 1}, "with itself"),
        ({"to_node_id": 99}, "no node 99"),
        ({"explanation": " "}, "explanation"),
        ({"type": "likes"}, "no edge type 'likes'"),
        ({"confidence": 1.5}, "from 0 to 1"),
        ({"source": "nobody"}, "no source"),
    ],
)
def test_what_is_no_edge_is_refused(knowledge, change, message):
    knowledge.add_node("a")
    knowledge.add_node("b")

    with pytest.raises(UsageError, match=message):
        knowledge.connect(**{"from_node_id": 1, "to_node_id": 2, "explanation": "why", **change})
    assert knowledge.list_edges() == []


def test_both_ends_are_nodes_of_the_same_user(knowledge, memory):
    other = Knowledge(memory.transactions, "anna")
    mine, hers = knowledge.add_node("mine"), [other.add_node(title) for title in "abc"][-1]

    with pytest.raises(UsageError, match=f"no node {hers.id}"):
        knowledge.connect(mine.id, hers.id, "not mine to see")


def test_an_edge_is_changed_and_removed(knowledge):
    a, b = knowledge.add_node("a"), knowledge.add_node("b")
    edge = knowledge.connect(a.id, b.id, "because")
    knowledge.connect(a.id, b.id, "more", type="extends")

    assert knowledge.update_edge(edge.id, type="supports", explanation="it proves it", confidence=0.4)
    changed = knowledge.get_edge(edge.id)
    assert (changed.type, changed.explanation, changed.confidence) == ("supports", "it proves it", 0.4)
    with pytest.raises(UsageError, match="already"):
        knowledge.update_edge(edge.id, type="extends")
    assert knowledge.delete_edge(edge.id)
    assert not knowledge.delete_edge(edge.id)
    assert not knowledge.update_edge(edge.id, type="supports")
    assert knowledge.get_node(a.id).n_edges == knowledge.get_node(b.id).n_edges == 1


def test_hubs_are_what_counting_all_edges_would_give(memory):
    chance = random.Random(3)
    clock = iter(range(10_000))
    knowledge = Knowledge(memory.transactions, "steve", clock=lambda: next(clock) // 7)
    nodes = [knowledge.add_node(f"node {n}", kind="memory" if n % 5 == 0 else "").id for n in range(30)]
    for _ in range(120):
        a, b = chance.sample(nodes, 2)
        edge = knowledge.connect(a, b, "why", type=chance.choice(["extends", "supports"]))
        if chance.random() < 0.2:
            knowledge.delete_edge(edge.id)
    for node_id in chance.sample(nodes, 5):
        knowledge.delete_node(node_id)

    left = knowledge.list_nodes(limit=100)
    edges = knowledge.list_edges(limit=1000)
    counts = {n.id: sum(n.id in (e.from_node_id, e.to_node_id) for e in edges) for n in left}
    expected = sorted(
        (n for n in left if n.kind != "memory"), key=lambda n: (-counts[n.id], -n.updated_at, n.id)
    )
    assert [(hub.id, hub.n_edges) for hub in knowledge.hubs(10)] == [
        (n.id, counts[n.id]) for n in expected[:10]
    ]

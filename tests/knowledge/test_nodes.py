"""Nodes and their dimensions: stored, changed, listed, removed, and nobody else's."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.memory import Memory
from tests.memory.conftest import NOW


def test_a_node_comes_back_as_it_was_given(knowledge):
    added = knowledge.add_node(
        "How RAG systems work",
        kind="article",
        description="an introduction",
        notes="read again",
        source_text="Retrieval comes first.\0 Then generation.",
        link="https://example.com/rag-systems",
        event_date="2024-05-01",
        metadata={"pages": 3, "by": "Ä"},
        dimensions=["research", "ai"],
    )

    node = knowledge.get_node(added.id, with_text=True)
    assert node.source_text == "Retrieval comes first.\0 Then generation."
    assert (node.title, node.kind, node.notes) == ("How RAG systems work", "article", "read again")
    assert node.dimensions == ("ai", "research")
    assert node.metadata == {"pages": 3, "by": "Ä"}
    assert (node.index_state, node.text_length) == ("chunked", 40)
    assert node.created_at == node.updated_at == int(NOW)
    assert added.source_text == ""


def test_metadata_that_is_not_unicode_is_stored_as_other_texts_are(knowledge):
    node = knowledge.add_node("Letter", metadata={"by": "\ud83d", "\udc00": ["\ud83d\ude00"]})
    assert knowledge.get_node(node.id).metadata == {"by": "\ufffd", "\ufffd": ["\U0001f600"]}

    knowledge.update_node(node.id, metadata={"file": "a\udcffb"})
    assert knowledge.get_node(node.id).metadata == {"file": "a\ufffdb"}


def test_a_title_is_one_line_and_not_empty(knowledge):
    assert knowledge.add_node(" Two\nlines  here ").title == "Two lines here"
    with pytest.raises(UsageError, match="needs a title"):
        knowledge.add_node(" \n ")
    assert knowledge.count_nodes() == 1


def test_numbers_of_nodes_are_a_users_own_and_are_not_given_again(knowledge, memory):
    other = Knowledge(memory.transactions, "anna")
    assert [knowledge.add_node(title).id for title in "abc"] == [1, 2, 3]
    assert other.add_node("a").id == 1

    knowledge.delete_node(3)

    assert knowledge.add_node("d").id == 4


def test_notes_are_appended_unless_they_are_given_new(knowledge):
    node = knowledge.add_node("Garden", notes="roses")

    knowledge.update_node(node.id, append_notes="tulips")
    assert knowledge.get_node(node.id).notes == "roses\n\ntulips"
    assert [hit.node_id for hit in knowledge.search("tulips")] == [node.id]

    knowledge.update_node(node.id, notes="only moss")
    assert knowledge.get_node(node.id).notes == "only moss"
    assert knowledge.search("tulips") == []


def test_a_new_text_takes_the_place_of_the_old_one(knowledge):
    node = knowledge.add_node("Report", source_text="The old report speaks of walrus. " * 100)

    assert knowledge.update_node(node.id, source_text="The new report speaks of an otter.")

    assert knowledge.search("walrus") == []
    [hit] = knowledge.search("otter")
    assert hit.text == "The new report speaks of an otter."
    assert [chunk.idx for chunk in knowledge.chunks_of(node.id)] == [0]


def test_an_unknown_field_is_refused(knowledge):
    node = knowledge.add_node("x")

    with pytest.raises(UsageError, match="no 'colour'"):
        knowledge.update_node(node.id, colour="red")


def test_a_removed_node_is_gone_with_all_that_hung_on_it(knowledge):
    keep = knowledge.add_node("keep")
    gone = knowledge.add_node("gone", source_text="a platypus", dimensions=["animals"])
    knowledge.connect(keep.id, gone.id, "mentions it")
    knowledge.focus([gone.id])

    assert knowledge.delete_node(gone.id)

    assert not knowledge.delete_node(gone.id)
    assert knowledge.search("platypus") == []
    assert knowledge.list_edges() == []
    assert knowledge.focused() == []
    assert knowledge.get_node(keep.id).n_edges == 0
    assert knowledge.list_dimensions()[0].n_nodes == 0


def test_nodes_are_listed_the_latest_first_and_by_kind_and_dimension(memory):
    clock = iter(range(100, 200))
    knowledge = Knowledge(memory.transactions, "steve", clock=lambda: next(clock))
    paper = knowledge.add_node("paper", kind="paper", dimensions=["ai"])
    person = knowledge.add_node("person", kind="person", dimensions=["ai", "friends"])
    idea = knowledge.add_node("idea")
    knowledge.update_node(paper.id, description="newer now")

    assert [node.id for node in knowledge.list_nodes()] == [paper.id, idea.id, person.id]
    assert [node.id for node in knowledge.list_nodes(limit=1, offset=1)] == [idea.id]
    assert [node.id for node in knowledge.list_nodes(kind="person")] == [person.id]
    assert [node.id for node in knowledge.list_nodes(dimension="ai")] == [paper.id, person.id]
    assert (knowledge.count_nodes(kind="person"), knowledge.count_nodes(dimension="ai")) == (1, 2)
    assert knowledge.count_nodes(kind="person", dimension="friends") == 1
    assert knowledge.count_nodes(kind="paper", dimension="friends") == 0
    assert [node.id for node in knowledge.find_nodes("paper")] == [paper.id]
    assert [node.id for node in knowledge.find_nodes("idea", kind="paper")] == []


def test_hundreds_of_nodes_are_listed_at_once_with_their_dimensions(knowledge):
    for number in range(150):
        knowledge.add_node(f"Node {number}", dimensions=[f"d{number % 3}"])

    listed = knowledge.list_nodes(limit=500)

    assert len(listed) == 150
    assert {node.title: node.dimensions for node in listed}["Node 100"] == ("d1",)


def test_a_dimension_is_described_renamed_and_removed(knowledge):
    first = knowledge.add_node("a", dimensions=["AI", "old"])
    second = knowledge.add_node("b", dimensions=["old"])
    knowledge.set_dimension("AI", description="machines that learn", icon="🤖", is_priority=True)

    knowledge.set_dimension("old", new_name="AI")

    [dimension] = knowledge.list_dimensions()
    assert (dimension.name, dimension.description, dimension.icon) == ("AI", "machines that learn", "🤖")
    assert (dimension.is_priority, dimension.n_nodes) == (True, 2)
    assert knowledge.get_node(first.id).dimensions == knowledge.get_node(second.id).dimensions == ("AI",)
    assert knowledge.delete_dimension("AI")
    assert knowledge.get_node(first.id).dimensions == ()


@pytest.mark.parametrize("user", ["", "unknown"])
def test_nobody_reads_nothing_and_writes_nothing(memory: Memory, user):
    knowledge = Knowledge(memory.transactions, user)

    with pytest.raises(UsageError, match="nothing is kept"):
        knowledge.add_node("x")

    assert knowledge.list_nodes() == knowledge.search("x") == knowledge.hubs() == knowledge.list_edges() == []
    assert knowledge.count_nodes() == 0
    assert knowledge.background_block() == knowledge.focus_block() == ""


def test_secrets_in_a_node_are_covered_and_counted(knowledge):
    values = {"title": "Alarm", "notes": "The alarm code is 4471.", "kind": "note", "dimensions": ["home"]}
    node = knowledge.add_node(**values)
    change = {"description": "My password is Tr0ub4dor&3.", "append_notes": "The PIN is 8812."}
    knowledge.update_node(node.id, **change)
    after = knowledge.get_node(node.id)

    assert node.notes == "The alarm code is \u2022\u2022\u2022\u2022."
    assert knowledge.count_secrets(values, is_new=True) == 1
    assert knowledge.count_secrets(change) == 2
    # What is covered already is no secret: a form that sends all its fields again tells of none.
    assert knowledge.count_secrets({"notes": after.notes, "description": after.description}) == 0


def test_secrets_are_covered_in_metadata_edges_and_dimensions(knowledge):
    said, covered = "My password is Tr0ub4dor&3.", "My password is " + "\u2022" * 11 + "."
    values = {"metadata": {"said": [said, 2024], "door": {"pin": 4711}}}
    metadata = {"said": [covered, 2024], "door": {"pin": "\u2022" * 4}}
    node, other = knowledge.add_node("Home", **values), knowledge.add_node("Bank")
    edge = knowledge.connect(node.id, other.id, said)
    knowledge.set_dimension("life", description=said)

    assert (node.metadata, edge.explanation) == (metadata, covered)
    assert [one.description for one in knowledge.list_dimensions()] == [covered]
    knowledge.update_node(other.id, **values)
    knowledge.update_edge(edge.id, explanation=said)
    assert (knowledge.get_node(other.id).metadata, knowledge.get_edge(edge.id).explanation) == (
        metadata,
        covered,
    )
    assert knowledge.count_secrets(values) == 2
    assert knowledge.count_secrets({"metadata": metadata}) == 0


def test_an_event_date_is_a_day_and_an_older_text_stays(knowledge):
    old = knowledge.store_node(NewNode("old", event_date="soon"))
    for wrong in ("yesterday", "2026-02-30", "2026-03", "20260301", "2026-W01-1"):
        with pytest.raises(UsageError, match="event_date is not a day"):
            knowledge.add_node("new", event_date=wrong)
        with pytest.raises(UsageError, match="event_date is not a day"):
            knowledge.update_node(old, event_date=wrong)

    assert knowledge.update_node(old, title="older", event_date="soon")
    assert knowledge.update_node(old, event_date="2026-03-01")
    assert knowledge.update_node(old, event_date="")

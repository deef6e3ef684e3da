"""What somebody gets who names no options: how many, in which order, and with which scores."""

from __future__ import annotations

import json

import pytest

from shepherd.errors import DocumentError
from shepherd.knowledge import transfer
from shepherd.knowledge.importing import import_from, import_upload
from shepherd.knowledge.retrieval import boosted
from tests.memory.conftest import NOW
from tests.postgres import IN_A_FILE

pytestmark = IN_A_FILE


@pytest.fixture
def filled(knowledge):
    """102 nodes, 30 of them about one thing, with an edge each to the first one; every sixth is new."""
    one, two = knowledge.add_node("n0"), knowledge.add_node("n1")
    knowledge.connect(two.id, one.id, "because")
    records = list(transfer.records(knowledge))
    head = next(record for record in records if record["type"] == "format")
    node = next(record for record in records if record["type"] == "node")
    edge = next(record for record in records if record["type"] == "edge")
    for made in (one, two):
        knowledge.delete_node(made.id)
    document = [head]
    for n in range(102):
        text = f"{'walrus' if n < 30 else 'otter'} number {n} of the harbour"
        date = "2023-11-01" if n % 6 == 0 else "2001-01-01"
        own = {"id": n, "title": f"n{n}", "origin": f"{n:032}", "content_hash": f"{n:032}"}
        document.append(node | own | {"source_text": text, "event_date": date})
    for n in range(1, 102):
        document.append(edge | {"id": n, "from_node_id": n, "to_node_id": 0, "explanation": f"because {n}"})
    lines = "\n".join(map(json.dumps, document)).encode()
    assert {told.state for told in import_upload(knowledge, lines, "export.jsonl", 1 << 20)} == {"added"}
    return knowledge


def test_as_many_are_listed_as_the_documents_say(filled):
    assert len(filled.list_nodes()) == 50
    assert len(filled.list_edges()) == 100
    assert len(filled.hubs()) == 10
    assert filled.hubs()[0].title == "n0"
    for find in (filled.search, filled.retrieve, filled.find_nodes):
        assert len(find("walrus")) == 10
        assert len(find("walrus", 12)) == 12
    assert len(filled.search("walrus", 0)) == 0
    assert [one.score for one in filled.retrieve("walrus")] == [1.0] * 10
    assert {one.score for one in filled.search("walrus")} != {1.0}


def test_neither_dates_nor_names_count_if_nobody_asks(filled):
    plain = filled.retrieve("walrus", 102)
    named = filled.retrieve("walrus", 102, entities=["harbour"])
    dated = filled.retrieve("walrus", 102, recency_weight=0.5)

    assert [one.id for one in named] == [one.id for one in plain]
    assert [one.score for one in named] == [one.score for one in plain]
    assert dated[0].date == "2023-11-01"
    assert dated[0].score > 1.0
    assert boosted(plain, now=NOW) == plain
    assert boosted(plain, now=NOW, entities=["harbour"], entity_weight=0.5)[0].score == pytest.approx(1.15)


def test_little_relevance_is_enough_to_be_found_and_not_to_be_told_to_a_model(knowledge):
    knowledge.add_node("about", source_text="walrus and otter and guitar and coffee and report")
    for n in range(40):
        knowledge.add_node(f"other {n}", source_text="walrus news")
    query = "otter unheard nowhere nobody neverending"

    [hit] = knowledge.search(query)
    assert 0.0 < hit.relevance < 0.3
    assert knowledge.retrieve(query) == []
    assert [one.id for one in knowledge.retrieve(query, min_relevance=hit.relevance)] == [hit.id]


def test_an_edge_is_certain_and_related_unless_somebody_says_otherwise(knowledge):
    one, two = (knowledge.add_node(title) for title in ("one", "two"))
    edge = knowledge.connect(one.id, two.id, "because")

    assert (edge.type, edge.confidence, edge.source) == ("related_to", 1.0, "user")


def test_an_empty_knowledge_has_no_passages(knowledge):
    assert knowledge._count_chunks() == 0
    assert knowledge.retrieve("the walrus") == []
    assert knowledge.find_nodes("walrus") == knowledge.list_edges() == knowledge.hubs() == []


def test_a_graph_of_edges_tells_how_far_it_is(filled, memory):
    from shepherd.knowledge import Knowledge

    steps: list[tuple[int, int, str]] = []
    lines = "\n".join(map(json.dumps, transfer.records(filled))).encode()
    other = Knowledge(memory.transactions, "anna", clock=lambda: NOW)

    for _ in import_upload(other, lines, "export.jsonl", 1, lambda *step: steps.append(step)):
        pass

    assert steps[-1] == (203, 203, "edges")
    assert [step for step in steps if step[2] == "nodes"][-1] == (102, 203, "nodes")


def test_a_graph_of_the_memory_server_is_imported_from_a_file(knowledge, tmp_path):
    file = tmp_path / "memory.jsonl"
    rows = [
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["likes tea"]},
        {"type": "entity", "name": "Bob"},
        {"type": "relation", "from": "Ann", "to": "Carl", "relationType": "knows"},
        {"type": "relation", "from": "Ann", "to": "Ann", "relationType": "is"},
        {"type": "entity", "name": "Dora", "observations": [7]},
        {"type": "entity"},
    ]
    file.write_text("\n".join([*map(json.dumps, rows), "[", "", "7", '{"type": "entity", "name": 3}']))
    steps: list[tuple[int, int, str]] = []
    told = list(
        import_from(knowledge, str(file), dimensions=["red"], progress=lambda *step: steps.append(step))
    )

    assert [(one.name, one.state) for one in told[:3]] == [(name, "added") for name in ("Ann", "Bob", "Carl")]
    assert [one.reason.removeprefix(f"{file}: ") for one in told[3:]] == [
        "line 4: an entity can't be related to itself",
        "line 5: observations is not a list of texts",
        'line 6: "name" is missing or not a string',
        "line 7: not JSON",
        "line 9: neither an entity nor a relation",
        'line 10: "name" is missing or not a string',
    ]
    assert steps == [(3, 4, "entities"), (4, 4, "relations")]
    ids = {node.title: node.id for node in knowledge.list_nodes()}
    assert {one.name: one.node_id for one in told[:3]} == ids
    ann = knowledge.get_node(ids["Ann"])
    assert (ann.kind, ann.description, ann.dimensions) == ("person", "", ("red",))
    assert "likes tea" in ann.notes
    assert [(one.from_node_id, one.to_node_id, one.explanation) for one in knowledge.list_edges()] == [
        (ids["Ann"], ids["Carl"], "knows")
    ]

    # Again: nothing changes, but for what is new.
    assert [one.state for one in import_from(knowledge, str(file))][:3] == ["unchanged"] * 3
    rows[1]["observations"] = ["plays chess"]
    rows[2]["to"] = "Bob"
    file.write_text("\n".join(map(json.dumps, rows[:3])))
    assert [(one.name, one.state) for one in import_from(knowledge, str(file))] == [
        ("Ann", "changed"),
        ("Bob", "changed"),
    ]


def test_an_upload_is_read_by_what_it_is(knowledge):
    def states(data: bytes, name: str, most: int = 1 << 20) -> list[str]:
        return [one.state for one in import_upload(knowledge, data, name, most)]

    assert states(b"# Kites\nof paper", "kites.md") == ["added"]
    assert states(b"# Kites\nof paper", "kites.md") == ["unchanged"]
    assert states(b"# Kites\nof silk", "kites.md") == ["changed"]
    assert [node.title for node in knowledge.list_nodes()] == ["Kites"]
    assert states(b'{"entities": [{"name": "Ann", "observations": []}], "relations": []}', "m.json") == [
        "added"
    ]
    with pytest.raises(DocumentError, match="is a database"):
        states(b"SQLite format 3\0", "x.db")
    with pytest.raises(DocumentError, match="line 2 is damaged"):
        states(b'{"entities": [\n{"name": }', "m.json")
    assert states(b"12345", "five.txt", 5) == ["added"]
    with pytest.raises(DocumentError, match=r"six\.txt"):
        states(b"123456", "six.txt", 5)

"""What follows from the rows is checked, mended and made again; what was kept under another id is claimed."""

from __future__ import annotations

import pytest

from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from tests.memory.conftest import NOW


@pytest.fixture
def filled(knowledge: Knowledge) -> Knowledge:
    for n in range(4):
        knowledge.add_node(f"node {n}", source_text=f"The walrus number {n}. " * 100, dimensions=["sea"])
    knowledge.connect(1, 2, "why")
    return knowledge


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE knowledge_sums SET n = 0, total_length = 7", "sums of the chunks of 1 user "),
        ("UPDATE nodes SET n_edges = 9 WHERE id = 3", "1 node counts its edges"),
        (
            "UPDATE knowledge_sums SET next_chunk = 1, next_node = 2, next_edge = 1",
            "number of a node that is in use",
        ),
        ("DELETE FROM chunks WHERE idx = 1", "entries of the index of chunks have no chunk"),
        (
            "INSERT INTO chunks(id, user_id, node_id, part, idx, start_char, end_char, text)"
            " SELECT max(id) + 1, 'steve', 1, 'text', 99, 0, 5, 'otter' FROM chunks",
            "1 chunk of knowledge is missing",
        ),
    ],
)
def test_what_is_out_of_step_is_found_and_mended(memory: Memory, filled: Knowledge, damage, problem):
    assert memory.check(repair=False).ok
    found = filled.search("walrus", 50)
    filled.transaction(lambda connection, _: connection.execute(damage))

    report = memory.check(repair=True)

    assert any(problem in line for line in report.problems)
    assert report.ok
    assert memory.check(repair=False).problems == ()
    if "chunks" not in damage:
        assert filled.search("walrus", 50) == found
    assert filled.add_node("next").id == 5


def test_an_index_of_another_tokenizer_is_made_again(database: str):
    with Memory(database, clock=lambda: NOW) as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        knowledge.add_node("a", source_text="walrus and otter")
        before = knowledge.search("walrus")
        knowledge.transaction(
            lambda connection, _: connection.execute(
                "UPDATE meta SET value = 1 WHERE key = 'tokenizer_version'"
            )
        )

    with Memory(database, clock=lambda: NOW) as memory:
        assert Knowledge(memory.transactions, "steve").search("walrus") == before
        assert memory.check(repair=False).ok


def test_what_was_kept_under_another_id_is_taken_over_once(memory: Memory, filled: Knowledge, tmp_path):
    anna = Knowledge(memory.transactions, "anna", clock=lambda: NOW)
    own = anna.add_node("her own", dimensions=["ice"])

    assert anna.claim("steve") == 4
    assert (
        anna.claim("steve") == anna.claim("anna") == anna.claim("unknown") == anna.claim("nobody else") == 0
    )

    assert filled.count_nodes() == 0
    assert filled.search("walrus") == filled.list_dimensions() == filled.list_edges() == []
    assert [node.title for node in anna.get_nodes(range(1, 6))] == [
        own.title,
        *(f"node {n}" for n in range(4)),
    ]
    [edge] = anna.list_edges()
    assert (edge.from_title, edge.to_title, edge.explanation) == ("node 0", "node 1", "why")
    assert len({hit.node_id for hit in anna.search("walrus", 50, part="text")}) == 4
    assert memory.check(repair=False).ok

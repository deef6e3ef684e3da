"""About how many bytes each write makes the database grow by, for which older rows give way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shepherd.entities import EntityRegistry, SessionEntities
from shepherd.knowledge import Knowledge
from shepherd.memory import Claim, Memory, NewMemory, OpenJob
from shepherd.memory.sessions import size_of as size_of_message
from shepherd.memory.store import SMALL_ROW_BYTES, size_of
from shepherd.memory.tenants import ROW_BYTES
from shepherd.trace import Traces
from shepherd.types import Message


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def sizes(memory, monkeypatch) -> list[int]:
    """The sizes of the writes so far, each with whether its rows stay."""
    told: list[int] = []
    write = memory.transactions.write

    def telling(user_id: str, work: Any, *, size: int = 0, stays: bool = False) -> Any:
        if size:
            told.append(-size if stays else size)
        return write(user_id, work, size=size, stays=stays)

    monkeypatch.setattr(memory.transactions, "write", telling)
    return told


def test_a_memory_takes_its_text_twice_and_its_rows():
    one, two = NewMemory("abc", "de", 1), NewMemory("x", "", 1)

    assert size_of([]) == 0
    assert size_of([one]) == 2 * (5 + ROW_BYTES)
    assert size_of([one, two]) == 2 * (6 + 2 * ROW_BYTES)


def test_memories_and_facts_are_announced_with_their_texts(memory, sizes):
    memory.store_memory("abc", "de")
    memory.set_fact("key", "value")
    memory.start_session("steve", "tiny")

    stored = size_of([NewMemory("abc", "de", 1)])
    assert sizes == [stored, len("keyvalue") + SMALL_ROW_BYTES, SMALL_ROW_BYTES]
    memory.clear_fact("key")
    memory.clear_memory("abc")
    assert len(sizes) == 3  # nothing grows


def test_a_memory_of_a_tool_has_a_row_in_the_list_as_well(memory, sizes):
    memory.store_memory("abc", "de", source="tool")

    assert sizes == [size_of([NewMemory("abc", "de", 1)]) + SMALL_ROW_BYTES]


def test_a_message_is_announced_with_all_of_it(memory, sizes):
    session = memory.start_session()
    message = Message("user", "hello", thought="hm")
    memory.append_message(session, message)

    assert sizes[1:] == [size_of_message(message)]


def test_what_was_learned_is_announced_with_a_row_for_each_statement(memory, sizes):
    session = memory.start_session()
    memory.append_message(session, Message("user", "I live in Ulm."), job=OpenJob("worker", 1))
    job = memory.extraction.claim("worker", "steve")
    assert job is not None
    del sizes[:]
    new = NewMemory("Which dog?", "Rex", job.told_at, "extraction", session)

    memory.extraction.finish(
        job, [Claim("city", "Ulm", "I live in Ulm.", 0)], [new], statements=[("I live in Ulm.", 0)]
    )

    assert sizes == [size_of([new]) + 2 * SMALL_ROW_BYTES]


def test_a_trace_is_announced_with_its_paths(memory, sizes):
    traces = Traces(memory.transactions, "steve")
    traces.write("s", {"model": "mini", "n": 5})
    traces.merge([("/context/t/000000/model", "mini")])

    assert sizes == [len("modelmini") + len("n5") + 2 * 112, len("/context/t/000000/modelmini") + 112]


def test_knowledge_stays_and_is_announced_with_its_texts(memory, sizes):
    knowledge = Knowledge(memory.transactions, "steve")
    first = knowledge.add_node("Bees", notes="They fly.").id
    small = sizes[-1]
    second = knowledge.add_node("Bees", notes="They fly." + "x" * 100).id
    assert sizes[-1] - small in (-100, -200, -400)
    assert small < -1024
    knowledge.connect(first, second, explanation="likes")
    assert sizes[-1] == -1024


def test_entities_are_announced_with_their_records(memory, sizes):
    session = memory.start_session("steve", "tiny")
    registry = EntityRegistry()
    registry.end_turn()
    store = SessionEntities(memory.transactions, "steve")
    del sizes[:]
    store.save(session, registry)

    assert sizes == [len('{"turn": 1}')]

"""Lists of memories with conditions and orders, the same in a file and on a server."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Memory, MemoryFilter
from shepherd.types import MemoryRecord


@pytest.fixture
def told(memory: Memory) -> Memory:
    """Five memories of steve, told one second after the other, and one of anna."""
    memory.import_memories(
        [
            {
                "type": "memory",
                "question": "Which editor?",
                "answer": "Helix",
                "timestamp": 1,
                "source": "turn",
            },
            {"type": "memory", "question": "Which tea?", "answer": "Assam", "timestamp": 2, "source": "user"},
            {"type": "memory", "question": "Which bread?", "answer": "Rye", "timestamp": 3, "source": "turn"},
            {"type": "memory", "question": "Which road?", "answer": "A9", "timestamp": 4, "source": "import"},
            {
                "type": "memory",
                "question": "Which boat?",
                "answer": "Ketch",
                "timestamp": 5,
                "source": "import:old",
            },
        ]
    )
    memory.store_memory("Which editor?", "vim", "anna", timestamp=3)
    memory.pin_memory(memory.search("tea")[0].id)
    memory.recall("Which bread?")
    memory.recall("The bread again?")
    memory.recall("Which road?")
    memory.set_fact("name", "Steve")  # counts are written with what is written anyway
    return memory


CONDITIONS = {
    "one source": (MemoryFilter(("turn",)), ["Rye", "Helix"]),
    "two sources": (MemoryFilter(("turn", "user")), ["Rye", "Assam", "Helix"]),
    "any import": (MemoryFilter(("import",)), ["Ketch", "A9"]),
    "an import and a source": (MemoryFilter(("import", "user")), ["Ketch", "A9", "Assam"]),
    "a source that nothing has": (MemoryFilter(("%",)), []),
    "pinned": (MemoryFilter(pinned=True), ["Assam"]),
    "not pinned": (MemoryFilter(pinned=False), ["Ketch", "A9", "Rye", "Helix"]),
    "since": (MemoryFilter(since=4), ["Ketch", "A9"]),
    "until": (MemoryFilter(until=3), ["Assam", "Helix"]),
    "never recalled": (MemoryFilter(never_recalled=True), ["Ketch", "Assam", "Helix"]),
    "several": (MemoryFilter(("turn",), since=2, never_recalled=False), ["Rye"]),
}


@pytest.mark.parametrize(("wanted", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_list_has_what_meets_all_conditions(
    told: Memory, wanted: MemoryFilter, expected: list[str]
) -> None:
    listed = told.list_memories(wanted=wanted)

    assert [record.answer for record in listed] == expected
    assert told.count_memories(wanted=wanted) == len(expected)


@pytest.mark.parametrize(("wanted", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_search_sifts_as_a_list_does(told: Memory, wanted: MemoryFilter, expected: list[str]) -> None:
    records = told.list_memories()
    recalls = told.count_recalls([record.id for record in records])

    kept = [record for record in records if wanted.accepts(record, recalls.get(record.id, 0))]

    assert [record.answer for record in kept] == expected


def test_orders(told: Memory) -> None:
    def answers(records: list[MemoryRecord]) -> list[str]:
        return [record.answer for record in records]

    assert answers(told.list_memories(order="newest")) == ["Ketch", "A9", "Rye", "Assam", "Helix"]
    assert answers(told.list_memories(order="oldest")) == ["Helix", "Assam", "Rye", "A9", "Ketch"]
    assert answers(told.list_memories(order="recalled")) == ["Rye", "A9", "Ketch", "Assam", "Helix"]
    assert answers(told.list_memories(order="oldest", limit=2, offset=1)) == ["Assam", "Rye"]


def test_recalls_are_counted_of_ones_own_alone(told: Memory) -> None:
    [hers] = told.list_memories("anna")
    told.recall("Which editor?", "anna")
    told.set_fact("name", "Anna", "anna")
    mine = {record.id: record.answer for record in told.list_memories()}

    counted = told.count_recalls([*mine, hers.id])

    assert {mine[memory_id]: n for memory_id, n in counted.items()} == {"Rye": 2, "A9": 1}
    assert told.count_recalls([]) == {}
    assert sorted(told.count_recalls([*mine, *range(1, 500), *mine]).values()) == [1, 2]
    assert told.activity().never_recalled == 3


def test_many_are_forgotten_at_once_and_each_comes_back(told: Memory) -> None:
    [hers] = told.list_memories("anna")
    records = told.list_memories(limit=3)

    deleted = told.delete_memories([*(record.id for record in records), records[0].id, hers.id, 10**15])

    assert deleted == [record.id for record in records]
    assert told.count_memories() == 2
    assert told.list_memories("anna") == [hers]
    assert [told.restore_forgotten(memory_id) for memory_id in deleted] == records
    assert told.count_memories() == 5


def test_growth_is_told_by_source(told: Memory) -> None:
    activity = told.activity()

    assert activity.per_source == ((0, "import", 1), (0, "import:old", 1), (0, "turn", 2), (0, "user", 1))
    assert activity.per_day == ((0, 5),)


def test_half_a_row_is_refused(told: Memory) -> None:
    with pytest.raises(UsageError, match="whole number, not a float"):
        told.list_memories(limit=2.5)  # type: ignore[arg-type]

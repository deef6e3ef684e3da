"""Export and import: nothing gets lost on the way, doubles are left out, bad lines are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shepherd._native.store import Connection
from shepherd.memory import Memory
from tests.memory.conftest import NOW
from tests.postgres import IN_A_FILE


def without_ids(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "id"} for line in lines[1:]]


@pytest.fixture
def filled(memory: Memory) -> Memory:
    memory.set_fact("name", "Stefan", source="model")
    memory.set_fact("name", "Steve")
    memory.set_fact("pet", "Rex")
    memory.clear_fact("pet")
    memory_id = memory.store_memory("Which IDE?", "VS Code", timestamp=1000, session="s1", source="turn")
    assert memory_id is not None
    memory.pin_memory(memory_id)
    for n in range(1200):
        memory.store_memory(f"question {n}?", f"line one\nline {n}\u2028", timestamp=2000 + n)
    return memory


def test_what_is_exported_comes_back_the_same(filled: Memory, tmp_path: Path) -> None:
    exported = list(filled.export_memories())
    lines = [json.dumps(line) for line in exported]

    with Memory(tmp_path / "other.db") as other:
        counts = other.import_memories(lines)

        assert (counts.memories, counts.facts, counts.duplicates, counts.skipped) == (1201, 1, 0, 0)
        assert without_ids(list(other.export_memories())) == without_ids(exported)
        assert [result.answer for result in other.search("IDE")] == ["VS Code"]
        assert other.check().problems == ()


def test_importing_again_changes_nothing(filled: Memory) -> None:
    exported = list(filled.export_memories())

    counts = filled.import_memories(exported)

    assert (counts.memories, counts.facts, counts.duplicates) == (0, 0, 1202)
    assert list(filled.export_memories())[1:] == exported[1:]


def test_export_says_where_everything_came_from(filled: Memory) -> None:
    head, *lines = filled.export_memories()

    assert (head["type"], head["version"], head["user_id"]) == ("shepherd-export", 1, "steve")
    first = next(line for line in lines if line["type"] == "memory")
    assert (first["source"], first["session"], first["pinned"], first["timestamp"]) == (
        "turn",
        "s1",
        True,
        1000,
    )
    assert len(first["content_hash"]) == 64


def test_export_goes_on_while_others_write(filled: Memory) -> None:
    lines = filled.export_memories()
    next(lines)

    filled.store_memory("late?", "but in time")

    assert sum(line["type"] == "memory" for line in lines) == 1202


def test_a_value_that_is_told_again_is_a_duplicate(memory: Memory) -> None:
    line = '{"type": "fact", "key": "city", "value": "Ulm", "updated_at": %d}'

    first = memory.import_memories([line % 100])
    again = memory.import_memories([line % 101])

    assert (first.facts, first.duplicates) == (1, 0)
    assert (again.facts, again.duplicates) == (0, 1)


def test_newer_fact_wins_whichever_side_it_is_on(memory: Memory) -> None:
    memory.import_memories(['{"type": "fact", "key": "city", "value": "Oslo", "updated_at": 100}'])

    older = memory.import_memories(['{"type": "fact", "key": "city", "value": "Rome", "updated_at": 99}'])
    assert (older.facts, memory.get_fact("city")) == (0, "Oslo")

    newer = memory.import_memories(['{"type": "fact", "key": "City", "value": "Bern", "updated_at": 101}'])
    assert (newer.facts, memory.get_fact("city")) == (1, "Bern")


def test_of_two_values_of_one_second_the_one_that_is_here_stays(memory: Memory) -> None:
    memory.import_memories(['{"type": "fact", "key": "city", "value": "Oslo", "updated_at": 100}'])
    memory.import_memories(['{"type": "fact", "key": "city", "value": "Rome", "updated_at": 100}'])
    assert memory.get_fact("city") == "Oslo"

    memory.set_fact("pet", "Rex")
    memory.clear_fact("pet")
    memory.import_memories([{"type": "fact", "key": "pet", "value": "Tom", "updated_at": int(NOW)}])
    assert memory.get_fact("pet") is None

    memory.set_fact("color", "red")
    cleared = {"type": "fact-change", "key": "color", "value": None, "source": "user", "changed_at": int(NOW)}
    memory.import_memories([cleared])
    assert memory.get_fact("color") == "red"


def test_plain_questions_and_answers_are_enough(memory: Memory) -> None:
    counts = memory.import_memories(
        [b'{"question": "q?", "answer": "a"}', "", '{"question": "r?", "answer": "b"}\n']
    )

    assert (counts.memories, counts.skipped) == (2, 0)
    assert memory.list_memories()[0].source == "import"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"type": "node"}', "unknown type"),
        ('{"question": "q"}', '"answer" is missing'),
        ('{"question": 1, "answer": "a"}', '"question" is missing or not a string'),
        ('{"question": "q", "answer": "a", "timestamp": "soon"}', "timestamp"),
        ('{"question": "q", "answer": "a", "timestamp": 1e300}', "timestamp"),
        ('{"question": "q", "answer": "a", "timestamp": NaN}', "timestamp"),
        ('{"question": "q", "answer": "a", "timestamp": true}', "timestamp"),
        ('{"type": "fact", "key": "", "value": "x"}', "without key or value"),
        ('{"type": "shepherd-export", "version": 2}', "another version"),
    ],
)
def test_bad_line_is_named_and_the_others_are_stored(memory: Memory, line: str | bytes, problem: str) -> None:
    good = '{"question": "q?", "answer": "a"}'

    counts = memory.import_memories([line, good])

    assert (counts.memories, counts.skipped) == (1, 1)
    assert counts.problems[0].startswith("line 1: ")
    assert problem in counts.problems[0]


def test_only_the_first_problems_are_kept(memory: Memory) -> None:
    counts = memory.import_memories(["{"] * 1000)

    assert counts.skipped == 1000
    assert len(counts.problems) == 10


def test_lone_surrogates_of_json_are_replaced(memory: Memory) -> None:
    memory.import_memories(['{"question": "\\ud83d\\ude00 \\ud800", "answer": "a"}'])

    assert memory.list_memories()[0].question == "😀 \ufffd"


@IN_A_FILE
def test_index_is_one_piece_after_a_large_import(memory: Memory, path: Path) -> None:
    lines = [{"question": f"What is word{n}?", "answer": f"meaning{n % 7}"} for n in range(3000)]

    memory.import_memories(lines)

    with Connection(str(path), read_only=True) as connection:
        segments = "SELECT count(DISTINCT segid) FROM context_fts_idx"
        assert connection.execute(segments) == [(1,)]
    assert memory.check().problems == ()
    assert memory.search("word1234")[0].question == "What is word1234?"

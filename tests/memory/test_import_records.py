"""Records of imported files without a database: times, statements, and the lines of our own format."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest

from shepherd.memory.importers import chatgpt, mcp
from shepherd.memory.importers import shepherd as own
from shepherd.memory.importers.records import LARGEST_TIME, Bad, json_lines, moment, relation, text
from shepherd.memory.records import FactChange, NewMemory
from shepherd.types import Fact

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5),
        (5.9, 5),
        (-5, -5),
        (99_999_999_999, 99_999_999_999),
        (100_000_000_000, 100_000_000),
        (1_700_000_000_123, 1_700_000_000),
        (-100_000_000_000, -100_000_000),
        (LARGEST_TIME * 1000 - 1, LARGEST_TIME - 1),
        (LARGEST_TIME * 1000, NOW),
        pytest.param(10**400, NOW, id="many digits"),
        pytest.param(-(10**400), NOW, id="minus many digits"),
        *((value, NOW) for value in (True, None, math.nan, math.inf, "5", "", "soon", "2023-13-01", [5])),
        ("2023-11-14", 1_699_920_000),
        (" 2023-11-14T22:13:20Z ", 1_700_000_000),
        ("2023-11-14T22:13:20z", 1_700_000_000),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000),
    ],
)
def test_a_moment_is_read_from_numbers_and_dates(value: Any, seconds: int) -> None:
    assert moment(value, NOW) == seconds


def test_texts_are_trimmed_and_storable() -> None:
    assert [text(value) for value in (" a\ud800 ", "", None, 5, ["a"])] == ["a\ufffd", "", "", "", ""]
    assert relation("Ann", "works_at", "Acme", 5, "x") == NewMemory("Ann", "Ann works at Acme", 5, "x")
    for parts in (("", "v", "t"), ("s", "", "t"), ("s", "v", "")):
        assert relation(*parts, 5, "x") is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON (Expecting property name enclosed in double quotes, column 2)"),
        (b"\xff{}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
    ],
)
def test_a_line_without_an_object_is_named_by_its_number(line: str | bytes, problem: str) -> None:
    found = list(json_lines(["", " ", {"a": 1}, line, b'{"b": 2}']))

    assert found == [("line 3", {"a": 1}), ("line 4", Bad("line 4", problem)), ("line 5", {"b": 2})]


@pytest.mark.parametrize(
    ("entry", "record"),
    [
        ({"type": "shepherd-export", "version": own.VERSION}, None),
        ({"question": "q", "answer": "a"}, NewMemory("q", "a", NOW, "import", "", False)),
        ({"question": "", "answer": "a"}, NewMemory("", "a", NOW, "import")),
        ({"type": "memory", "question": "q", "answer": "", "timestamp": 5.9, "source": "user", "session": "s",
          "pinned": True, "more": 1}, NewMemory("q", "", 5, "user", "s", True)),
        ({"question": "q", "answer": "a", "pinned": 1}, NewMemory("q", "a", NOW, "import")),
        ({"type": "fact", "key": "k", "value": "v"}, Fact("k", "v", NOW, NOW, NOW)),
        ({"type": "fact", "key": "k", "value": "v", "created_at": 1}, Fact("k", "v", 1, 1, 1)),
        ({"type": "fact", "key": "k", "value": "v", "created_at": 1, "updated_at": 2},
         Fact("k", "v", 1, 2, 2)),
        ({"type": "fact", "key": "k", "value": "v", "created_at": 1, "updated_at": 2, "valid_from": 0},
         Fact("k", "v", 1, 2, 0)),
        ({"type": "fact-change", "key": "k"}, '"value" is missing or not a string'),
        ({"type": "fact-change", "key": "k", "value": None},
         FactChange("k", None, "import", NOW, NOW, "", "")),
        ({"type": "fact-change", "key": "k", "value": "v", "source": "user", "changed_at": 3, "valid_from": 2,
          "statement": "t", "session": "s"}, FactChange("k", "v", "user", 3, 2, "t", "s")),
        ({"type": "fact-change", "key": "k", "value": "v", "changed_at": 3},
         FactChange("k", "v", "import", 3, 3, "", "")),
        ({"type": "other"}, "unknown type"),
        ({"type": "shepherd-export", "version": own.VERSION + 1}, "made by another version"),
        ({"type": "shepherd-export"}, "made by another version"),
        ({"question": " ", "answer": "\n"}, "neither question nor answer"),
        ({"question": "q"}, '"answer" is missing or not a string'),
        ({"question": 5, "answer": "a"}, '"question" is missing or not a string'),
        *(({"type": "fact", "key": key, "value": value}, "a fact without key or value")
          for key, value in ((" ", "v"), ("k", ""))),
        *(({"question": "q", "answer": "a", "timestamp": value}, "timestamp is neither a time in unix")
          for value in ("5", "2026-02-30", "", True, None, math.nan, LARGEST_TIME, -LARGEST_TIME)),
        *(({"question": "q", "answer": "a", "timestamp": value}, NewMemory("q", "a", seconds, "import"))
          for value, seconds in (("2026-03-01T10:00:00", 1_772_359_200), ("2026-03-01", 1_772_323_200),
                                 ("2026-03-01 10:00:00.5+01:00", 1_772_355_600))),
        ({"type": "fact", "key": "k", "value": "v", "created_at": "1970-01-01T00:00:01Z"},
         Fact("k", "v", 1, 1, 1)),
        ({"question": "q", "answer": "a", "timestamp": LARGEST_TIME - 1},
         NewMemory("q", "a", LARGEST_TIME - 1, "import")),
    ],
)  # fmt: skip
def test_a_line_of_our_own_format_is_a_record(entry: dict[str, Any], record: object) -> None:
    found = list(own.read([json.dumps(entry)], NOW))

    if isinstance(record, str):
        [bad] = found
        assert isinstance(bad, Bad)
        assert (bad.place, bad.problem[: len(record)]) == ("line 1", record)
    else:
        # Some fields of a change do not count for its equality.
        assert repr(found) == repr([] if record is None else [record])


def graph(text: str) -> list[Any]:
    return list(mcp.read(io.BufferedReader(io.BytesIO(text.encode())), NOW))


ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea", 5, " "]}
WORKS = {"from": "Ann", "relationType": "works_at", "to": "Acme"}
OF_ANN = [
    NewMemory("Ann (person)", "likes tea", NOW, "mcp"),
    *(["an observation is not a string"] * 2),
    NewMemory("Ann", "Ann works at Acme", NOW, "mcp"),
]


@pytest.mark.parametrize(
    "written",
    [
        json.dumps({"entities": [ANN], "relations": [WORKS]}),
        json.dumps({"entities": [ANN], "relations": [WORKS]}, indent=1),
        "\n".join(json.dumps({"type": kind, **one}) for kind, one in (("entity", ANN), ("relation", WORKS))),
    ],
)
def test_a_graph_is_read_from_one_object_and_from_lines(written: str) -> None:
    assert [one.problem if isinstance(one, Bad) else one for one in graph(written)] == OF_ANN


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ({"type": "entity", "name": "Ann", "observations": ["a"]}, NewMemory("Ann", "a", NOW, "mcp")),
        ({"type": "entity", "name": "Ann", "observations": "a"}, None),
        ({"type": "entity", "name": " "}, "neither an entity nor a relation"),
        ({"type": "other", "name": "Ann", **WORKS}, "neither an entity nor a relation"),
        ({"type": "relation", **WORKS, "to": ""}, "a relation without from, relationType or to"),
    ],
)
def test_an_odd_item_of_a_graph_is_named(item: dict[str, Any], found: object) -> None:
    read = [one.problem if isinstance(one, Bad) else one for one in graph(json.dumps(item))]

    assert read == ([] if found is None else [found])


def message(role: str, *parts: object, parent: str | None = None, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    return {"parent": parent, "message": {"author": {"role": role}, "content": content, **more}}


def turns(mapping: dict[str, Any], **more: Any) -> list[tuple[str, str, int, str]]:
    document = json.dumps([{"mapping": mapping, "create_time": 9, "conversation_id": "c", **more}])
    found = chatgpt.read(io.BufferedReader(io.BytesIO(document.encode())), NOW)
    return [
        (one.question, one.answer, one.timestamp, one.session) for one in found if isinstance(one, NewMemory)
    ]


def test_messages_between_two_answers_are_one_turn() -> None:
    mapping = {
        "a": message("assistant", "Hello."),
        "b": message("user", "One.", create_time=20, parent="a"),
        "c": message("user", {"text": "Two."}, 5, "Three.", create_time=21, parent="b"),
        "d": message("assistant", "Yes\ue200cite\ue201.\ue203", parent="c"),
        "e": message("assistant", "to a tool", recipient="python", parent="d"),
        "f": message("tool", "of a tool", parent="e"),
        "g": message("assistant", "Done.", recipient="all", parent="f"),
        "h": message("user", "hidden", parent="g", metadata={"is_visually_hidden_from_conversation": True}),
        "i": message("user", "Four.", create_time=30, parent="h"),
    }

    assert turns(mapping, current_node="i") == [
        ("", "Hello.", 9, "chatgpt:c"),
        ("One.\n\nTwo.\nThree.", "Yes.\n\nDone.", 20, "chatgpt:c"),
        ("Four.", "", 30, "chatgpt:c"),
    ]
    assert [turn[0] for turn in turns(mapping, current_node="c")] == ["", "One.\n\nTwo.\nThree."]


def test_without_the_last_node_the_latest_leaf_is_read_and_a_cycle_ends() -> None:
    mapping = {
        "a": message("user", "old", create_time=1),
        "b": {**message("user", "new", create_time=2, parent="b"), "children": []},
        "c": {**message("user", "parent", create_time=3), "children": ["x"]},
        "d": {"parent": None, "message": None},
        "e": "odd",
    }

    assert turns(mapping) == [("new", "", 2, "chatgpt:c")]
    assert turns({"c": mapping["c"]}) == []


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("conversations.json", True),
        ("export/conversations-12.json", True),
        ("memories.json", True),
        ("conversations-x.json", False),
        ("my_conversations.json", False),
        ("conversations.json.bak", False),
    ],
)
def test_parts_of_an_archive_are_known_by_their_names(name: str, is_part: bool) -> None:
    assert chatgpt.is_part(name) is is_part

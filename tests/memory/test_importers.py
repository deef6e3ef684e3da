"""What others have kept comes in whole: every format, found by itself, read in pieces, bad parts named."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.memory.importers import NO_EXPORT
from shepherd.memory.importers.records import Bad, json_items
from shepherd.memory.importers.source import Source
from tests.examples import examples
from tests.postgres import IN_A_FILE


def told(memory: Memory) -> list[tuple[str, str, int]]:
    """Question, answer and time, in the order they came in."""
    entries = [entry for entry in memory.export_memories() if entry["type"] == "memory"]
    return [(entry["question"], entry["answer"], entry["timestamp"]) for entry in entries]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "export"


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# ---- ChatGPT


def message(role: str, said: object, at: float | None, **more: Any) -> dict[str, Any]:
    content = said if isinstance(said, dict) else {"content_type": "text", "parts": [said]}
    return {"author": {"role": role}, "content": content, "create_time": at, "recipient": "all", **more}


def conversation(*messages: dict[str, Any] | None, name: str = "c1", began: float = 1000.5) -> dict[str, Any]:
    """A conversation whose messages follow one another."""
    nodes = {}
    for number, said in enumerate(messages):
        nodes[f"n{number}"] = {
            "id": f"n{number}",
            "message": said,
            "parent": f"n{number - 1}" if number else None,
            "children": [f"n{number + 1}"] if number + 1 < len(messages) else [],
        }
    return {
        "title": "A talk",
        "create_time": began,
        "mapping": nodes,
        "current_node": f"n{len(messages) - 1}",
        "conversation_id": name,
    }


TALK = conversation(
    None,
    message("system", "", None),
    message("user", "Which dog?", 1001.7),
    message("assistant", {"content_type": "thoughts", "thoughts": []}, 1002),
    message("assistant", {"content_type": "code", "text": "search('dogs')"}, 1002, recipient="web"),
    message("tool", "results", 1003),
    message("assistant", "Rex\ue200cite\ue202turn0\ue201.", 1004),
    message("assistant", "A good dog.", 1005),
    message("user", "And", 2000),
    message(
        "user", {"content_type": "multimodal_text", "parts": [{"asset_pointer": "x"}, "this one?"]}, 2001
    ),
    message("assistant", "Bella.", 2002),
)


def test_turns_of_chatgpt_are_memories(memory: Memory, file: Path) -> None:
    counts = memory.import_file(write(file, [TALK]))

    assert (counts.memories, counts.skipped) == (2, 0)
    assert told(memory) == [
        ("Which dog?", "Rex.\n\nA good dog.", 1001),
        ("And\n\nthis one?", "Bella.", 2000),
    ]
    [first, _] = [entry for entry in memory.export_memories() if entry["type"] == "memory"]
    assert (first["source"], first["session"]) == ("chatgpt", "chatgpt:c1")
    assert memory.import_file(file).duplicates == 2


def test_only_the_branch_that_was_read_last_is_imported(memory: Memory, file: Path) -> None:
    talk = conversation(message("user", "Capital of Peru?", 1), message("assistant", "Cusco", 2))
    talk["mapping"]["n0"]["children"].append("other")
    talk["mapping"]["other"] = {"message": message("assistant", "Lima", 3), "parent": "n0", "children": []}

    memory.import_file(write(file, [{**talk, "current_node": "other"}]))
    assert told(memory) == [("Capital of Peru?", "Lima", 1)]

    # Where the export does not say, the latest leaf is the one.
    memory.import_file(write(file, [{**talk, "current_node": None, "conversation_id": "c2"}]))
    assert len(told(memory)) == 1


def test_what_chatgpt_remembered_is_remembered(memory: Memory, file: Path) -> None:
    profile = {
        "content_type": "user_editable_context",
        "user_profile": "I am a vet.",
        "user_instructions": "brief",
    }
    hidden = {"is_visually_hidden_from_conversation": True}
    talk = conversation(
        message("user", profile, None, metadata=hidden),
        message("user", "hidden", 5, metadata=hidden),
        message("user", "I moved to Oslo.", 10),
        message("assistant", "Lives in Oslo.", 11, recipient="bio"),
        message("tool", "Model set context updated.", 12),
        message("assistant", "Noted!", 13),
    )

    memory.import_file(write(file, [talk]))

    assert told(memory) == [
        ("About me", "I am a vet.", 1000),
        ("About me", "Lives in Oslo.", 11),
        ("I moved to Oslo.", "Noted!", 10),
    ]
    assert memory.search("Oslo")[0].answer in ("Lives in Oslo.", "Noted!")


def test_archive_is_read_without_unpacking(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<html>")
        archive.writestr("conversations-000.json", json.dumps([TALK]))
        archive.writestr("user.json", "{}")
        archive.writestr(
            "memories.json", json.dumps([{"content": "Likes tea.", "created_at": "2024-01-02T03:04:05Z"}])
        )
    heard: list[tuple[int, int]] = []

    counts = memory.import_file(path, progress=lambda done, total: heard.append((done, total)))

    assert counts.memories == 3
    assert told(memory)[-1] == ("About me", "Likes tea.", 1704164645)
    assert heard[-1][0] == heard[-1][1] > 0


@pytest.mark.parametrize("names", [[], ["other.json"]])
def test_archive_of_something_else_is_refused(memory: Memory, tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*names, "readme.txt"):
            archive.writestr(name, "x")

    with pytest.raises(UsageError, match=r"conversations\.json"):
        memory.import_file(path)


def test_damaged_archive_is_said(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([TALK] * 50))
    content = path.read_bytes()

    for cut in (content[: len(content) // 2], content[:200] + b"\xff" * 50 + content[250:]):
        path.write_bytes(cut)
        with pytest.raises(UsageError, match="damaged"):
            memory.import_file(path)


def test_strange_conversations_are_named_and_the_others_stored(memory: Memory, file: Path) -> None:
    circle = conversation(message("user", "round", 1), message("assistant", "and round", 2))
    circle["mapping"]["n0"]["parent"] = "n1"
    odd = {"mapping": {"a": None, "b": {"message": {"author": None, "content": "x"}}}, "current_node": "b"}

    counts = memory.import_file(write(file, [1, {"title": "no"}, odd, circle, TALK]), format="chatgpt")

    assert counts.skipped == 2
    assert [problem.split(":")[0] for problem in counts.problems] == ["conversation 1", "conversation 2"]
    assert [question for question, _, _ in told(memory)] == ["round", "Which dog?", "And\n\nthis one?"]


def test_document_that_breaks_off_keeps_what_came_before(memory: Memory, file: Path) -> None:
    whole = json.dumps([TALK, TALK | {"conversation_id": "c2"}])

    counts = memory.import_file(write(file, whole[:-200]))

    assert (counts.memories, counts.skipped) == (2, 1)
    assert counts.problems[0].startswith("conversation 2: not JSON")


# ---- mem0

MEM0 = [
    {"id": "1", "memory": "Likes hiking", "user_id": "al", "created_at": "2024-07-20T01:30:36.275141-07:00",
     "updated_at": None, "categories": ["hobbies", "sports"], "run_id": "r1"},
    {"id": "2", "memory": "Answers briefly", "agent_id": "bot", "created_at": "2024-07-20T01:30:36Z"},
]  # fmt: skip
MEM0_TOLD = [
    ("About me: hobbies, sports", "Likes hiking", 1721464236),
    ("About you", "Answers briefly", 1721439036),
]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(MEM0),
        json.dumps({"results": MEM0}),
        json.dumps({"count": 2, "next": None, "previous": None, "results": MEM0}, indent=2),
        "\n".join(map(json.dumps, MEM0)),
    ],
    ids=["list", "results", "page", "lines"],
)
def test_memories_of_mem0_come_in_every_form(memory: Memory, file: Path, content: str) -> None:
    counts = memory.import_file(write(file, content))

    assert (counts.memories, counts.skipped) == (2, 0)
    assert told(memory) == MEM0_TOLD
    assert memory.search("hobbies")[0].answer == "Likes hiking"


def test_relations_of_mem0_are_sentences(memory: Memory, file: Path) -> None:
    relations = [{"source": "al", "relationship": "lives_in", "target": "oslo"}, {"source": "al"}]

    counts = memory.import_file(write(file, {"results": [], "relations": relations}))

    assert [(q, a) for q, a, _ in told(memory)] == [("al", "al lives in oslo")]
    assert counts.problems == ("item 2: not a memory of mem0's",)


# ---- MCP memory server

ENTITIES = [
    {
        "type": "entity",
        "name": "John_Smith",
        "entityType": "person",
        "observations": ["Speaks Spanish", "Is 40"],
    },
    {"type": "relation", "from": "John_Smith", "to": "Anthropic", "relationType": "works_at"},
]
JOHN = [
    ("John_Smith (person)", "Speaks Spanish"),
    ("John_Smith (person)", "Is 40"),
    ("John_Smith", "John_Smith works at Anthropic"),
]


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(map(json.dumps, ENTITIES)),
        json.dumps({"entities": ENTITIES[:1], "relations": ENTITIES[1:]}),
        json.dumps({"entities": ENTITIES[:1], "relations": ENTITIES[1:]}, indent=2),
    ],
    ids=["memory.jsonl", "graph", "graph on many lines"],
)
def test_graph_of_the_mcp_memory_server_becomes_memories(memory: Memory, file: Path, content: str) -> None:
    counts = memory.import_file(write(file, content))

    assert (counts.memories, counts.skipped) == (3, 0)
    assert [(q, a) for q, a, _ in told(memory)] == JOHN
    assert memory.search("does John speak Spanish?")[0].answer == "Speaks Spanish"


def test_graph_that_has_grown_brings_only_what_is_new(memory: Memory, file: Path) -> None:
    memory.import_file(write(file, "\n".join(map(json.dumps, ENTITIES))))
    grown = [{**ENTITIES[0], "observations": ["Speaks Spanish", "Is 40", "Has a dog"]}, ENTITIES[1]]

    counts = memory.import_file(write(file, "\n".join(map(json.dumps, grown))))

    assert (counts.memories, counts.duplicates) == (1, 3)
    # Many memories under one name are what such a graph is: nothing to tidy up.
    assert memory.audit() == []


def test_bad_lines_of_a_graph_are_named(memory: Memory, file: Path) -> None:
    lines = [json.dumps(ENTITIES[0]), "{", '{"type": "relation", "from": "a"}', '{"type": "thing"}', "",
             '{"type": "entity", "name": "x", "observations": [7]}']  # fmt: skip

    counts = memory.import_file(write(file, "\n".join(lines)))

    assert counts.memories == 2
    assert [problem.split(":")[0] for problem in counts.problems] == ["line 2", "line 3", "line 4", "line 6"]


# ---- odd values


@pytest.mark.parametrize(
    ("good", "odd"),
    [
        (MEM0[0], {"memory": "Likes tea", "categories": 5}),
        (MEM0[0], {"memory": "Likes tea", "created_at": 10**400}),
        (TALK, {**TALK, "current_node": ["n1"]}),
        (
            TALK,
            {**TALK, "current_node": {}, "mapping": {"n1": {"message": TALK["mapping"]["n2"]["message"]}}},
        ),
    ],
)
def test_an_item_with_an_odd_value_costs_no_other(memory: Memory, file: Path, good: Any, odd: Any) -> None:
    alone = memory.import_file(write(file, [good]))
    counts = memory.import_file(write(file, [good, odd, good]))

    assert alone.memories
    assert counts.duplicates >= 2 * alone.memories
    assert counts.memories + counts.duplicates + counts.skipped > 2 * alone.memories


ODD = st.recursive(
    st.sampled_from([None, True, 0, -1, 10**400, 1e308, 5.5, "", "x", "2024-01-01", "entity"]),
    lambda values: (
        st.lists(values, max_size=2)
        | st.dictionaries(st.sampled_from(["text", "message", "n1", "role"]), values, max_size=2)
    ),
    max_leaves=4,
)


def with_one_odd(value: Any, draw: Callable[[Any], Any]) -> Any:
    """The value with something else at one place."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: with_one_odd(value[key], draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], with_one_odd(value[at], draw), *value[at + 1 :]]
    return draw(ODD)


@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_no_value_ends_the_reading_of_a_file(data: st.DataObject) -> None:
    formats = {"chatgpt": TALK, "mem0": MEM0[0], "mcp": ENTITIES[0], "shepherd": MEMORY | FACT}
    format = data.draw(st.sampled_from(sorted(formats)))
    good = formats[format]
    items = [good, with_one_odd(good, data.draw), good]
    content = "\n".join(map(json.dumps, items)) if format in ("mcp", "shepherd") else json.dumps(items)

    with Source(io.BytesIO(content.encode()), format) as source:
        entries = list(source.entries(5))

    assert type(entries[0]) is type(entries[-1]) is not Bad


# ---- simonw/llm

LLM_OLD = """
CREATE TABLE [conversations] ([id] TEXT PRIMARY KEY, [name] TEXT, [model] TEXT);
CREATE TABLE "responses" (
  [id] TEXT PRIMARY KEY, [model] TEXT, [prompt] TEXT, [system] TEXT, [prompt_json] TEXT, [options_json] TEXT,
  [response] TEXT, [response_json] TEXT, [conversation_id] TEXT REFERENCES [conversations]([id]),
  [duration_ms] INTEGER, [datetime_utc] TEXT);
INSERT INTO conversations VALUES ('c1', 'dogs', 'm');
INSERT INTO responses VALUES
  ('r1', 'm', 'Which dog?', NULL, NULL, '{}', 'Rex', NULL, 'c1', 5, '2024-01-02T03:04:05.123456'),
  ('r2', 'm', '', NULL, NULL, '{}', NULL, NULL, 'c1', 5, '2024-01-02T03:04:06'),
  ('r3', 'm', 'And a cat?', 'be brief', NULL, '{}', 'Tom', NULL, NULL, 5, NULL);
"""
LLM_NEW = """
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT);
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT,
  text TEXT, payload TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT,
  model TEXT, datetime_utc TEXT);
INSERT INTO messages(hash, parent_hash, role) VALUES
  ('s', NULL, 'system'), ('u1', 's', 'user'), ('a1', 'u1', 'assistant'), ('u2', 'a1', 'user'),
  ('a2', 'u2', 'assistant'), ('t2', 'a2', 'tool'), ('a3', 't2', 'assistant');
INSERT INTO parts(message_hash, position, type, text, payload) VALUES
  ('s', 0, 'text', 'be brief', NULL), ('u1', 0, 'text', 'Which dog?', NULL),
  ('a1', 0, 'reasoning', 'hm', NULL), ('a1', 1, 'text', 'Rex', NULL),
  ('u2', 0, 'text', NULL, '{"text_ref": [{"fragment": 1}, {"literal": "What is this?"}]}'),
  ('u2', 1, 'attachment', NULL, '{}'), ('a2', 0, 'text', 'Looking.', NULL),
  ('t2', 0, 'tool_result', 'x', '{}'), ('a3', 0, 'text', 'A cat.', NULL);
INSERT INTO turns VALUES ('1', 'th', 'u1', 'a1', 'm', '2026-01-02T03:04:05+00:00'),
  ('2', 'th', 'u2', 'a3', 'm', '2026-01-02T03:05:05+00:00');
"""


def database(path: Path, script: str, journal: str = "delete") -> Path:
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('PRAGMA journal_mode = ' + sys.argv[2]);"
        "c.executescript(sys.stdin.read()); c.close()"
    )
    command = [sys.executable, "-c", program, str(path), journal]
    subprocess.run(command, input=script, text=True, check=True, timeout=60)
    return path


def test_responses_of_llm_are_memories(memory: Memory, file: Path) -> None:
    heard: list[tuple[int, int]] = []

    counts = memory.import_file(
        database(file, LLM_OLD), progress=lambda done, total: heard.append((done, total))
    )

    assert told(memory) == [("Which dog?", "Rex", 1704164645), ("And a cat?", "Tom", 1_700_000_000)]
    assert counts.problems == ("response 2: neither prompt nor response",)
    assert heard[-1] == (3, 3)


def test_turns_of_newer_llm_are_memories_without_fragments_and_tools(memory: Memory, file: Path) -> None:
    counts = memory.import_file(database(file, LLM_NEW))

    assert (counts.memories, counts.skipped) == (2, 0)
    assert told(memory) == [
        ("Which dog?", "Rex", 1767323045),
        ("What is this?", "Looking.\n\nA cat.", 1767323105),
    ]


def test_a_part_of_llm_that_is_no_text_costs_no_other(memory: Memory, file: Path) -> None:
    odd = "UPDATE parts SET text = x'ff00' WHERE message_hash = 'u1';"
    nested = f"UPDATE parts SET text = NULL, payload = '{'[' * 100_000}' WHERE message_hash = 'a3';"

    counts = memory.import_file(database(file, LLM_NEW + odd + nested))

    assert counts.memories == 2
    assert [answer for _, answer, _ in told(memory)] == ["Rex", "Looking."]


def test_turn_that_is_in_both_generations_comes_once(memory: Memory, file: Path) -> None:
    counts = memory.import_file(database(file, LLM_OLD + LLM_NEW))

    assert (counts.memories, counts.duplicates) == (3, 1)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_reading_a_foreign_database_does_not_change_it(memory: Memory, file: Path, journal: str) -> None:
    before = database(file, LLM_OLD, journal).read_bytes()

    memory.import_file(file)

    assert file.read_bytes() == before


def test_database_of_something_else_is_refused(memory: Memory, file: Path) -> None:
    with pytest.raises(UsageError, match=r"not a logs\.db"):
        memory.import_file(database(file, "CREATE TABLE notes(text)"))


@IN_A_FILE
def test_database_of_shepherds_own_says_how_to_go_on(memory: Memory, path: Path, tmp_path: Path) -> None:
    Memory(tmp_path / "other.db").close()

    with pytest.raises(UsageError, match="own") as caught:
        memory.import_file(tmp_path / "other.db")
    assert "memory export" in caught.value.hint

    # Opening and closing it would drop the locks of the one that is open.
    with pytest.raises(UsageError, match="the memory itself"):
        memory.import_file(path)


# ---- our own, and what is common


def test_our_own_lines_are_found_among_the_formats(memory: Memory, file: Path) -> None:
    memory.set_fact("name", "Steve")
    memory.store_memory("Which dog?", "Rex")
    write(file, "\n".join(map(json.dumps, memory.export_memories())))

    counts = memory.import_file(file, "anna")

    assert (counts.memories, counts.facts) == (1, 1)


def test_stream_is_read_like_a_file(memory: Memory) -> None:
    heard: list[tuple[int, int]] = []
    data = json.dumps(MEM0).encode()

    counts = memory.import_file(io.BytesIO(data), progress=lambda done, total: heard.append((done, total)))

    assert counts.memories == 2
    assert heard[-1] == (len(data), 0)  # nobody knows how long a stream is


def test_progress_ends_at_the_size_of_the_file(memory: Memory, file: Path) -> None:
    heard: list[tuple[int, int]] = []
    write(file, json.dumps(MEM0))

    memory.import_file(file, progress=lambda done, total: heard.append((done, total)))

    size = file.stat().st_size
    assert heard[-1] == (size, size)


def test_format_can_be_told(memory: Memory, file: Path) -> None:
    write(file, '[{"data": "Likes tea"}]')

    assert memory.import_file(file, format="mem0").memories == 1
    with pytest.raises(UsageError, match="unknown format 'csv'"):
        memory.import_file(file, format="csv")


@pytest.mark.parametrize(
    "content", [b"", b"\xef\xbb\xbf", b"\x00\x01\x02\n" * 5, b"[" * 200_000, b"nonsense", b"[]"]
)
def test_nonsense_stores_nothing_and_does_not_crash(memory: Memory, file: Path, content: bytes) -> None:
    file.write_bytes(content)

    for kind in ("auto", "shepherd", "chatgpt", "mem0", "mcp"):
        assert memory.import_file(file, format=kind).memories == 0


MEMORY = {"type": "memory", "question": "Which dog?", "answer": "Rex"}
FACT = {"type": "fact", "key": "name", "value": "Steve", "updated_at": 5}
SECRET = {"type": "fact", "key": "wifi_password", "value": "hunter2"}


@pytest.mark.parametrize(
    ("lines", "counted"),
    [
        ([], (0, 0, 0, 0)),
        ([MEMORY], (1, 0, 0, 0)),
        ([MEMORY, FACT], (1, 1, 0, 0)),
        ([FACT], (0, 1, 0, 0)),
        ([MEMORY, MEMORY], (1, 0, 1, 0)),
        ([FACT, SECRET], (0, 1, 0, 1)),
        ([SECRET], (0, 0, 0, 1)),
    ],
)
def test_of_a_file_that_begins_oddly_the_problems_are_named_if_anything_in_it_is_understood(
    memory: Memory, file: Path, lines: list[dict[str, Any]], counted: tuple[int, ...]
) -> None:
    write(file, "\n".join(["notes of mine", *map(json.dumps, lines)]))

    counts = memory.import_file(file)

    assert (counts.memories, counts.facts, counts.duplicates, counts.secrets) == counted
    assert counts.skipped == 1
    assert counts.problems == (("line 1: not JSON (Expecting value, column 1)",) if lines else (NO_EXPORT,))


def test_of_a_file_with_duplicates_alone_the_problems_are_named(memory: Memory, file: Path) -> None:
    memory.store_memory("Which dog?", "Rex")
    memory.set_fact("name", "Steve")
    write(file, "\n".join(["notes of mine", json.dumps(MEMORY), json.dumps(FACT), json.dumps(SECRET)]))

    counts = memory.import_file(file)

    assert (counts.memories, counts.facts, counts.duplicates, counts.secrets) == (0, 0, 2, 1)
    assert counts.problems == ("line 1: not JSON (Expecting value, column 1)",)


def test_of_a_known_format_every_problem_is_named_though_nothing_was_read(memory: Memory, file: Path) -> None:
    write(file, '{"type": "memory", "question": 7}\n' * 12)

    counts = memory.import_file(file)

    assert (counts.memories, counts.skipped, len(counts.problems)) == (0, 12, 10)
    assert counts.problems[0].startswith("line 1: ")


def test_missing_file_is_said(memory: Memory, file: Path) -> None:
    with pytest.raises(UsageError, match="export"):
        memory.import_file(file)


def test_nobody_imports_nothing(memory: Memory, file: Path) -> None:
    assert memory.import_file(write(file, MEM0), "unknown").memories == 0


# ---- reading piece by piece


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time and knows how many were asked for at once."""

    def __init__(self, content: bytes, piece: int) -> None:
        self._pieces = iter([content[i : i + piece] for i in range(0, len(content), piece)])
        self.largest = 0

    def read(self, size: int = -1) -> bytes:
        self.largest = max(self.largest, size)
        return next(self._pieces, b"")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON_VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 2]), st.booleans())
def test_array_read_in_any_pieces_is_what_json_says(
    values: list[Any], piece: int, indent: int | None, ascii_only: bool
) -> None:
    content = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")

    found = [value for _, _, value in json_items(Trickle(content, piece))]  # type: ignore[arg-type]

    assert found == json.loads(content)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5), st.integers(1, 40))
def test_object_read_in_any_pieces_gives_arrays_item_by_item(value: dict[str, Any], piece: int) -> None:
    content = json.dumps(value).encode()
    expected: list[tuple[str, Any]] = []
    for key, inner in json.loads(content).items():
        expected += [(key, item) for item in inner] if isinstance(inner, list) else [(key, inner)]

    assert [item[1:] for item in json_items(Trickle(content, piece))] == expected  # type: ignore[arg-type]


@given(st.lists(JSON_VALUES, min_size=1, max_size=4), st.data())
def test_document_that_is_cut_anywhere_is_an_error_never_silence(
    values: list[Any], data: st.DataObject
) -> None:
    content = json.dumps(values).encode()
    cut = data.draw(st.integers(0, len(content) - 1))

    *_, (place, _, last) = json_items(Trickle(content[:cut], 7))  # type: ignore[arg-type]

    assert last == Bad(place, "not JSON: it ends too early")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_end_the_document(number: str) -> None:
    content = f'[{{"score": 1}}, {{"score": {number}}}, {{"score": 2}}]'.encode()

    assert list(json_items(io.BytesIO(content))) == [
        ("item 1", "", {"score": 1}),
        ("item 2", "", Bad("item 2", "not JSON")),
    ]


def test_bytes_that_are_no_utf8_cost_their_character_alone() -> None:
    content = b'\xef\xbb\xbf["caf\xe9", "tea"]'

    assert [value for _, _, value in json_items(io.BytesIO(content))] == ["caf\ufffd", "tea"]


def test_many_items_are_never_held_together() -> None:
    def endless() -> Iterator[bytes]:
        yield b"["
        while True:
            yield b'{"memory": "x"}, ' * 4000

    class Stream:
        pieces = endless()

        def read(self, size: int) -> bytes:
            return next(self.pieces)

    items = json_items(Stream())  # type: ignore[arg-type]

    assert sum(1 for _ in zip(range(200_000), items, strict=False)) == 200_000


def test_item_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shepherd.memory.importers.records._LARGEST_ITEM", 4 << 20)

    class Endless:
        n_bytes = 0

        def read(self, size: int) -> bytes:
            self.n_bytes += size
            return b'["' if self.n_bytes == size else b"x" * size

    stream = Endless()

    assert list(json_items(stream)) == [  # type: ignore[arg-type]
        ("item 1", "", Bad("item 1", "not JSON: an item of more than 4 MiB"))
    ]
    assert stream.n_bytes < 1 << 25

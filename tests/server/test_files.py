"""Files over HTTP: read for a message, imported with progress, exported; of each user alone."""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shepherd.config import Config
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from tests.server.running import Running

CHATGPT = [
    {
        "title": "Bread",
        "create_time": 1_700_000_000,
        "mapping": {
            "1": {
                "id": "1",
                "parent": None,
                "children": ["2"],
                "message": {
                    "author": {"role": "user"},
                    "create_time": 1_700_000_000,
                    "content": {"content_type": "text", "parts": ["Which flour for rye bread?"]},
                },
            },
            "2": {
                "id": "2",
                "parent": "1",
                "children": [],
                "message": {
                    "author": {"role": "assistant"},
                    "create_time": 1_700_000_001,
                    "content": {"content_type": "text", "parts": ["Type 1150."]},
                },
            },
        },
        "current_node": "2",
    }
]


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def client(memory) -> Iterator[httpx.Client]:
    app = create_app(AppState(Config(user_id="steve", knowledge_max_mb=1), memory, True))
    with Running(app) as running, running.client() as client:
        yield client


def send(client: httpx.Client, path: str, data: bytes, **query: Any) -> httpx.Response:
    return client.post(path, params=query, content=data, headers={"Content-Type": "application/octet-stream"})


def lines(n: int) -> bytes:
    entries = (
        {"type": "memory", "question": f"Which {i}?", "answer": "this", "timestamp": i} for i in range(n)
    )
    return "\n".join(map(json.dumps, entries)).encode()


def zipped(name: str, data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, data)
    return made.getvalue()


def test_a_document_is_read_and_nothing_is_stored(client, memory):
    page = b"<html><head><title>Sheep</title></head><body><p>They graze.</p></body></html>"

    read = send(client, "/v1/documents", page, name="sheep.html").json()
    plain = send(client, "/v1/documents", "naïve\n".encode(), name="a.txt").json()

    assert (read["name"], read["title"], read["kind"]) == ("sheep.html", "Sheep", "html")
    assert "They graze." in read["text"]
    assert plain["block"] == "[attached: a.txt]\n```\nnaïve\n```"
    assert Knowledge(memory.transactions, "steve").count_nodes() == memory.count_memories("steve") == 0


def test_a_document_that_is_none_is_refused_with_its_name(client):
    answer = send(client, "/v1/documents", b"\0\1\2" * 100, name="photo.jpg")
    large = send(client, "/v1/documents", b"x" * (1 << 20) + b"y", name="large.txt")

    assert answer.status_code == large.status_code == 400
    assert answer.json()["error"]["message"].startswith("photo.jpg: ")
    assert "larger than 1 MiB" in large.json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "data", "source"),
    [
        ("memory.jsonl", lines(3), "import"),
        ("conversations.json", json.dumps(CHATGPT).encode(), "chatgpt"),
        ("chatgpt.zip", zipped("conversations.json", json.dumps(CHATGPT).encode()), "chatgpt"),
    ],
)
def test_an_export_is_imported_once(name, data, source, client, memory):
    first = send(client, "/v1/memory/import", data, name=name).json()
    again = send(client, "/v1/memory/import", data, name=name).json()

    stored = memory.list_memories("steve")
    assert first["memories"] == len(stored) > 0
    assert (again["memories"], again["duplicates"]) == (0, first["memories"])
    assert {record.source.partition(":")[0] for record in stored} == {source}


def test_a_database_of_llm_is_imported(client, memory, tmp_path):
    path = tmp_path / "logs.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE responses(id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT,"
            " prompt_json TEXT, options_json TEXT, response TEXT, response_json TEXT, conversation_id TEXT,"
            " duration_ms INTEGER, datetime_utc TEXT)"
        )
        database.execute("CREATE TABLE conversations(id TEXT PRIMARY KEY, name TEXT, model TEXT)")
        database.execute(
            "INSERT INTO responses(id, prompt, response, conversation_id, datetime_utc)"
            " VALUES('1', 'Which tea?', 'Assam', 'c', '2024-05-01T10:00:00')"
        )
    database.close()

    counts = send(client, "/v1/memory/import", path.read_bytes(), name="logs.db").json()

    assert counts["memories"] == 1
    assert memory.list_memories("steve")[0].answer == "Assam"


def test_a_file_of_another_kind_is_named_without_the_servers_folders(client):
    answer = send(client, "/v1/memory/import", b"PK\3\4 broken", name="../../etc/thing.zip")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("thing.zip: ")


def test_progress_comes_before_the_result(client, memory):
    answer = send(client, "/v1/memory/import", lines(1200), name="m.jsonl", progress=True)
    *events, end = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    told = [json.loads(event) for event in events]

    amounts = [one["progress"]["done"] for one in told[:-1]]
    assert end == "[DONE]"
    assert len(amounts) >= 3
    assert amounts == sorted(amounts)
    assert told[-2]["progress"]["done"] == told[-2]["progress"]["total"] == len(lines(1200))
    assert told[-1]["result"]["memories"] == memory.count_memories("steve") == 1200


def test_a_failed_import_ends_its_stream_with_the_error(client):
    answer = send(client, "/v1/memory/import", b"PK\3\4 broken", name="thing.zip", progress=True)
    *events, end = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]

    assert json.loads(events[-1])["error"]["message"].startswith("thing.zip: ")
    assert end == "[DONE]"


@pytest.mark.parametrize("name", ["聊天记录" * 30 + ".json", "..", ".", "/", "\0a.jsonl", "a" * 400])
def test_an_export_is_imported_under_any_name(name, client, memory):
    answer = send(client, "/v1/memory/import", lines(3), name=name)
    document = send(client, "/v1/knowledge/import", b"# Sheep", name=name)

    assert (answer.status_code, answer.json()["memories"]) == (200, 3)
    assert (document.status_code, document.json()["added"]) == (200, 1)


def test_an_unexpected_error_ends_the_stream_of_an_import_as_well(client, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "is not there"))

    answer = send(client, "/v1/memory/import", lines(3), name="m.jsonl", progress=True)
    *events, end = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]

    assert json.loads(events[-1])["error"]["code"] == "internal_error"
    assert end == "[DONE]"


def test_documents_become_nodes_and_replace_what_came_under_their_name(client, memory):
    added = send(client, "/v1/knowledge/import", b"# Slugs\n\nThey eat kale.", name="slugs.md").json()
    same = send(client, "/v1/knowledge/import", b"# Slugs\n\nThey eat kale.", name="slugs.md").json()
    changed = send(client, "/v1/knowledge/import", b"# Slugs\n\nThey eat all.", name="slugs.md").json()

    knowledge = Knowledge(memory.transactions, "steve")
    assert (added["added"], same["unchanged"], changed["changed"]) == (1, 1, 1)
    assert added["nodes"] == same["nodes"] == changed["nodes"]
    assert knowledge.count_nodes() == 1
    assert "They eat all." in knowledge.get_node(added["nodes"][0], with_text=True).source_text


def test_an_export_of_knowledge_comes_back_as_it_was(client):
    send(client, "/v1/knowledge/import", b"# Slugs\n\nThey eat kale.", name="slugs.md")
    send(client, "/v1/knowledge/import", b"Bees.", name="bees.txt")
    exported = client.get("/v1/knowledge/export").content

    counts = client.post(
        "/v1/knowledge/import", params={"name": "all.jsonl", "user": "anna"}, content=exported
    ).json()
    again = client.get("/v1/knowledge/export", params={"user": "anna"}).content

    assert counts["added"] == 2
    assert b"They eat kale." in again
    assert client.get("/v1/knowledge/export", params={"user": "bob"}).content.count(b"\n") <= 1


def test_a_server_that_only_reads_imports_nothing(memory):
    with (
        Running(create_app(AppState(Config(user_id="steve"), memory, False))) as server,
        server.client() as client,
    ):
        refused = [
            send(client, path, lines(1), name="a.jsonl")
            for path in ("/v1/memory/import", "/v1/knowledge/import")
        ]

    assert [answer.json()["error"]["code"] for answer in refused] == ["memory_read_only"] * 2
    assert memory.count_memories("steve") == 0

"""Knowledge over HTTP: nodes, edges and focus are made, found, changed and removed."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from tests.server.running import Running


@pytest.fixture
def client(tmp_path) -> Iterator[httpx.Client]:
    with Memory(tmp_path / "memory.db") as memory:
        app = create_app(AppState(Config(user_id="steve"), memory, True))
        with Running(app) as running, running.client() as client:
            yield client


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def add(client: httpx.Client, title: str, **fields: object) -> int:
    answer = client.post("/v1/knowledge/nodes", json={"title": title, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_a_node_is_added_found_changed_and_removed(client):
    node_id = add(client, "How RAG works", source_text="Retrieval comes first.", dimensions=["ai"])
    url = f"/v1/knowledge/nodes/{node_id}"

    [found] = client.post("/v1/knowledge/search", json={"query": "retrieval"}).json()["data"]
    changed = client.patch(url, json={"title": "RAG", "append_notes": "read it again"}).json()
    shown = client.get(url).json()
    listed = client.get("/v1/knowledge/nodes", params={"dimension": "ai"}).json()

    assert (found["node_id"], found["text"]) == (node_id, "Retrieval comes first.")
    assert (changed["title"], changed["notes"]) == ("RAG", "read it again")
    assert (shown["source_text"], shown["edges"]) == ("Retrieval comes first.", [])
    assert ([node["id"] for node in listed["data"]], listed["total"]) == ([node_id], 1)
    assert [tag["name"] for tag in client.get("/v1/knowledge/dimensions").json()["data"]] == ["ai"]
    assert client.delete(url).json() == {"id": node_id, "deleted": True}
    assert refusal(client.get(url)) == refusal(client.delete(url)) == (404, "not_found")
    assert client.post("/v1/knowledge/search", json={"query": "retrieval"}).json() == {"data": []}


def test_nodes_are_connected_and_hubs_are_those_with_many_edges(client):
    one, other = add(client, "One"), add(client, "Other")

    edge = client.post(
        "/v1/knowledge/edges",
        json={"from_node_id": one, "to_node_id": other, "explanation": "why"},
    )
    edges = client.get("/v1/knowledge/edges", params={"node": other}).json()["data"]
    hubs = client.get("/v1/knowledge/hubs").json()["data"]

    assert edge.status_code == 201
    assert edges == [edge.json()]
    assert {hub["id"] for hub in hubs} == {one, other}
    assert client.delete(f"/v1/knowledge/edges/{edge.json()['id']}").status_code == 200
    assert client.get("/v1/knowledge/edges").json() == {"data": []}


def test_the_focus_is_what_was_put_there_last(client):
    one, other = add(client, "One"), add(client, "Other")

    client.put("/v1/knowledge/focus", json={"node_ids": [one]})
    client.put("/v1/knowledge/focus", json={"node_ids": [other, one, 999]})

    assert [node["id"] for node in client.get("/v1/knowledge/focus").json()["data"]] == [other, one]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "nodes", {}, 400),
        ("POST", "nodes", {"title": " "}, 400),
        ("POST", "nodes", {"title": "a", "tilte": "b"}, 400),
        ("PATCH", "nodes/999", {"title": "b"}, 404),
        ("PATCH", f"nodes/{1 << 63}", {"title": "b"}, 404),
        ("GET", "nodes/first", None, 400),
        ("POST", "edges", {"from_node_id": 1, "to_node_id": 2, "explanation": "a"}, 404),
        ("DELETE", "edges/999", None, 404),
        ("POST", "search", {"query": "a", "max_results": 1000}, 400),
    ],
)
def test_what_cannot_be_is_refused(client, method, path, body, status):
    assert client.request(method, f"/v1/knowledge/{path}", json=body).status_code == status


def test_the_total_of_a_list_is_that_of_its_kind_and_dimension(client):
    for number in range(4):
        add(client, f"Note {number}", kind="note", dimensions=["garden"] if number else [])
    add(client, "A place", kind="place", dimensions=["garden"])

    totals = [
        client.get("/v1/knowledge/nodes", params={"limit": 1, **wanted}).json()["total"]
        for wanted in ({}, {"kind": "note"}, {"dimension": "garden"}, {"kind": "note", "dimension": "garden"})
    ]

    assert totals == [5, 4, 4, 3]


def test_secrets_that_were_covered_are_counted_in_the_answer(client):
    noted = client.post("/v1/knowledge/nodes", json={"title": "Alarm", "notes": "The alarm code is 4471."})
    url = f"/v1/knowledge/nodes/{noted.json()['id']}"
    changed = client.patch(url, json={"notes": noted.json()["notes"], "append_notes": "The PIN is 8812."})
    harmless = client.patch(url, json={"description": "By the door."})
    imported = client.post("/v1/knowledge/import?name=a.txt", content=b"Note\n\nThe alarm code is 4471.")

    assert (noted.json()["secrets"], "4471" in noted.text) == (1, False)
    assert [answer.json()["secrets"] for answer in (changed, harmless, imported)] == [1, 0, 1]

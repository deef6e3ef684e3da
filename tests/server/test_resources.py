"""Memory, facts, jobs and traces over HTTP: what is stored is found, changed and forgotten, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from shepherd.config import Config
from shepherd.memory import Memory, OpenJob
from shepherd.sequences import sequence_of
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from shepherd.trace import Traces
from shepherd.types import Message
from tests.server.running import Running


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def client(memory) -> Iterator[httpx.Client]:
    app = create_app(AppState(Config(user_id="steve"), memory, True))
    with Running(app) as running, running.client() as client:
        yield client


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_conditions_are_applied_before_results_are_counted(client):
    for question in ("Which editor?", "Which editor at work?", "Which editor at home, and why?"):
        made = client.post("/v1/memory", json={"question": question, "answer": "vim"}).json()
    client.patch(f"/v1/memory/{made['id']}", json={"pinned": True})
    asked = {"query": "which editor", "max_results": 1}

    [best] = client.post("/v1/memory/search", json=asked).json()["data"]
    [pinned] = client.post("/v1/memory/search", json={**asked, "pinned": True}).json()["data"]

    assert best["id"] != pinned["id"] == made["id"]


def test_a_memory_is_added_found_changed_and_forgotten(client):
    made = client.post("/v1/memory", json={"question": "Which editor?", "answer": "vim"})
    url = f"/v1/memory/{made.json()['id']}"

    changed = client.patch(url, json={"answer": "Helix", "pinned": True}).json()
    [found] = client.post("/v1/memory/search", json={"query": "which editor"}).json()["data"]
    listed = client.get("/v1/memory").json()
    forgotten = client.delete(url)

    assert (made.status_code, made.json()["answer"]) == (201, "vim")
    assert (changed["answer"], changed["pinned"]) == ("Helix", True)
    assert (found["answer"], found["relevance"] > 0, found["score"] > 0) == ("Helix", True, True)
    assert (listed["data"], listed["total"]) == ([changed], 1)
    assert forgotten.json() == {"id": changed["id"], "deleted": True}
    assert refusal(client.get(url)) == refusal(client.delete(url)) == (404, "not_found")


def test_an_identical_memory_comes_back_as_it_is(client):
    body = {"question": "Which editor?", "answer": "vim"}

    assert client.post("/v1/memory", json=body).json() == client.post("/v1/memory", json=body).json()


def test_a_memory_that_was_forgotten_by_mistake_comes_back_as_old_as_it_was(client):
    made = client.post("/v1/memory", json={"question": "q", "answer": "a", "timestamp": 1_000}).json()
    client.delete(f"/v1/memory/{made['id']}")

    again = client.post("/v1/memory", json={"question": "q", "answer": "a", "timestamp": made["timestamp"]})

    assert made["timestamp"] == again.json()["timestamp"] == 1_000
    assert refusal(client.post("/v1/memory", json={"question": "q", "timestamp": -1})) == (
        400,
        "invalid_request",
    )


def test_facts_come_with_all_that_they_were_and_those_that_are_forgotten(client):
    for key, value in (("name", "Steve"), ("name", "Stephen"), ("city", "Austin")):
        client.put(f"/v1/facts/{key}", json={"value": value})
    client.delete("/v1/facts/city")

    facts = client.get("/v1/facts", params={"history": True}).json()

    assert [fact["key"] for fact in facts["data"]] == ["name"]
    assert [(change["key"], change["value"]) for change in facts["history"]] == [
        ("name", "Steve"),
        ("name", "Stephen"),
        ("city", "Austin"),
        ("city", None),
    ]
    assert client.get("/v1/facts").json().keys() == {"data"}


def test_pages_are_the_newest_first(client):
    ids = [
        client.post("/v1/memory", json={"question": f"q{i}", "answer": "a"}).json()["id"] for i in range(5)
    ]

    page = client.get("/v1/memory", params={"limit": 2, "offset": 1}).json()

    assert ([record["id"] for record in page["data"]], page["total"]) == ([ids[3], ids[2]], 5)


def test_the_export_is_what_import_reads(client, tmp_path):
    client.post("/v1/memory", json={"question": "Which editor?", "answer": "a\nb\u2028c \U0001f411"})
    client.put("/v1/facts/name", json={"value": "Steve"})

    exported = client.get("/v1/memory/export")

    assert exported.headers["content-type"].startswith("application/jsonl")
    assert all(json.loads(line) for line in exported.text.split("\n") if line)
    with Memory(tmp_path / "other.db", user_id="steve") as other:
        counts = other.import_memories(exported.content.split(b"\n"))
        assert (counts.memories, counts.facts, counts.skipped) == (1, 1, 0)


def test_a_fact_keeps_its_history_and_any_key_will_do(client):
    for value in ("green", "blue"):
        client.put("/v1/facts/favourite%20colour%2Fof%20mine", json={"value": value})

    shown = client.get("/v1/facts/favourite colour/of mine").json()
    cleared = client.delete("/v1/facts/favourite colour/of mine")
    after = client.get("/v1/facts/favourite colour/of mine").json()

    assert (shown["value"], [change["value"] for change in shown["history"]]) == ("blue", ["green", "blue"])
    assert cleared.status_code == 200
    assert (after["value"], len(after["history"])) == (None, 3)
    assert client.get("/v1/facts").json() == {"data": []}
    assert (
        refusal(client.delete("/v1/facts/none"))
        == refusal(client.get("/v1/facts/none"))
        == (404, "not_found")
    )


def test_jobs_are_shown_without_what_was_said_and_may_be_dropped(client, memory):
    session = memory.start_session("steve")
    memory.append_message(session, Message("user", "I live in Texas"), "steve", job=OpenJob("worker", 5))

    jobs = client.get("/v1/extraction/jobs")
    [job] = jobs.json()["data"]

    assert (job["state"], job["messages"], jobs.json()["stats"]["open"]) == ("open", 1, 1)
    assert "Texas" not in jobs.text
    assert refusal(client.post(f"/v1/extraction/jobs/{job['id']}/retry")) == (404, "not_found")
    assert client.delete(f"/v1/extraction/jobs/{job['id']}").status_code == 200
    assert client.get("/v1/extraction/jobs").json()["data"] == []


def test_a_trace_says_what_was_injected_into_which_message_and_why(client, memory):
    memory.set_fact("name", "Steve", "steve")
    memory_id = memory.store_memory("Which editor?", "Helix", "steve")
    injection = memory.recall("Which editor do I use?", "steve")
    session = memory.start_session("steve", "tiny")
    sent = "Which editor do I use?" + injection.tail
    memory.append_message(session, Message("user", "Which editor do I use?", sent, injection), "steve")
    memory.append_message(session, Message("assistant", "Helix"), "steve")

    [listed] = client.get("/v1/trace").json()["data"]
    [traced] = client.get(f"/v1/trace/{session}").json()["data"]

    assert (listed["id"], listed["model"], listed["n_messages"]) == (session, "tiny", 2)
    assert traced["message"] == 1
    assert (traced["text"], traced["tail"]) == ("Which editor do I use?", injection.tail)
    assert [fact["key"] for fact in traced["facts"]] == ["name"]
    assert [(found["id"], found["score"] > 0) for found in traced["memories"]] == [
        (sequence_of(memory_id), True)
    ]
    assert traced["keywords"] == list(injection.keywords)
    assert refusal(client.get("/v1/trace/0123456789abcdef")) == (404, "not_found")


def test_a_turn_is_shown_with_its_paths_to_its_user_alone(client, memory):
    traces = Traces(memory.transactions, "steve")
    traces.write("s/1", {"model": "tiny", "budget/total": 4096}, turn=7)
    Traces(memory.transactions, "anna").write("hers", {"model": "tiny"})

    assert client.get("/v1/trace/s%2F1/7").status_code == 404  # a slash ends a part of an address
    traces.write("s1", {"model": "tiny", "budget/total": 4096}, turn=7)
    assert client.get("/v1/trace/s1").json() == {"id": "s1", "data": [], "turns": [7]}
    assert client.get("/v1/trace/s1/7").json() == {
        "id": "s1",
        "turn": 7,
        "data": {"budget/total": 4096, "model": "tiny"},
    }
    assert refusal(client.get("/v1/trace/s1/8")) == (404, "not_found")
    assert refusal(client.get("/v1/trace/hers/0")) == (404, "not_found")
    assert client.get("/v1/trace/s1/-1").status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/memory", {"question": 5}),
        ("POST", "/v1/memory", {"question": "", "answer": " "}),
        ("POST", "/v1/memory", {"question": "q", "anwser": "a"}),
        ("POST", "/v1/memory/search", {}),
        ("POST", "/v1/memory/search", {"query": "q", "max_results": 0}),
        ("POST", "/v1/memory/search", {"query": "q", "threshold": 2}),
        ("PUT", "/v1/facts/name", {"value": " "}),
        ("PUT", "/v1/facts/%20", {"value": "v"}),
        ("GET", "/v1/memory?limit=0", None),
        ("GET", "/v1/memory?limit=1000000", None),
        ("GET", "/v1/memory?offset=-1", None),
        ("GET", "/v1/memory/first", None),
    ],
)
def test_a_bad_request_is_refused_and_does_not_come_back_in_the_answer(client, method, path, body):
    assert refusal(client.request(method, path, json=body)) == (400, "invalid_request")


@pytest.mark.parametrize("number", [-1, 1 << 63, 10**30])
def test_a_number_that_no_memory_can_have_is_not_found(client, number):
    for method in ("GET", "DELETE", "PATCH"):
        answer = client.request(method, f"/v1/memory/{number}", json={})
        assert answer.status_code == 404, answer.text


def test_json_that_is_none_or_too_deep_is_refused(client):
    for content in (b"{", b"[" * 100_000, b"\xff", b'{"question": "\\ud800"}', b"1" * 10_000):
        answer = client.post("/v1/memory", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, (content[:10], answer.text)


def test_without_memory_that_is_said():
    app = create_app(AppState(Config(user_id="steve"), None, False))
    with Running(app) as running, running.client() as client:
        assert refusal(client.get("/v1/memory")) == (503, "no_memory")
        assert client.get("/health").json() == {"status": "ok", "memory": "off"}


def test_where_memory_is_only_read_that_is_said(memory):
    app = create_app(AppState(Config(user_id="steve"), memory, False))
    with Running(app) as running, running.client() as client:
        assert client.get("/v1/memory").status_code == 200
        assert refusal(client.put("/v1/facts/name", json={"value": "x"})) == (503, "memory_read_only")
        assert client.get("/health").json() == {"status": "ok", "memory": "read-only"}


def test_a_memory_that_cannot_be_reached_is_unwell(memory, client):
    memory.close()

    answer = client.get("/health")

    assert (answer.status_code, answer.json()) == (503, {"status": "failed", "memory": "failed"})
    assert client.get("/v1/facts").status_code == 500


def test_conversations_are_listed_in_pages_with_their_number(client, memory):
    for n in range(5):
        memory.append_message(memory.start_session("steve"), Message("user", f"message {n}"), "steve")
    memory.start_session("steve")  # in which nobody has said anything

    pages = [client.get("/v1/trace", params={"limit": 2, "offset": offset}).json() for offset in (0, 2, 4, 6)]

    assert [page["total"] for page in pages] == [5] * 4
    assert [len(page["data"]) for page in pages] == [2, 2, 1, 0]
    assert len({session["id"] for page in pages for session in page["data"]}) == 5


def test_memories_are_listed_by_conditions_and_changed_together(client, memory):
    ids = {}
    for number, (answer, source) in enumerate([("Helix", "turn"), ("Assam", "user"), ("Rye", "turn")]):
        entry = {"type": "memory", "question": f"Which {answer}?", "answer": answer, "source": source}
        memory.import_memories([{**entry, "timestamp": number}], "steve")
    for record in client.get("/v1/memory").json()["data"]:
        ids[record["answer"]] = record["id"]
    memory.recall("Which Helix?", "steve")
    memory.set_fact("name", "Steve", "steve")

    def answers(**query: object) -> tuple[list[str], int]:
        found = client.get("/v1/memory", params=query).json()
        return [record["answer"] for record in found["data"]], found["total"]

    def change(action: str, *names: str) -> list[int]:
        wanted = [ids[name] for name in names]
        return client.post("/v1/memory/batch", json={"action": action, "ids": wanted}).json()["ids"]

    assert answers(source="turn") == (["Rye", "Helix"], 2)
    assert answers(source=["turn", "user"], order="oldest") == (["Helix", "Assam", "Rye"], 3)
    assert answers(never_recalled=True, since=2) == (["Rye"], 1)
    assert answers(order="recalled", limit=1) == (["Helix"], 3)
    assert answers(until=2**70) == (["Rye", "Assam", "Helix"], 3)
    assert [record["recalls"] for record in client.get("/v1/memory").json()["data"]] == [0, 0, 1]
    assert change("pin", "Helix", "Rye") == [ids["Helix"], ids["Rye"]]
    assert answers(pinned=True) == (["Rye", "Helix"], 2)
    assert change("unpin", "Rye") == [ids["Rye"]]
    search = {"query": "helix or rye", "pinned": True}
    assert [r["answer"] for r in client.post("/v1/memory/search", json=search).json()["data"]] == ["Helix"]
    assert change("delete", "Helix", "Assam") == [ids["Helix"], ids["Assam"]]
    assert change("delete", "Helix") == []
    assert answers() == (["Rye"], 1)
    assert change("restore", "Assam", "Helix", "Rye") == [ids["Assam"], ids["Helix"]]
    assert answers(pinned=True) == (["Helix"], 1)
    refused = client.post("/v1/memory/batch", json={"action": "pin", "ids": []})
    assert refusal(refused) == (400, "invalid_request")


def test_a_memory_that_was_said_again_does_not_keep_the_others_from_being_restored(client):
    ids = [client.post("/v1/memory", json={"question": f"Lunch {i}?"}).json()["id"] for i in range(3)]
    client.post("/v1/memory/batch", json={"action": "delete", "ids": ids})
    again = client.post("/v1/memory", json={"question": "Lunch 1?"}).json()["id"]

    restored = client.post("/v1/memory/batch", json={"action": "restore", "ids": ids})
    refused = client.post(f"/v1/memory/{ids[1]}/restore")

    assert (restored.status_code, restored.json()) == (200, {"ids": [ids[0], ids[2]]})
    assert refusal(refused) == (400, "invalid_request")
    assert refused.json()["error"]["message"] == f"memory {again} already says exactly this (delete it first)"


def test_a_fact_that_was_forgotten_by_mistake_is_as_it_was(client, memory):
    memory.set_fact("allergies/mine", "walnuts", "steve", source="extraction", since=1_000)
    address = "/v1/facts/allergies%2Fmine"
    before = client.get("/v1/facts", params={"history": True}).json()

    client.delete(address)
    gone = client.get(address).json()["value"]
    restored = client.post(f"{address}/restore")
    after = client.get("/v1/facts", params={"history": True}).json()
    client.delete(address)
    client.put(address, json={"value": "nuts"})
    late = [client.post(f"{address}/restore") for _ in range(2)]

    assert (gone, restored.json()) == (None, {"key": "allergies/mine", "value": "walnuts"})
    assert after == before
    assert [refusal(answer) for answer in late] == [(409, "fact_changed"), (404, "not_found")]
    assert client.get(address).json()["value"] == "nuts"


def test_a_memory_is_not_edited_to_nothing(client):
    made = client.post("/v1/memory", json={"question": "Which editor?", "answer": "vim"}).json()

    refused = client.patch(f"/v1/memory/{made['id']}", json={"question": "", "answer": ""})

    assert refusal(refused) == (400, "invalid_request")
    assert client.get(f"/v1/memory/{made['id']}").json() == made

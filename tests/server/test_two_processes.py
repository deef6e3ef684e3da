"""Two server processes over one memory in PostgreSQL have the same keys, memories and conversations."""

from __future__ import annotations

import threading

import pytest

from shepherd.memory import Memory
from tests.server.processes import ServerProcess


@pytest.fixture(scope="module")
def address(postgres_server) -> str:
    return postgres_server.url(postgres_server.new_schema())


@pytest.fixture(scope="module")
def pair(serve, address, scripted_model) -> tuple[ServerProcess, ServerProcess]:
    one, other = (serve("-m", scripted_model, SHEPHERD_MEMORY_DATABASE=address) for _ in range(2))
    return one, other


def test_what_one_process_stores_the_other_finds(pair):
    one, other = pair
    with one.http() as first, other.http() as second:
        stored = first.post(
            "/v1/memory", params={"user": "anna"}, json={"question": "Which editor?", "answer": "Helix"}
        ).json()
        second.put("/v1/facts/name", params={"user": "anna"}, json={"value": "Anna"})

        found = second.post("/v1/memory/search", params={"user": "anna"}, json={"query": "editor"}).json()[
            "data"
        ]
        facts = first.get("/v1/facts", params={"user": "anna"}).json()["data"]
        others = second.post("/v1/memory/search", params={"user": "bob"}, json={"query": "editor"}).json()[
            "data"
        ]

    assert [result["id"] for result in found] == [stored["id"]]
    assert [(fact["key"], fact["value"]) for fact in facts] == [("name", "Anna")]
    assert others == []


def test_a_conversation_goes_on_in_the_other_process_with_the_tails_that_it_had(pair):
    one, other = pair
    with one.http() as client:
        client.put("/v1/facts/name", params={"user": "carol"}, json={"value": "Carol"})
    asked = {"role": "user", "content": "What is my name?"}
    first = one.ask(asked["content"], "carol")
    messages = [asked, first["choices"][0]["message"], {"role": "user", "content": "And what else?"}]

    there, here = (server.ask("", "carol", messages=messages)["usage"] for server in (other, one))

    assert there["prompt_tokens"] == here["prompt_tokens"]
    assert here["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"]


def test_writers_in_both_processes_lose_nothing_and_store_nothing_twice(pair):
    n = 15

    def write(server: ServerProcess) -> None:
        with server.http() as client:
            for i in range(n):
                for what in (f"{server.url} {i}", f"common {i}"):
                    body = {"question": f"number {i}?", "answer": what}
                    assert client.post("/v1/memory", params={"user": "dora"}, json=body).status_code == 201

    threads = [threading.Thread(target=write, args=(server,)) for server in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for server in pair:
        with server.http() as client:
            assert client.get("/v1/memory", params={"user": "dora"}).json()["total"] == 3 * n


def test_a_key_opens_both_and_its_end_closes_both(pair, address):
    with Memory(address) as memory:
        key, record = memory.keys.create("erna", ["memory"])
        clients = [server.http(Authorization=f"Bearer {key}") for server in pair]

        opened = [client.get("/v1/facts").status_code for client in clients]
        memory.keys.revoke(record.id)
        closed = [client.get("/v1/facts").status_code for client in clients]
        without = [client.get("/v1/facts", headers={"Authorization": ""}).status_code for client in clients]
        health = [client.get("/health").json() for client in clients]

    for client in clients:
        client.close()
    assert (opened, closed, without) == ([200, 200], [401, 401], [401, 401])
    assert health == [{"status": "ok", "memory": "ok"}] * 2

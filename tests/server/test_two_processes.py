"""Two server processes over one memory in PostgreSQL have the same keys, memories and conversations."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest

from shepherd.memory import Memory
from tests.extraction.server import Server as Upstream
from tests.extraction.server import learned, running
from tests.server.haproxy import Balancer
from tests.server.processes import ServerProcess

USERS = tuple(f"user{n}" for n in range(4))
N_LINES = 4
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def address(postgres_server) -> str:
    return postgres_server.url(postgres_server.new_schema())


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """The model that learns: each line becomes a memory."""

    def answer(handler) -> None:
        lines = [line.removeprefix("User: ") for line in handler.asked.lines.split("\n")]
        body = learned({}, *[(f"Which one is {line}?", line) for line in lines])
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with running(answers=[answer]) as server:
        yield server


@pytest.fixture(scope="module")
def start(serve, address, scripted_model, upstream) -> Callable[[], ServerProcess]:
    """Starts another server over the same database."""
    settings = {
        "SHEPHERD_MEMORY_DATABASE": address,
        "SHEPHERD_MEMORY_EXTRACTION": "true",
        "SHEPHERD_MEMORY_EXTRACTION_ENDPOINT": upstream.url,
        "SHEPHERD_MEMORY_EXTRACTION_RETRY_INTERVAL": "0.1",
        "SHEPHERD_MEMORY_EXTRACTION_MIN_TURNS": "1",
        "SHEPHERD_ARCHIVE_TURNS": "false",
    }
    return lambda: serve("-m", scripted_model, **settings)


@pytest.fixture(scope="module")
def pair(start) -> tuple[ServerProcess, ServerProcess]:
    return start(), start()


@pytest.fixture(scope="module")
def balancer(pair, tmp_path_factory) -> Iterator[Balancer]:
    opened = Balancer(tmp_path_factory.mktemp("haproxy"), [server.url for server in pair])
    yield opened
    opened.close()


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


def test_a_stored_response_is_read_and_continued_in_the_other_process(pair):
    one, other = pair
    fields = {"model": "default", "user": "frank", "max_output_tokens": 4}
    with one.http() as first, other.http() as second:
        made = first.post("/v1/responses", json={**fields, "input": "Hello"}).json()
        read = second.get(f"/v1/responses/{made['id']}", params={"user": "frank"}).json()
        following = {**fields, "input": "And now?", "previous_response_id": made["id"]}
        continued = second.post("/v1/responses", json=following)

    assert (read["id"], read["output"]) == (made["id"], made["output"])
    assert continued.status_code == 200
    assert continued.json()["previous_response_id"] == made["id"]


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
        memory.keys.clear()

    for client in clients:
        client.close()
    assert (opened, closed, without) == ([200, 200], [401, 401], [401, 401])
    assert health == [{"status": "ok", "memory": "ok"}] * 2


# ---- behind HAProxy


def test_each_request_sees_what_the_one_before_did(balancer):
    """Requests go to the two servers in turn, so that the other one's index is always stale."""
    user = {"user": "anna"}
    with balancer.http() as client:

        def found(word: str) -> list[str]:
            body = {"query": word, "max_results": 50}
            results = client.post("/v1/memory/search", params=user, json=body).json()["data"]
            return sorted(result["answer"] for result in results)

        expected = []
        for number in range(6):
            body = {"question": f"Which dog is number {number}?", "answer": f"Rex {number}"}
            stored = client.post("/v1/memory", params=user, json=body).json()
            expected.append(body["answer"])
            assert found("dog") == found("dog") == expected
            if number == 3:
                client.patch(f"/v1/memory/{stored['id']}", params=user, json={"answer": "a dog, Max"})
                expected[-1] = "a dog, Max"
                assert found("dog") == found("dog") == sorted(expected)
                client.delete(f"/v1/memory/{stored['id']}", params=user)
                expected.pop()
                assert found("dog") == found("dog") == expected


def tell(balancer: Balancer, user: str, numbers: range, told: list[str]) -> None:
    """Tells numbered lines; one without an answer is said again."""
    with balancer.http() as client:
        for number in numbers:
            line = f"{user} line {number}"
            body = {
                "model": "default",
                "user": user,
                "messages": [{"role": "user", "content": line}],
                "max_tokens": 2,
            }
            while True:
                try:
                    client.post("/v1/chat/completions", json=body).raise_for_status()
                    break
                except (httpx.TransportError, httpx.HTTPStatusError):
                    time.sleep(0.02)
            told.append(line)


def tell_all(balancer: Balancer, numbers: range) -> tuple[list[threading.Thread], list[str]]:
    """All users begin to tell their lines; the threads, and what was told so far."""
    told: list[str] = []
    threads = [threading.Thread(target=tell, args=(balancer, user, numbers, told)) for user in USERS]
    for thread in threads:
        thread.start()
    return threads, told


def learned_by(address: str) -> Counter[tuple[str, str]]:
    """How often each user has each line, once there is nothing left to be learned."""
    deadline = time.monotonic() + WITHIN_S
    with Memory(address) as memory:
        while memory.extraction.counts():
            assert time.monotonic() < deadline, memory.extraction.counts()
            time.sleep(0.02)
        return Counter((user, one.answer) for user in USERS for one in memory.list_memories(user, limit=1000))


def test_each_line_is_learned_once_and_by_its_user_alone(balancer, address, upstream):
    threads, told = tell_all(balancer, range(N_LINES))
    for thread in threads:
        thread.join()

    expected = {(user, f"{user} line {number}"): 1 for user in USERS for number in range(N_LINES)}
    assert learned_by(address) == expected
    # No line was given to the model twice either, by neither server.
    asked = Counter(
        line.removeprefix("User: ") for request in upstream.requests for line in request.lines.split("\n")
    )
    assert {line: asked[line] for line in told} == dict.fromkeys(told, 1)


def test_a_killed_server_loses_and_doubles_nothing(balancer, pair, start, address):
    """The other one answers; what the killed one was learning is learned when it is started again."""
    threads, told = tell_all(balancer, range(N_LINES, 2 * N_LINES))
    while len(told) < len(USERS) * N_LINES // 3:
        time.sleep(0.005)
    pair[1].process.kill()
    pair[1].ended()
    for thread in threads:
        thread.join()
    start()

    # Those of the test before may be in another process of the tests.
    told_before = {(user, f"{user} line {number}"): 1 for user in USERS for number in range(N_LINES)}
    expected = {
        (user, f"{user} line {number}"): 1 for user in USERS for number in range(N_LINES, 2 * N_LINES)
    }
    learned = learned_by(address)
    assert learned in (expected, told_before | expected)

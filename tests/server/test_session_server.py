"""One conversation over HTTP: turns one after another, everybody sees all of them, a client that goes takes
its turn along.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

import httpx
import pytest

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import ApiKeys, Memory
from shepherd.server.session_server import create_session_app
from shepherd.server.state import AppState
from tests import models
from tests.assistant.test_tool_loop import SETS_NAME
from tests.server.running import Running

ANSWER = "Hello, I am a shepherd. Café is open today!"


@pytest.fixture(scope="module")
def engine(scripted_model) -> Iterator[Engine]:
    with Engine(scripted_model, settings=EngineSettings(n_threads=1)) as engine:
        yield engine


@pytest.fixture(scope="module")
def endless_engine(endless_model) -> Iterator[Engine]:
    with Engine(endless_model, settings=EngineSettings(n_ctx=65536, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@contextmanager
def served(
    engine: Engine, memory: Memory, keys: ApiKeys | None = None, **settings: object
) -> Iterator[Running]:
    config = Config(temperature=0.0, user_id="steve", **settings)
    assistant = Assistant(engine, memory, config=config)
    app = create_session_app(assistant, AppState(config, memory, True, keys=keys))
    with Running(app, ending=app.state.conversation.close) as running:
        yield running


@pytest.fixture
def server(engine, memory) -> Iterator[Running]:
    with served(engine, memory) as running:
        yield running


def events_in(response: httpx.Response) -> Iterator[tuple[str, dict]]:
    """The server-sent events of a response, as they come."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


class Watching:
    """Listens to /updates from a thread until as many turns are over as were wanted."""

    def __init__(self, server: Running, n_turns: int) -> None:
        self.events: list[tuple[str, dict]] = []
        self._is_connected = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(server, n_turns))
        self._thread.start()
        assert self._is_connected.wait(60)

    def _listen(self, server: Running, n_turns: int) -> None:
        with server.client() as client, client.stream("GET", "/updates") as response:
            for name, data in events_in(response):
                self.events.append((name, data))
                self._is_connected.set()
                n_turns -= name in ("response_complete", "error", "cleared")
                if n_turns == 0:
                    return

    def all(self) -> list[tuple[str, dict]]:
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.events


def test_an_answer_comes_whole_with_what_it_cost(server):
    with server.client() as client:
        answer = client.post("/request", json={"prompt": "hello"}).json()

    assert (answer["answer"], answer["finish_reason"]) == (ANSWER, "stop")
    assert answer["stats"]["prompt_tokens"] > 0


def test_a_streamed_answer_comes_in_pieces_and_ends_with_the_whole(server):
    with (
        server.client() as client,
        client.stream("POST", "/request", json={"prompt": "hello", "stream": True}) as response,
    ):
        events = list(events_in(response))

    names = [name for name, _ in events]
    assert (names[0], names[-2:]) == ("message_added", ["message_added", "response_complete"])
    assert "".join(data["text"] for name, data in events if name == "delta") == ANSWER
    assert events[0][1]["content"] == "hello"
    assert events[-1][1]["answer"] == ANSWER


def test_every_watcher_sees_every_turn_of_every_client_in_one_order(server):
    watchers = [Watching(server, 4) for _ in range(3)]

    def ask(client_name: str) -> None:
        with server.client() as client:
            for i in range(2):
                body = {"prompt": f"{client_name} {i}", "client": client_name}
                assert client.post("/request", json=body).json()["answer"] == ANSWER

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("anna", "bob")]
    for thread in threads:
        thread.start()
    first, *others = [watcher.all()[1:] for watcher in watchers]
    for thread in threads:
        thread.join()

    assert all(events == first for events in others)
    assert [name for name, _ in first if name in ("response_complete", "error")] == ["response_complete"] * 4
    turns = [data["request"] for _, data in first]
    assert len(set(turns)) == 4
    assert turns == sorted(turns, key=turns.index)  # no turn begins before another has ended
    said = [data["content"] for name, data in first if name == "message_added" and data["role"] == "user"]
    assert sorted(said) == ["anna 0", "anna 1", "bob 0", "bob 1"]
    assert {data["client"] for _, data in first} == {"anna", "bob"}


def test_connected_and_session_tell_the_conversation_so_far(server):
    began = int(time.time())
    with server.client() as client:
        client.post("/request", json={"prompt": "hello"})
        # The shared conversation is free a moment after its answer has been sent.
        session = client.get("/session").json()
        while session["busy"]:
            session = client.get("/session").json()
        with client.stream("GET", "/updates") as response:
            name, connected = next(events_in(response))

    assert [(m["role"], m["content"]) for m in session["messages"]] == [
        ("user", "hello"),
        ("assistant", ANSWER),
    ]
    assert all(began <= message["created_at"] <= time.time() for message in session["messages"])
    assert (session["user"], session["busy"], session["waiting"]) == ("steve", False, 0)
    assert (name, connected["messages"], connected["session"]) == ("connected", 2, session["session"])


def test_an_asynchronous_request_is_answered_where_everybody_listens(server):
    watcher = Watching(server, 1)

    with server.client() as client:
        asked = client.post("/request", json={"prompt": "hello", "async": True})

    name, complete = watcher.all()[-1]
    assert asked.status_code == 202
    assert (name, complete["answer"], complete["request"]) == (
        "response_complete",
        ANSWER,
        asked.json()["request"],
    )


def test_turns_share_one_conversation_and_clear_begins_a_new_one(server):
    with server.client() as client:
        first, second = (client.post("/request", json={"prompt": "hello"}).json() for _ in range(2))
        before = client.get("/session").json()
        assert client.post("/clear").json() == {"cleared": True}
        after = client.get("/session").json()

    assert second["stats"]["reused_tokens"] >= first["stats"]["prompt_tokens"]
    assert (len(before["messages"]), len(after["messages"])) == (4, 0)
    assert before["session"] != after["session"]


def test_the_longest_answer_is_one_requests_own(engine, memory):
    with served(engine, memory) as server, server.client() as client:
        short = client.post("/request", json={"prompt": "hello", "max_tokens": 1}).json()
        long = client.post("/request", json={"prompt": "hello"}).json()

    assert (short["finish_reason"], short["stats"]["generated_tokens"]) == ("length", 1)
    assert long["answer"] == ANSWER


def test_a_turn_without_memory_neither_reads_nor_writes(server, memory):
    memory.set_fact("name", "Steve")

    with server.client() as client:
        private = client.post("/request", json={"prompt": "My editor is Helix", "memory": False}).json()
        normal = client.post("/request", json={"prompt": "hello?"}).json()

    assert (private["injected"]["facts"], normal["injected"]["facts"]) == (0, 1)
    assert memory.count_memories() == 0


def test_a_client_that_goes_away_ends_its_answer_and_the_next_turn_begins(endless_engine, memory):
    with served(endless_engine, memory, max_tokens=60_000) as server:
        watcher = Watching(server, 2)
        with server.client() as client:
            with client.stream("POST", "/request", json={"prompt": "on and on", "stream": True}) as response:
                next(event for event in events_in(response) if event[0] == "delta")
            short = client.post("/request", json={"prompt": "hello", "max_tokens": 2}).json()

        first, second = [data for name, data in watcher.all() if name == "response_complete"]
    assert (first["finish_reason"], second["finish_reason"]) == ("cancelled", "length")
    assert short["answer"] == second["answer"]


def test_a_client_that_goes_away_while_it_waits_takes_its_turn_along(endless_engine, memory):
    body = b'{"prompt": "let me in", "client": "other"}'
    head = (
        "POST /request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()

    with served(endless_engine, memory, max_tokens=60_000) as server, server.client() as client:
        watcher = Watching(server, 2)
        with client.stream("POST", "/request", json={"prompt": "on and on", "stream": True}) as response:
            events = events_in(response)  # held: the connection goes with it
            next(event for event in events if event[0] == "delta")
            with socket.create_connection(("127.0.0.1", server.port)) as other, server.client() as asking:
                other.sendall(head + body)
                while asking.get("/session").json()["waiting"] == 0:
                    pass
        ended = [(name, data) for name, data in watcher.all() if name in ("response_complete", "error")]
    assert [name for name, _ in ended] == ["response_complete", "error"]
    assert (ended[1][1]["client"], ended[1][1]["code"]) == ("other", "cancelled")


def test_a_failed_turn_is_told_and_the_next_one_is_answered(server):
    watcher = Watching(server, 2)

    with server.client() as client:
        failed = client.post("/request", json={"prompt": "many words " * 5000})
        answered = client.post("/request", json={"prompt": "hello"})
        counted = client.get("/metrics").text

    assert (failed.status_code, failed.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert 'shepherd_answers_total{error="context_length_exceeded",injected="false"} 1.0' in counted
    assert answered.json()["answer"] == ANSWER
    assert [name for name, _ in watcher.all() if name in ("error", "response_complete")] == [
        "error",
        "response_complete",
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": ""},
        {"prompt": " \n"},
        {"prompt": 5},
        {"prompt": "a", "max_tokens": 0},
        {"prompt": "a", "steam": True},
        ["a"],
    ],
)
def test_a_bad_request_is_refused_and_nobody_is_told(server, body):
    with server.client() as client:
        refused = client.post("/request", json=body)
        assert client.get("/session").json()["messages"] == []

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")


def test_a_prompt_with_half_a_character_is_refused(server):
    with server.client() as client:
        refused = client.post(
            "/request", content=b'{"prompt": "\\ud800"}', headers={"Content-Type": "application/json"}
        )

    assert refused.status_code == 400


def test_another_owners_key_has_no_part_in_it(server, memory):
    mine, theirs = (memory.keys.create(owner, ["chat"])[0] for owner in ("steve", "anna"))

    for key, status in ((mine, 200), (theirs, 403), ("", 401)):
        with server.client(key) as client:
            assert client.get("/session").status_code == status
            assert client.post("/clear").status_code == status
            assert client.post("/request", json={"prompt": "hello"}).status_code == status
            with client.stream("GET", "/updates") as response:
                assert response.status_code == status


def test_who_listens_is_told_no_more_when_his_key_is_revoked(server, memory):
    (mine, _), (ended, record) = (memory.keys.create("steve", ["chat"]) for _ in range(2))

    with server.client(ended) as listener, listener.stream("GET", "/updates") as response:
        events = events_in(response)
        assert next(events)[0] == "connected"
        memory.keys.revoke(record.id)
        with server.client(mine) as client:
            # What was looked up is good for a second.
            for _ in range(1000):
                client.post("/request", json={"prompt": "hello", "max_tokens": 1})
                client.post("/clear")
                if any(name == "error" for name, _ in takewhile(lambda event: event[0] != "cleared", events)):
                    break
            client.post("/request", json={"prompt": "the sheep sleep"})

        assert list(events) == []


# Without a log beside the file, one who writes keeps readers out.
LOCK = """\
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("PRAGMA journal_mode = DELETE")
for line in sys.stdin:
    other.execute(line)
    print("done", flush=True)
"""


def test_who_listens_is_told_later_what_happens_while_his_key_cannot_be_looked_up(
    endless_engine, memory, tmp_path
):
    path = tmp_path / "keys.db"
    with Memory(path) as made:
        key, _ = made.keys.create("steve", ["chat"])
    command = [sys.executable, "-c", LOCK, path]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:

        def done(statement: str) -> None:
            print(statement, file=other.stdin, flush=True)
            assert other.stdout.readline() == "done\n"

        done("SELECT 1")
        with (
            Memory(path, read_only=True, busy_timeout_s=0.2) as locked,
            served(endless_engine, memory, locked.keys, max_tokens=60_000) as server,
            server.client(key) as client,
            client.stream("GET", "/updates") as response,
        ):
            events = events_in(response)
            assert next(events)[0] == "connected"
            with server.client(key) as asking:
                asking.post("/request", json={"prompt": "on and on", "async": True})
            done("BEGIN EXCLUSIVE")
            told = next(data for name, data in events if name == "error")
            done("ROLLBACK")
            after = next(events)

    assert told["code"] == "memory_busy"
    assert after[0] == "delta"


def test_the_end_of_the_server_ends_its_watchers_and_the_answer(endless_engine, memory):
    with served(endless_engine, memory, max_tokens=60_000) as server:
        watchers = [Watching(server, 2), Watching(server, 2)]
        with server.client() as client:
            client.post("/request", json={"prompt": "on and on", "async": True})

    for watcher in watchers:
        name, data = watcher.all()[-1]
        assert (name, data["code"]) == ("error", "shutting_down")


def test_tools_that_the_model_calls_are_told_to_all(memory, tmp_path):
    path = tmp_path / "model.gguf"
    models.scripted(path, SETS_NAME, after_tab=("Done.",), template=models.TOOL_TEMPLATE)
    with (
        Engine(path, settings=EngineSettings(n_threads=1)) as engine,
        served(engine, memory, memory_tools=True) as server,
        server.client() as client,
    ):
        watcher = Watching(server, 1)
        client.post("/request", json={"prompt": "My name is Steve"})

    told = dict(watcher.all())
    assert (told["tool_call"]["name"], told["tool_result"]["failed"]) == ("set_fact", False)
    assert told["tool_call"]["id"] == told["tool_result"]["id"]
    assert told["response_complete"]["answer"] == "Done."
    assert memory.get_fact("name") == "Steve"

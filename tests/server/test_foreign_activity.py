"""Answers to one user are the same, byte for byte, whatever other users of the server do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from shepherd.config import Config
from shepherd.inference import Engine
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, OpenJob
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import AppState, ServerState
from shepherd.server.turns import Conversations
from shepherd.types import Message
from tests.server.running import Running

NOW = 1_750_000_000
# Drawn at random, or measured: no two runs have the same.
_RANDOM = re.compile(r"(?<![0-9.])[0-9a-f]{16,}")
_MEASURED = re.compile(r'"(recall_us|timings/[^"]*|usage/[^"]*_ms|[a-z]+ed_at)":[0-9.e-]+')
_LARGE = re.compile(r"(?<![0-9.])[0-9]{13,}")


class Server:
    """A server, and a client of its user steve; `others` is called between his requests."""

    def __init__(self, memory: Memory, client: httpx.Client, others: Callable[[int], None]) -> None:
        self._memory, self._client, self._others = memory, client, others
        self._n = 0
        self._names: dict[str, str] = {}
        self.answers: list[tuple[str, int, str]] = []

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        self._others(self._n)
        self._n += 1
        answer = self._client.request(method, path, json=body, params={"user": "steve", **query})
        assert answer.status_code < 500, answer.text
        self.answers.append((f"{method} {self._plain(path)}", answer.status_code, self._plain(answer.text)))
        is_json = answer.headers["content-type"] == "application/json"
        return answer.json() if is_json else answer.text

    def chat(self, *texts: str) -> str:
        """Say this; returns the answer. Tokens of the cache are everybody's, see the threat model."""
        self._others(self._n)
        self._n += 1
        said = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
        body = {"model": "default", "messages": said, "user": "steve", "max_tokens": 8}
        answer = self._client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"][
            "content"
        ]
        self.answers.append(("chat", 200, answer))
        return str(answer)

    def _plain(self, text: str) -> str:
        """Name random ids by their order, and leave out what is measured."""
        text = _MEASURED.sub(r'"\1":0', text)
        return _RANDOM.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names)}>"), text)


@pytest.fixture
def start(plain_model, tmp_path, monkeypatch) -> Callable[[str, Callable[[Memory, int], None]], list[Any]]:
    """Start a server whose other users do this, and let steve use all of it; returns what he was answered."""
    # Nodes are listed by the second of their last change, which could end between two of them.
    monkeypatch.setitem(Knowledge.__init__.__kwdefaults__, "clock", lambda: NOW)

    def run(name: str, others: Callable[[Memory, int], None]) -> list[Any]:
        config = Config(temperature=0.0, trace_turns=True, n_ctx=4096)
        with (
            Memory(tmp_path / f"{name}.db", clock=lambda: NOW) as memory,
            Engine(plain_model) as engine,
        ):
            models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
            conversations = Conversations(models, memory=memory, config=config)
            app = create_app(ServerState(config, memory, True, conversations, started_at=NOW))
            with Running(app) as running, running.client() as client:
                server = Server(memory, client, lambda n: others(memory, n))
                use_everything(server, memory)
                return server.answers

    return run


def use_everything(server: Server, memory: Memory) -> None:
    """Call every route of the memory that answers with something stored."""
    first = server.ask("POST", "/v1/memory", {"question": "Which editor?", "answer": "Helix"})
    second = server.ask("POST", "/v1/memory", {"question": "Which city?", "answer": "Austin"})
    server.ask("PATCH", f"/v1/memory/{first['id']}", {"answer": "vim", "pinned": True})
    server.ask("GET", f"/v1/memory/{second['id']}")
    server.ask("GET", f"/v1/memory/{second['id'] + 1}")
    server.ask("POST", "/v1/memory/search", {"query": "which editor or city"})
    server.ask("PUT", "/v1/facts/name", {"value": "Steve"})
    server.ask("GET", "/v1/facts", history=True)
    said = server.chat("Which editor do I use?")
    server.chat("Which editor do I use?", said, "And in which city do I live?")
    nodes = [
        server.ask("POST", "/v1/knowledge/nodes", {"title": title, "source_text": f"{title} is a city. " * 9})
        for title in ("Austin", "Boston")
    ]
    ends = {"from_node_id": nodes[0]["id"], "to_node_id": nodes[1]["id"], "explanation": "both"}
    edge = server.ask("POST", "/v1/knowledge/edges", ends)
    server.ask("PUT", "/v1/knowledge/focus", {"node_ids": [nodes[1]["id"]]})
    server.ask("POST", "/v1/knowledge/search", {"query": "Austin city"})
    for path in ("nodes", f"nodes/{nodes[0]['id']}", "edges", "hubs", "dimensions", "focus"):
        server.ask("GET", f"/v1/knowledge/{path}")
    server.chat("What is Austin?")
    session = memory.start_session("steve")
    for text in ("I live in Texas", "I like sheep"):
        memory.append_message(session, Message("user", text), "steve", job=OpenJob("worker", 1))
    [job, other] = server.ask("GET", "/v1/extraction/jobs")["data"]
    server.ask("POST", f"/v1/extraction/jobs/{job['id']}/retry")
    server.ask("DELETE", f"/v1/extraction/jobs/{job['id']}")
    assert [left["id"] for left in server.ask("GET", "/v1/extraction/jobs")["data"]] == [other["id"]]
    for conversation in server.ask("GET", "/v1/trace")["data"]:
        for turn in server.ask("GET", f"/v1/trace/{conversation['id']}")["turns"]:
            server.ask("GET", f"/v1/trace/{conversation['id']}/{turn}")
    server.ask("GET", "/v1/memory")
    server.ask("GET", "/v1/memory/export")
    server.ask("GET", "/v1/memory/user")
    stats = server.ask("GET", "/v1/memory/stats")
    assert stats["most_recalled"]
    server.answers.pop()  # the size of the database is everybody's, for keys that may know it
    server.ask("DELETE", f"/v1/memory/{second['id']}")
    server.ask("DELETE", f"/v1/knowledge/edges/{edge['id']}")


def nothing(memory: Memory, n: int) -> None:
    """Do nothing."""


def much(memory: Memory, n: int) -> None:
    """Store something of each kind for many users."""
    for user in (f"anna-{n}", "anna"):
        memory.store_memory(f"Which editor has {user}?", f"Emacs {n}", user)
        memory.set_fact("editor", f"Emacs {n}", user)
        session = memory.start_session(user)
        memory.append_message(session, Message("user", f"{n}"), user, job=OpenJob("worker", 1))
        memory.append_message(session, Message("assistant", "yes"), user)
        knowledge = Knowledge(memory.transactions, user)
        nodes = [knowledge.add_node(title=f"{n}.{i}", source_text="Austin is a city. " * 9) for i in (1, 2)]
        knowledge.connect(nodes[0].id, nodes[1].id, "both")


def test_answers_do_not_depend_on_the_activity_of_others(start):
    alone, among_others = start("alone", nothing), start("among", much)

    assert len(alone) > 30
    for one, other in zip(alone, among_others, strict=True):
        assert other == one


def test_no_id_contains_the_number_of_a_user(start):
    answers = json.dumps(start("among", much))

    assert not _LARGE.search(answers)


def test_an_id_of_another_user_is_not_found(start, tmp_path):
    start("among", much)
    with Memory(tmp_path / "among.db") as memory:
        [record] = memory.list_memories("anna", limit=1)
        app = create_app(AppState(Config(), memory, True))
        with Running(app) as running, running.client() as client:
            found = client.get(f"/v1/memory/{record.id}", params={"user": "steve"})
            number = client.get(f"/v1/memory/{record.id}", params={"user": "anna"})
            own = client.get(f"/v1/memory/{record.id & ((1 << 40) - 1)}", params={"user": "anna"})

    assert (found.status_code, number.status_code, own.status_code) == (404, 404, 200)

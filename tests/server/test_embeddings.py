"""Many requests for embeddings at once: the chats go on, and nobody computes for a client that has gone."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.inference import Engine, EngineSettings
from shepherd.inference.embedding import Embedder
from shepherd.server.retrieval_api import Embeddings
from tests import models
from tests.server.in_process import running
from tests.server.running import Running

AT_ONCE = 12


class WatchedEmbedder(Embedder):
    """Remembers what it was asked."""

    seen: list[str]

    def tokenize(self, text, *, framed=True):
        ids = super().tokenize(text, framed=framed)
        self.texts[tuple(ids)] = text
        return ids

    def embed_tokens(self, texts):
        self.seen.extend(self.texts[tuple(ids)] for ids in texts)
        return super().embed_tokens(texts)


class Door:
    """A file that cannot be read before the door is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_open, self.is_waited_for = threading.Event(), threading.Event()
        self.seen: list[str] = []

    def embedder(self) -> Embedder:
        self.is_waited_for.set()
        assert self.is_open.wait(60)
        embedder = WatchedEmbedder(self._path)
        embedder.seen, embedder.texts = self.seen, {}
        return embedder


@pytest.fixture(scope="module")
def engine(endless_model) -> Iterator[Engine]:
    with Engine(endless_model, settings=EngineSettings(n_threads=1)) as engine:
        yield engine


@pytest.fixture
def door(tmp_path) -> Door:
    models.bert(tmp_path / "tiny-bert.gguf")
    return Door(tmp_path / "tiny-bert.gguf")


@pytest.fixture
def server(engine, door) -> Iterator[Running]:
    embeddings = Embeddings("tiny-bert", door.embedder)
    with running(engine, embeddings=embeddings) as server:
        yield server
        door.is_open.set()
    embeddings.close()


def asks(server: Running, text: str) -> http.client.HTTPConnection:
    """A request whose answer nobody has read yet."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"model": "tiny-bert", "input": text})
    connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
    return connection


def test_chats_do_not_wait_for_embeddings(server, door):
    waiting = [asks(server, f"the dog {i}") for i in range(AT_ONCE)]
    assert door.is_waited_for.wait(60)

    with server.client() as client:
        body = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
        counted = client.post("/v1/messages/count_tokens", json=body)
        answered = client.post("/v1/messages", json={**body, "max_tokens": 4})
    door.is_open.set()

    assert (counted.status_code, answered.status_code) == (200, 200)
    assert [connection.getresponse().status for connection in waiting] == [200] * AT_ONCE
    for connection in waiting:
        connection.close()


def test_nothing_is_computed_for_a_client_that_has_gone(server, door):
    first = asks(server, "the first")
    assert door.is_waited_for.wait(60)
    asks(server, "the second").close()
    last = asks(server, "the last")
    with server.client() as client:
        for _ in range(3):  # the server has heard of all of them by then
            assert client.get("/v1/models").status_code == 200
    door.is_open.set()

    assert [first.getresponse().status, last.getresponse().status] == [200, 200]
    assert door.seen == ["the first", "the last"]
    first.close()
    last.close()

"""The setting memory_vectors, with a tiny real model and with a server on loopback."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from shepherd.config import Config
from shepherd.errors import ModelError, ProviderUnavailableError, UsageError
from shepherd.inference.embedding_endpoint import EndpointEmbedder, embeddings_url
from shepherd.memory_factory import open_memory, vector_settings
from tests import models


@pytest.fixture
def server():
    """Gives a vector of three numbers per text, out of order, or the status it is told."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers.get("Authorization"), body))
            data = [
                {"index": i, "embedding": [len(text), 2, "dog" in text]}
                for i, text in enumerate(body["input"])
            ]
            answer = (
                json.dumps({"data": data[::-1]}).encode()
                if self.server.answer is None
                else self.server.answer
            )
            self.send_response(self.server.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked, running.status, running.answer = asked, 200, None
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_vectors_are_off_by_default_and_make_no_table(tmp_path):
    config = Config(memory_database=str(tmp_path / "memory.db"), user_id="steve")

    with open_memory(config) as memory:
        memory.store_memory("my pet", "a dog")

        assert memory.count_vectors() == (0, 0)
        assert memory.settle_vectors()
        with memory._store._database.read() as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'context_vectors%'")
    assert names == []


@pytest.mark.parametrize("key", ["sk-wörld", "sk 1", "sk-1\n", "\ud800"])
def test_a_key_that_no_header_can_carry_costs_the_vectors_alone(tmp_path, server, key):
    config = Config(
        memory_database=str(tmp_path / "memory.db"),
        user_id="steve",
        memory_vectors=server.url,
        memory_vectors_api_key=key,
    )
    with pytest.raises(UsageError, match="memory_vectors_api_key") as caught:
        EndpointEmbedder(server.url, api_key=key)

    with open_memory(config) as memory:
        memory.store_memory("the lazy dog", "")
        with pytest.raises(UsageError, match="memory_vectors_api_key"):
            memory.settle_vectors()
        assert [hit.question for hit in memory.search("dog")] == ["the lazy dog"]

    assert key not in str(caught.value)
    assert server.asked == []


@pytest.mark.parametrize(
    "url", ["http://[::1/v1", "http://host:port/v1", "http://host:99999/v1", "http:///v1"]
)
def test_an_address_that_is_none_is_a_users_mistake(url):
    with pytest.raises(UsageError, match="memory_vectors is not an HTTP address"):
        embeddings_url(url)


def test_memories_are_embedded_by_a_gguf(tmp_path):
    models.bert(tmp_path / "encoder.gguf")
    config = Config(
        memory_database=str(tmp_path / "memory.db"),
        user_id="steve",
        memory_vectors=str(tmp_path / "encoder.gguf"),
        model_trial=False,
    )

    with open_memory(config) as memory:
        wanted = memory.store_memory("the lazy dog", "")
        memory.store_memory("my cache is warm", "")
        assert memory.settle_vectors()

        assert memory.count_vectors() == (2, 2)
        assert memory.search("the lazy dog", 1)[0].id == wanted


def test_file_that_is_not_there_and_address_that_is_none_are_mistakes(tmp_path):
    database = str(tmp_path / "memory.db")

    with pytest.raises(UsageError, match="there is no such file"):
        vector_settings(Config(memory_database=database, memory_vectors=str(tmp_path / "none.gguf")))
    with pytest.raises(UsageError, match="not an HTTP address"):
        vector_settings(Config(memory_database=database, memory_vectors="ftp://host/v1"))


@pytest.mark.parametrize("vectors", ["nosuch", "/none.gguf", "ftp://host/v1"])
def test_a_mistake_in_the_setting_is_warned_of_and_words_are_searched(tmp_path, vectors):
    warnings: list[str] = []
    config = Config(memory_database=str(tmp_path / "memory.db"), user_id="steve", memory_vectors=vectors)

    with open_memory(config, warn=lambda message, hint: warnings.append(message)) as memory:
        wanted = memory.store_memory("the lazy dog", "")
        assert memory.search("dog", 1)[0].id == wanted
        assert not memory.has_vectors

    assert len(warnings) == 1
    assert warnings[0].endswith("only words are searched")


def test_memories_are_embedded_by_a_server(tmp_path, server):
    config = Config(
        memory_database=str(tmp_path / "memory.db"),
        user_id="steve",
        memory_vectors=server.url,
        memory_vectors_model="small",
        memory_vectors_api_key="key",
    )

    with open_memory(config) as memory:
        memory.store_memory("the dog", "is called Rex")
        assert memory.settle_vectors()
        assert len(memory.search("dog", 1)) == 1

    path, authorization, body = server.asked[1]
    assert (path, authorization) == ("/v1/embeddings", "Bearer key")
    assert (body["model"], body["input"]) == ("small", ["the dog\nis called Rex"])


def test_vectors_of_a_server_are_in_order_and_of_length_one(server):
    embedder = EndpointEmbedder(server.url)

    vectors = embedder.embed_documents(["dog", "a longer text", ""])

    assert embedder.dimension == 3
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert vectors[0] == pytest.approx(np.array([3, 2, 1]) / np.sqrt(14))


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b'{"data": []}',
        b'{"data": [{"index": 0, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 2, null]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 2, 1e400]}]}',
    ],
)
def test_answer_that_is_no_vector_is_an_error_without_the_text(server, answer):
    embedder = EndpointEmbedder(server.url)
    server.answer = answer

    with pytest.raises(ModelError) as caught:
        embedder.embed_query("a secret")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "is_away", "hint"),
    [
        (401, False, "memory_vectors_api_key"),
        (403, False, "memory_vectors_api_key"),
        (404, False, "memory_vectors_model"),
        (500, False, ""),
        (429, True, ""),
        (503, True, ""),
    ],
)
def test_status_tells_whether_to_try_again_or_which_setting_to_look_at(server, status, is_away, hint):
    server.status = status

    with pytest.raises(ModelError, match=f"answers {status}") as caught:
        EndpointEmbedder(server.url)

    assert isinstance(caught.value, ProviderUnavailableError) == is_away
    assert hint in caught.value.hint
    assert bool(caught.value.hint) == bool(hint)


@pytest.mark.parametrize("written", ["http://h:1", "http://h:1/v1/", "http://h:1/v1/embeddings"])
def test_address_is_understood_as_people_write_it(written):
    assert embeddings_url(written) == "http://h:1/v1/embeddings"

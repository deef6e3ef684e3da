"""Pictures by their address on the web: fetched if the operator allows it, and from public servers alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.pictures import MOST_BYTES
from tests import vision_models
from tests.server.in_process import running
from tests.server.running import Running
from tests.vision_models import PICTURE_TOKENS, png

QUESTION = "what is it?"


class Quiet(ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    def handle_error(self, *_: Any) -> None:
        """Do nothing."""


class Web:
    """A server on the web, as far as ours is concerned: `asked` counts the requests for each path."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked[self.path] += 1
                name = self.path.partition("?")[0].strip("/")
                if name.startswith("to="):
                    self.send_response(302)
                    self.send_header("Location", name.removeprefix("to="))
                    self.end_headers()
                    return
                colour = name.removesuffix(".png")
                found = {"text": b"<p>no picture</p>", "huge": b"\x89PNG" + b"\0" * MOST_BYTES}
                data = png(colour) if colour in vision_models.COLOURS else found.get(name, b"")
                self.send_response(200 if data else 404)
                self.send_header("Content-Type", "text/html" if name == "text" else "image/png")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Web:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    path = vision_models.seeing(tmp_path_factory.mktemp("seeing"))
    with Engine(path, settings=EngineSettings(n_threads=1, n_ctx=1024, slots=2)) as engine:
        yield engine


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("addresses") / "memory.db"


@pytest.fixture(scope="module")
def server(engine, database) -> Iterator[Running]:
    """It may fetch from the machine that stands for the web."""
    settings = {"server_fetch_pictures": True, "knowledge_allowed_hosts": "127.0.0.1"}
    with Memory(database) as memory, running(engine, memory=memory, **settings) as server:
        yield server


@pytest.fixture(scope="module")
def strict(engine) -> Iterator[Running]:
    """It fetches from the web alone."""
    with running(engine, server_fetch_pictures=True) as server:
        yield server


@pytest.fixture
def client(server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def content(url: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": url}}]


def test_the_next_turn_sees_the_same_picture_and_reads_new_tokens_only(client: openai.OpenAI, web: Web):
    messages: list[Any] = [{"role": "user", "content": content(f"{web.url}/green.png?turns")}]
    read = []
    for question in ("and now?", "and still?"):
        answer = client.chat.completions.create(model="default", messages=messages, user="steve")
        assert answer.choices[0].message.content == "green"
        messages += [
            {"role": "assistant", "content": "green"},
            {"role": "user", "content": question},
        ]
        read.append(answer.usage.prompt_tokens - answer.usage.prompt_tokens_details.cached_tokens)

    assert read[0] > PICTURE_TOKENS
    assert read[1] < PICTURE_TOKENS * 3
    assert web.asked["/green.png?turns"] == 1


def test_responses_and_a_chain_of_them(client: openai.OpenAI, web: Web):
    parts = [
        {"type": "input_text", "text": QUESTION},
        {"type": "input_image", "image_url": f"{web.url}/blue.png"},
    ]
    first = client.responses.create(model="default", user="steve", input=[{"role": "user", "content": parts}])
    second = client.responses.create(
        model="default", user="steve", input="sure?", previous_response_id=first.id
    )

    assert (first.output_text, second.output_text) == ("blue", "blue")
    assert web.asked["/blue.png"] == 1


def test_anthropics_messages_and_their_tokens(server: Running, web: Web):
    block = {"type": "image", "source": {"type": "url", "url": f"{web.url}/red.png"}}
    asked: Any = [{"role": "user", "content": [block, {"type": "text", "text": QUESTION}]}]
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        counted = client.messages.count_tokens(model="default", messages=asked)
        answer = client.messages.create(model="default", max_tokens=8, messages=asked)

    assert answer.content[0].text == "red"
    assert counted.input_tokens > PICTURE_TOKENS


def test_each_user_has_pictures_of_their_own(client: openai.OpenAI, web: Web):
    for user in ("anna", "bob", "anna"):
        client.chat.completions.create(
            model="default",
            user=user,
            messages=[{"role": "user", "content": content(f"{web.url}/red.png?own")}],
        )

    assert web.asked["/red.png?own"] == 2


def refusal(server: Running, url: str) -> str:
    with server.client() as http:
        messages = [{"role": "user", "content": content(url)}]
        answer = http.post("/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_picture", "messages.0.content.1")
    assert url not in answer.text
    return str(error["message"])


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/missing", "its server answered with status 404"),
        ("/text", "its server sends text/html"),
        ("/huge", "its server sends more than 20 MiB"),
        ("/to=ftp://example.org/a.png", "only public web servers"),
        ("/to=http://[::1]:1/a.png", "only public web servers"),
        ("/to=http://localhost:1/a.png", "only public web servers"),
    ],
)
def test_what_is_no_picture_of_the_web_is_refused(server: Running, web: Web, path: str, said: str):
    assert said in refusal(server, f"{web.url}{path}")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "169.254.169.254", "user:pass@127.0.0.1", "no.invalid"],
)
def test_addresses_inside_are_never_asked_and_all_look_alike(strict: Running, web: Web, host: str):
    said = refusal(strict, f"http://{host}:{web.port}/red.png?inside")

    assert "only public web servers are asked" in said
    assert web.asked["/red.png?inside"] == 0


def test_a_server_fetches_nothing_unless_its_operator_says_so(engine: Engine, web: Web):
    with running(engine, knowledge_allowed_hosts="127.0.0.1") as server:
        assert "server_fetch_pictures" in refusal(server, f"{web.url}/red.png?off")

    assert web.asked["/red.png?off"] == 0


def test_a_request_can_name_some_pictures_and_not_many(server: Running, web: Web):
    parts = [part for i in range(20) for part in content(f"{web.url}/red.png?many={i}")]
    with server.client() as http:
        answer = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": parts}]})

    assert answer.status_code == 400
    assert "too many pictures" in answer.json()["error"]["message"]
    assert sum(n for path, n in web.asked.items() if "many=" in path) == 16


def test_what_a_client_sends_is_no_part_of_the_log(
    server: Running, web: Web, caplog: pytest.LogCaptureFixture
):
    refusal(server, f"{web.url}/missing?secret=hush")

    assert "hush" not in caplog.text
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        assert http.get("/health").status_code == 200

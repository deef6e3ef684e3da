"""Before a handler: names, pages, sizes, speeds and crowds, over real sockets."""

from __future__ import annotations

import json
import socket
import threading

import anyio
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.server import middleware
from shepherd.server.middleware import host_of, names_in
from shepherd.server.state import AppState
from tests.server.running import Running

MB = 1 << 20
CONFIG = Config(
    server_hosts="chat.example, other.example:8000",
    server_origins="https://page.example",
    server_max_body_mb=1,
    server_max_requests=3,
    server_max_requests_per_key=2,
)


class Waiting:
    """An app whose /wait goes on until the test says so."""

    def __init__(self, memory: Memory, config: Config = CONFIG) -> None:
        self.may_end = threading.Event()
        self.n_waiting = threading.Semaphore(0)
        self.app = FastAPI()
        self.app.state.shepherd = state = AppState(config, memory, True)
        self.app.add_api_route("/wait", self.wait)
        self.app.add_api_route("/echo", self.echo, methods=["GET", "POST"])
        middleware.install(self.app, state)

    async def wait(self) -> PlainTextResponse:
        self.n_waiting.release()
        while not self.may_end.is_set():
            await anyio.sleep(0.01)
        return PlainTextResponse("done")

    async def echo(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    with Memory(tmp_path_factory.mktemp("guards") / "memory.db") as memory:
        yield memory


@pytest.fixture
def waiting(memory):
    return Waiting(memory)


@pytest.fixture
def server(waiting):
    with Running(waiting.app) as running:
        yield running
        waiting.may_end.set()


def raw(server: Running, data: bytes) -> bytes:
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8000",
        "localhost",
        "LOCALHOST:80",
        "[::1]:8000",
        "10.1.2.3",
        "chat.example:443",
        "other.example",
        socket.gethostname(),
    ],
)
def test_own_names_and_addresses_are_served(server, host):
    with server.client(Host=host) as client:
        assert client.get("/echo").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "chat.example.",
        "[::1",
        "0x7f.1",
    ],
)
def test_other_names_are_refused_as_rebinding_would_use_them(server, host):
    with server.client(Host=host) as client:
        answer = client.get("/echo")

    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "host_not_allowed")
    assert "evil" not in answer.text


def test_two_host_headers_are_refused(server):
    answer = raw(
        server, b"GET /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    )

    assert b" 421 " in answer or b" 400 " in answer


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1.evil.example",
        "http://127.0.0.1:1",
        "file://",
        "http://[",
        "https://page.example.evil",
    ],
)
def test_a_foreign_page_may_not_call(server, origin):
    with server.client(Origin=origin) as client:
        for answer in (client.post("/echo", content=b"x"), client.get("/echo"), client.options("/echo")):
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers


def test_its_own_page_and_those_of_the_settings_may_call(server):
    with server.client() as client:
        own = client.post("/echo", headers={"Origin": server.url})
        named = client.post("/echo", headers={"Origin": "https://page.example"})
        asked = client.options(
            "/echo",
            headers={
                "Origin": "https://page.example",
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization",
            },
        )

    assert [answer.status_code for answer in (own, named, asked)] == [200, 200, 200]
    assert "access-control-allow-origin" not in own.headers
    assert named.headers["access-control-allow-origin"] == "https://page.example"
    assert asked.headers["access-control-allow-origin"] == "https://page.example"
    assert "authorization" in asked.headers["access-control-allow-headers"].lower()


def test_what_a_foreign_page_embeds_is_refused_and_a_link_from_there_is_followed(server):
    with server.client(**{"Sec-Fetch-Site": "cross-site"}) as client:
        embedded = client.get("/echo", headers={"Sec-Fetch-Mode": "no-cors"})
        followed = client.get("/echo", headers={"Sec-Fetch-Mode": "navigate"})

    assert (embedded.status_code, followed.status_code) == (403, 200)


@pytest.mark.parametrize("n_bytes", [0, 1, MB])
def test_a_body_within_the_limit_arrives_whole(server, n_bytes):
    with server.client() as client:
        assert client.post("/echo", content=b"x" * n_bytes).text == str(n_bytes)
        assert client.post("/echo", content=iter([b"x" * n_bytes])).text == str(n_bytes)


def test_a_body_over_the_limit_is_refused_by_its_declared_length(server):
    answer = raw(server, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\nx")

    assert b" 413 " in answer
    assert b"request_too_large" in answer


def test_a_body_over_the_limit_is_refused_where_it_has_no_declared_length(server):
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    answer = raw(
        server, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 17
    )

    assert b" 413 " in answer


def test_a_body_that_does_not_come_to_its_end_is_given_up(memory):
    with Running(Waiting(memory, Config(server_body_timeout=0.2)).app) as server:
        answer = raw(server, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")

    assert b" 408 " in answer
    assert b"no whole request within 0.2 s" in answer


def test_errors_of_the_guards_have_anthropics_shape_on_its_path(server):
    with server.client(Host="evil.example") as client:
        assert client.post("/v1/messages", json={}).json()["type"] == "error"


def in_background(server: Running, n: int, key: str = "") -> list[threading.Thread]:
    def ask() -> None:
        with server.client(key) as client:
            client.get("/wait")

    threads = [threading.Thread(target=ask) for _ in range(n)]
    for thread in threads:
        thread.start()
    return threads


def test_more_requests_than_allowed_are_told_to_wait(server, waiting):
    threads = in_background(server, 3)
    for _ in threads:
        assert waiting.n_waiting.acquire(timeout=60)

    with server.client() as client:
        refused, health, metrics = (client.get(path) for path in ("/echo", "/health", "/metrics"))
        waiting.may_end.set()
        for thread in threads:
            thread.join()
        after = client.get("/echo")

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert (health.status_code, metrics.status_code, after.status_code) == (200, 200, 200)


def test_a_request_whose_client_went_away_makes_room(server, waiting):
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")

    with server.client() as client:
        while (answer := client.get("/echo")).status_code == 503:
            pass

    assert answer.status_code == 200


def test_a_key_may_have_so_many_requests_and_another_key_its_own(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        waiting = Waiting(memory)
        one, other = (memory.keys.create(owner, ["chat"])[0] for owner in ("anna", "bob"))
        with Running(waiting.app) as server:
            threads = in_background(server, 2, one)
            for _ in threads:
                assert waiting.n_waiting.acquire(timeout=60)
            with server.client(one) as client:
                refused = client.get("/echo")
            with server.client(other) as client:
                served = client.get("/echo")
            waiting.may_end.set()
            for thread in threads:
                thread.join()

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "1"
    assert served.status_code == 200


def test_names_of_a_setting_are_separated_by_commas():
    assert names_in(" A.example, https://b/ ,,") == {"a.example", "https://b"}
    assert [host_of(value) for value in ("a:80", "a", "[::1]:80", "[::1]", "[::1", "a:b", "::1")] == [
        "a",
        "a",
        "::1",
        "::1",
        "",
        "",
        "",
    ]


# ---- what is told of requests: logs and figures


def test_figures_count_requests_by_route_and_say_nothing_of_what_was_asked(server):
    with server.client() as client:
        client.post("/echo?user=anna", content=b"sheep")
        client.get("/nowhere/sheep")
        text = client.get("/metrics").text

    assert 'shepherd_requests_total{method="POST",route="/echo",status="200"} 1.0' in text
    assert 'shepherd_requests_total{method="GET",route="other",status="404"} 1.0' in text
    assert 'shepherd_extraction_jobs{state="waiting"} 0.0' in text
    assert "shepherd_requests_in_flight 1.0" in text
    assert "sheep" not in text
    assert "anna" not in text


def test_a_request_is_a_line_of_json_with_the_id_that_the_client_was_told(server, caplog):
    from shepherd.server.logs import JsonLines

    with caplog.at_level("INFO", logger="shepherd.server.request_record"), server.client() as client:
        answer = client.post("/echo?user=anna", content=b"sheep")
        client.get("/health")  # the line of the first is written before the second is served

    line = json.loads(JsonLines().format(caplog.records[0]))
    fields = {name: line[name] for name in ("message", "method", "route", "status", "level")}
    assert fields == {
        "message": "request",
        "method": "POST",
        "route": "/echo",
        "status": 200,
        "level": "info",
    }
    assert line["request"] == answer.headers["x-request-id"] == answer.headers["request-id"]
    assert "anna" not in json.dumps(line)

"""Connections that send no request, or headers without an end, cost little and keep nobody out."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from fastapi import FastAPI, Request
from uvicorn import Config as UvicornConfig
from uvicorn.server import ServerState

from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.server import middleware
from shepherd.server.connections import MOST_HEADER_BYTES, LimitedProtocol, limited
from shepherd.server.state import AppState
from tests.server.processes import ServerProcess
from tests.server.running import Running

HALF_SENT = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
HEAD = b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
MB = 1 << 20


@contextlib.contextmanager
def opened(url: str, n: int, data: bytes) -> Iterator[list[socket.socket]]:
    """Open so many connections that have sent this."""
    address = urlsplit(url)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(n):
            connection = stack.enter_context(socket.socket())
            connection.settimeout(60)
            connection.connect((address.hostname, address.port))
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
            connections.append(connection)
        yield connections


def answer_to(url: str, data: bytes) -> bytes:
    """Return what the server sends for this until it closes the connection."""
    with opened(url, 1, data) as [connection]:
        return rest_of(connection)


def rest_of(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            received += piece
    return received


async def echo(request: Request) -> dict[str, int]:
    return {"size": len(await request.body())}


@pytest.fixture
def server(tmp_path) -> Iterator[Running]:
    """A server that gives headers a second, and has 20 connections."""
    app = FastAPI()
    with Memory(tmp_path / "memory.db") as memory:
        app.state.shepherd = state = AppState(Config(), memory, True)
        app.add_api_route("/echo", echo, methods=["POST"])
        middleware.install(app, state)
        with Running(app, http=limited(connections=20, header_timeout_s=1.0)) as running:
            yield running


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let child processes open 1,024 files, and this one more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_headers_without_an_end_are_refused_and_not_held_in_memory(serve, plain_model):
    server = serve("-m", plain_model)
    process = psutil.Process(server.process.pid)
    with server.http() as client:
        client.get("/health")
    before = process.memory_info().rss

    for data in (b"X-Long: " + b"x" * 64 * MB, b"".join(b"X-%d: x\r\n" % i for i in range(1_000_000))):
        answer_to(server.url, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + data + b"\r\n\r\n")

    assert process.memory_info().rss - before < 8 * MB
    with server.http() as client:
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 2 * MOST_HEADER_BYTES + b"\r\n\r\n",
        b"GET /" + b"x" * 2 * MOST_HEADER_BYTES + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
    ids=["one header", "the path", "many headers"],
)
def test_headers_beyond_the_limit_are_said_to_be(server, data):
    answer = answer_to(server.url, data.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n"))

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"headers_too_large" in answer


def test_headers_of_usual_size_are_served(server):
    with server.client(**{"X-Long": "x" * 60_000}) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/health").status_code == 200  # on the same connection


def test_trailers_without_an_end_are_refused(server):
    data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 50_000

    began = time.monotonic()
    answer_to(server.url, data)

    assert time.monotonic() - began < 30  # it does not wait for their end


def test_a_chunked_body_of_small_chunks_is_read(server):
    body = b"".join(b"1\r\n%c\r\n" % c for c in b'"' + b"x" * 50_000 + b'"') + b"0\r\n\r\n"

    answer = answer_to(server.url, HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + body)

    assert answer.endswith(b'{"size":50002}')


def test_headers_that_take_too_long_are_refused_also_on_a_used_connection(server):
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with opened(server.url, 1, HALF_SENT) as [half], opened(server.url, 1, request) as [used]:
        assert used.recv(65536).startswith(b"HTTP/1.1 200 ")
        used.sendall(HALF_SENT)
        assert rest_of(half).startswith(b"HTTP/1.1 408 ")
        assert rest_of(used).startswith(b"HTTP/1.1 408 ")


def test_a_connection_without_a_word_is_closed(server):
    with opened(server.url, 1, b"") as [silent]:
        assert rest_of(silent) == b""


def test_a_new_connection_replaces_the_one_that_has_waited_longest(server):
    with server.client() as kept, opened(server.url, 19, HALF_SENT) as waiting:
        assert kept.get("/health").status_code == 200
        with server.client() as client:
            assert client.get("/health").status_code == 200
        assert rest_of(waiting[0]) == b""
        # One for one: the next has the time that headers have.
        assert rest_of(waiting[1]).startswith(b"HTTP/1.1 408 ")


def test_connections_that_come_at_once_replace_one_each():
    """None of those that are being closed counts as the oldest once more."""
    protocol = limited(connections=2)
    config, state = UvicornConfig(FastAPI(), log_config=None), ServerState()
    made: list[LimitedProtocol] = []

    def make() -> LimitedProtocol:
        made.append(protocol(config, server_state=state, app_state={}))
        return made[-1]

    async def connect() -> None:
        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        with contextlib.ExitStack() as stack:
            for _ in range(5):  # they are accepted in one turn of the loop
                stack.enter_context(socket.create_connection(server.sockets[0].getsockname()))
            while len(made) < 5 or any(one.transport is None for one in made):
                await asyncio.sleep(0)
            assert [one.transport.is_closing() for one in made] == [True, True, True, False, False]
        server.close()

    asyncio.run(connect())


def test_1100_connections_without_a_request_keep_nobody_out(few_files, tmp_path, plain_model):
    with ServerProcess(tmp_path / "home", "-m", str(plain_model)) as server:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        with opened(server.url, 1_100, HALF_SENT):
            answers = [httpx.get(server.url + "/health", timeout=10, trust_env=False) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200] * 3

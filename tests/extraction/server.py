"""A chat-completions server on loopback that answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NOTHING = '{"facts": {}, "context": []}'


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def lines(self) -> str:
        return self.body["messages"][-1]["content"]


def said(text: object) -> bytes:
    """The body of a completion that says `text`."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


def learned(facts: dict[str, Any], *context: tuple[str, str]) -> bytes:
    """The body of a completion with these facts and pairs."""
    return said(json.dumps({"facts": facts, "context": [{"q": q, "a": a} for q, a in context]}))


@dataclass
class Server:
    """`answers` are given one after the other, the last one for ever: bytes, a status, or a function."""

    url: str = ""
    answers: list[Any] = field(default_factory=lambda: [said(NOTHING)])
    requests: list[Request] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Say nothing until the test is over."""
        self.ended.wait(60)

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Begin an answer and never end it, a byte at a time."""
        handler.send_response(200)
        handler.end_headers()
        while not self.ended.wait(0.05):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return


def handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.asked = Request(self.path, dict(self.headers), json.loads(body))
            server.requests.append(self.asked)
            answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            server.arrived.set()
            if callable(answer):
                answer(self)
                return
            status, data, headers = answer if isinstance(answer, tuple) else (200, answer, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def running(**options: Any) -> Iterator[Server]:
    server = Server(**options)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_of(server)) as http:
        http.daemon_threads = True
        http.handle_error = lambda *_: None  # a client that went away is what some tests are about
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            http.shutdown()
            thread.join()


Answer = bytes | tuple[int, bytes, dict[str, str]] | Callable[[BaseHTTPRequestHandler], None]

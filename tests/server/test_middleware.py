"""Middleware without sockets: which requests reach the app, and what the others are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from shepherd.memory import Memory
from shepherd.server import middleware
from shepherd.server.middleware import (
    Aliases,
    BodyMiddleware,
    HostMiddleware,
    JsonByDefault,
    RateLimitMiddleware,
)
from shepherd.server.request_record import record_of

OURS = (b"host", b"localhost:8000")


def scope(path: str = "/v1/chat", *headers: tuple[bytes, bytes], method: str = "POST") -> dict[str, Any]:
    return {
        "type": "http", "path": path, "raw_path": path.encode(), "method": method, "headers": list(headers),
    }  # fmt: skip


class Inside:
    """The app behind a middleware: it notes what reaches it and reads the body."""

    def __init__(self, during: Callable[[], Any] | None = None) -> None:
        self.reached: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.during = during

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope)
        if scope["type"] == "http":
            message = await receive()
            self.bodies.append(message.get("body", b""))
            if self.during is not None:
                await self.during()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})


def served(app: Any, asked: dict[str, Any], *pieces: bytes, gone: bool = False) -> list[dict[str, Any]]:
    """Send a request whose body comes in pieces; return the messages of the answer."""
    return asyncio.run(answered(app, asked, *pieces, gone=gone))


async def answered(app: Any, asked: dict[str, Any], *pieces: bytes, gone: bool = False) -> list[Any]:
    sent: list[dict[str, Any]] = []
    waiting = [
        {"type": "http.request", "body": piece, "more_body": i + 1 < len(pieces) or gone}
        for i, piece in enumerate(pieces)
    ]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop(0)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(asked, receive, send)
    return sent


def status(sent: list[dict[str, Any]]) -> tuple[int, str]:
    """Status and code of an answer."""
    body = sent[1]["body"]
    return sent[0]["status"], json.loads(body)["error"]["code"] if body else ""


# ---- hosts and origins


def host_middleware(*origins: str) -> tuple[HostMiddleware, Inside]:
    inside = Inside()
    return HostMiddleware(inside, hosts=frozenset({"chat.example"}), origins=frozenset(origins)), inside


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ([OURS], (200, "")),
        ([(b"host", b"CHAT.example:443")], (200, "")),
        ([], (421, "host_not_allowed")),
        ([OURS, OURS], (421, "host_not_allowed")),
        ([(b"host", b"evil.example")], (421, "host_not_allowed")),
        ([OURS, *[(b"x", b"y")] * 127], (200, "")),
        ([OURS, *[(b"x", b"y")] * 128], (431, "headers_too_large")),
        ([OURS, (b"origin", b"http://localhost:8000")], (200, "")),
        ([OURS, (b"origin", b"HTTPS://LOCALHOST:8000")], (200, "")),
        ([OURS, (b"origin", b"http://localhost:9000")], (403, "origin_not_allowed")),
        ([OURS, (b"origin", b"ftp://localhost:8000")], (403, "origin_not_allowed")),
        ([OURS, (b"origin", b"http://[::1")], (403, "origin_not_allowed")),
        ([OURS, (b"origin", b"null")], (403, "origin_not_allowed")),
        ([OURS, (b"origin", b"https://PAGE.example")], (200, "")),
        ([OURS, (b"origin", b"https://page.example"), (b"origin", b"null")], (403, "origin_not_allowed")),
        ([OURS, (b"sec-fetch-site", b"cross-site")], (403, "origin_not_allowed")),
        ([OURS, (b"sec-fetch-site", b"same-site")], (403, "origin_not_allowed")),
        ([OURS, (b"sec-fetch-site", b"same-origin")], (200, "")),
        ([OURS, (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate")], (200, "")),
        ([OURS, (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"cors")],
         (403, "origin_not_allowed")),
        ([OURS, (b"origin", b"https://page.example"), (b"sec-fetch-site", b"cross-site")], (200, "")),
    ],
)  # fmt: skip
def test_a_request_has_one_host_of_ours_and_no_foreign_page(headers, answer):
    guard, inside = host_middleware("https://page.example")

    assert status(served(guard, scope("/v1/chat", *headers), b"")) == answer
    assert len(inside.reached) == (answer[0] == 200)


def test_pages_of_this_machine_are_allowed_where_it_is_named():
    for origins, code in ((("localhost",), 200), ((), 403)):
        for page in (b"http://localhost:3000", b"https://127.0.0.1", b"http://[::1]:5"):
            guard, _ = host_middleware(*origins)
            assert status(served(guard, scope("/", OURS, (b"origin", page)), b""))[0] == code
    guard, _ = host_middleware("localhost")
    assert (
        status(served(guard, scope("/", OURS, (b"origin", b"http://localhost.evil.example")), b""))[0] == 403
    )


def test_a_socket_of_another_host_is_closed_and_other_scopes_pass():
    guard, inside = host_middleware()
    refused = served(guard, {**scope("/"), "type": "websocket"})
    passed = served(guard, {"type": "lifespan"})

    assert refused == [{"type": "websocket.close", "code": 1008}]
    assert passed == []
    assert [one["type"] for one in inside.reached] == ["lifespan"]


# ---- paths and types


def test_a_route_without_v1_is_served_as_with_it():
    inside = Inside()
    for path in ("/models", "/v1/health", "/v1/facts", "/responses/resp_1/cancel", "/messages/count_tokens"):
        served(Aliases(inside), scope(path), b"")

    paths = ["/v1/models", "/health", "/v1/facts", "/v1/responses/resp_1/cancel", "/v1/messages/count_tokens"]
    assert [one["path"] for one in inside.reached] == paths
    assert [one["raw_path"] for one in inside.reached] == [path.encode() for path in paths]


@pytest.mark.parametrize(
    ("method", "types", "found"),
    [
        ("POST", [], [b"application/json"]),
        ("PUT", [], [b"application/json"]),
        ("PATCH", [b"application/x-www-form-urlencoded; charset=utf-8"], [b"application/json"]),
        ("POST", [b"Application/X-WWW-Form-Urlencoded"], [b"application/json"]),
        ("POST", [b"text/plain"], [b"text/plain"]),
        ("POST", [b"text/plain", b"application/x-www-form-urlencoded"],
         [b"text/plain", b"application/x-www-form-urlencoded"]),
        ("GET", [], []),
        ("DELETE", [], []),
    ],
)  # fmt: skip
def test_a_body_of_no_type_is_json(method, types, found):
    inside = Inside()
    served(
        JsonByDefault(inside),
        scope("/", OURS, *((b"content-type", value) for value in types), method=method),
        b"",
    )

    headers = inside.reached[0]["headers"]
    assert [value for name, value in headers if name == b"content-type"] == found
    assert OURS in headers


# ---- bodies


def body_middleware(max_bytes: int = 10, timeout_s: float = 5.0) -> tuple[BodyMiddleware, Inside]:
    inside = Inside()
    return BodyMiddleware(inside, max_bytes=max_bytes, timeout_s=timeout_s), inside


@pytest.mark.parametrize(
    ("length", "pieces", "answer"),
    [
        (b"10", [b'"12345678"'], (200, "")),
        (b"11", [b'"123456789"'], (413, "request_too_large")),
        (b"10", [b'"1234', b'5678"'], (200, "")),
        (None, [b'"1234', b'56789"'], (413, "request_too_large")),
        (b"4", [b"[[1]"], (200, "")),
    ],
)
def test_a_body_is_read_whole_up_to_its_limit(length, pieces, answer):
    guard, inside = body_middleware()
    name = (b"transfer-encoding", b"chunked") if length is None else (b"content-length", length)

    sent = served(guard, scope("/v1/chat", name), *pieces)

    assert status(sent) == answer
    assert inside.bodies == ([b"".join(pieces)] if answer[0] == 200 else [])
    if answer[0] == 413:
        assert (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"0")]])
def test_a_request_without_a_body_is_not_read(headers):
    guard, inside = body_middleware(timeout_s=0)

    assert status(served(guard, scope("/", *headers), b"abc"))[0] == 200
    assert inside.bodies == [b"abc"]  # read by the app itself


def test_a_client_that_leaves_within_its_body_gets_no_answer():
    guard, inside = body_middleware()

    assert served(guard, scope("/", (b"content-length", b"9")), b"ab", gone=True) == []
    assert inside.reached == []


def test_a_body_that_does_not_come_is_given_up_and_the_connection_closed():
    guard, inside = body_middleware(timeout_s=0.01)
    sent: list[dict[str, Any]] = []

    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(guard(scope("/", (b"content-length", b"9")), never, send))

    assert status(sent) == (408, "request_timeout")
    assert "no whole request within 0.01 s" in json.loads(sent[1]["body"])["error"]["message"]
    assert (b"connection", b"close") in sent[0]["headers"]
    assert inside.reached == []


def test_what_follows_a_body_is_the_connection_itself():
    async def twice(scope: Any, receive: Any, send: Any) -> None:
        found.extend([await receive(), await receive()])

    found: list[dict[str, Any]] = []
    guard = BodyMiddleware(twice, max_bytes=10, timeout_s=5)
    served(guard, scope("/", (b"content-length", b"2")), b"{}")

    assert found == [
        {"type": "http.request", "body": b"{}", "more_body": False},
        {"type": "http.disconnect"},
    ]


def test_a_body_with_too_much_structure_is_refused_but_for_files():
    deep = b"[" * 5000 + b"]" * 5000
    for path, code in (("/v1/chat/completions", 400), (sorted(middleware.UPLOADS)[0], 200)):
        guard, _ = body_middleware(max_bytes=1 << 20)
        sent = served(guard, scope(path, (b"content-length", b"10000")), deep)
        assert (sent[0]["status"] == 200) is (code == 200)


def test_large_bodies_come_at_a_limited_rate_together(monkeypatch):
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def upload() -> None:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 100.0)
        guard, _ = body_middleware(max_bytes=64 << 20)
        asked = scope(sorted(middleware.UPLOADS)[0], (b"transfer-encoding", b"chunked"))
        for _ in range(2):
            await answered(guard, dict(asked), bytes(1 << 20), bytes(8 << 20), bytes(4 << 20))

    asyncio.run(upload())

    # The first megabyte is free; the rest comes at 64 MiB/s, and the second body waits for the first.
    assert waits == pytest.approx([0.125, 0.1875, 0.3125, 0.375])


# ---- numbers of requests


def test_requests_under_way_are_counted_and_forgotten(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        keys = [memory.keys.find(memory.keys.create(name, ["chat"])[0]) for name in ("anna", "ben")]
    found: list[tuple[int, str]] = []
    inside = Inside()
    guard = RateLimitMiddleware(inside, limit=3, limit_per_key=2)

    def asked(path: str, key: Any) -> dict[str, Any]:
        made = scope(path)
        record_of(made).key = key
        return made

    async def nested() -> None:
        order = [("/a", keys[0]), ("/a", keys[0]), ("/a", keys[1]), ("/a", None), ("/health", None)]
        if len(inside.reached) < 3:
            path, key = order[len(inside.reached)]
            assert (await answered(guard, asked(path, key), b""))[0]["status"] == 200
        elif len(inside.reached) == 3:
            for path, key in ((order[3]), ("/a", keys[0]), (order[4])):
                sent = await answered(guard, asked(path, key), b"")
                found.append(status(sent))
                if found[-1][0] != 200:
                    assert (b"retry-after", b"1") in sent[0]["headers"]

    inside.during = nested
    asyncio.run(nested())

    assert found == [(503, "overloaded"), (429, "too_many_requests"), (200, "")]
    inside.during = None
    assert status(served(guard, asked("/a", keys[0]), b""))[0] == 200
    assert (guard._n, guard._of_key) == (0, {})

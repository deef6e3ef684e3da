"""The record of a request that is being served, for middleware and handlers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from shepherd.server.errors import Problem, body_of

if TYPE_CHECKING:
    from shepherd.memory import ApiKey
    from shepherd.server.state import InjectionTime

__all__ = [
    "App",
    "Middleware",
    "Receive",
    "RequestRecord",
    "Scope",
    "Send",
    "current",
    "header",
    "record_of",
    "refuse",
]

# ASGI's types, without importing a framework.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_SLOT = "shepherd.request"

# Record of the request that this task serves.
current: ContextVar[RequestRecord | None] = ContextVar("request", default=None)


@dataclass(slots=True)
class RequestRecord:
    """A request, without any text of the user. `key` is the caller's, None if none is needed."""

    method: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    began: float = field(default_factory=time.perf_counter)
    key: ApiKey | None = None
    # Status of the answer, and when its first byte was sent (milliseconds since `began`).
    status: int = 0
    first_ms: float = 0.0
    is_complete: bool = False
    # Cost of the answers made for this request.
    tokens: dict[str, int] = field(default_factory=dict)
    injection: InjectionTime | None = None

    @property
    def ms(self) -> float:
        """Milliseconds since the request began."""
        return (time.perf_counter() - self.began) * 1000


def record_of(scope: Scope) -> RequestRecord:
    """Return the record of a request; make it if there is none."""
    record = scope.get(_SLOT)
    if not isinstance(record, RequestRecord):
        record = scope[_SLOT] = RequestRecord(scope.get("method", ""))
    return record


def header(scope: Scope, name: bytes) -> list[str]:
    """Return all values of a header, in order."""
    pairs: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1") for key, value in pairs if key == name]


async def refuse(scope: Scope, send: Send, problem: Problem, *, close: bool = False) -> None:
    """Answer with an error, in the shape of the API that the path belongs to.

    `close` ends the connection, so that the rest of the request need not be read.
    """
    body = body_of(problem, scope["path"])
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers),
        *([(b"connection", b"close")] if close else []),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class Middleware:
    """Base of middleware: subclasses override `_serve`, which gets HTTP requests alone."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or pass another kind of connection on."""
        await (self._serve if scope["type"] == "http" else self._app)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError  # abstract: each middleware serves its own way

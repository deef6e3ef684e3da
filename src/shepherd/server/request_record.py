"""What is known of a request that is being served, for those before, in and after its handler."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shepherd.memory import ApiKey
from shepherd.server.errors import Problem, body_of
from shepherd.server.state import InjectionTime

__all__ = ["App", "Receive", "RequestRecord", "Scope", "Send", "current", "header", "record_of", "refuse"]

# ASGI's own, by names that need no framework.
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_SLOT = "shepherd.request"

# The request that this task serves, if any.
current: ContextVar[RequestRecord | None] = ContextVar("request", default=None)


@dataclass(slots=True)
class RequestRecord:
    """One request. `key` is the caller's, None where none is needed; nothing here is the user's text."""

    method: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    began: float = field(default_factory=time.perf_counter)
    key: ApiKey | None = None
    # What the answer's bytes said, and when (milliseconds since `began`).
    status: int = 0
    first_ms: float = 0.0
    is_complete: bool = False
    # What the answers made for this request cost.
    tokens: dict[str, int] = field(default_factory=dict)
    injection: InjectionTime | None = None

    @property
    def ms(self) -> float:
        """Milliseconds since it began."""
        return (time.perf_counter() - self.began) * 1000


def record_of(scope: Scope) -> RequestRecord:
    """The record of this request; made where nobody has yet."""
    record = scope.get(_SLOT)
    if not isinstance(record, RequestRecord):
        record = scope[_SLOT] = RequestRecord(scope.get("method", ""))
    return record


def header(scope: Scope, name: bytes) -> list[str]:
    """All values of a header, in order."""
    pairs: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1") for key, value in pairs if key == name]


async def refuse(scope: Scope, send: Send, problem: Problem, *, close: bool = False) -> None:
    """Answer with an error, in the shape of the API that the path belongs to.

    With `close` the connection ends with it: what is left of the request is not wanted.
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

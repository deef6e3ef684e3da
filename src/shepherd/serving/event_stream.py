"""Server-sent events: an answer that goes out while it is made, and ends when nobody listens any more."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from json.encoder import encode_basestring_ascii
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shepherd.serving.answering import ended_with_its_client

__all__ = ["EventStream", "LastEvents", "dumps", "event", "quoted"]

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


_encoder = json.JSONEncoder(separators=(",", ":"))


def dumps(value: Any) -> str:
    """JSON in as few bytes as there need be; half a surrogate pair stays an escape."""
    return _encoder.encode(value)


def quoted(text: str) -> str:
    """A text as JSON, without a look at what else it could be."""
    return encode_basestring_ascii(text)


def event(value: Any, name: str = "") -> bytes:
    """One event as it is sent."""
    data = value if isinstance(value, str) else dumps(value)
    return f"event: {name}\ndata: {data}\n\n".encode() if name else f"data: {data}\n\n".encode()


class LastEvents(bytes):
    """Events that nothing follows: they go out with the end of the response."""


class EventStream(Response):
    """Sends `events` as they come. `cancel` is called when the client goes away; the generator goes on to its
    end then, and nothing of it is sent. It may name its last ones.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], cancel: Callable[[], None]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        is_begun = False
        async with ended_with_its_client(receive, self._cancel), aclosing(self._events) as events:
            async for chunk in events:
                if not is_begun:
                    await send(start)
                    is_begun = True
                is_last = isinstance(chunk, LastEvents)
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
                if is_last:
                    return
        if not is_begun:
            await send(start)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

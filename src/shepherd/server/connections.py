"""Limits of connections before any key is checked: size and time of headers, and their number.

The headers of a request must be complete within HEADER_TIMEOUT_S and have at most MOST_HEADER_BYTES. If there
are too many connections, a new one replaces the one that has waited longest for a request.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from shepherd.server.errors import Problem, body_of

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as HttpProtocol
except ImportError:  # not on CPython; h11 limits the bytes of headers itself
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol  # type: ignore[assignment]

__all__ = ["HEADER_TIMEOUT_S", "MOST_HEADER_BYTES", "LimitedProtocol", "limited", "most_connections"]

HEADER_TIMEOUT_S = 10.0
MOST_HEADER_BYTES = 64 << 10
# Headers are parsed in slices, so that no more than the limit is buffered.
_SLICE = 16 << 10
# A chunked body may have so many bytes for each byte of its content: "1\r\nx\r\n" has six.
_CHUNK_OVERHEAD = 8
_MOST_CONNECTIONS = 8192
_TOO_LARGE = Problem(
    431, "headers_too_large", f"the request line and headers have more than {MOST_HEADER_BYTES >> 10} KB"
)
_TOO_SLOW = Problem(408, "request_timeout", f"no complete headers within {HEADER_TIMEOUT_S:g} s")
_REASONS = {408: "Request Timeout", 431: "Request Header Fields Too Large"}


def most_connections() -> int:
    """Return the limit of connections: three quarters of the files that the process may open."""
    try:
        import resource
    except ImportError:  # Windows
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    return _MOST_CONNECTIONS if unlimited else max(16, min(_MOST_CONNECTIONS, soft * 3 // 4))


def limited(*, connections: int, header_timeout_s: float = HEADER_TIMEOUT_S) -> type[LimitedProtocol]:
    """Return the protocol class of one server."""

    class Limited(LimitedProtocol):
        limit = connections
        timeout_s = header_timeout_s
        waiting: ClassVar[dict[LimitedProtocol, None]] = {}

    return Limited


class LimitedProtocol(HttpProtocol):
    """uvicorn's connection with limits. `waiting` has the connections without a request, oldest first."""

    limit: ClassVar[int]
    timeout_s: ClassVar[float]
    waiting: ClassVar[dict[LimitedProtocol, None]]

    _timer: asyncio.TimerHandle | None = None
    # h11 has no such callbacks, and limits of its own.
    _is_counted = hasattr(HttpProtocol, "on_headers_complete")
    _in_headers = True
    # Bytes of the present headers, then of the rest of the request; and of these, content.
    _n_bytes = 0
    _n_content = 0

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, instead of the one that has waited longest if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.limit:
            oldest = next(iter(self.waiting))
            oldest._stop_waiting()
            oldest.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, within the limits."""
        if self._timer is None and self._in_headers and not self._has_request:
            self._start_timer()
        while self._is_counted and self._in_headers and data and not self.transport.is_closing():
            piece, data = data[:_SLICE], data[_SLICE:]
            self._n_bytes += len(piece)
            super().data_received(piece)
            if self._in_headers and self._n_bytes > MOST_HEADER_BYTES:
                self._refuse(_TOO_LARGE)
        if not data or self.transport.is_closing():
            return
        self._n_bytes += len(data)
        super().data_received(data)
        if not self._is_counted:
            if self._has_request:
                self._stop_waiting()
        elif self._n_bytes > MOST_HEADER_BYTES + _CHUNK_OVERHEAD * self._n_content:
            # Trailers and the extensions of chunks are as long as a client likes.
            self._refuse(_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._in_headers = False
        self._n_bytes = self._n_content = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add to the body."""
        self._n_content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; the next one may follow."""
        self._in_headers = True
        self._n_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, and not long for the rest of one that was refused."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._has_request:
            self._wait(has_timer=not self._in_headers or self._n_bytes > 0)

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, *, has_timer: bool = True) -> None:
        self.waiting[self] = None
        if has_timer:
            self._start_timer()

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.timeout_s, self._expire)

    def _expire(self) -> None:
        if self._n_bytes and self._in_headers:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer with an error and close: the rest of the request is not read."""
        body = body_of(problem, "/")
        head = (
            f"HTTP/1.1 {problem.status} {_REASONS[problem.status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if not self._has_request:
            self.transport.write(head.encode() + body)
        self.transport.close()

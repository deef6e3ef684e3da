"""What no request gets past: which name it asks for, which page it comes from, how large, slow and many.

Plain ASGI, below the framework. Addresses are safe from DNS rebinding, in which a page's own name is made to
mean this machine: what the browser then sends as Host is that name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import sys
from collections import Counter
from urllib.parse import urlsplit

from shepherd.serving.errors import Problem
from shepherd.serving.requests import App, Receive, Scope, Send, header, record_of, refuse

__all__ = ["BodyGuard", "CrowdGuard", "HostGuard", "JsonByDefault", "host_of", "names_in"]

# [address]:port, or a name or address without brackets.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/@\s]+))(?::[0-9]{1,5})?")
_WAIT = (("Retry-After", "1"),)
# They are open for long, or must answer when nothing else does.
_UNCOUNTED = frozenset({"/health", "/metrics", "/updates"})
# What curl says of all that it sends.
_NO_TYPES = frozenset({"application/x-www-form-urlencoded"})


class HostGuard:
    """Refuses names that are not this server's, and pages that are not its own or named in the settings."""

    def __init__(self, app: App, *, hosts: frozenset[str], origins: frozenset[str]) -> None:
        self._app = app
        own = socket.gethostname().lower()
        self._hosts = hosts | {"localhost", own, own.partition(".")[0]}
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        problem = self._problem(scope) if scope["type"] in ("http", "websocket") else None
        if problem is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refuse(scope, send, problem)

    def _problem(self, scope: Scope) -> Problem | None:
        hosts = header(scope, b"host")
        if len(hosts) != 1 or not self._is_ours(host_of(hosts[0])):
            return Problem(
                421,
                "host_not_allowed",
                "the request asks for a name that is not this server's (the setting server_hosts adds names)",
            )
        origins = header(scope, b"origin")
        if not all(self._may_call(origin, hosts[0]) for origin in origins):
            return Problem(
                403, "origin_not_allowed", "this page may not call the server (the setting server_origins)"
            )
        if not origins and _is_foreign_page(scope):
            return Problem(403, "origin_not_allowed", "the request comes from another site's page")
        return None

    def _is_ours(self, host: str) -> bool:
        if host in self._hosts:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def _may_call(self, origin: str, host: str) -> bool:
        if origin.lower() in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


class JsonByDefault:
    """Takes a body for JSON whose sender has not said what it is, as OpenAI's servers do: `curl -d` alone.

    Behind HostGuard: a browser sends such a body for any page, without asking first.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; its headers say JSON from here on."""
        if scope["type"] == "http" and scope["method"] in ("POST", "PUT", "PATCH"):
            said = {value.partition(";")[0].strip().lower() for value in header(scope, b"content-type")}
            if said <= _NO_TYPES:
                others = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
                scope["headers"] = [*others, (b"content-type", b"application/json")]
        await self._app(scope, receive, send)


class BodyGuard:
    """Reads the whole body before the handler begins: not more than so much, not slower than so long."""

    def __init__(self, app: App, *, most_bytes: int, timeout_s: float) -> None:
        self._app, self._most, self._timeout_s = app, most_bytes, timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with its body, or refuse it."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        declared = header(scope, b"content-length")
        if declared and int(declared[0]) > self._most:  # the server has checked that it is a number
            await refuse(scope, send, self._too_large(), close=True)
            return
        try:
            body = await self._read_in_time(receive)
        except TimeoutError:
            problem = Problem(408, "request_timeout", f"no whole request within {self._timeout_s:g} s")
            await refuse(scope, send, problem, close=True)
            return
        if body is None:
            return
        if len(body) > self._most:
            await refuse(scope, send, self._too_large(), close=True)
            return
        await self._app(scope, _replayed(bytes(body), receive), send)

    async def _read_in_time(self, receive: Receive) -> bytearray | None:
        # anyio's fail_after takes 0.1 ms, and nearly all bodies are there already.
        task = asyncio.current_task()
        assert task is not None
        is_late = False

        def expire() -> None:
            nonlocal is_late
            is_late = True
            task.cancel()

        timer = asyncio.get_running_loop().call_later(self._timeout_s, expire)
        try:
            return await self._read(receive)
        except asyncio.CancelledError:
            if not is_late:
                raise
            if sys.version_info >= (3, 11):
                task.uncancel()
            raise TimeoutError from None
        finally:
            timer.cancel()

    async def _read(self, receive: Receive) -> bytearray | None:
        """The body, or the beginning of one that is too large; None when the client went away."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._most or not message.get("more_body", False):
                return body

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "request_too_large",
            f"the request has more than {self._most >> 20} MB (the setting server_max_body_mb)",
        )


class CrowdGuard:
    """Lets so many requests in at once, and so many of one key; who comes then is told when to try again."""

    def __init__(self, app: App, *, most: int, most_per_key: int) -> None:
        self._app, self._most, self._most_per_key = app, most, most_per_key
        self._of_key: Counter[str] = Counter()
        self._n = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in _UNCOUNTED:
            await self._app(scope, receive, send)
            return
        key = record_of(scope).key
        problem = self._problem("" if key is None else key.id)
        if problem is not None:
            await refuse(scope, send, problem)
            return
        self._n += 1
        if key is not None:
            self._of_key[key.id] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._n -= 1
            if key is not None:
                self._of_key[key.id] -= 1
                self._of_key += Counter()  # keys that have none are not kept

    def _problem(self, key_id: str) -> Problem | None:
        if key_id and self._of_key[key_id] >= self._most_per_key:
            message = f"this API key has {self._most_per_key} requests under way"
            return Problem(429, "too_many_requests", message, headers=_WAIT)
        if self._n >= self._most:
            return Problem(
                503, "overloaded", f"the server has {self._most} requests under way", headers=_WAIT
            )
        return None


def host_of(value: str) -> str:
    """The name or address in a Host header, without its port and brackets; "" for what is none."""
    match = _HOST.fullmatch(value.strip().lower())
    return "" if match is None else match[1] or match[2]


def names_in(setting: str) -> frozenset[str]:
    """The names of a setting that lists them with commas."""
    return frozenset(name.strip().rstrip("/").lower() for name in setting.split(",") if name.strip())


def _has_body(scope: Scope) -> bool:
    return bool(header(scope, b"transfer-encoding")) or header(scope, b"content-length") not in ([], ["0"])


def _is_foreign_page(scope: Scope) -> bool:
    """Whether a browser says that another site's page asks, and not a person who followed a link."""
    site, mode = header(scope, b"sec-fetch-site"), header(scope, b"sec-fetch-mode")
    return bool(site) and site[0] in ("cross-site", "same-site") and mode != ["navigate"]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` that gives the body at once, and then what really comes: the client's going away."""
    waiting = [body]

    async def next_message() -> dict[str, object]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return dict(await receive())

    return next_message

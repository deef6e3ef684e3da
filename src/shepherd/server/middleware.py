"""Middleware of an app: host and origin, keys, sizes, and numbers of requests."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from shepherd.errors import StoreError, UsageError
from shepherd.memory.api_keys import PREFIX
from shepherd.server import monitoring, page
from shepherd.server.description import ALIASED_BELOW, ALIASES
from shepherd.server.errors import Denied, Problem, problem_of
from shepherd.server.identity import CHAT, MEMORY, METRICS, MODELS
from shepherd.server.knowledge_resources import UPLOADS
from shepherd.server.limits import problem_of_json
from shepherd.server.logs import Observer
from shepherd.server.request_record import App, Middleware, Receive, Scope, Send, header, record_of, refuse
from shepherd.wording import counted

if TYPE_CHECKING:
    from fastapi import FastAPI

    from shepherd.config import Config
    from shepherd.memory import ApiKey, ApiKeys
    from shepherd.server.state import AppState

__all__ = [
    "OPEN_PATHS",
    "UNCOUNTED",
    "BodyMiddleware",
    "HostMiddleware",
    "JsonByDefault",
    "KeyMiddleware",
    "Permit",
    "RateLimitMiddleware",
    "credential_of",
    "host_of",
    "hosts_of",
    "install",
    "is_loopback",
    "names_in",
    "require_keys_for",
    "scope_of",
]


_T = TypeVar("_T")
# What a body has beyond this is read at a limited rate, so that uploads leave the event loop to others.
_UNPACED_BYTES = 1 << 20
_BYTES_PER_S = 64 << 20
# [address]:port, or a name or address without brackets.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/@\s]+))(?::[0-9]{1,5})?")
# Stands for pages of all servers on this machine, whatever their ports.
_THIS_MACHINE = "localhost"
_PAGES_HERE = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
# More than any client or proxy sends.
_MOST_HEADERS = 128
_WAIT = (("Retry-After", "1"),)
# Open for long, or needed when the server is overloaded.
UNCOUNTED = frozenset({"/health", "/metrics", "/updates"})
# curl's default.
_NO_TYPES = frozenset({"application/x-www-form-urlencoded"})


class HostMiddleware:
    """Refuses names of other hosts, and pages of origins that are not allowed."""

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
        if len(scope["headers"]) > _MOST_HEADERS:
            return Problem(431, "headers_too_large", f"the request has more than {_MOST_HEADERS} headers")
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
        return host in self._hosts or _address(host) is not None

    def _may_call(self, origin: str, host: str) -> bool:
        if origin.lower() in self._origins:
            return True
        if _THIS_MACHINE in self._origins and _PAGES_HERE.fullmatch(origin.lower()):
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


class Aliases(Middleware):
    """Serves some routes also without `/v1`, as llama.cpp's server does, and /v1/health."""

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = ALIASES.get(scope["path"])
        if path is not None:
            scope["path"], scope["raw_path"] = path, path.encode()
        elif scope["path"].startswith(ALIASED_BELOW):
            scope["path"], scope["raw_path"] = f"/v1{scope['path']}", b"/v1" + scope["raw_path"]
        await self._app(scope, receive, send)


class JsonByDefault(Middleware):
    """Treats a body without a content type as JSON, as OpenAI's servers do: `curl -d` is enough.

    Must be behind HostMiddleware: browsers send such bodies for any page, without a preflight request.
    """

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("POST", "PUT", "PATCH"):
            said = {value.partition(";")[0].strip().lower() for value in header(scope, b"content-type")}
            if said <= _NO_TYPES:
                others = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
                scope["headers"] = [*others, (b"content-type", b"application/json")]
        await self._app(scope, receive, send)


class BodyMiddleware(Middleware):
    """Reads the whole body before the handler begins, within limits of size, time and structure."""

    def __init__(self, app: App, *, max_bytes: int, timeout_s: float) -> None:
        super().__init__(app)
        self._max_bytes, self._timeout_s = max_bytes, timeout_s
        self._paced_until = 0.0

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _has_body(scope):
            await self._app(scope, receive, send)
            return
        declared = header(scope, b"content-length")
        if declared and int(declared[0]) > self._max_bytes:  # uvicorn has checked that it is a number
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
        if len(body) > self._max_bytes:
            await refuse(scope, send, self._too_large(), close=True)
            return
        whole = bytes(body)
        # A file has no structure that is parsed at once.
        found = None if scope["path"] in UPLOADS else problem_of_json(whole)
        if found is not None:
            await refuse(scope, send, found)
            return
        await self._app(scope, _replayed(whole, receive), send)

    async def _read_in_time(self, receive: Receive) -> bytearray | None:
        # anyio's fail_after takes 0.1 ms, and nearly all bodies have arrived already.
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
        """Return the body, or the beginning of one that is too large; None if the client disconnects."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            body += piece
            if len(body) > _UNPACED_BYTES:
                await self._pace(len(piece))
            if len(body) > self._max_bytes or not message.get("more_body", False):
                return body

    async def _pace(self, n_bytes: int) -> None:
        """Wait until all large bodies together have come no faster than _BYTES_PER_S."""
        now = asyncio.get_running_loop().time()
        self._paced_until = max(self._paced_until, now) + n_bytes / _BYTES_PER_S
        await asyncio.sleep(self._paced_until - now)

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "request_too_large",
            f"the request has more than {self._max_bytes >> 20} MB (the setting server_max_body_mb)",
        )


class RateLimitMiddleware(Middleware):
    """Limits concurrent requests, of all and of one key; more are refused with Retry-After."""

    def __init__(self, app: App, *, limit: int, limit_per_key: int) -> None:
        super().__init__(app)
        self._limit, self._limit_per_key = limit, limit_per_key
        self._of_key: Counter[str] = Counter()
        self._n = 0

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in UNCOUNTED:
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
                self._of_key += Counter()  # drop keys without requests

    def _problem(self, key_id: str) -> Problem | None:
        if key_id and self._of_key[key_id] >= self._limit_per_key:
            message = f"this API key has {counted(self._limit_per_key, 'request')} under way"
            return Problem(429, "too_many_requests", message, headers=_WAIT)
        if self._n >= self._limit:
            return Problem(
                503,
                "overloaded",
                f"the server has {counted(self._limit, 'request')} under way",
                headers=_WAIT,
            )
        return None


def host_of(value: str) -> str:
    """Return the name or address in a Host header, without port and brackets; "" if it is invalid."""
    match = _HOST.fullmatch(value.strip().lower())
    return "" if match is None else match[1] or match[2]


def hosts_of(config: Config) -> list[str]:
    """Return the addresses that a server listens on."""
    hosts = [host.strip().strip("[]") for host in config.server_host.split(",")]
    return [host for host in hosts if host] or ["127.0.0.1"]


def names_in(setting: str) -> frozenset[str]:
    """Return the names of a comma-separated setting."""
    return frozenset(name.strip().rstrip("/").lower() for name in setting.split(",") if name.strip())


def _has_body(scope: Scope) -> bool:
    return bool(header(scope, b"transfer-encoding")) or header(scope, b"content-length") not in ([], ["0"])


def _is_foreign_page(scope: Scope) -> bool:
    """Return True if a browser says that another site's page sent the request, and not a followed link."""
    site, mode = header(scope, b"sec-fetch-site"), header(scope, b"sec-fetch-mode")
    return bool(site) and site[0] in ("cross-site", "same-site") and mode != ["navigate"]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, and then the real messages: the disconnect."""
    waiting = [body]

    async def next_message() -> dict[str, object]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return dict(await receive())

    return next_message


# These answers are the same for everybody; the page has a field for the key.
OPEN_PATHS = frozenset({"/health", "/openapi.json", "/docs", *page.PATHS})
_MEMORY_PATHS = (
    "/v1/memory",
    "/v1/conversations",
    "/v1/facts",
    "/v1/learned",
    "/v1/extraction",
    "/v1/trace",
    "/v1/knowledge",
    "/v1/context",
)
_BEARER = "bearer "
# Concurrent lookups of keys. They have a limiter of their own: the threads of handlers may all be busy.
_LOOKUPS = 8
_PERMIT_S = 1.0


class KeyMiddleware(Middleware):
    """Requires a valid key of the right scope, unless the server has no keys and needs none.

    Each request reads the table, so that a revoked key is refused from the next request on, in every process.
    """

    def __init__(self, app: App, state: AppState) -> None:
        super().__init__(app)
        self._state = state
        self._lookups = anyio.CapacityLimiter(_LOOKUPS)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            credential = credential_of(scope)
            key = await _lookup(
                self._state.keys,
                lambda: _admit(self._state.keys, credential, self._state.needs_key),
                self._lookups,
            )
            if key is not None:
                _require_scope(key, scope["path"])
        except (Denied, StoreError) as error:
            await refuse(scope, send, problem_of(error))
            return
        record_of(scope).key = key
        await self._app(scope, receive, send)


class Permit:
    """Checks for answers without an end that their key is still valid."""

    def __init__(self, state: AppState, key: ApiKey | None) -> None:
        self._state, self._key = state, key
        self._checked_at = time.monotonic()

    async def holds(self) -> bool | None:
        """Return False within a second after the key was revoked, or after the first key was made for none.

        None while the table cannot be read.
        """
        keys = self._state.keys
        if keys is None or time.monotonic() - self._checked_at < _PERMIT_S:
            return True
        asked_at = time.monotonic()
        found = await _lookup(keys, lambda: self._read(keys))
        if found is not None:
            self._checked_at = asked_at
        return found

    def _read(self, keys: ApiKeys) -> bool | None:
        try:
            return not keys.are_any() if self._key is None else keys.is_good(self._key.id)
        except StoreError:
            return None


async def _lookup(
    keys: ApiKeys | None, work: Callable[[], _T], limiter: anyio.CapacityLimiter | None = None
) -> _T:
    """Run `work`, which reads the keys: in a file that takes 30 us, a thread 100 us and more."""
    return (
        work() if keys is None or keys.are_in_file else await anyio.to_thread.run_sync(work, limiter=limiter)
    )


def credential_of(scope: Scope) -> str:
    """Return the key of OpenAI's `Authorization: Bearer` or Anthropic's `x-api-key`, "" without one."""
    shown = {value.strip() for value in header(scope, b"x-api-key")}
    for value in header(scope, b"authorization"):
        if value[: len(_BEARER)].lower() == _BEARER:
            shown.add(value[len(_BEARER) :].strip())
    shown.discard("")
    if len(shown) > 1:
        raise _unauthorized("the request shows two different API keys")
    return shown.pop() if shown else ""


def scope_of(path: str) -> str:
    """Return the scope that a key needs for this path."""
    if path == "/metrics":
        return METRICS
    if path == "/api/pull":
        return MODELS
    is_memory = any(path == prefix or path.startswith(prefix + "/") for prefix in _MEMORY_PATHS)
    return MEMORY if is_memory else CHAT


def is_loopback(host: str) -> bool:
    """Return True if a server bound to this name or address can be reached from this machine alone."""
    address = _address(host.strip("[]"))
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def require_keys_for(host: str, keys: ApiKeys | None) -> bool:
    """Return True if a server bound there needs keys; UsageError if it would be open to others without."""
    has_keys = keys is not None and keys.are_any()
    if not all(is_loopback(one.strip()) for one in host.split(",")) and not has_keys:
        raise UsageError(
            "without an API key the server listens on 127.0.0.1 alone: everybody on the network could read"
            " the memory",
            hint="create a key with shepherd apikey create, or drop --host",
        )
    return has_keys


def _admit(keys: ApiKeys | None, credential: str, needs_key: bool) -> ApiKey | None:
    """Return the valid key, or None if none is needed. Raises Denied."""
    key = keys.find(credential) if keys is not None and credential else None
    if key is not None and not key.revoked_at:
        return key
    if key is not None:
        raise _unauthorized("this API key was revoked")
    if credential.startswith(PREFIX):  # another server's, or mistyped: the default user is not its owner
        raise _unauthorized("this API key is not known here")
    if needs_key or (keys is not None and keys.are_any()):
        raise _unauthorized(
            "this API key is not known here"
            if credential
            else "an API key is needed: Authorization: Bearer …"
        )
    return None


def _require_scope(key: ApiKey, path: str) -> None:
    wanted = scope_of(path)
    if wanted not in key.scopes:
        raise Denied(403, "insufficient_scope", f"this API key has no scope {wanted!r}")


def _unauthorized(message: str) -> Denied:
    return Denied(401, "invalid_api_key", message, headers={"WWW-Authenticate": "Bearer"})


def install(app: FastAPI, state: AppState) -> None:
    """Add all middleware to the app, and the routes /health and /metrics."""
    config = state.config
    metrics = app.state.metrics = monitoring.Metrics(state)
    state.observers.append(metrics.served)
    app.router.routes.extend(monitoring.router.routes)
    origins = names_in(config.server_origins)
    # The last one added is the outermost.
    app.add_middleware(JsonByDefault)
    app.add_middleware(
        BodyMiddleware, max_bytes=config.server_max_body_mb << 20, timeout_s=config.server_body_timeout
    )
    app.add_middleware(
        RateLimitMiddleware,
        limit=config.server_max_requests,
        limit_per_key=config.server_max_requests_per_key,
    )
    app.add_middleware(KeyMiddleware, state=state)
    if origins:
        from starlette.middleware.cors import CORSMiddleware

        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(origins),
            allow_origin_regex=_PAGES_HERE.pattern if _THIS_MACHINE in origins else None,
            allow_methods=["*"],
            allow_headers=["*"],
        )
    app.add_middleware(
        HostMiddleware, hosts=frozenset(map(host_of, names_in(config.server_hosts))), origins=origins
    )
    app.add_middleware(Observer, metrics=metrics)
    app.add_middleware(Aliases)

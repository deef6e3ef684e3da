"""The door: which key a request carries, whether it is good, and for what.

Closed by default: what is not named here as open to everybody needs a key as soon as there is one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from shepherd.errors import StoreError, UsageError
from shepherd.memory.api_keys import PREFIX
from shepherd.serving import page
from shepherd.serving.errors import Denied, Problem, problem_of
from shepherd.serving.requests import App, Receive, Scope, Send, header, record_of, refuse
from shepherd.serving.scopes import CHAT, MEMORY, METRICS

if TYPE_CHECKING:
    from shepherd.memory import ApiKey, ApiKeys
    from shepherd.serving.state import Gated

__all__ = ["KeyDoor", "Permit", "credential_of", "is_loopback", "require_keys_for", "scope_of"]

# Nothing there depends on who asks; the page has a field for the key.
_OPEN_PATHS = frozenset({"/health", *page.PATHS})
_MEMORY_PATHS = ("/v1/memory", "/v1/facts", "/v1/extraction", "/v1/trace", "/v1/knowledge")
_BEARER = "bearer "
# Looks at the table of keys at once. Threads of their own: those of handlers may all be busy with answers.
_LOOKS = 8
_PERMIT_S = 1.0


class KeyDoor:
    """Lets in who has a good key of the right scope; everybody, while there are no keys and none is needed.

    Each request looks at the table: a revoked key ends with the next one, in every process.
    """

    def __init__(self, app: App, state: Gated) -> None:
        self._app, self._state = app, state
        self._looks = anyio.CapacityLimiter(_LOOKS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            credential = credential_of(scope)
            key = await self._admitted(self._state.keys, credential)
            if key is not None:
                _require_scope(key, scope["path"])
        except (Denied, StoreError) as error:
            await refuse(scope, send, _said(error))
            return
        record_of(scope).key = key
        await self._app(scope, receive, send)

    async def _admitted(self, keys: ApiKeys | None, credential: str) -> ApiKey | None:
        if keys is None or keys.are_in_file:  # 30 us, where a thread takes 100 and more
            return _admit(keys, credential, self._state.needs_key)
        return await anyio.to_thread.run_sync(
            _admit, keys, credential, self._state.needs_key, limiter=self._looks
        )


class Permit:
    """Whether somebody who was let in may still be here; for answers that have no end."""

    def __init__(self, state: Gated, key: ApiKey | None) -> None:
        self._state, self._key = state, key
        self._checked_at = time.monotonic()

    async def holds(self) -> bool | None:
        """False within a second after the key was revoked, or the first one was made for one who has none.

        None while nobody knows: the table cannot be read.
        """
        keys = self._state.keys
        if keys is None or time.monotonic() - self._checked_at < _PERMIT_S:
            return True
        asked_at = time.monotonic()
        found = self._look(keys) if keys.are_in_file else await anyio.to_thread.run_sync(self._look, keys)
        if found is not None:
            self._checked_at = asked_at
        return found

    def _look(self, keys: ApiKeys) -> bool | None:
        try:
            return not keys.are_any() if self._key is None else keys.is_good(self._key.id)
        except StoreError:
            return None


def credential_of(scope: Scope) -> str:
    """What the request shows as its key: OpenAI's `Authorization: Bearer`, Anthropic's `x-api-key`; or ""."""
    shown = {value.strip() for value in header(scope, b"x-api-key")}
    for value in header(scope, b"authorization"):
        if value[: len(_BEARER)].lower() == _BEARER:
            shown.add(value[len(_BEARER) :].strip())
    shown.discard("")
    if len(shown) > 1:
        raise _unauthorized("the request shows two different API keys")
    return shown.pop() if shown else ""


def scope_of(path: str) -> str:
    """What a key must be good for to ask for this path."""
    if path == "/metrics":
        return METRICS
    is_memory = any(path == prefix or path.startswith(prefix + "/") for prefix in _MEMORY_PATHS)
    return MEMORY if is_memory else CHAT


def is_loopback(host: str) -> bool:
    """Whether a server bound to this name or address is reached from this machine alone."""
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_keys_for(host: str, keys: ApiKeys | None) -> bool:
    """Whether a server bound there asks for keys, and UsageError where it would be open to others without."""
    has_keys = keys is not None and keys.are_any()
    if not is_loopback(host) and not has_keys:
        raise UsageError(
            "without an API key the server listens on 127.0.0.1 alone: everybody on the network could read"
            " the memory",
            hint="shepherd apikey create makes a key; or leave out --host",
        )
    return has_keys


def _admit(keys: ApiKeys | None, credential: str, needs_key: bool) -> ApiKey | None:
    """The good key that this is; None where none is needed. Raises Denied."""
    key = keys.find(credential) if keys is not None and credential else None
    if key is not None and not key.revoked_at:
        return key
    if key is not None:
        raise _unauthorized("this API key was revoked")
    if credential.startswith(PREFIX):  # of another server, or mistyped: its owner is not who would be served
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


def _said(error: Denied | StoreError) -> Problem:
    return problem_of(error)

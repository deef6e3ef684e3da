"""Requests sent through the published client libraries, which are loaded when first needed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from shepherd.errors import ShepherdError, UsageError
from shepherd.installation import install_extra
from shepherd.providers.exchange import Event, Link
from shepherd.providers.failures import failure_of
from shepherd.providers.keys import ApiKey
from shepherd.providers.settings import ProviderSettings
from shepherd.types import Message, ReplySchema, Tool

__all__ = ["Client", "Request", "Transport", "require_client"]

_CONNECT_TIMEOUT_S = 10.0
# How httpcore's events end that have a new network stream; through a proxy they begin in another way.
_CONNECTED = ("connect_tcp.complete", "start_tls.complete")


def require_client(provider: ProviderSettings) -> None:
    """Raise UsageError, with the remedy, when the kind's client is not installed. Loads nothing."""
    if find_spec(provider.row.client) is None:
        raise UsageError(
            f"provider {provider.name} needs the package {provider.row.client}, which is not installed",
            hint=install_extra(provider.row.extra),
        )


class Client:
    """One provider's client: `class_name` of its kind's module. Thread-safe.

    Requests that follow each other share a connection, so one at a time is asked for at the server.
    """

    def __init__(self, provider: ProviderSettings, key: ApiKey, class_name: str) -> None:
        self._provider, self._key, self._class_name = provider, key, class_name
        self._opened: Any = None
        self._lock = threading.Lock()
        self._mine = threading.local()  # the link of this thread's request
        self._stream: Any = None  # of the newest connection

    def open(self, link: Link) -> Any:
        """The client; what this thread asks with it can be cut by `link`, from the connecting on.

        Takes a second at the first time: its module defines thousands of types.
        """
        self._mine.link = link
        with self._lock:
            if self._opened is None:
                require_client(self._provider)
                module = import_module(self._provider.row.client)
                timeout_s = self._provider.timeout
                self._opened = getattr(module, self._class_name)(
                    base_url=self._provider.address,
                    # Given even where there is none: else the client looks for one of its own in the
                    # environment, or insists on one. Servers without keys do not look at it.
                    api_key=self._key.value or "none",
                    max_retries=0,
                    timeout=module.Timeout(timeout_s, connect=min(_CONNECT_TIMEOUT_S, timeout_s)),
                    http_client=module.DefaultHttpxClient(event_hooks={"request": [self._watch]}),
                )
                if not self._is_of_its_maker:
                    _forget_environment(self._opened)
            return self._opened

    def close(self) -> None:
        """Let go of connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    @property
    def _is_of_its_maker(self) -> bool:
        """Return whether the server is that of the client's maker, for whom its variables are meant."""
        return self._provider.is_at_home and self._provider.kind == self._provider.row.client

    def _watch(self, request: Any) -> None:
        """Before a request is sent: its link gets the connection, which a server may leave silent."""
        link: Link = self._mine.link

        def connected(event: str, details: dict[str, Any]) -> None:
            if event.endswith(_CONNECTED):
                link.attach(details["return_value"])
                if not link.cut.is_set():
                    self._stream = details["return_value"]

        # The last connection is reused while it is open; `connected` reports a new one.
        link.attach(self._stream)
        request.extensions = {**request.extensions, "trace": connected}


@dataclass(frozen=True, slots=True)
class Request:
    """Request of one answer. `sampling` holds only the settings that the user has set.

    `must_call` is the name of the tool that must be called, or True for any tool.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    sampling: dict[str, Any]
    tools: tuple[Tool, ...] = ()
    uses_memory: bool = True
    stop: tuple[str, ...] = ()
    schema: ReplySchema | None = None
    must_call: bool | str = False


class Transport(ABC):
    """One protocol, spoken through its published client. Fields that a server rejected are not sent again."""

    _client_class: str

    def __init__(self, provider: ProviderSettings, key: ApiKey) -> None:
        self._provider, self._key = provider, key
        self._client = Client(provider, key, self._client_class)
        self._refused: set[str] = set()

    def send(self, request: Request, link: Link) -> Iterator[Event]:
        """Make one attempt, on the exchange's thread. Raises what the client raises.

        When the server rejects a field that the request can do without, the request is sent again without it.
        """
        client = self._client.open(link)
        while True:
            body = self._body(request)
            try:
                stream = self._create(client, body)
                break
            except Exception as error:
                if getattr(error, "status_code", 0) not in (400, 422) or not self._drop_refused(error, body):
                    raise
        with stream:
            yield from self._events(stream)

    def translate(self, error: Exception) -> ShepherdError:
        """Return the error that a client's exception means for the user."""
        return failure_of(error, self._provider, self._key)

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._client.close()

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]:
        """Return the fields of a request."""

    @abstractmethod
    def _create(self, client: Any, body: dict[str, Any]) -> Any:
        """Send a request; return its stream."""

    @abstractmethod
    def _events(self, stream: Any) -> Iterator[Event]:
        """Yield the events of a stream."""

    @abstractmethod
    def _drop_refused(self, error: Exception, body: dict[str, Any]) -> bool:
        """Remember the fields that the server rejected; return whether the next body differs."""


def _forget_environment(client: Any) -> None:
    """Take out what the client has found in the environment by itself: it is not for another's server."""
    for name in ("organization", "project", "auth_token"):
        if getattr(client, name, None) is not None:
            setattr(client, name, None)
    # OPENAI_CUSTOM_HEADERS, ANTHROPIC_CUSTOM_HEADERS; there is no way to ask for none of them.
    client._custom_headers = {}

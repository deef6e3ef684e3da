"""The published clients: loaded and opened when first needed, with a clear word where one is missing."""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from shepherd.errors import UsageError, pip_install
from shepherd.providers.exchange import Link
from shepherd.providers.keys import ApiKey
from shepherd.providers.settings import ProviderSettings

__all__ = ["Client", "require_client"]

_CONNECT_TIMEOUT_S = 10.0
# How httpcore's events end that have a new network stream; through a proxy they begin in another way.
_CONNECTED = ("connect_tcp.complete", "start_tls.complete")


def require_client(provider: ProviderSettings) -> None:
    """Raise UsageError, with the remedy, when the kind's client is not installed. Loads nothing."""
    if find_spec(provider.row.client) is None:
        raise UsageError(
            f"provider {provider.name} needs the package {provider.row.client}, which is not installed",
            hint=pip_install(f"'shepherd-llm[{provider.row.extra}]'"),
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
        """Whether the server is that of the client's maker, for whom its variables are meant."""
        return self._provider.is_at_home and self._provider.kind == self._provider.row.client

    def _watch(self, request: Any) -> None:
        """Before a request is sent: its link gets the connection, which a server may leave silent."""
        link: Link = self._mine.link

        def connected(event: str, details: dict[str, Any]) -> None:
            if event.endswith(_CONNECTED):
                link.attach(details["return_value"])
                if not link.cut.is_set():
                    self._stream = details["return_value"]

        # The last connection is used again where it still stands; else the new one is told of.
        link.attach(self._stream)
        request.extensions = {**request.extensions, "trace": connected}


def _forget_environment(client: Any) -> None:
    """Take out what the client has found in the environment by itself: it is not for another's server."""
    for name in ("organization", "project", "auth_token"):
        if getattr(client, name, None) is not None:
            setattr(client, name, None)
    # OPENAI_CUSTOM_HEADERS, ANTHROPIC_CUSTOM_HEADERS; there is no way to ask for none of them.
    client._custom_headers = {}

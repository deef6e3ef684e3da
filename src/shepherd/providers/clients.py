"""The published clients: loaded and opened when first needed, with a clear word where one is missing."""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from shepherd.errors import UsageError
from shepherd.providers.keys import ApiKey
from shepherd.providers.settings import ProviderSettings

__all__ = ["Client", "require_client"]

_CONNECT_TIMEOUT_S = 10.0


def require_client(provider: ProviderSettings) -> None:
    """Raise UsageError, with the remedy, when the kind's client is not installed. Loads nothing."""
    if find_spec(provider.row.client) is None:
        raise UsageError(
            f"provider {provider.name} needs the package {provider.row.client}, which is not installed",
            hint=f"pip install 'shepherd-llm[{provider.row.extra}]'",
        )


class Client:
    """One provider's client: `class_name` of its kind's module. Thread-safe."""

    def __init__(self, provider: ProviderSettings, key: ApiKey, class_name: str) -> None:
        self._provider, self._key, self._class_name = provider, key, class_name
        self._opened: Any = None
        self._lock = threading.Lock()

    def open(self) -> Any:
        """The client. Takes a second at the first time: its module defines thousands of types."""
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
                )
            return self._opened

    def close(self) -> None:
        """Let go of connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()

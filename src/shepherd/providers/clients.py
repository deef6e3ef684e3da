"""The published client libraries: loaded when first needed, with a clear word where one is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from shepherd.errors import UsageError
from shepherd.providers.settings import ProviderSettings

__all__ = ["CONNECT_TIMEOUT_S", "load_client", "require_client"]

CONNECT_TIMEOUT_S = 10.0


def require_client(provider: ProviderSettings) -> None:
    """Raise UsageError, with the remedy, when the kind's client is not installed. Loads nothing."""
    if find_spec(provider.row.client) is None:
        raise UsageError(
            f"provider {provider.name} needs the package {provider.row.client}, which is not installed",
            hint=f"pip install 'shepherd-llm[{provider.row.extra}]'",
        )


def load_client(provider: ProviderSettings) -> Any:
    """The client's module. Takes a second where it was not loaded before: they define thousands of types."""
    require_client(provider)
    return import_module(provider.row.client)

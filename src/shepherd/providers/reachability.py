"""Check that the servers of providers can be reached. Nothing is asked, so it costs nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.request import getproxies, proxy_bypass

from shepherd.errors import ProviderUnavailableError
from shepherd.http_endpoint import split_address
from shepherd.providers.failures import unreachable
from shepherd.providers.settings import ProviderSettings

__all__ = ["unreachable_ones"]

_TIMEOUT_S = 3.0
_MOST_AT_ONCE = 16
_PORTS = {"http": 80, "https": 443}


def unreachable_ones(providers: Iterable[ProviderSettings]) -> list[tuple[str, ProviderUnavailableError]]:
    """Return the names of remote providers whose servers take no connection, and why; within seconds.

    Providers behind a proxy are left out: only a request would show whether it reaches them.
    """
    remote = [one for one in providers if not one.is_local]
    if not remote:
        return []
    with ThreadPoolExecutor(min(len(remote), _MOST_AT_ONCE)) as threads:
        failures: Sequence[ProviderUnavailableError | None] = list(threads.map(_failure, remote))
    return [(one.name, failure) for one, failure in zip(remote, failures, strict=True) if failure]


def _failure(provider: ProviderSettings) -> ProviderUnavailableError | None:
    parts = split_address(provider.address)
    if parts is None or parts.hostname is None:  # found when the provider is opened
        return None
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return None
    try:
        with socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), _TIMEOUT_S):
            return None
    except (OSError, UnicodeError) as error:  # a name that is no host's, such as one with an empty part
        return unreachable(error, provider)

"""Check that the servers of providers can be reached. Nothing is asked, so it costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from shepherd.errors import ProviderUnavailableError
from shepherd.http_endpoint import connection_error
from shepherd.providers.failures import unreachable
from shepherd.providers.settings import ProviderSettings

__all__ = ["unreachable_ones"]

_MOST_AT_ONCE = 16


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
    error = connection_error(provider.address)  # what is no address is found when the provider is opened
    return None if error is None else unreachable(error, provider)

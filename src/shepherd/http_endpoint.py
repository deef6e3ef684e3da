"""Requests to the OpenAI-compatible servers that settings name: addresses, keys, and one bounded exchange.

`connection_error` finds out whether a server is there, and asks it nothing.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from shepherd.errors import ModelError, UsageError

if TYPE_CHECKING:
    import httpx

__all__ = [
    "ResponseTooLongError",
    "ServerResponse",
    "api_url",
    "bearer_headers",
    "connection_error",
    "is_header_value",
    "post_json",
    "retry_after_s",
    "split_address",
]


_CONNECT_TIMEOUT_S = 3.0
_PORTS = {"http": 80, "https": 443}


class ResponseTooLongError(ModelError):
    """A response with more bytes than any valid one has."""


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A whole response. `retry_after_s` is 0 when the server did not say."""

    status: int
    body: bytes
    retry_after_s: float


def split_address(address: str) -> SplitResult | None:
    """Return the parts of an HTTP address, None when it is none."""
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an unclosed bracket, a port that is no number
        return None
    return parts if is_good else None


def connection_error(address: str) -> OSError | UnicodeError | None:
    """Return why the server of an HTTP address can't be connected to, within seconds; None if it can.

    Also None, without trying, for what is no HTTP address, and if a proxy is set for it: only a request would
    show whether the proxy reaches the server.
    """
    # Not at the top: it takes 20 ms to load.
    from urllib.request import getproxies, proxy_bypass

    parts = split_address(address.strip())
    if parts is None or parts.hostname is None:
        return None
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return None
    place = (parts.hostname, parts.port or _PORTS[parts.scheme])
    try:
        with socket.create_connection(place, _CONNECT_TIMEOUT_S):
            return None
    except (
        OSError,
        UnicodeError,
    ) as error:  # UnicodeError: no valid name of a host
        return error


def api_url(setting: str, endpoint: str, path: str) -> str:
    """Return the URL of an API path, such as "/embeddings".

    The endpoint may be written with or without /v1, the path, and a final slash. Raises UsageError, with the
    setting's name, for what is not an HTTP address.
    """
    parts = split_address(endpoint.strip())
    if parts is None or parts.query or parts.fragment:
        raise UsageError(f"{setting} is not an HTTP address", hint="write it like http://127.0.0.1:8080/v1")
    base = parts.path.rstrip("/").removesuffix(path)
    if not base.endswith("/v1"):
        base += "/v1"
    return f"{parts.scheme}://{parts.netloc}{base}{path}"


def is_header_value(key: str) -> bool:
    """Return whether an HTTP header can hold this API key. Clients would show another one in their error."""
    return key.isascii() and key.isprintable() and " " not in key


def bearer_headers(setting: str, key: str) -> dict[str, str]:
    """Return the headers that send a key, none for "". Raises UsageError, with the setting's name."""
    if not is_header_value(key):
        raise UsageError(f"{setting} contains characters that no key has", hint="copy it again")
    return {"Authorization": f"Bearer {key}"} if key else {}


def post_json(
    url: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    timeout: httpx.Timeout | float,
    max_bytes: int,
    should_stop: Callable[[], bool] = lambda: False,
) -> ServerResponse:
    """Post a JSON body and read the response, up to `max_bytes`.

    Raises httpx's errors, and ResponseTooLongError, also when `should_stop` returns True between two pieces.
    """
    import httpx

    data = bytearray()
    with (
        httpx.Client(timeout=timeout) as client,
        client.stream("POST", url, json=body, headers=headers) as response,
    ):
        for piece in response.iter_bytes():
            data += piece
            if len(data) > max_bytes or should_stop():
                raise ResponseTooLongError(f"{url}: the answer is longer than {max_bytes} bytes")
        return ServerResponse(response.status_code, bytes(data), retry_after_s(response.headers))


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the pause that a server asks for, 0 without one. A date counts as none."""
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / per_second
        except (TypeError, ValueError):
            continue
        return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
    return 0.0

"""Download of a web page: http and https, public addresses, few redirects, limited size.

The name is resolved once, all its addresses are checked, and the connection uses one of these, so a second
look-up cannot change it. Redirects are checked in the same way. The environment's proxies are not used, since
they would resolve the name themselves.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

from shepherd.config import Config
from shepherd.errors import DocumentError, UsageError

__all__ = ["Fetched", "WebLimits", "fetch", "is_public_address"]

_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_BYTES = 1 << 16
# IPv4 addresses in the last 32 bits: compatible, translated (SIIT) and NAT64.
_WRAPPING = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))
# Networks that are not on the internet though is_global of some Python releases says so.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "5f00::/16", "100::/32", "fec0::/10"),
    )
)
# The interface identifier of ISATAP, before an IPv4 address.
_ISATAP = (0x00005EFE, 0x02005EFE)
_ACCEPTED = ("text/", "application/xhtml+xml", "application/pdf")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class WebLimits:
    """Limits of a download; `allowed_hosts` are private names and addresses that are allowed.

    `accepted` are beginnings of media types.
    """

    allowed_hosts: Collection[str] = ()
    most_bytes: int = 32 << 20
    timeout_s: float = 20.0
    most_seconds: float = 120.0
    accepted: tuple[str, ...] = _ACCEPTED

    @classmethod
    def of(cls, config: Config) -> WebLimits:
        """Return the limits of the settings."""
        names = (name.strip().lower() for name in config.knowledge_allowed_hosts.split(","))
        return cls(frozenset(filter(None, names)), config.knowledge_max_mb << 20)


class Fetched(NamedTuple):
    """A downloaded document and its address after redirects."""

    url: str
    name: str
    content_type: str
    charset: str
    data: bytes


def fetch(url: str, limits: WebLimits) -> Fetched:
    """Return the document at `url`; UsageError for a refused address, DocumentError for other failures."""
    deadline = time.monotonic() + limits.most_seconds
    for _ in range(_MOST_REDIRECTS + 1):
        found = _fetch_one(url, limits, deadline)
        if isinstance(found, Fetched):
            return found
        url = found
    raise DocumentError(
        f"{_split(url).hostname}: more than {_MOST_REDIRECTS} redirects", hint="is the address right?"
    )


def _fetch_one(url: str, limits: WebLimits, deadline: float) -> Fetched | str:
    """Return the document, or the address of a redirect."""
    parts = _split(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f"{parts.scheme or 'this'}: not an address of a web page", hint="http:// or https://"
        )
    if parts.username or parts.password:
        raise UsageError(f"{host}: the address has a password in it", hint="leave it out")
    connection = _Connection(host, parts.port, limits, is_secure=parts.scheme == "https")
    try:
        target = urlunsplit(
            ("", "", quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._"), _query(parts.query), "")
        )
        headers = {
            "User-Agent": "Shepherd",
            "Accept": ", ".join(kind + "*" if kind.endswith("/") else kind for kind in limits.accepted),
            "Connection": "close",
        }
        connection.request("GET", target, headers=headers)
        response = connection.getresponse()
        if response.status in _REDIRECTS and response.headers.get("Location"):
            return _joined(url, str(response.headers["Location"]))
        if response.status != 200:
            raise DocumentError(
                f"{host}: answered with status {response.status}", hint="is the address right?"
            )
        content_type = response.headers.get_content_type()
        if not content_type.startswith(limits.accepted):
            hint = "text, HTML and PDF are read" if limits.accepted is _ACCEPTED else "it is no picture"
            raise DocumentError(f"{host}: sends {content_type}", hint=hint)
        data = _body(response, host, limits, deadline)
    except (OSError, http.client.HTTPException) as error:
        raise DocumentError(
            f"{host}: cannot be fetched ({type(error).__name__})",
            hint="check the network and the address",
        ) from error
    finally:
        connection.close()
    name = unquote(parts.path.rstrip("/").rpartition("/")[2]) or host
    return Fetched(url, name, content_type, response.headers.get_content_charset() or "", data)


def _body(response: http.client.HTTPResponse, host: str, limits: WebLimits, deadline: float) -> bytes:
    declared = response.headers.get("Content-Length", "")
    pieces: list[bytes] = []
    size = int(declared) if declared.isdigit() and int(declared) > limits.most_bytes else 0
    while size <= limits.most_bytes:
        piece = response.read1(_BYTES)
        if not piece:
            if response.length:
                raise DocumentError(f"{host}: the connection ended too early", hint="try again")
            return b"".join(pieces)
        if time.monotonic() > deadline:
            raise DocumentError(
                f"{host}: takes more than {limits.most_seconds:.0f} s", hint="try again later"
            )
        pieces.append(piece)
        size += len(piece)
    raise DocumentError(
        f"{host}: sends more than {limits.most_bytes >> 20} MiB",
        hint="the setting knowledge_max_mb is the limit",
    )


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was checked, even if the name resolves to another one later."""

    def __init__(self, host: str, port: int | None, limits: WebLimits, *, is_secure: bool) -> None:
        self.default_port = 443 if is_secure else 80
        # Without a port, http.client takes the end of an IPv6 address for it.
        super().__init__(host, port or self.default_port, timeout=limits.timeout_s)
        self._is_secure = is_secure
        self._limits = limits

    def connect(self) -> None:
        """Connect to the first address that answers."""
        for address in _public_addresses(self.host, self.port, self._limits):
            try:
                self.sock = socket.create_connection((str(address), self.port), self.timeout)
                break
            except OSError as error:
                failure = error
        else:
            raise failure
        if self._is_secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _public_addresses(host: str, port: int, limits: WebLimits) -> list[_Address]:
    """Return all addresses of a name; UsageError if one is private."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DocumentError(f"{host}: there is no such host", hint="is the address right?") from error
    addresses = [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in infos]
    if host.lower() not in limits.allowed_hosts:
        for address in addresses:
            if not is_public_address(address):
                raise UsageError(
                    f"{host}: is an address of this machine or its network, and is not fetched",
                    hint="add it to the setting knowledge_allowed_hosts to allow it",
                )
    return addresses


def is_public_address(address: _Address) -> bool:
    """Return whether an address is on the internet, and so is the IPv4 address that it wraps, if any."""
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv6Address) and (inner := _wrapped(address)) is not None:
        return is_public_address(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _wrapped(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that a packet to this one goes to in the end."""
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    bits = int(address)
    is_isatap = bits >> 32 & 0xFFFFFFFF in _ISATAP
    if is_isatap or any(address in network for network in _WRAPPING):
        return ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    return None


def _split(url: str) -> SplitResult:
    try:
        url.encode()  # an argument that is not UTF-8 arrives with surrogates
        parts = urlsplit(url)
        _ = parts.port
        if "[" in parts.netloc:  # urlsplit checks brackets itself since Python 3.11
            ipaddress.IPv6Address((parts.hostname or "").partition("%")[0])
    except ValueError:
        raise _no_address() from None
    return parts


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise _no_address() from None


def _no_address() -> UsageError:
    return UsageError("this is not a valid address: check its host and port", hint="https://host/path")


def _query(query: str) -> str:
    return quote(query, safe="/%:@!$&'()*+,;=~-._?")

"""Web pages: fetched from a server on loopback that is allowed by name; everything private is refused."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from shepherd.config import Config
from shepherd.errors import DocumentError, UsageError
from shepherd.knowledge.importing import WebLimits, import_from, web

PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/page": (
        200,
        {"Content-Type": "text/html; charset=latin-1"},
        "<title>Café</title><p>An otter é".encode("latin-1"),
    ),
    "/notes.md": (200, {"Content-Type": "text/plain"}, b"# Notes\nA walrus."),
    "/moved": (302, {"Location": "/page"}, b""),
    "/circle": (302, {"Location": "/circle"}, b""),
    "/inwards": (302, {"Location": "http://[::1]:1/secret"}, b""),
    "/metadata": (307, {"Location": "http://169.254.169.254/latest/meta-data/"}, b""),
    "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/nonsense": (302, {"Location": "http://[::1"}, b""),
    "/gone": (404, {"Content-Type": "text/html"}, b"<p>no"),
    "/picture": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
    "/full": (200, {"Content-Type": "text/plain"}, b"x" * 4096),
    "/large": (200, {"Content-Type": "text/plain"}, b"x" * 4097),
    # The end of the connection is the end of the body.
    "/full-undeclared": (200, {"Content-Type": "text/plain", "Content-Length": ""}, b"x" * 4096),
    "/large-undeclared": (200, {"Content-Type": "text/plain", "Content-Length": ""}, b"x" * 4097),
    **{f"/in{n}": (302, {"Location": f"/in{n - 1}"}, b"") for n in range(1, 7)},
    "/in0": (200, {"Content-Type": "text/plain"}, b"here"),
    "/cut": (200, {"Content-Type": "text/plain", "Content-Length": "999"}, b"only this"),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, headers, body = PAGES[self.path.partition("?")[0]]
        self.server.asked.append((self.path, self.headers["Host"]))  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


LIMITS = WebLimits(allowed_hosts={"127.0.0.1"}, most_bytes=4096, timeout_s=30)


def test_a_page_is_imported_with_its_address_and_once(knowledge, address):
    for state in ("added", "unchanged"):
        [outcome] = import_from(knowledge, f"{address}/page?q=a b#part", limits=LIMITS)
        assert outcome.state == state

    node = knowledge.get_node(1, with_text=True)
    assert (node.title, node.kind, node.source_text) == ("Café", "html", "An otter é")
    assert node.link == f"{address}/page?q=a b#part"


def test_a_redirect_is_followed_and_the_host_is_told(server, address):
    page = web.fetch(f"{address}/moved", LIMITS)

    assert (page.url, page.name, page.charset) == (f"{address}/page", "page", "latin-1")
    assert server.asked == [("/moved", address[7:]), ("/page", address[7:])]


@pytest.mark.parametrize("path", ["/inwards", "/metadata", "/file", "/nonsense"])
def test_a_redirect_to_where_nobody_may_go_is_refused(server, address, path):
    with pytest.raises(UsageError):
        web.fetch(address + path, LIMITS)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://127.1/",
        "http://2130706433/",
        "http://0.0.0.0/",
        "http://10.0.0.1/",
        "http://172.16.3.4/",
        "http://192.168.1.1/router",
        "http://169.254.169.254/latest",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://192.0.0.192/opc/v1/instance",
        "http://192.0.0.9/",
        "http://192.88.99.1/",
        "http://198.18.0.1/",
        "http://[fec0::1]/",
        "http://[fd00:ec2::254]/",
        "http://[::10.0.0.1]/",
        "http://[::ffff:0:10.0.0.1]/",
        "http://[64:ff9b:1::10.0.0.1]/",
        "http://[2001:0:808:808::f5ff:fffe]/",
        "http://[2606:4700::5efe:10.0.0.1]/",
        "http://[2606:4700::200:5efe:10.0.0.1]/",
        "http://[100::1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
        "http://[5f00::1]/",
        "http://[ff0e::1]/",
        "http://[::]/",
        "https://user:password@127.0.0.1/",
        "file:///etc/passwd",
        "ftp://example.com/x",
        "http:///nowhere",
        "http://127.0.0.1:99999/",
        "http://[::1",
        "http://[nonsense]/",
    ],
)
def test_addresses_of_this_machine_and_its_network_are_refused(url):
    with pytest.raises(UsageError):
        web.fetch(url, WebLimits())


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "192.0.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"],
)
def test_addresses_of_the_internet_are_public(address):
    assert web.is_public_address(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/gone", "status 404"),
        ("/picture", "sends image/png"),
        ("/large", "sends more than"),
        ("/cut", "ended too early"),
        ("/circle", "more than 5 redirects"),
        ("/in6", "more than 5 redirects"),
        ("/large-undeclared", "sends more than"),
    ],
)
def test_what_cannot_be_had_is_said(address, path, message):
    with pytest.raises(DocumentError, match=message):
        web.fetch(address + path, LIMITS)


@pytest.mark.parametrize(("path", "size"), [("/full", 4096), ("/full-undeclared", 4096), ("/in5", 4)])
def test_what_is_just_within_the_limits_is_fetched(address, path, size):
    assert len(web.fetch(address + path, LIMITS).data) == size


def test_a_page_that_takes_too_long_is_given_up(address):
    with pytest.raises(DocumentError, match="takes more than 0 s"):
        web.fetch(f"{address}/full", replace(LIMITS, most_seconds=0))


def test_a_name_that_cannot_be_looked_up_is_said():
    with pytest.raises(DocumentError, match="there is no such host"):
        web.fetch(f"http://{'a' * 64}.example/", LIMITS)


def test_a_server_that_is_not_there_is_said(server, address):
    server.shutdown()
    server.server_close()

    with pytest.raises(DocumentError, match=r"cannot be fetched \(ConnectionRefusedError\)"):
        web.fetch(f"{address}/page", LIMITS)


def test_limits_come_from_the_settings():
    limits = WebLimits.of(Config(knowledge_allowed_hosts=" NAS.local, 10.0.0.2 ,", knowledge_max_mb=2))

    assert (limits.allowed_hosts, limits.most_bytes) == ({"nas.local", "10.0.0.2"}, 2 << 20)

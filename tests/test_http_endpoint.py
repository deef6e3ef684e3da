"""Addresses, keys and pauses of the servers that settings name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from shepherd.errors import UsageError
from shepherd.http_endpoint import (
    ResponseTooLongError,
    ServerResponse,
    api_url,
    bearer_headers,
    is_header_value,
    post_json,
    retry_after_s,
    split_address,
)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        *((f"http://h:8080{path}", "http://h:8080/v1/embeddings")
          for path in ("", "/", "/v1", "/v1/", "/v1/embeddings", "/embeddings")),
        (" https://h/a/v1 ", "https://h/a/v1/embeddings"),
        ("https://user:word@h/a", "https://user:word@h/a/v1/embeddings"),
        ("http://[::1]:1", "http://[::1]:1/v1/embeddings"),
    ],
)  # fmt: skip
def test_an_endpoint_can_be_written_with_or_without_the_path(endpoint: str, url: str) -> None:
    assert api_url("setting", endpoint, "/embeddings") == url


@pytest.mark.parametrize(
    "endpoint",
    ["", "h:8080", "ftp://h", "http://", "http://h:0", "http://h:x", "http://h:65536", "http://[::1"],
)
def test_what_is_no_address_is_refused_with_the_settings_name(endpoint: str) -> None:
    assert split_address(endpoint) is None
    with pytest.raises(UsageError, match=r"^setting is not an HTTP address$"):
        api_url("setting", endpoint, "/x")


@pytest.mark.parametrize("endpoint", ["http://h?a=b", "http://h#a"])
def test_an_endpoint_has_neither_query_nor_fragment(endpoint: str) -> None:
    with pytest.raises(UsageError, match=r"^setting is not an HTTP address$"):
        api_url("setting", endpoint, "/x")


def test_a_key_is_what_a_header_can_hold() -> None:
    assert [key for key in ("", "a-Z_9", "~!", "a b", "a\n", "é", "a\x7f") if is_header_value(key)] == [
        "",
        "a-Z_9",
        "~!",
    ]
    assert bearer_headers("setting", "") == {}
    assert bearer_headers("setting", "k") == {"Authorization": "Bearer k"}
    with pytest.raises(UsageError, match=r"^setting contains characters"):
        bearer_headers("setting", "a b")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
    ],
)
def test_the_pause_is_the_one_that_the_server_asks_for(headers: dict[str, str], seconds: float) -> None:
    assert retry_after_s(headers) == seconds


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a server that answers with the request's headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps({"key": self.headers["Authorization"], "body": json.loads(body)}).encode()
            self.send_response(429)
            self.send_header("Retry-After", "7")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_json_body_is_posted_and_the_answer_bounded(echo: str) -> None:
    expected = json.dumps({"key": "Bearer sk-1", "body": {"a": [1]}}).encode()
    headers = bearer_headers("api_key", "sk-1")
    options = {"timeout": 5.0, "max_bytes": len(expected)}

    assert post_json(echo, {"a": [1]}, headers, **options) == ServerResponse(429, expected, 7.0)

    with pytest.raises(ResponseTooLongError, match=f"longer than {len(expected) - 1} bytes"):
        post_json(echo, {"a": [1]}, headers, timeout=5.0, max_bytes=len(expected) - 1)
    with pytest.raises(ResponseTooLongError):
        post_json(echo, {"a": [1]}, headers, **options, should_stop=lambda: True)


def test_a_key_is_sent_as_a_bearer_or_refused_with_its_setting() -> None:
    assert bearer_headers("api_key", "") == {}
    for key in ("sk 1", "sk\n1", "schlüssel"):
        with pytest.raises(UsageError, match=r"^api_key contains characters that no key has$"):
            bearer_headers("api_key", key)


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("http://host", True), ("https://host:1/x", True), ("ftp://host", False), ("http://", False),
        ("http://host:0", False), ("http://host:x", False), ("http://[", False), ("host", False),
    ],
)  # fmt: skip
def test_an_address_has_a_scheme_a_host_and_a_port_or_none(address: str, is_one: bool) -> None:
    assert (split_address(address) is not None) == is_one

"""Addresses, keys and pauses of the servers that settings name."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.http_endpoint import api_url, bearer_headers, is_header_value, retry_after_s, split_address


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

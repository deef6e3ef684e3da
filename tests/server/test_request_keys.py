"""Keys of requests: which are valid, what each may do, and where a server needs one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.server import middleware
from shepherd.server.errors import Denied
from shepherd.server.middleware import (
    KeyMiddleware,
    Permit,
    credential_of,
    hosts_of,
    is_loopback,
    require_keys_for,
    scope_of,
)
from shepherd.server.request_record import record_of
from shepherd.server.state import AppState
from tests.server.test_middleware import Inside, scope, served, status


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db") as memory:
        yield memory


def key_status(memory: Memory | None, path: str, *headers: tuple[bytes, bytes], needs: bool = False) -> Any:
    state = AppState(Config(), memory, memory is not None, needs_key=needs)
    inside = Inside()
    sent = served(KeyMiddleware(inside, state), scope(path, *headers), b"")
    key = record_of(inside.reached[0]).key if inside.reached else None
    return (*status(sent), None if key is None else key.owner)


def bearer(key: str) -> tuple[bytes, bytes]:
    return (b"authorization", f"Bearer {key}".encode())


def test_a_key_opens_what_its_scopes_allow(memory):
    assert key_status(memory, "/v1/chat") == (200, "", None)
    assert key_status(memory, "/v1/chat", bearer("any word")) == (200, "", None)
    assert key_status(memory, "/v1/chat", bearer("any word"), needs=True) == (401, "invalid_api_key", None)
    assert key_status(None, "/v1/chat", bearer("any word")) == (200, "", None)
    text, made = memory.keys.create("anna", ["chat"])
    assert key_status(memory, "/v1/chat", bearer(text)) == (200, "", "anna")
    assert key_status(memory, "/v1/chat", (b"x-api-key", text.encode())) == (200, "", "anna")
    assert key_status(memory, "/v1/facts", bearer(text)) == (403, "insufficient_scope", None)
    assert key_status(memory, "/v1/chat") == (401, "invalid_api_key", None)
    assert key_status(memory, "/v1/chat", bearer(text[:-1] + "x")) == (401, "invalid_api_key", None)
    assert key_status(memory, "/health") == (200, "", None)
    memory.keys.revoke(made.id)
    assert key_status(memory, "/v1/chat", bearer(text)) == (401, "invalid_api_key", None)


def test_a_refusal_says_which_key_is_missing_or_wrong(memory):
    text, made = memory.keys.create("anna", ["chat"])
    keys = memory.keys

    def told(credential: str, *, needs: bool = False, there: Any = keys) -> str:
        with pytest.raises(Denied) as caught:
            middleware._admit(there, credential, needs)
        assert caught.value.headers == {"WWW-Authenticate": "Bearer"}
        return str(caught.value)

    assert told("") == "an API key is needed: Authorization: Bearer …"
    assert told("word") == "this API key is not known here"
    assert told("", needs=True, there=None) == "an API key is needed: Authorization: Bearer …"
    assert told(text, there=None) == "this API key is not known here"
    assert middleware._admit(None, "word", False) is None
    memory.keys.revoke(made.id)
    assert told(text) == "this API key was revoked"


@pytest.mark.parametrize(
    ("headers", "credential"),
    [
        ([], ""),
        ([(b"authorization", b"bearer  k1 ")], "k1"),
        ([(b"authorization", b"Basic k1")], ""),
        ([(b"authorization", b"Bearer ")], ""),
        ([(b"x-api-key", b" k1 ")], "k1"),
        ([(b"x-api-key", b"")], ""),
        ([(b"x-api-key", b"k1"), (b"authorization", b"Bearer k1")], "k1"),
    ],
)
def test_a_key_is_in_either_header(headers, credential):
    assert credential_of(scope("/", *headers)) == credential


def test_two_keys_are_one_too_many():
    with pytest.raises(Denied, match="two different API keys"):
        credential_of(scope("/", (b"x-api-key", b"k1"), (b"authorization", b"Bearer k2")))


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/metrics", "metrics"), ("/metrics/x", "chat"), ("/api/pull", "models"), ("/api/chat", "chat"),
        ("/v1/facts", "memory"), ("/v1/facts/name", "memory"), ("/v1/factsheet", "chat"),
        ("/v1/memory", "memory"), ("/v1/conversations/3", "memory"), ("/v1/learned", "memory"),
        ("/v1/extraction", "memory"), ("/v1/trace", "memory"), ("/v1/knowledge/nodes", "memory"),
        ("/v1/context", "memory"), ("/v1/models", "chat"), ("/", "chat"),
    ],
)  # fmt: skip
def test_each_path_has_its_scope(path, wanted):
    assert scope_of(path) == wanted


def test_a_permit_ends_within_a_second_after_its_key(memory, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(middleware.time, "monotonic", lambda: now[0])
    _, made = memory.keys.create("anna", ["chat"])
    state = AppState(Config(), memory, True)
    permit, open_to_all = Permit(state, made), Permit(state, None)

    def holds(one: Permit) -> bool | None:
        return asyncio.run(one.holds())

    memory.keys.revoke(made.id)
    assert (holds(permit), holds(open_to_all)) == (True, True)
    now[0] += 1.0
    assert (holds(permit), holds(open_to_all)) == (False, False)
    assert holds(Permit(AppState(Config(), None, False), None)) is True


# ---- where a server listens


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True), ("LOCALHOST", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True),
        ("[::1]", True), ("0.0.0.0", False), ("10.0.0.1", False), ("example.org", False), ("", False),
    ],
)  # fmt: skip
def test_this_machine_is_known_by_its_names(host, is_here):
    assert is_loopback(host) is is_here


def test_a_server_for_others_needs_keys(memory):
    assert require_keys_for("127.0.0.1, localhost", memory.keys) is False
    assert require_keys_for("127.0.0.1", None) is False
    for keys in (memory.keys, None):
        with pytest.raises(UsageError, match=r"listens on 127\.0\.0\.1 alone") as caught:
            require_keys_for("127.0.0.1, 0.0.0.0", keys)
        assert "shepherd apikey create" in caught.value.hint
    memory.keys.create("anna", ["chat"])
    assert require_keys_for("0.0.0.0", memory.keys) is True
    assert require_keys_for("127.0.0.1", memory.keys) is True


def test_addresses_are_separated_by_commas():
    assert hosts_of(Config(server_host=" [::1] , 10.0.0.1,")) == ["::1", "10.0.0.1"]
    assert hosts_of(Config(server_host=" ,")) == ["127.0.0.1"]

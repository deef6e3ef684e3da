"""Extraction by a server: what is posted, what its answers mean, and that a call can be stopped."""

from __future__ import annotations

import socket
import threading

import pytest

from shepherd.errors import ModelError, UsageError
from shepherd.extraction.answer import (
    ANSWER_SCHEMA,
    Cancellation,
    CancelledError,
    UnavailableError,
    UnusableAnswerError,
)
from shepherd.extraction.endpoint import EndpointExtractor, RefusedError
from shepherd.extraction.request import INSTRUCTIONS
from tests.extraction.server import NOTHING, said


def ask(extractor: EndpointExtractor, *lines: str) -> list[str]:
    return extractor.answers(lines or ("I am Steve",), Cancellation())


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://host:80", "http://host:80/v1/chat/completions"),
        ("http://host/", "http://host/v1/chat/completions"),
        ("https://host/v1", "https://host/v1/chat/completions"),
        (" https://host/v1/ ", "https://host/v1/chat/completions"),
        ("https://host/proxy/openai", "https://host/proxy/openai/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
    ],
)
def test_an_endpoint_is_written_with_or_without_v1_and_slash(endpoint, url):
    assert EndpointExtractor(endpoint).url == url


@pytest.mark.parametrize(
    "endpoint",
    [
        "host:8080",
        "ftp://host",
        "http://",
        "http://host/?key=1",
        "nonsense",
        "http://[::1",
        "http://host:99999",
        "http://host:x/v1",
    ],
)
def test_what_is_no_http_address_is_refused(endpoint):
    with pytest.raises(UsageError, match="memory_extraction_endpoint"):
        EndpointExtractor(endpoint)


def test_the_request_is_that_of_the_prompt(server):
    extractor = EndpointExtractor(
        server.url + "/v1/", model="small", api_key="key-1", max_tokens=99, temperature=0.2
    )

    assert ask(extractor, "I am Steve", "hello") == [NOTHING]

    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == "Bearer key-1"
    assert request.body["messages"] == [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": "User: I am Steve\nUser: hello"},
    ]
    assert request.body["response_format"]["json_schema"]["schema"] == ANSWER_SCHEMA
    assert request.body | {"messages": 0, "response_format": 0} == {
        "model": "small",
        "max_tokens": 99,
        "temperature": 0.2,
        "stream": False,
        "messages": 0,
        "response_format": 0,
    }


@pytest.mark.parametrize("key", ["ключ", "key\n", "k\u2019ey", "\0"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key):
    with pytest.raises(UsageError, match="memory_extraction_api_key") as caught:
        EndpointExtractor("http://127.0.0.1:9", api_key=key)

    assert key not in str(caught.value)


@pytest.mark.parametrize("said", ["inf", "nan", "-1", "1e999", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_pause_that_is_no_number_of_seconds_is_ours_to_choose(server, said):
    server.answers = [(503, b"", {"Retry-After": said})]

    with pytest.raises(UnavailableError) as caught:
        ask(EndpointExtractor(server.url))

    assert caught.value.retry_after_s == 0


def test_an_answer_that_cannot_be_unpacked_is_unusable(server):
    server.answers = [(200, b"no gzip at all", {"Content-Encoding": "gzip"})]

    with pytest.raises(UnusableAnswerError):
        ask(EndpointExtractor(server.url))


def test_no_key_no_header(server):
    ask(EndpointExtractor(server.url))

    assert "Authorization" not in server.requests[0].headers


def test_a_server_that_knows_no_schema_is_asked_without_one_from_then_on(server):
    server.answers = [(400, b"response_format?", {}), said(NOTHING)]
    extractor = EndpointExtractor(server.url)

    assert ask(extractor) == ask(extractor) == [NOTHING]

    assert ["response_format" in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_unavailable(server, status):
    server.answers = [(status, b"", {"Retry-After": "7"})]

    with pytest.raises(UnavailableError, match=str(status)) as caught:
        ask(EndpointExtractor(server.url))

    assert caught.value.retry_after_s == 7


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, ""),
        (401, "set memory_extraction_api_key"),
        (403, "set memory_extraction_api_key"),
        (404, "check memory_extraction_endpoint and memory_extraction_model"),
        (413, "set a smaller memory_extraction_max_turns"),
        (422, ""),
        (301, ""),
    ],
)
def test_what_will_not_pass_is_refused(server, status, hint):
    refusal = (status, b"", {"Location": "http://127.0.0.1:9/"})
    server.answers = [refusal, refusal]
    extractor = EndpointExtractor(server.url)

    with pytest.raises(RefusedError, match=str(status)) as caught:
        ask(extractor)
    assert caught.value.hint == hint
    # Without a schema, too, if that may be the reason; and what did not help is not remembered.
    asked = [True, False] if status in (400, 422) else [True]
    assert ["response_format" in request.body for request in server.requests] == asked
    server.answers = [said(NOTHING)]
    ask(extractor)
    assert "response_format" in server.requests[-1].body


def test_without_options_a_short_answer_of_the_servers_own_model_is_asked_for(server):
    ask(EndpointExtractor(server.url))

    body = server.requests[0].body
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("default", 512, 0.1)
    assert UnavailableError("away").retry_after_s == 0.0


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"<html>", b"[]", b"{}", b'{"choices": []}', said(None), said(3), b"[" * 100_000],
)
def test_answers_that_are_no_completion_are_unusable(server, body):
    server.answers = [body]

    with pytest.raises(UnusableAnswerError):
        ask(EndpointExtractor(server.url))


def test_an_endless_body_is_cut_off(server):
    server.answers = [b" " * (3 << 20)]

    with pytest.raises(UnusableAnswerError, match="longer"):
        ask(EndpointExtractor(server.url))


def test_a_port_where_nobody_listens_is_unavailable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        with pytest.raises(UnavailableError, match="ConnectError"):
            ask(EndpointExtractor(f"http://127.0.0.1:{port}"))


def test_a_server_that_hangs_up_is_unavailable(server):
    server.answers = [lambda handler: handler.connection.close()]

    with pytest.raises(UnavailableError):
        ask(EndpointExtractor(server.url))


def test_a_silent_server_is_unavailable_after_the_timeout(server):
    server.answers = [server.hang]

    with pytest.raises(UnavailableError, match="ReadTimeout"):
        ask(EndpointExtractor(server.url, timeout_s=0.2))


def test_an_answer_that_never_ends_is_unavailable(server):
    server.answers = [server.drip]

    with pytest.raises(UnavailableError, match="does not end"):
        ask(EndpointExtractor(server.url, timeout_s=0.2))


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_call_is_stopped_in_mid_request(server, fault):
    server.answers = [getattr(server, fault)]
    cancellation = Cancellation()
    outcome: list[BaseException] = []

    def call() -> None:
        try:
            EndpointExtractor(server.url).answers(["x"], cancellation)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert server.arrived.wait(30)
    cancellation.set()
    thread.join(30)

    assert [type(error) for error in outcome] == [CancelledError]


def test_a_stopped_cancellation_lets_nothing_begin(server):
    cancellation = Cancellation()
    cancellation.set()

    with pytest.raises(CancelledError):
        EndpointExtractor(server.url).answers(["x"], cancellation)

    assert server.requests == []


def test_keys_and_lines_are_in_no_message(server):
    server.answers = [(401, b"wrong key", {})]

    with pytest.raises(ModelError) as caught:
        ask(EndpointExtractor(server.url, api_key="key-1"), "my secret line")

    assert "key-1" not in str(caught.value) + caught.value.hint
    assert "secret line" not in str(caught.value) + caught.value.hint

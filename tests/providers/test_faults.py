"""Every way in which a server fails: retried where that may help, and never after the first piece."""

from __future__ import annotations

import threading
import time

import pytest

from shepherd.errors import (
    ContextOverflowError,
    InternalError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    ProviderUnavailableError,
    ShepherdError,
    UsageError,
)
from shepherd.installation import install_extra
from shepherd.providers import ProviderSettings, open_remote
from shepherd.providers.exchange import RetryPolicy
from shepherd.providers.failures import failure_of
from shepherd.providers.keys import ApiKey
from tests.providers.conftest import KEY
from tests.providers.test_chat_completions import QUESTION, answer
from tests.providers.upstream import (
    Handler,
    breaks_off,
    chunk,
    claude_fails,
    claude_says,
    drops,
    hangs,
    keeps_open,
    never_ends,
    raw,
    refuses,
    says,
    says_nothing,
)

OK = says("ok")
CLAUDE_OK = claude_says({"text": ["ok"]})
GOOD = {"openai": OK, "anthropic": CLAUDE_OK}


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(
    "fault",
    [refuses(429), refuses(500), refuses(503), refuses(529), refuses(408), drops()],
    ids=["429", "500", "503", "529", "408", "dropped"],
)
def test_what_may_pass_is_tried_again(new_model, kind, fault):
    model = new_model(kind, fault, fault, GOOD[kind])

    pieces, reply = answer(model)

    assert pieces == ["ok"]
    assert len(model.upstream.asked) == 3
    assert reply.stats.warnings == ("the request was sent 3 times before it was answered",)


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("retries", [0, 2])
def test_it_is_tried_as_often_as_is_set(new_model, kind, retries):
    model = new_model(kind, refuses(503), retries=retries)

    with pytest.raises(ProviderUnavailableError, match=r"provider work .* answers 503"):
        answer(model)

    assert len(model.upstream.asked) == retries + 1


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(
    ("fault", "error", "told", "hint"),
    [
        (refuses(401), ProviderKeyError, "the API key is not accepted", "set work api_key"),
        (refuses(403), ProviderKeyError, "the API key is not accepted", "set work api_key"),
        (refuses(404), ProviderError, "no such model or address", "set work model NAME"),
        (refuses(400), ProviderError, "does not understand the request", "provider show work"),
        (refuses(402), ProviderError, "payment is due", "account"),
        (refuses(413), ProviderError, "too large", "start a new conversation"),
        (
            refuses(429, {"message": "no", "code": "insufficient_quota"}),
            ProviderError,
            "quota is used up",
            "account",
        ),
        (refuses(418), ProviderError, "answers 418", "provider test work"),
    ],
    ids=["401", "403", "404", "400", "402", "413", "quota", "418"],
)
def test_what_does_not_pass_is_told_at_once_with_what_to_do(new_model, kind, fault, error, told, hint):
    model = new_model(kind, fault)

    with pytest.raises(error, match=told) as caught:
        answer(model)

    assert hint in caught.value.hint
    assert len(model.upstream.asked) == 1


class APIStatusError(Exception):
    """An error with the attributes that the clients' errors of this name have."""

    def __init__(self, status_code: int, body: object) -> None:
        super().__init__("no")
        self.status_code, self.body = status_code, body


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"message": "no", "code": "bad_tool"}, " (bad_tool)", "no"),
        ({"error": {"message": "no", "type": "bad_tool"}}, " (bad_tool)", "no"),
        ([{"error": {"message": "no", "code": 422, "status": "INVALID"}}], "", "no"),
        ("no", "", "no"),
        (["no"], "", "no"),
        ([], "", ""),
        (None, "", ""),
        (7, "", ""),
        ({"message": ["no"], "code": "words that tell of the user"}, "", ""),
        ({"message": f"no {KEY}"}, "", "no ***"),
        ({"message": "x" * 501}, "", "x" * 500),
    ],
)
def test_what_a_server_says_is_read_in_every_shape(body, code, said):
    provider = ProviderSettings("work", "openai", model="m")

    found = failure_of(APIStatusError(422, body), provider, ApiKey(KEY, "OPENAI_API_KEY"))

    assert isinstance(found, ProviderRefusedError)
    assert (str(found), found.said) == (f"provider work ({provider.address}) answers 422{code}", said)


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("invalid_request_error", 400, ProviderRefusedError),
        ("authentication_error", 401, ProviderKeyError),
        ("billing_error", 402, ProviderError),
        ("permission_error", 403, ProviderKeyError),
        ("not_found_error", 404, ProviderError),
        ("request_too_large", 413, ProviderRefusedError),
        ("rate_limit_error", 429, ProviderUnavailableError),
        ("rate_limit_exceeded", 429, ProviderUnavailableError),
        ("api_error", 500, ProviderUnavailableError),
        ("server_error", 500, ProviderUnavailableError),
        ("internal_server_error", 500, ProviderUnavailableError),
        ("timeout_error", 504, ProviderUnavailableError),
        ("overloaded_error", 529, ProviderUnavailableError),
        ("503", 503, ProviderUnavailableError),
        ("some_other_error", "with an error", ProviderError),
    ],
)
def test_what_a_stream_says_after_it_began_is_taken_for_its_status(kind, status, error):
    provider = ProviderSettings("work", "anthropic", model="m")

    found = failure_of(APIStatusError(200, {"type": kind}), provider, ApiKey(KEY, "ANTHROPIC_API_KEY"))

    assert type(found) is error
    said = f" ({kind})" if kind[0].isalpha() else ""
    assert str(found).startswith(f"provider work ({provider.address}) answers {status}{said}")


@pytest.mark.parametrize("error", [UsageError("ours"), ProviderUnavailableError("ours")])
def test_an_error_of_ours_stays_itself(error):
    assert failure_of(error, ProviderSettings("work", "openai"), ApiKey()) is error


@pytest.mark.parametrize("kind", ["overloaded_error", "rate_limit_error", "api_error"])
def test_an_error_inside_the_stream_is_tried_again_before_the_first_piece(new_model, kind):
    model = new_model("anthropic", claude_fails(kind), CLAUDE_OK)

    assert answer(model)[0] == ["ok"]
    assert len(model.upstream.asked) == 2


def test_an_error_inside_an_openai_stream_is_told(new_model):
    fault = raw(b'data: {"error": {"message": "no", "code": "server_error"}}\n\n')
    model = new_model("openai", fault, OK)

    assert answer(model)[0] == ["ok"]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("openai", breaks_off("Hel", "lo")),
        ("anthropic", claude_says({"text": ["Hel", "lo"]}, stops=False)),
        ("anthropic", claude_fails("overloaded_error", after="Hello")),
        ("openai", lambda handler: (breaks_off("Hel", "lo")(handler), handler.raw(b'data: {"cho'))),
    ],
    ids=["openai", "anthropic", "overloaded", "inside a chunk"],
)
def test_nothing_is_sent_again_after_the_first_piece(new_model, kind, fault):
    model = new_model(kind, fault)
    pieces = []

    with pytest.raises(ProviderError):
        take_pieces(model, pieces)

    assert "".join(pieces) == "Hello"
    assert len(model.upstream.asked) == 1


@pytest.mark.parametrize(
    "data",
    [b"data: {no json}\n\n", b"data: \xff\n\n", b"data: 1\n\n", b"data: [1]\n\n", b"", b"<html></html>"],
    ids=["no JSON", "no UTF-8", "a text", "a list", "empty", "a page"],
)  # fmt: skip
def test_an_answer_that_is_none_is_an_error_and_no_crash(new_model, data):
    model = new_model("openai", raw(data), retries=0)

    with pytest.raises(ProviderError, match="provider work") as caught:
        answer(model)

    assert caught.value.hint


def test_odd_but_harmless_fields_are_read_over(new_model):
    odd = [
        chunk({"content": None}),
        {"choices": None},
        chunk({"content": "ok", "tool_calls": None}),
        chunk({}, "stop"),
        chunk(usage={"prompt_tokens": None}),
    ]

    def step(handler):
        handler.begin()
        for event in odd:
            handler.event(event)
        handler.event("[DONE]")

    assert answer(new_model("openai", step))[0] == ["ok"]


@pytest.mark.parametrize(
    ("kind", "address", "says", "hint"),
    [
        ("ollama", "http://127.0.0.1:9/v1", "refused the connection", "is it running? ollama serve"),
        (
            "openai",
            "http://127.0.0.1:9/v1",
            "refused the connection",
            "is it running? If it is, check base_url: shepherd provider set work base_url URL",
        ),
        (
            "openai",
            "http://nowhere.invalid/v1",
            "has an address that can't be found",
            "check the network, and base_url: shepherd provider set work base_url URL",
        ),
    ],
)
def test_a_server_that_is_not_there_is_named_after_one_retry(new_model, kind, address, says, hint):
    model = new_model(kind, base_url=address, retries=3)
    reply = model.generate(QUESTION)

    with pytest.raises(ProviderUnavailableError) as caught:
        list(reply)

    assert str(caught.value) == f"provider work ({address}) {says}"
    assert caught.value.hint == hint
    assert reply._exchange.attempts == 2
    assert (reply.stats.prompt_tokens, reply.stats.decoded_tokens) == (0, 0)


def test_a_connection_that_breaks_is_tried_as_often_as_is_set(new_model):
    model = new_model("openai", drops(), retries=2)

    with pytest.raises(ProviderUnavailableError, match="can't be reached, or the connection broke"):
        answer(model)

    assert len(model.upstream.asked) == 3


@pytest.mark.parametrize("keeps_alive", [False, True])
def test_a_silent_server_is_given_up(new_model, keeps_alive, monkeypatch):
    model = new_model("openai", hangs(keeps_alive=keeps_alive), timeout=0.2, retries=0)

    def begin_impatiently(request, begin=model._begin):
        exchange = begin(request)
        exchange._patience_s = 0.5
        return exchange

    monkeypatch.setattr(model, "_begin", begin_impatiently)

    with pytest.raises(ProviderError, match=r"sen(t|ds) nothing"):
        answer(model)


def test_an_endless_answer_is_ended(new_model):
    model = new_model("openai", never_ends("word " * 1000, pause_s=0.001))

    with pytest.raises(ProviderError, match="does not end"):
        answer(model, max_tokens=10)

    assert model.upstream.left.wait(30)


@pytest.mark.parametrize(
    ("error", "numbers"),
    [
        (
            {
                "message": "The maximum context length is 8192 tokens. Your messages have 9000 tokens.",
                "code": "context_length_exceeded",
            },
            (9000, 8192),
        ),
        ({"message": "prompt is too long: 210,000 tokens > 200,000 maximum"}, (210_000, 200_000)),
        ({"message": "exceeds the context size", "type": "exceed_context_size_error"}, (0, 0)),
    ],
    ids=["openai", "anthropic", "llama-server"],
)  # fmt: skip
@pytest.mark.parametrize("kind", GOOD)
def test_overflow_is_its_own_error_and_teaches_the_window(new_model, kind, error, numbers):
    model = new_model(kind, refuses(400, error))
    before = model.window_tokens

    with pytest.raises(ContextOverflowError) as caught:
        answer(model)

    assert (caught.value.prompt_tokens, caught.value.window_tokens) == numbers
    assert model.window_tokens == (numbers[1] if numbers[1] and numbers[1] < before else model.window_tokens)
    assert model.window_tokens <= before
    assert len(model.upstream.asked) == 1


def test_a_prompt_that_cannot_fit_is_not_sent(new_model):
    model = new_model("openai", OK, window=100)

    with pytest.raises(ContextOverflowError, match="about"):
        model.generate([message_of("word " * 200)])

    assert model.upstream.asked == []


def take_pieces(model, pieces):
    with model.generate(QUESTION) as reply:
        pieces.extend(reply)


def message_of(text):
    from shepherd.types import Message

    return Message("user", text)


# ---- cancelling


@pytest.mark.parametrize("after", [(), ("Hel", "lo")], ids=["before the first piece", "within the answer"])
def test_cancel_ends_the_answer_and_tells_the_server(new_model, after):
    model = new_model("openai", hangs(after), timeout=60.0)

    with model.generate(QUESTION) as reply:
        pieces = [next(reply) for _ in after]
        while not model.upstream.asked:
            time.sleep(0.01)
        canceller = threading.Timer(0.1, reply.cancel)
        canceller.start()
        pieces.extend(reply)
        canceller.join()

    assert pieces == list(after)
    assert reply.text == "".join(after)
    assert reply.stats.finish_reason == "cancelled"
    assert model.upstream.left.wait(30), "the connection stayed open"


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("is_connected", [False, True], ids=["new connection", "the last one's"])
def test_cancel_before_the_headers_ends_the_connection_and_the_thread(new_model, kind, is_connected):
    before = [keeps_open(GOOD[kind])] if is_connected else []
    model = new_model(kind, *before, says_nothing(), timeout=600.0, retries=0)
    for _ in before:
        answer(model)
    others = set(threading.enumerate())

    with model.generate(QUESTION) as reply:
        while len(model.upstream.asked) <= len(before):
            time.sleep(0.01)
        [thread] = [t for t in set(threading.enumerate()) - others if t.name == "shepherd-provider"]
        reply.cancel()
        assert list(reply) == []

    assert model.upstream.left.wait(30), "the connection stayed open"
    thread.join(30)
    assert not thread.is_alive()
    ports = {asked.port for asked in model.upstream.asked}
    assert len(ports) == 1 or kind == "openai"  # whose client closes it after each answer


def test_a_model_answers_after_a_request_was_cancelled(new_model):
    model = new_model("openai", keeps_open(OK), says_nothing(), OK)
    answer(model)

    with model.generate(QUESTION) as reply:
        while len(model.upstream.asked) < 2:
            time.sleep(0.01)

    assert reply.stats.finish_reason == "cancelled"
    assert answer(model)[0] == ["ok"]


def test_leaving_the_block_cancels(new_model):
    model = new_model("openai", never_ends(pause_s=0.01))

    with model.generate(QUESTION) as reply:
        next(reply)

    assert reply.stats.finish_reason == "cancelled"
    assert model.upstream.left.wait(30)


def test_cancel_ends_the_waiting_between_attempts(new_model):
    model = new_model("openai", refuses(503))
    model._policy = RetryPolicy(3, first_s=60.0, longest_s=60.0)

    with model.generate(QUESTION) as reply:
        while not model.upstream.asked:
            time.sleep(0.01)
        reply.cancel()
        assert list(reply) == []

    assert len(model.upstream.asked) == 1


def test_cancelling_twice_and_after_the_end_does_nothing(new_model):
    _, reply = answer(new_model("openai", OK))

    reply.cancel()
    reply.close()

    assert reply.text == "ok"
    assert reply.stats.finish_reason == "stop"


# ---- pauses


def test_pauses_double_and_are_spread():
    policy = RetryPolicy(9, first_s=1.0, longest_s=20.0)

    for attempt, most in enumerate([1, 2, 4, 8, 16, 20, 20], 1):
        pauses = [policy.pause_s(attempt, 0.0) for _ in range(50)]
        assert all(most / 2 <= pause <= most for pause in pauses)
        assert len(set(pauses)) > 1


def test_server_says_how_long_to_wait():
    assert RetryPolicy().pause_s(1, 7.0) == 7.0


def test_a_server_that_wants_an_hour_is_not_waited_for(new_model):
    model = new_model("openai", refuses(429, Retry_After="3600"), OK)

    with pytest.raises(ProviderUnavailableError, match="too many requests") as caught:
        answer(model)

    assert caught.value.retry_after_s == 3600
    assert "try again in 3,600 seconds" in caught.value.hint
    assert "provider next" not in caught.value.hint  # it could choose the one that fails
    assert len(model.upstream.asked) == 1


def test_a_bug_of_ours_ends_the_answer_instead_of_hanging(new_model, monkeypatch):
    model = new_model("openai", refuses(500))
    monkeypatch.setattr(model._transport, "translate", lambda error: 1 / 0)

    with pytest.raises(InternalError, match="ZeroDivisionError"):
        answer(model)


# ---- what never gets out


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_neither_key_nor_text_are_in_an_error_that_repeats_them(new_model, kind, status, caplog):
    echo = {"message": f"{KEY}: my secret text", "code": KEY, "type": KEY}
    model = new_model(kind, refuses(status, echo), retries=0)
    caplog.set_level(0)

    with pytest.raises(ShepherdError) as caught:
        answer(model, [message_of("my secret text")])

    everything = f"{caught.value} {caught.value.hint} {caught.getrepr()} {model.provider!r}"
    assert KEY not in everything + caplog.text
    assert "my secret text" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__cause__ is None


OTHERS = {
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: secret-1",
    "OPENAI_ORG_ID": "secret-2",
    "OPENAI_PROJECT_ID": "secret-3",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: secret-4",
    "ANTHROPIC_AUTH_TOKEN": "secret-5",
}


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini", "ollama", "shepherd"])
def test_what_a_client_finds_in_the_environment_does_not_go_to_another_server(new_model, kind, monkeypatch):
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    model = new_model(kind, GOOD.get(kind, OK))

    answer(model)

    assert "secret" not in str(model.upstream.asked[0].headers)


@pytest.mark.parametrize(("kind", "header"), [("openai", "openai-organization"), ("anthropic", "x-gateway")])
def test_the_maker_of_a_client_gets_what_is_meant_for_it(new_model, kind, header, monkeypatch):
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    model = new_model(kind, GOOD[kind])
    monkeypatch.setattr(type(model.provider), "is_at_home", True)

    answer(model)

    assert model.upstream.asked[0].headers[header].startswith("secret")


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown():
    provider = ProviderSettings("work", "openai", model="m", api_key="sk-wörld-12345678")

    with pytest.raises(ProviderKeyError) as caught:
        open_remote(provider)

    assert "12345678" not in str(caught.value)


def test_a_missing_client_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr("shepherd.providers.transport.find_spec", lambda name: None)

    with pytest.raises(UsageError, match="needs the package anthropic") as caught:
        open_remote(ProviderSettings("work", "anthropic", model="m", api_key=KEY))

    assert caught.value.hint == install_extra("anthropic")


def test_a_missing_key_is_named_with_its_variable(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ProviderKeyError, match="has no API key") as caught:
        open_remote(ProviderSettings("work", "openai", model="m"))

    assert "export OPENAI_API_KEY=" in caught.value.hint


def test_a_connection_that_breaks_after_the_end_leaves_the_answer_whole(new_model):
    def step(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", "100000")  # more than ever comes
        handler.end_headers()
        handler.event(chunk({"content": "All of it."}))
        handler.event(chunk({}, "stop"))
        handler.close_connection = True

    model = new_model("openai", step)

    with model.generate(QUESTION) as reply:
        assert list(reply) == ["All of it."]
    assert reply.stats.finish_reason == "stop"
    assert len(model.upstream.asked) == 1

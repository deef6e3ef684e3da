"""What a remote model sends, learns from counts and refusals, and tells of an answer, without a network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from shepherd.errors import ContextOverflowError, ProviderError, ProviderUnavailableError, UsageError
from shepherd.providers import ProviderSettings, RemoteModel, open_remote
from shepherd.providers.accounting import Account, Entry, RatioStore
from shepherd.providers.exchange import End, Event, Link, RetryPolicy, Usage
from shepherd.providers.remote import _counted, _entries
from shepherd.providers.transport import Request
from shepherd.types import Message, Picture, ReplySchema, Sampling, Thought, Tool, ToolCall
from tests.vision_models import png

HELLO = [Message("user", "u" * 346)]  # 99 tokens at 3.5 characters each, and 4 around them
TOOL = Tool("clock", "Tell the time.", {"type": "object"})


class Scripted:
    """A transport whose server answers with these events, or fails with these errors, one after the other."""

    def __init__(self, *answers: Iterable[Event] | Exception) -> None:
        self.answers, self.requests = list(answers), list[Request]()
        self.is_closed = False

    def send(self, request: Request, link: Link) -> Iterator[Event]:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield from answer

    def translate(self, error: Exception) -> ProviderError | ContextOverflowError:
        assert isinstance(error, (ProviderError, ContextOverflowError))
        return error

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., RemoteModel]:
    def make(*answers: Iterable[Event] | Exception, **options: object) -> RemoteModel:
        fields = {name: options.pop(name) for name in list(options) if name not in ("sends", "asks_memory")}
        provider = ProviderSettings("work", "openai", **{"model": "m", "window": 1000, **fields})  # type: ignore[arg-type]
        policy = RetryPolicy(provider.retries, first_s=0.001, longest_s=0.1)
        ratios = RatioStore(tmp_path / "ratios.json")
        return RemoteModel(provider, Scripted(*answers), policy=policy, ratios=ratios, **options)  # type: ignore[arg-type]

    return make


def sent(model: RemoteModel) -> list[Request]:
    return model._transport.requests  # type: ignore[attr-defined,no-any-return]


def says(*pieces: Event, usage: Usage | None = None, reason: str = "stop") -> list[Event]:
    return [*pieces, End(reason), *([usage] if usage else [])]  # type: ignore[arg-type]


# ---- what is sent


def test_a_request_has_what_was_asked_for_and_settings_of_the_user(make) -> None:
    model = make(says("ok"), says("ok"), sends=("temperature", "seed", "unknown"), asks_memory=lambda: False)
    schema = ReplySchema({"type": "object"})

    with model.generate(
        HELLO, sampling=Sampling(temperature=0.5), max_tokens=7, tools=[TOOL], stop=["x"], schema=schema,
        must_call="clock",
    ) as reply:  # fmt: skip
        assert list(reply) == ["ok"]
    list(model.generate(HELLO))

    first, second = sent(model)
    assert first == Request(tuple(HELLO), 7, {"temperature": 0.5}, (TOOL,), False, ("x",), schema, "clock")
    assert (second.max_tokens, second.sampling, second.must_call) == (1000 - 103, {}, False)


def test_an_answer_has_1024_tokens_where_nobody_says(make) -> None:
    model = make(says("ok"), says("ok"), window=5000)
    list(model.generate(HELLO))
    list(model.generate(HELLO, max_tokens=0))

    assert [request.max_tokens for request in sent(model)] == [1024, 0]
    with pytest.raises(UsageError, match="max_tokens is -1"):
        model.generate(HELLO, max_tokens=-1)


def test_a_prompt_as_long_as_the_window_is_not_sent(make) -> None:
    make(says("ok"), window=104).generate(HELLO).close()
    model = make(window=103)

    with pytest.raises(ContextOverflowError) as caught:
        model.generate(HELLO)

    assert str(caught.value) == "the prompt has about 103 tokens, the window of provider work 103"
    assert (caught.value.prompt_tokens, caught.value.window_tokens) == (103, 103)
    assert caught.value.hint.endswith(
        "; or shorten the message; if the window is larger: shepherd provider set work window TOKENS"
    )
    assert sent(model) == []


def test_a_model_says_what_it_is(make) -> None:
    model = make()

    assert (model.info.name, model.info.sampling) == ("m", Sampling())
    assert make(model="").info.name == "work"
    assert (model.window_tokens, model.reads_pictures, model.picture_problem) == (1000, True, "")
    assert model.count_tokens("x" * 36) == 11
    model.close()
    assert model._transport.is_closed


def test_entries_tell_messages_apart_by_all_that_they_say() -> None:
    call = ToolCall("1", "clock", "{}")
    picture = Picture(png("red"))
    messages = [
        Message("system", "one"),
        Message("user", "one"),
        Message("user", "two"),
        Message("user", "one", pictures=(picture,)),
        Message("assistant", "one", tool_calls=(call,)),
        Message("assistant", "one"),
    ]

    entries = _entries(messages, [])

    assert len({entry.key for entry in entries}) == 6
    assert [entry.chars for entry in entries] == [3, 3, 3, 3 + 64, 3 + 7, 3]
    assert not any(entry.is_counted for entry in entries)
    described = len("clock" + "Tell the time." + '{"type": "object"}')
    with_tools = _entries(messages, [TOOL])
    assert with_tools[1:] == entries[1:]
    assert with_tools[0].chars == 3 + described
    assert with_tools[0].key != entries[0].key
    assert _entries(messages[1:], [TOOL]) == entries[1:]
    assert _entries([], [TOOL]) == []


# ---- what is learned


def test_counts_of_the_server_teach_its_characters_per_token(make) -> None:
    model = make(says("a" * 200, usage=Usage(50, 100)), says("ok", usage=Usage(190, 1)))
    before = model._ratio.value

    list(model.generate(HELLO))

    assert _counted(model._account) == 50 + 100
    assert make(retries=2)._policy.retries == 2
    # 346 characters in 50 tokens, then 200 in 100.
    ratio = type(model._ratio)(before)
    ratio.observe(346, 50)
    ratio.observe(200, 100)
    assert model._ratio.value == ratio.value
    assert model._ratios.load("openai:m").value == round(ratio.value, 4)

    # 200 more characters in what is not counted yet.
    list(model.generate([*HELLO, Message("assistant", "a" * 200), Message("user", "v" * 200)]))
    ratio.observe(200, 190 - 150)
    assert model._ratio.value == ratio.value


@pytest.mark.parametrize(("n", "is_observed"), [(99, False), (100, True)])
def test_short_texts_teach_nothing(make, n: int, is_observed: bool) -> None:
    model = make(says("ok", usage=Usage(20, 1)))
    before = model._ratio.value

    list(model.generate([Message("user", "u" * n)]))

    assert (model._ratio.value != before) == is_observed


def test_only_what_was_counted_counts() -> None:
    account = Account((Entry("a", 9, 5, True), Entry("b", 9, 7, False), Entry("c", 9, 11, True)))

    assert _counted(account) == 16


@pytest.mark.parametrize(
    ("events", "tokens", "is_counted"),
    [
        (says("a" * 35, usage=Usage(103, 8)), 8, True),
        (says("a" * 35, usage=Usage(103, 8, thinking=3)), 5, True),
        # The rest of a thought that was not counted apart is unknown.
        (says(Thought("hm"), "a" * 35, usage=Usage(103, 8)), 8, False),
        (says(Thought("hm"), "a" * 35, usage=Usage(103, 8, thinking=2)), 6, True),
        (says("a" * 35, ToolCall("1", "clock", "{}"), usage=Usage(103, 8)), 8, False),
        (says("a" * 35, usage=Usage(103, 8), reason="cancelled"), 8, False),
        (says("a" * 35, usage=Usage(103, 8, thinking=8)), 11, False),
        (says("a" * 35), 11, False),
        (says(usage=Usage(103, 8)), 8, False),
    ],
)
def test_an_answer_is_an_entry_of_the_next_prompt(make, events, tokens: int, is_counted: bool) -> None:
    model = make(events)

    list(model.generate(HELLO))

    last = model._account.entries[-1]
    assert last.is_counted == is_counted
    if tokens != 11:
        assert last.tokens == tokens
    else:  # an estimate, by what was learned until then
        assert last.tokens == model.count_tokens("a" * 35)


def overflow(prompt: int, window: int) -> ContextOverflowError:
    return ContextOverflowError("too long", prompt_tokens=prompt, window_tokens=window)


@pytest.mark.parametrize(
    ("prompt", "window", "asked", "fitted", "expected"),
    [
        (1500, 900, 100, 0, 900),  # the server says it
        (1500, 2000, 100, 0, 1000),  # more than is known
        (1500, 0, 100, 0, 1000),
        (0, 0, 100, 0, int(0.9 * (103 + 50))),  # no numbers: less than was refused
        (0, 0, 101, 0, int(0.9 * (103 + 50))),
        (0, 0, 100, 500, 500),  # as much has fitted before
        (500, 600, 100, 0, int(0.9 * (500 + 50))),  # it would fit by its own numbers
        (500, 599, 100, 0, 599),
        (0, 2, 100, 0, 2),
    ],
)
def test_a_refusal_narrows_the_window(make, prompt, window, asked, fitted, expected) -> None:
    model = make()
    model._fitted = fitted
    account = Account(tuple(Entry(e.key, e.chars, 103) for e in _entries(HELLO, [])))

    settled = model.learn_window(overflow(prompt, window), account, asked)

    assert model.window_tokens == expected
    assert settled.total == (prompt or 103)


def test_a_window_never_vanishes(make) -> None:
    model = make()

    model.learn_window(overflow(0, 0), Account(), 0)

    assert model.window_tokens == 1


def test_a_refusal_teaches_the_characters_of_what_was_not_counted_yet(make) -> None:
    model = make()
    ratio = type(model._ratio)(model._ratio.value)
    account = Account((Entry("a", 400, 100, True), Entry("b", 200, 60)))

    model.learn_window(overflow(150, 140), account, 10)

    ratio.observe(200, 50)
    assert model._ratio.value == ratio.value


def test_what_fitted_once_is_the_least_window(make) -> None:
    model = make(says("ok", usage=Usage(300, 7)), says("ok", usage=Usage(200, 7)))
    list(model.generate(HELLO))
    list(model.generate(HELLO))

    assert model._fitted == 307
    assert make()._fitted == 0


def test_a_refused_prompt_teaches_before_it_is_raised(make) -> None:
    model = make(overflow(700, 600))

    reply = model.generate(HELLO, max_tokens=50)
    with pytest.raises(ContextOverflowError):
        reply.wait()

    assert model.window_tokens == 600
    assert (reply.text, reply.stats.finish_reason) == ("", "cancelled")
    assert list(reply) == []


# ---- what is told


def test_tokens_and_times_are_told(make) -> None:
    began = time.perf_counter()
    model = make(says(Thought("hm"), "a", "", "b", usage=Usage(103, 8, cached=40, thinking=2)))
    reply = model.generate(HELLO)
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = reply.stats

    reply.wait()
    reply.wait()
    assert list(reply) == [Thought("hm"), "a", "b"]
    stats = reply.stats

    assert (stats.prompt_tokens, stats.reused_tokens, stats.decoded_tokens) == (103, 40, 63)
    assert (stats.generated_tokens, stats.window_tokens, stats.finish_reason) == (8, 1000, "stop")
    assert 0 <= stats.ttft_ms <= stats.total_ms <= 1e3 * (time.perf_counter() - began)
    assert stats.decode_ms == pytest.approx(stats.total_ms - stats.ttft_ms)
    assert (stats.warnings, stats.is_estimated) == ((), False)
    assert (reply.text, reply.thought, reply.token_ids, reply.tool_calls) == ("ab", "", (), ())
    assert reply.prompt_tokens_per_message == (103,)
    reply.close()
    assert reply.stats is stats


def test_without_counts_everything_is_an_estimate(make) -> None:
    reply = make(says()).generate(HELLO)
    assert list(reply) == []

    stats = reply.stats
    assert (stats.prompt_tokens, stats.reused_tokens, stats.generated_tokens) == (103, 0, 0)
    assert stats.is_estimated
    assert stats.ttft_ms == stats.total_ms
    assert stats.decode_ms == 0


def test_more_cached_tokens_than_the_prompt_has_are_not_believed(make) -> None:
    reply = make(says("ok", usage=Usage(103, 1, cached=500))).generate(HELLO)
    list(reply)

    assert (reply.stats.reused_tokens, reply.stats.decoded_tokens) == (103, 0)


def test_retries_are_told(make) -> None:
    busy = ProviderUnavailableError("busy")
    reply = make(busy, busy, says("ok")).generate(HELLO)
    assert list(reply) == ["ok"]

    assert reply.stats.warnings == ("the request was sent 3 times before it was answered",)


def test_an_answer_that_does_not_end_is_ended(make) -> None:
    most = 1 << 16
    assert len("".join(make(says("a" * (most - 1), "b")).generate(HELLO, max_tokens=9))) == most
    reply = make(says("a" * most, "b", "c")).generate(HELLO, max_tokens=1024 - 103)
    with pytest.raises(ProviderError, match="the answer of provider work does not end"):
        list(reply)
    assert reply.stats.finish_reason == "cancelled"
    # Thoughts count, and a long answer may have 64 characters a token.
    with pytest.raises(ProviderError, match="does not end"):
        list(make(says(Thought("a" * most), "b")).generate(HELLO, max_tokens=9))
    long = make(says("a" * (64 * 2000)), window=5000).generate(HELLO, max_tokens=2000)
    assert len("".join(long)) == 64 * 2000
    with pytest.raises(ProviderError, match="does not end"):
        list(make(says("a" * (64 * 2000 + 1)), window=5000).generate(HELLO, max_tokens=2000))


def test_a_cancelled_answer_keeps_what_was_said(make) -> None:
    waits = threading.Event()

    def slowly() -> Iterator[Event]:
        yield "a"
        waits.wait(30)
        yield "b"

    with make(slowly()).generate(HELLO) as reply:
        assert next(reply) == "a"
        reply.cancel()
        waits.set()
        assert list(reply) == []

    assert (reply.text, reply.stats.finish_reason) == ("a", "cancelled")


# ---- how it is opened


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [
        ({"kind": "openai"}, True),
        ({"kind": "openai", "base_url": "http://127.0.0.1:1/v1"}, False),
        ({"kind": "shepherd", "base_url": "http://127.0.0.1:1/v1"}, False),
        ({"kind": "anthropic"}, True),
        ({"kind": "openai", "model": "m"}, False),
    ],
)
def test_a_model_must_be_named_unless_the_server_chooses_one(fields, is_refused: bool) -> None:
    provider = ProviderSettings("work", **{"api_key": "sk-1", **fields})
    if not is_refused:
        open_remote(provider).close()
        return

    with pytest.raises(UsageError, match=r"^provider work has no model$") as caught:
        open_remote(provider)
    assert caught.value.hint == "shepherd provider set work model NAME, or -m NAME"


def test_a_provider_in_this_process_is_not_remote() -> None:
    with pytest.raises(UsageError, match="provider home is in this process"):
        open_remote(ProviderSettings("home", "llamacpp"))

"""What a remote model learns from turn to turn, and keeps."""

from __future__ import annotations

import json
import math

import pytest

from shepherd._native.tokens import CharsPerToken
from shepherd.errors import UsageError
from shepherd.providers.accounting import RatioStore
from shepherd.types import Message, Tool
from tests.providers.test_chat_completions import answer
from tests.providers.upstream import breaks_off, hangs, says, usage

SYSTEM = Message("system", "s" * 400)


def test_tokens_of_messages_come_from_the_growth_of_the_prompt(new_model):
    model = new_model("openai", says("A" * 40, counts=usage(150, 10)), says("ok", counts=usage(240, 1)))
    first = Message("user", "u" * 200)

    _, reply = answer(model, [SYSTEM, first])
    before = reply.prompt_tokens_per_message
    _, reply = answer(model, [SYSTEM, first, Message("assistant", "A" * 40), Message("user", "v" * 300)])

    assert sum(before) == 150
    assert reply.prompt_tokens_per_message == (*before, 10, 240 - 150 - 10)


def test_waiting_for_the_first_piece_takes_nothing_away(new_model):
    model = new_model("openai", says("one", " two", counts=usage(150, 10)))

    with model.generate([SYSTEM, Message("user", "u")]) as reply:
        reply.wait()
        reply.wait()
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = reply.stats

        assert [*reply] == ["one", " two"]
        assert [*reply] == []
        reply.wait()
        assert [*reply] == []

    stats = reply.stats
    assert (reply.text, stats.generated_tokens) == ("one two", 10)
    assert min(stats.ttft_ms, stats.decode_ms) > 0
    assert stats.ttft_ms + stats.decode_ms == pytest.approx(stats.total_ms)


def test_an_answer_of_less_than_nothing_is_refused(new_model):
    model = new_model("openai", says("one"))

    with pytest.raises(UsageError, match="max_tokens is -1"):
        model.generate([SYSTEM, Message("user", "u")], max_tokens=-1)

    assert model.upstream.asked == []


def test_thinking_is_no_part_of_the_answer_that_comes_back(new_model):
    model = new_model(
        "openai", says("A" * 40, counts=usage(150, 510, thinking=500)), says("ok", counts=usage(240, 1))
    )
    first = Message("user", "u" * 200)

    answer(model, [SYSTEM, first])
    _, reply = answer(model, [SYSTEM, first, Message("assistant", "A" * 40), Message("user", "v" * 300)])

    assert reply.prompt_tokens_per_message[2:] == (10, 80)


def test_thinking_that_the_server_does_not_tell_apart_is_no_part_of_the_answer_either(new_model):
    thinks = {"reasoning_content": "t" * 2000}
    model = new_model(
        "openai", says(thinks, "A" * 40, counts=usage(150, 510)), says("ok", counts=usage(240, 1))
    )
    first = Message("user", "u" * 200)

    answer(model, [SYSTEM, first])
    _, reply = answer(model, [SYSTEM, first, Message("assistant", "A" * 40), Message("user", "v" * 300)])

    back, asked = reply.prompt_tokens_per_message[2:]
    assert back + asked == 240 - 150
    assert back < asked / 4  # 40 characters against 300


def test_characters_per_token_follow_the_server_and_outlast_the_process(new_model, tmp_path):
    counts = usage(200, 1)  # 1000 characters: 5 a token

    for _ in range(3):
        model = new_model("openai", says("ok", counts=counts))
        answer(model, [Message("system", "s" * 500), Message("user", "u" * 500)])

    stored = json.loads((tmp_path / "ratios.json").read_text())
    assert stored.keys() == {"openai:m"}
    assert 4.0 < stored["openai:m"] < 5.0
    assert model.count_tokens("x" * 10_000) == math.ceil(10_000 / stored["openai:m"])


def test_models_have_averages_of_their_own(new_model, tmp_path):
    store = RatioStore(tmp_path / "ratios.json")
    store.save("openai:other", CharsPerToken(2.5))

    assert new_model("openai", says("ok"), model="other").count_tokens("x" * 1000) == 400
    assert new_model("openai", says("ok"), model="m").count_tokens("x" * 1000) == 286


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"openai:m": "x"}', b'{"openai:m": NaN}', b"\xff"])
def test_a_damaged_file_of_averages_costs_nothing_else(tmp_path, content):
    path = tmp_path / "ratios.json"
    path.write_bytes(content)

    assert RatioStore(path).load("openai:m").value == 3.5


def test_averages_that_cannot_be_written_are_no_error(tmp_path):
    (tmp_path / "file").write_text("")

    store = RatioStore(tmp_path / "file" / "ratios.json")
    store.save("openai:m", CharsPerToken(3.0))

    assert store.load("openai:m").value == 3.5  # the default


def test_a_failed_answer_teaches_nothing(new_model):
    from shepherd.errors import ProviderError

    model = new_model("openai", breaks_off("Hel"), says("ok", counts=usage(150, 1)))

    with pytest.raises(ProviderError):
        answer(model, [SYSTEM, Message("user", "hello")])
    _, reply = answer(model, [SYSTEM, Message("user", "hello")])

    assert sum(reply.prompt_tokens_per_message) == 150


def test_a_cancelled_answer_is_counted_with_the_next_prompt(new_model):
    model = new_model("openai", hangs(["A" * 40]), says("ok", counts=usage(200, 1)))
    first = Message("user", "u" * 200)

    with model.generate([SYSTEM, first]) as reply:
        next(reply)
    _, reply = answer(model, [SYSTEM, first, Message("assistant", "A" * 40), Message("user", "v" * 40)])

    assert sum(reply.prompt_tokens_per_message) == 200


def test_window_leaves_the_answer_only_what_the_prompt_does_not_take(new_model):
    model = new_model("openai", says("ok"), window=200)

    answer(model, [Message("user", "u" * 350)], max_tokens=1000)

    assert model.upstream.asked[0].body["max_tokens"] == 200 - (100 + 4)


@pytest.mark.parametrize(("asked", "sent"), [(16, 16), (5000, 5000), (None, 4096)])
def test_providers_longest_answer_stands_only_where_nobody_asked_for_one(new_model, asked, sent):
    model = new_model("openai", says("ok"), max_tokens=4096)

    answer(model, max_tokens=asked)

    assert model.upstream.asked[0].body["max_tokens"] == sent


TOOL = Tool("clock", "Tell the time. " * 20, {"type": "object"})
LATER = Tool("clock", "Tell the date. " * 20, {"type": "object"})


def test_tools_belong_to_the_system_prompt_and_other_tools_are_another_one(new_model):
    counts = [says("ok", counts=usage(n, 1)) for n in (600, 700, 900)]
    model = new_model("openai", *counts)
    first = Message("user", "u" * 400)
    later = [first, Message("assistant", "ok"), Message("user", "v" * 40)]

    _, reply = answer(model, [SYSTEM, first], tools=[TOOL])
    system, user = reply.prompt_tokens_per_message
    assert system + user == 600
    assert system > 1.5 * user  # 400 characters and 300 of the tool against 400
    _, reply = answer(model, [SYSTEM, *later], tools=[TOOL])
    assert reply.prompt_tokens_per_message[:2] == (system, user)
    _, reply = answer(model, [SYSTEM, *later], tools=[LATER])
    assert reply.prompt_tokens_per_message[1:3] == (user, 1)
    assert reply.prompt_tokens_per_message[0] > system


def test_a_long_system_prompt_beside_tools_has_its_share_of_the_tokens(new_model):
    model = new_model("openai", says("ok", counts=usage(600, 1)))

    _, reply = answer(model, [Message("system", "s" * 4000), Message("user", "u" * 40)], tools=[TOOL])

    system, user = reply.prompt_tokens_per_message
    assert system + user == 600
    assert user < 12  # 40 characters of 4,400

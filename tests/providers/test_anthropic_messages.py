"""Anthropic's protocol through the published client, and where its cache marks stand."""

from __future__ import annotations

import pytest

from shepherd.pictures import MARK as PICTURE_MARK
from shepherd.pictures import base64_of
from shepherd.types import Message, Picture, ReplySchema, Sampling, Thought, Tool, ToolCall
from tests.providers.test_chat_completions import QUESTION, answer
from tests.providers.upstream import claude_says, refuses
from tests.vision_models import png

WEATHER = Tool("weather", "tells the weather", {"type": "object"})
MARK = {"type": "ephemeral"}


def test_answer_comes_in_the_pieces_in_which_it_was_sent(new_model):
    pieces, reply = answer(new_model("anthropic", claude_says({"text": ["Hel", "lo"]})))

    assert pieces == ["Hel", "lo"]
    assert reply.stats.finish_reason == "stop"


def test_key_goes_where_the_client_puts_it(new_model):
    model = new_model("anthropic", claude_says({"text": ["ok"]}))

    answer(model)

    [asked] = model.upstream.asked
    assert (asked.path, asked.key) == ("/v1/messages", "sk-test-1234567890abcdef")


def test_a_key_in_the_environment_is_not_sent_beside_ours(new_model, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-other-0987654321")
    model = new_model("anthropic", claude_says({"text": ["ok"]}), api_key="")

    answer(model)

    assert "sk-other-0987654321" not in str(model.upstream.asked[0].headers)


def test_usage_counts_what_was_read_from_the_cache_and_written_to_it(new_model):
    counts = {"input_tokens": 12, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 100}

    _, reply = answer(new_model("anthropic", claude_says({"text": ["ok"]}, prompt=counts, answer=7)))

    stats = reply.stats
    assert (stats.prompt_tokens, stats.reused_tokens, stats.decoded_tokens) == (142, 100, 42)
    assert stats.generated_tokens == 7


def test_thoughts_are_kept_apart_from_the_answer(new_model):
    model = new_model("anthropic", claude_says({"thinking": "I add."}, {"text": ["Four."]}), thinking=2000)

    pieces, reply = answer(model, max_tokens=100, sampling=Sampling())

    assert pieces == [Thought("I add."), "Four."]
    assert reply.text == "Four."
    body = model.upstream.asked[0].body
    assert (body["thinking"], body["max_tokens"]) == ({"type": "enabled", "budget_tokens": 2000}, 2100)


def test_tool_calls_arrive_whole(new_model):
    script = claude_says(
        {"text": ["I look."]}, {"tool": "weather", "input": ['{"pla', 'ce": "Rome"}']}, reason="tool_use"
    )

    pieces, reply = answer(new_model("anthropic", script), tools=[WEATHER])

    assert pieces == ["I look.", ToolCall("toolu_1", "weather", '{"place": "Rome"}')]
    assert reply.stats.finish_reason == "tool_calls"


def test_marks_stand_at_the_end_of_tools_system_and_history(new_model):
    model = new_model("anthropic", claude_says({"text": ["ok"]}))
    history = [Message("user", "hi"), Message("assistant", "Hi!")]

    answer(model, [QUESTION[0], *history, Message("user", "and now?")], tools=[WEATHER, WEATHER])

    body = model.upstream.asked[0].body
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, MARK]
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    marked = [message["content"][-1].get("cache_control") for message in body["messages"]]
    assert marked == [None, MARK, None]


def test_marked_prefix_is_the_same_bytes_in_the_next_turn(new_model):
    model = new_model("anthropic", claude_says({"text": ["ok"]}))
    conversation = [*QUESTION, Message("assistant", "Hi!"), Message("user", "and now?")]

    answer(model, conversation)
    answer(model, [*conversation, Message("assistant", "Now."), Message("user", "then?")])

    first, second = (asked.body for asked in model.upstream.asked)
    text_of = [[block["text"] for block in message["content"]] for message in first["messages"][:2]]
    assert first["system"] == second["system"]
    assert text_of == [[block["text"] for block in message["content"]] for message in second["messages"][:2]]


def test_results_of_tools_are_sent_as_the_users(new_model):
    model = new_model("anthropic", claude_says({"text": ["Sunny."]}))
    call = ToolCall("toolu_1", "weather", '{"place": "Rome"}')
    messages = [
        *QUESTION,
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "sunny", tool_call_id="toolu_1"),
    ]

    answer(model, messages)

    _, called, result = model.upstream.asked[0].body["messages"]
    assert called["content"] == [
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"place": "Rome"}}
    ]
    assert result == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}],
    }


def test_pictures_in_results_of_tools_are_sent(new_model):
    model = new_model("anthropic", claude_says({"text": ["A cat."]}))
    call = ToolCall("toolu_1", "look", "{}")
    picture = Picture(png("red"))
    messages = [
        *QUESTION,
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "", f"seen: {PICTURE_MARK}", tool_call_id="toolu_1", pictures=(picture,)),
    ]

    answer(model, messages)

    [result] = model.upstream.asked[0].body["messages"][-1]["content"]
    text, shown = result["content"]
    assert text["text"].strip() == "seen:"
    assert (shown["type"], shown["source"]["data"]) == ("image", base64_of(picture))


def test_an_empty_answer_in_the_history_is_no_empty_text(new_model):
    model = new_model("anthropic", claude_says({"text": ["ok"]}))

    answer(model, [*QUESTION, Message("assistant", ""), Message("user", "well?")])

    assert model.upstream.asked[0].body["messages"][1]["content"][0]["text"] == "(no answer)"


@pytest.mark.parametrize(
    ("reason", "told"), [("max_tokens", "length"), ("refusal", "filtered"), ("stop_sequence", "stop")]
)
def test_reason_of_the_end_is_told(new_model, reason, told):
    _, reply = answer(new_model("anthropic", claude_says({"text": ["ok"]}, reason=reason)))

    assert reply.stats.finish_reason == told


def test_temperature_stays_within_what_anthropic_takes(new_model):
    model = new_model("anthropic", claude_says({"text": ["ok"]}), sends=("temperature", "min_p"))

    answer(model, sampling=Sampling(temperature=1.5, min_p=0.1))

    body = model.upstream.asked[0].body
    assert body["temperature"] == 1.0
    assert "min_p" not in body


def test_what_the_answer_has_to_be_is_said_in_its_own_fields(new_model):
    model = new_model("anthropic", *[claude_says({"text": ["{}"]})] * 2)
    schema = ReplySchema({"type": "object", "properties": {}, "additionalProperties": False})

    answer(model, tools=[WEATHER], stop=["END"], schema=schema, must_call=True)
    answer(model, tools=[WEATHER], must_call="weather")

    asked, named = (asked.body for asked in model.upstream.asked)
    assert asked["stop_sequences"] == ["END"]
    assert asked["tool_choice"] == {"type": "any"}
    assert asked["output_config"] == {"format": {"type": "json_schema", "schema": dict(schema.schema)}}
    assert named["tool_choice"] == {"type": "tool", "name": "weather"}
    assert not {"stop_sequences", "output_config"} & named.keys()


@pytest.mark.parametrize(("stop", "stopped_by"), [("b", 1), ("another", -1), (None, -1)])
def test_the_stop_string_that_ended_an_answer_is_told(new_model, stop, stopped_by):
    model = new_model("anthropic", claude_says({"text": ["1"]}, reason="stop_sequence", stop=stop))

    _, reply = answer(model, stop=["a", "b"])

    assert (reply.stats.finish_reason, reply.stats.stopped_by) == ("stop", stopped_by)


@pytest.mark.parametrize("parts", [[], [""], ["{}"]])
def test_a_call_without_arguments_has_an_empty_object(new_model, parts):
    model = new_model("anthropic", claude_says({"tool": "weather", "input": parts}, reason="tool_use"))

    pieces, _ = answer(model, tools=[WEATHER])

    assert pieces == [ToolCall("toolu_1", "weather", "{}")]


def test_a_call_is_demanded_without_a_thought_before_it(new_model):
    model = new_model("anthropic", claude_says({"text": ["ok"]}), thinking=2000)

    answer(model, tools=[WEATHER], must_call=True)

    assert "thinking" not in model.upstream.asked[0].body


def test_results_of_calls_that_were_made_together_go_into_one_message(new_model):
    model = new_model("anthropic", claude_says({"text": ["Sunny."]}))
    calls = tuple(ToolCall(f"toolu_{i}", "weather", "{}") for i in range(2))
    results = [Message("tool", f"sunny {i}", tool_call_id=f"toolu_{i}") for i in range(2)]
    once = [*QUESTION, Message("assistant", "", tool_calls=calls), *results]

    answer(model, [*once, Message("assistant", "Sunny."), Message("user", "sure?")])
    answer(model, [*once, Message("user", "well?")])

    whole, unanswered = (asked.body["messages"] for asked in model.upstream.asked)
    assert [message["role"] for message in whole] == ["user", "assistant", "user", "assistant", "user"]
    assert [(block["tool_use_id"], block["content"]) for block in whole[2]["content"]] == [
        ("toolu_0", "sunny 0"),
        ("toolu_1", "sunny 1"),
    ]
    assert [block["type"] for block in unanswered[2]["content"]] == ["tool_result", "tool_result"]
    assert [block.get("cache_control") for block in unanswered[2]["content"]] == [None, MARK]
    assert unanswered[3]["content"] == [{"type": "text", "text": "well?"}]


# ---- what a model does not take

ENABLED = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
ADAPTIVE = "adaptive thinking is not supported on this model"


def refusing(message, status=400):
    return refuses(status, {"type": "invalid_request_error", "message": message})


def test_a_model_that_chooses_how_long_it_thinks_is_asked_to_and_that_is_kept(new_model):
    model = new_model("anthropic", refusing(ENABLED), claude_says({"text": ["ok"]}), thinking=2000, retries=0)

    answer(model, max_tokens=100)
    answer(model, max_tokens=100)

    bodies = [asked.body for asked in model.upstream.asked]
    assert [body["thinking"]["type"] for body in bodies] == ["enabled", "adaptive", "adaptive"]
    assert bodies[1]["thinking"] == {"type": "adaptive"}
    assert [body["max_tokens"] for body in bodies] == [2100, 2100, 2100]


def test_a_model_that_does_not_think_at_all_answers_without(new_model):
    script = [refusing(ENABLED), refusing(ADAPTIVE), claude_says({"text": ["ok"]})]
    model = new_model("anthropic", *script, thinking=2000, retries=0)

    pieces, _ = answer(model, max_tokens=100)

    assert pieces == ["ok"]
    assert "thinking" not in model.upstream.asked[-1].body
    assert model.upstream.asked[-1].body["max_tokens"] == 100


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("`temperature` is deprecated for this model.", {"top_p", "top_k"}),
        ("top_k: Extra inputs are not permitted", {"temperature", "top_p"}),
        ("`temperature` and `top_p` cannot both be specified for this model.", {"temperature", "top_k"}),
        ("temperature, top_p and top_k are not supported by this model", set()),
    ],
)
def test_sampling_that_a_model_does_not_take_is_left_out_from_then_on(new_model, message, left):
    names = ("temperature", "top_p", "top_k")
    model = new_model("anthropic", refusing(message), claude_says({"text": ["ok"]}), sends=names, retries=0)
    sampling = Sampling(temperature=0.5, top_p=0.9, top_k=5)

    answer(model, sampling=sampling)
    answer(model, sampling=sampling)

    first, *others = (asked.body.keys() & set(names) for asked in model.upstream.asked)
    assert first == set(names)
    assert others == [left, left]


@pytest.mark.parametrize(
    "message", ["temperature: must be a number", "max_tokens must be greater than thinking.budget_tokens"]
)
def test_what_is_wrong_with_a_value_is_told(new_model, message):
    from shepherd.errors import ProviderError

    model = new_model("anthropic", refusing(message), sends=("temperature",), retries=0)

    with pytest.raises(ProviderError, match="does not understand"):
        answer(model, sampling=Sampling(temperature=0.5))

    assert len(model.upstream.asked) == 1

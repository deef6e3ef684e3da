"""OpenAI's protocol through the published client: what is sent, and what comes of the answer."""

from __future__ import annotations

import pytest

from shepherd.errors import ProviderError
from shepherd.pictures import MARK, base64_of
from shepherd.prompt.exchanges import message_of
from shepherd.types import Message, Picture, ReplySchema, Sampling, Thought, Tool, ToolCall
from tests.providers.upstream import refuses, says, usage
from tests.vision_models import png

QUESTION = [Message("system", "Be brief."), Message("user", "hello")]
WEATHER = Tool(
    "weather", "tells the weather", {"type": "object", "properties": {"place": {"type": "string"}}}
)


def answer(model, messages=QUESTION, **options):
    """The pieces of one answer, and the reply at its end."""
    with model.generate(messages, **options) as reply:
        return list(reply), reply


def test_answer_comes_in_the_pieces_in_which_it_was_sent(new_model):
    pieces, reply = answer(new_model("openai", says("Hel", "lo", " — ", "wörld")))

    assert pieces == ["Hel", "lo", " — ", "wörld"]
    assert reply.text == "Hello — wörld"
    assert reply.stats.finish_reason == "stop"


def test_request_holds_the_conversation_as_it_was_sent(new_model):
    model = new_model("openai", says("ok"))
    told = Message("user", "who am I?", sent="who am I?\n\n[facts: name=Steve]")

    answer(model, [QUESTION[0], Message("user", "hi"), Message("assistant", "Hi!"), told], max_tokens=77)

    [asked] = model.upstream.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "who am I?\n\n[facts: name=Steve]"},
    ]
    assert (asked.body["model"], asked.body["max_tokens"], asked.body["stream"]) == ("m", 77, True)
    assert asked.key == "sk-test-1234567890abcdef"


def test_usage_of_the_server_is_the_usage_of_the_turn(new_model):
    _, reply = answer(new_model("openai", says("ok", counts=usage(100, 7, cached=60))))

    stats = reply.stats
    assert (stats.prompt_tokens, stats.reused_tokens, stats.decoded_tokens) == (100, 60, 40)
    assert (stats.generated_tokens, stats.is_estimated) == (7, False)


def test_without_usage_the_tokens_are_estimates_and_say_so(new_model):
    _, reply = answer(new_model("openai", says("seven letters"[:7])))

    assert (reply.stats.generated_tokens, reply.stats.is_estimated) == (2, True)
    assert reply.stats.prompt_tokens == sum(reply.prompt_tokens_per_message) > 0


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_kept_apart_from_the_answer(new_model, field):
    pieces, reply = answer(new_model("openai", says({field: "Let me "}, {field: "see."}, "Four.")))

    assert pieces == [Thought("Let me "), Thought("see."), "Four."]
    assert reply.text == "Four."


def test_thoughts_inside_the_answer_are_told_apart_too(new_model):
    pieces, reply = answer(new_model("ollama", says("<th", "ink>I add", " them.</thi", "nk>\n\nFo", "ur.")))

    assert "".join(p.text for p in pieces if isinstance(p, Thought)) == "I add them."
    assert reply.text == "Four."


def test_tool_calls_arrive_whole(new_model):
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    parts = [{"index": 0, "function": {"arguments": part}} for part in ('{"pla', 'ce": "Rome"}')]
    second = {"index": 1, "id": "call_2", "function": {"name": "weather", "arguments": "{}"}}
    deltas = [{"tool_calls": [call]} for call in (first, *parts, second)]

    pieces, reply = answer(new_model("openai", says(*deltas, reason="tool_calls")), tools=[WEATHER])

    assert pieces == [ToolCall("call_1", "weather", '{"place": "Rome"}'), ToolCall("call_2", "weather", "{}")]
    assert reply.stats.finish_reason == "tool_calls"


def test_tools_and_their_results_are_sent(new_model):
    model = new_model("openai", says("Sunny."))
    call = ToolCall("call_1", "weather", '{"place": "Rome"}')
    messages = [
        *QUESTION,
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "sunny", tool_call_id="call_1"),
    ]

    answer(model, messages, tools=[WEATHER])

    body = model.upstream.asked[0].body
    assert body["tools"][0]["function"]["parameters"]["properties"] == {"place": {"type": "string"}}
    assert body["messages"][2]["tool_calls"][0]["function"] == {
        "name": "weather",
        "arguments": '{"place": "Rome"}',
    }
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}


def test_pictures_in_results_of_tools_follow_the_last_result(new_model):
    model = new_model("openai", says("A cat."))
    calls = (ToolCall("call_1", "look", "{}"), ToolCall("call_2", "look", "{}"))
    picture = Picture(png("red"))
    messages = [
        *QUESTION,
        Message("assistant", "", tool_calls=calls),
        Message("tool", "", f"seen: {MARK}", tool_call_id="call_1", pictures=(picture,)),
        Message("tool", "nothing", tool_call_id="call_2"),
    ]

    for more in ([], [Message("assistant", "Two."), Message("user", "And?")]):
        answer(model, [*messages, *more])

        first, second, shown, *rest = model.upstream.asked[-1].body["messages"][3:]
        assert first == {"role": "tool", "tool_call_id": "call_1", "content": "seen: [picture]"}
        assert second == {"role": "tool", "tool_call_id": "call_2", "content": "nothing"}
        assert shown["role"] == "user"
        assert shown["content"][0]["image_url"]["url"].endswith(base64_of(picture))
        assert [message["role"] for message in rest] == [message.role for message in more]


def test_a_prompt_is_counted_with_its_tools_and_calls(new_model):
    model = new_model("openai", says("ok"))
    call = ToolCall("call_1", "weather", '{"place": "' + "x" * 4000 + '"}')
    called = [*QUESTION, Message("assistant", "", tool_calls=(call,))]
    large = Tool("weather", "w" * 40_000, {"type": "object"})

    plain = model.count_prompt_tokens(QUESTION)

    assert plain < 50
    assert model.count_prompt_tokens(called) > plain + 500
    assert model.count_prompt_tokens(QUESTION, [large]) > plain + 5000
    assert model.count_prompt_tokens([Message("system", "Be brief."), *QUESTION], [large]) > plain + 5000


def test_a_call_without_arguments_has_an_empty_object(new_model):
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "now", "arguments": ""}}

    pieces, _ = answer(new_model("openai", says({"tool_calls": [call]}, reason="tool_calls")))

    assert pieces == [ToolCall("call_1", "now", "{}")]


@pytest.mark.parametrize(
    ("reason", "told"), [("length", "length"), ("content_filter", "filtered"), ("eos", "stop")]
)
def test_reason_of_the_end_is_told(new_model, reason, told):
    _, reply = answer(new_model("openai", says("ok", reason=reason)))

    assert reply.stats.finish_reason == told


def test_only_sampling_that_was_set_is_sent(new_model):
    model = new_model("openai", says("ok"), sends=("temperature", "top_k"))

    answer(model, sampling=Sampling(temperature=0.0, top_k=5, top_p=0.5))

    body = model.upstream.asked[0].body
    assert (body["temperature"], body["top_k"]) == (0.0, 5)
    assert not {"top_p", "min_p", "seed", "repeat_penalty"} & body.keys()


@pytest.mark.parametrize("kind", ["gemini", "ollama"])
def test_fields_that_a_server_never_heard_of_are_not_sent(new_model, kind):
    model = new_model(kind, says("ok"), sends=("top_k",))

    answer(model, sampling=Sampling(top_k=5))

    assert "top_k" not in model.upstream.asked[0].body


def test_a_field_that_the_server_refuses_gets_its_other_name_and_keeps_it(new_model):
    refusal = {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "code": "unsupported_parameter",
        "param": "max_tokens",
    }
    model = new_model("openai", refuses(400, refusal), says("ok"), retries=0)

    answer(model, max_tokens=50)
    answer(model, max_tokens=50)

    bodies = [asked.body for asked in model.upstream.asked]
    assert ["max_tokens" in body for body in bodies] == [True, False, False]
    assert [body.get("max_completion_tokens") for body in bodies] == [None, 50, 50]


def test_a_server_that_refuses_everything_is_not_asked_for_ever(new_model):
    from shepherd.errors import ProviderError

    told = {"message": "unknown field max_tokens, max_completion_tokens, stream_options, seed, model"}
    model = new_model("openai", refuses(400, told))

    with pytest.raises(ProviderError, match="does not understand"):
        answer(model)

    assert len(model.upstream.asked) == 3


@pytest.mark.parametrize(
    ("fields", "allowed", "sent"),
    [({}, True, None), ({}, False, False), ({"memory": False}, True, False), ({"memory": True}, True, None)],
)
def test_a_remote_shepherd_is_told_when_its_memory_is_not_wanted(new_model, fields, allowed, sent):
    model = new_model("shepherd", says("ok"), asks_memory=lambda: allowed, **fields)

    answer(model)

    assert model.upstream.asked[0].body.get("memory") is sent


def test_user_id_is_never_sent(new_model):
    model = new_model("openai", says("ok"))

    answer(model)

    assert "user" not in model.upstream.asked[0].body


def test_a_server_without_a_key_is_asked_without_one(new_model):
    model = new_model("ollama", says("ok"), api_key="")

    answer(model)

    assert model.upstream.asked[0].key == "none"


def test_what_the_answer_has_to_be_goes_along_and_is_left_out_where_nothing_is_asked(new_model):
    model = new_model("openai", says("{}"), says("{}"))
    schema = ReplySchema({"type": "object", "properties": {"a": {"type": "integer"}}}, is_strict=True)

    answer(model, tools=[WEATHER], stop=["END"], schema=schema, must_call="weather")
    answer(model, tools=[WEATHER])

    asked, bare = (asked.body for asked in model.upstream.asked)
    assert asked["stop"] == ["END"]
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert asked["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": dict(schema.schema), "strict": True},
    }
    assert not {"stop", "tool_choice", "response_format"} & bare.keys()


def test_an_answer_in_json_and_any_call_are_asked_for_in_their_own_words(new_model):
    model = new_model("openai", says("{}"), says("{}"))

    answer(model, schema=ReplySchema({"type": "object"}), tools=[WEATHER], must_call=True)
    answer(model, schema=ReplySchema({"type": "array"}))

    first, second = (asked.body for asked in model.upstream.asked)
    assert (first["response_format"], first["tool_choice"]) == ({"type": "json_object"}, "required")
    assert second["response_format"]["json_schema"] == {"name": "answer", "schema": {"type": "array"}}


# ---- calls as servers really send them


def called(*parts):
    return says(*[{"tool_calls": [part]} for part in parts], reason="tool_calls")


def part(arguments, name=None, **more):
    return {"function": {"arguments": arguments} | ({"name": name} if name else {}), **more}


ROME, OSLO = ToolCall("a", "weather", '{"place": "Rome"}'), ToolCall("b", "weather", '{"place": "Oslo"}')


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        (
            [
                part(ROME.arguments, "weather", index=0, id="a"),
                part(OSLO.arguments, "weather", index=0, id="b"),
            ],
            [ROME, OSLO],
        ),
        (
            [
                part('{"place": ', "weather", index=0, id="a"),
                part('"Rome"}', index=0),
                part('{"place": ', "weather", index=0, id="b"),
                part('"Oslo"}', index=0),
            ],
            [ROME, OSLO],
        ),
        ([part('{"place": ', "weather", id="a"), part('"Rome"}')], [ROME]),
        ([part(ROME.arguments, "weather", id="a"), part(OSLO.arguments, "weather", id="b")], [ROME, OSLO]),
        (
            [part('{"place": ', "weather", index=0, id="a"), part('"Rome"}', "weather", index=0, id="a")],
            [ROME],
        ),
        (
            [
                part('{"place": ', "weather", index=0, id="a"),
                part('{"place": ', "weather", index=1, id="b"),
                part('"Rome"}', index=0),
                part('"Oslo"}', index=1),
            ],
            [ROME, OSLO],
        ),
        (
            [
                part("", "weather", index=0, id="a"),
                part('{"place": ', index=0, id="x"),
                part('"Rome"}', index=0, id="y"),
            ],
            [ROME],
        ),
    ],
    ids=[
        "one index for all",
        "one index for all, in parts",
        "parts without an index",
        "no index",
        "the id again",
        "by turns",
        "another id with each part",
    ],
)
def test_calls_are_told_apart_however_they_are_numbered(new_model, parts, calls):
    pieces, _ = answer(new_model("openai", called(*parts)), tools=[WEATHER])

    assert pieces == calls


def test_calls_without_an_id_get_one_each(new_model):
    model = new_model("openai", called(part("{}", "weather"), part("{}", "weather")))

    [first, second], _ = answer(model, tools=[WEATHER])

    assert (first.name, first.arguments) == (second.name, second.arguments) == ("weather", "{}")
    assert "" not in (first.id, second.id)
    assert first.id != second.id


SUNNY = Message("tool", "sunny", tool_call_id="a")
SIGNED = {"google": {"thought_signature": "c2lnbmF0dXJl", "more": [1, None]}}


def test_what_a_server_signs_a_call_with_comes_back_to_it_and_to_no_other(new_model):
    signed = part("{}", "weather", index=0, id="a", extra_content=SIGNED)
    ours = new_model("gemini", called(signed), says("ok"))
    other = new_model("openai", says("ok"))

    [call], _ = answer(ours, tools=[WEATHER])
    told = Message("assistant", "", tool_calls=(call,))
    messages = [*QUESTION, told, Message("tool", "sunny", tool_call_id="a")]
    answer(ours, messages)
    answer(other, messages)

    sent, elsewhere = (
        model.upstream.asked[-1].body["messages"][2]["tool_calls"][0] for model in (ours, other)
    )
    assert sent["extra_content"] == SIGNED
    assert "extra_content" not in elsewhere


def thinks(name="reasoning_content"):
    call = part("{}", "weather", index=0, id="a")
    return says({name: "Let me "}, {name: "look."}, {"tool_calls": [call]}, reason="tool_calls")


def test_a_thought_before_a_call_comes_back_to_its_server_and_to_no_other(new_model):
    ours = new_model("openai", thinks(), says({"reasoning_content": "I see."}, "Sunny."), says("ok"))
    other = new_model("openai", says("ok"))

    _, reply = answer(ours, tools=[WEATHER])
    messages = [*QUESTION, message_of(reply, calls=reply.tool_calls)]
    messages.append(Message("tool", "sunny", tool_call_id="a"))
    _, last = answer(ours, messages)
    messages += [message_of(last), Message("user", "And now?")]
    for model in (ours, other):
        answer(model, messages)

    told = [asked.body["messages"] for asked in (*ours.upstream.asked, *other.upstream.asked)]
    thoughts = [[message.get("reasoning_content") for message in one] for one in told]
    shown = [None, None, "Let me look.", None]
    assert thoughts == [[None, None], shown, [*shown, None, None], [None] * 6]
    assert "extra_content" not in told[1][2]["tool_calls"][0]


def test_a_thought_in_another_field_is_not_sent(new_model):
    model = new_model("openai", thinks("reasoning"), says("ok"))

    _, reply = answer(model, tools=[WEATHER])
    answer(model, [*QUESTION, message_of(reply, calls=reply.tool_calls), SUNNY])

    assert "Let me" not in str(model.upstream.asked[1].body)


MISSING = "Missing `reasoning_content` field in the assistant message at message index 2."


def test_a_server_that_misses_thoughts_of_another_model_gets_empty_ones(new_model):
    missing = refuses(400, {"message": MISSING, "type": "invalid_request_error"})
    model = new_model("openai", missing, missing, says("ok"), says("ok"))
    called = Message("assistant", "", tool_calls=(ToolCall("a", "weather", "{}"),), thought="Not yours.")
    messages = [*QUESTION, called, SUNNY, Message("assistant", "Sunny."), Message("user", "And now?")]

    for _ in range(2):
        answer(model, messages)

    thoughts = [
        [message.get("reasoning_content") for message in asked.body["messages"][2:]]
        for asked in model.upstream.asked
    ]
    all_empty = ["", None, "", None]
    assert thoughts == [[None] * 4, ["", None, None, None], all_empty, all_empty]


def test_a_server_that_always_misses_thoughts_is_not_asked_for_ever(new_model):
    model = new_model("openai", refuses(400, {"message": MISSING}))

    with pytest.raises(ProviderError, match="answers 400"):
        answer(model)

    assert len(model.upstream.asked) == 3


def test_a_server_that_refuses_the_thoughts_that_it_sent_gets_none(new_model):
    unknown = refuses(400, {"message": "Unknown field: reasoning_content"})
    model = new_model("openai", thinks(), unknown, says("ok"), says("ok"))

    _, reply = answer(model, tools=[WEATHER])
    for _ in range(2):
        answer(model, [*QUESTION, message_of(reply, calls=reply.tool_calls), SUNNY])

    assert ["reasoning_content" in str(asked.body) for asked in model.upstream.asked] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("content", [["li"], {"text": "di"}, 7, True])
def test_content_that_is_no_text_is_passed_over(new_model, content):
    pieces, reply = answer(new_model("openai", says("Hel", {"content": content}, "lo")))

    assert pieces == ["Hel", "lo"]
    assert reply.text == "Hello"

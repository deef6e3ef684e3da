"""Bodies of the chat APIs as requests in no API's shape: every field, every default, every limit."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from shepherd.server import anthropic_api, ollama_api, openai_api
from shepherd.server.chat import MOST_TOKENS, ChatRequest
from shepherd.server.errors import Denied, problem_of_fields
from shepherd.server.limits import MOST_MESSAGES, MOST_STOP_CHARS, MOST_TOOLS
from shepherd.types import ReplySchema, Thought, Tool, ToolCall

USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
NO_FIELDS = {"type": "object", "properties": {}}


def openai(**fields: Any) -> openai_api.ChatBody:
    return openai_api.ChatBody.model_validate({"messages": [USER], **fields})


def anthropic(**fields: Any) -> anthropic_api.MessagesBody:
    return anthropic_api.MessagesBody.model_validate({"messages": [USER], "max_tokens": 5, **fields})


def ollama(**fields: Any) -> ollama_api.ChatBody:
    return ollama_api.ChatBody.model_validate({"messages": [USER], **fields})


def with_options(**options: Any) -> ollama_api.ChatBody:
    return ollama(options=options)


def generate(**fields: Any) -> ollama_api.GenerateBody:
    return ollama_api.GenerateBody.model_validate({"prompt": "hi", **fields})


def said(request: ChatRequest) -> list[tuple[str, str]]:
    return [(message.role, message.raw) for message in request.messages]


def asked(request: ChatRequest) -> dict[str, Any]:
    """All but the messages, and only what is not the default."""
    plain = ChatRequest(request.messages)
    names = [name for name in ChatRequest.__slots__ if name != "messages"]
    return {name: getattr(request, name) for name in names if getattr(request, name) != getattr(plain, name)}


FUNCTION = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
BARE = {"type": "function", "function": {"name": "see"}}


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        (openai(), {}),
        (openai(n=None, stream=None, memory=True, stop=[], tools=[], modalities=["text"]), {}),
        (openai(response_format={"type": "text"}), {}),
        (
            openai(
                memory=False, memory_tools=True, temperature=0.5, top_p=0.9, seed=-2, top_k=3, max_tokens=7,
                stop=["a", "", "b"], tools=[FUNCTION, BARE],
                tool_choice={"type": "function", "function": {"name": "see"}}, logprobs=True, top_logprobs=2,
                parallel_tool_calls=False, session="talk", replaces=3, logit_bias={"7": 1.5, "3": -100}, n=2,
                response_format={"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": True}},
            ),
            {
                "uses_memory": False, "memory_tools": True, "max_tokens": 7, "stop": ("a", "b"),
                "sampling": {"temperature": 0.5, "top_p": 0.9, "seed": 2**32 - 3, "top_k": 3},
                "tools": (Tool("look", "Looks.", SCHEMA), Tool("see", "", NO_FIELDS)), "tool_choice": "see",
                "logprobs": 2, "parallel_calls": False, "session": "talk", "replaces": 3,
                "logit_bias": ((3, -math.inf), (7, 1.5)), "n": 2,
                "schema": ReplySchema(SCHEMA, "answer", True),
            },
        ),
        (openai(max_tokens=7, max_completion_tokens=8), {"max_tokens": 8}),
        (openai(stop="end"), {"stop": ("end",)}),
        (openai(top_p=0), {"sampling": {"temperature": 0, "top_p": 1}}),
        (openai(logprobs=True), {"logprobs": 0}),
        (openai(logprobs=False, top_logprobs=0), {}),
        (openai(tool_choice="required", memory_tools=True),
         {"tool_choice": "required", "memory_tools": True}),
        (openai(response_format={"type": "json_object"}), {"schema": ReplySchema({"type": "object"})}),
        (anthropic(), {"max_tokens": 5, "schema_field": "output_config.format"}),
        (
            anthropic(
                memory=False, memory_tools=True, temperature=0, top_p=0.5, top_k=0, stop_sequences=["x", ""],
                tools=[{"name": "look", "description": "Looks.", "input_schema": SCHEMA}, {"name": "see"}],
                tool_choice={"type": "tool", "name": "see", "disable_parallel_tool_use": True},
                output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
            ),
            {
                "uses_memory": False, "memory_tools": True, "max_tokens": 5, "stop": ("x",),
                "sampling": {"temperature": 0.0, "top_p": 0.5, "top_k": 0},
                "tools": (Tool("look", "Looks.", SCHEMA), Tool("see", "", NO_FIELDS)), "tool_choice": "see",
                "parallel_calls": False, "schema": ReplySchema(SCHEMA, is_strict=True),
                "schema_field": "output_config.format",
            },
        ),
        (
            anthropic(tools=[{"name": "see", "type": "custom"}], tool_choice={"type": "any"}),
            {"max_tokens": 5, "schema_field": "output_config.format", "tool_choice": "required",
             "tools": (Tool("see", "", NO_FIELDS),)},
        ),
        (
            anthropic(tool_choice={"type": "none"}),
            {"max_tokens": 5, "schema_field": "output_config.format", "tool_choice": "none"},
        ),
        (ollama(), {"schema_field": "format"}),
        (
            ollama(
                memory=False, memory_tools=True, format=SCHEMA, tools=[FUNCTION],
                options={"temperature": 0.1, "num_predict": 9, "stop": ["x", ""], "repeat_last_n": -1},
            ),
            {
                "uses_memory": False, "memory_tools": True, "schema": ReplySchema(SCHEMA), "max_tokens": 9,
                "tools": (Tool("look", "Looks.", SCHEMA),), "stop": ("x",), "schema_field": "format",
                "sampling": {"temperature": 0.1, "repeat_last_n": 1 << 16},
            },
        ),
        (ollama(format="json", options={"num_predict": -1, "stop": "x"}),
         {"schema": ReplySchema({"type": "object"}), "stop": ("x",), "schema_field": "format"}),
        (generate(format=""), {"schema_field": "format"}),
    ],
)  # fmt: skip
def test_a_body_is_a_request_with_what_the_client_has_set(body: Any, request_: dict[str, Any]) -> None:
    request = body.request("anna")

    assert asked(request) == {"user_id": "anna", **request_}
    assert said(request) == [("user", "hi")]


CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def test_openais_messages_keep_their_roles_calls_and_parts() -> None:
    request = openai(
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "found"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            USER,
        ]
    ).request("")

    assert said(request) == [
        ("system", "be brief"), ("user", "a\nb"), ("assistant", ""), ("tool", "found"), ("assistant", "no"),
        ("user", "hi"),
    ]  # fmt: skip
    assert request.messages[2].tool_calls == (ToolCall("1", "look", "{}"),)
    assert request.messages[3].tool_call_id == "1"


def test_documents_go_with_the_newest_message_and_are_not_said() -> None:
    request = openai(documents=[{"name": "a.md", "text": "one"}, {"name": "b.md", "text": "two"}]).request("")

    message = request.messages[-1]
    assert message.raw == "hi"
    assert message.content.startswith("hi\n\n")
    assert message.content.index("one") < message.content.index("two")


def test_anthropics_messages_are_joined_and_results_come_first() -> None:
    request = anthropic(
        system=[{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}],
        messages=[
            USER,
            {"role": "user", "content": [{"type": "text", "text": "there"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "redacted_thinking"},
                {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "1", "name": "look"},
                {"type": "tool_use", "id": "2", "name": "see", "input": {"ä": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "text", "text": "and?"}, {"type": "tool_result", "tool_use_id": "1", "content": "x"},
                {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "y"}]},
            ]},
            {"role": "assistant", "content": "So."},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "3"}]},
        ],
    ).request("")  # fmt: skip

    assert said(request) == [
        ("system", "be\nbrief"), ("user", "hi\nthere"), ("assistant", "I look."), ("tool", "x"),
        ("tool", "y"), ("user", "and?"), ("assistant", "So."), ("tool", ""),
    ]  # fmt: skip
    assert request.messages[2].tool_calls == (ToolCall("1", "look", "{}"), ToolCall("2", "see", '{"ä": 1}'))
    assert [message.tool_call_id for message in request.messages[3:5]] == ["1", "2"]
    assert said(anthropic(system="").request("")) == [("user", "hi")]


def test_ollamas_calls_and_results_find_each_other() -> None:
    call = {"function": {"name": "look", "arguments": {"a": "ä"}}}
    request = ollama(
        messages=[
            {"role": "system"},
            {"role": "assistant", "tool_calls": [call, {"function": {"name": "see"}}, {"id": "x", **call}]},
            {"role": "tool", "content": "1", "tool_name": "see"},
            {"role": "tool", "content": "2"},
            {"role": "tool", "content": "3", "tool_call_id": "x"},
            {"role": "tool", "content": "4"},
        ]
    ).request("")

    assert request.messages[1].tool_calls == (
        ToolCall("call_1_0", "look", '{"a": "ä"}'),
        ToolCall("call_1_1", "see", "{}"),
        ToolCall("x", "look", '{"a": "ä"}'),
    )
    assert [message.tool_call_id for message in request.messages[2:]] == ["call_1_1", "call_1_0", "x", ""]
    assert said(generate(system="be brief").request("")) == [("system", "be brief"), ("user", "hi")]


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (openai(modalities=["audio"]), "unsupported_parameter", "modalities"),
        (openai(messages=[{"role": "assistant", "content": "x"}]), "invalid_request", "messages"),
        (openai(messages=[USER, {"role": "tool", "content": "x"}], documents=[{"name": "a", "text": "b"}]),
         "unsupported_parameter", "documents"),
        (openai(messages=[{"role": "user", "content": [{"type": "audio"}]}]), "unsupported_content",
         "messages.0.content.0"),
        (openai(tool_choice="required"), "invalid_request", "tool_choice"),
        (openai(tools=[FUNCTION], tool_choice={"type": "function", "function": {"name": "see"}}),
         "unsupported_parameter", "tool_choice"),
        (openai(top_logprobs=1), "invalid_request", "top_logprobs"),
        (openai(response_format={"type": "json_schema"}), "invalid_request", "response_format"),
        (openai(response_format={"type": "json_schema", "json_schema": {}}), "invalid_request",
         "response_format"),
        (openai(stop="x" * (MOST_STOP_CHARS + 1)), "invalid_request", "stop"),
        (openai(logit_bias={"x": 1}), "invalid_request", "logit_bias"),
        (openai(logit_bias={"²": 1}), "invalid_request", "logit_bias"),
        (openai(logit_bias={"1": 100.5}), "invalid_request", "logit_bias"),
        (openai(logit_bias={"1": math.nan}), "invalid_request", "logit_bias"),
        (openai(logit_bias={"1" * 30: 1}), "invalid_request", "logit_bias"),
        (anthropic(messages=[{"role": "assistant", "content": "x"}]), "invalid_request", "messages"),
        (anthropic(tool_choice={"type": "any"}), "invalid_request", "tool_choice"),
        (anthropic(tools=[{"name": "look"}], tool_choice={"type": "tool", "name": "see"}), "invalid_request",
         "tool_choice"),
        (anthropic(tools=[{"name": "look", "type": "web_search"}]), "unsupported_parameter", "tools"),
        (anthropic(messages=[{"role": "user", "content": [{"type": "document"}]}]), "unsupported_content",
         "messages.0.content.0"),
        (anthropic(messages=[{"role": "user", "content": [{"type": "tool_use"}]}]), "unsupported_content",
         "messages.0.content.0"),
        (anthropic(system=[{"type": "image"}]), "unsupported_content", "system.0"),
        (ollama(messages=[{"role": "system"}]), "invalid_request", "messages"),
        (ollama(learned=True), "unsupported_parameter", "learned"),
        (ollama(options={"stop": ["x"] * 17}), "invalid_request", "options.stop"),
        (ollama(options={"stop": "x" * (MOST_STOP_CHARS + 1)}), "invalid_request", "options.stop"),
        (generate(template="x"), "unsupported_parameter", "template"),
        (generate(context=[1]), "unsupported_parameter", "context"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_with_its_field(body: Any, code: str, param: str) -> None:
    with pytest.raises(Denied) as caught:
        body.request("")

    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


# Least and largest value of each field; None: there is no such limit.
SAMPLED: dict[str, tuple[float | None, float | None]] = {
    "max_tokens": (1, MOST_TOKENS), "temperature": (0, 5), "top_p": (0, 1), "n": (1, 16),
    "frequency_penalty": (-100, 100), "presence_penalty": (-100, 100), "top_k": (-1, MOST_TOKENS),
    "min_p": (0, 1), "typical_p": (None, 1), "top_n_sigma": (-1, 100), "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1), "dry_multiplier": (0, 100), "dry_base": (1, 100),
    "dry_allowed_length": (0, 1 << 20), "dry_penalty_last_n": (-1, 1 << 20), "mirostat": (0, 2),
    "mirostat_tau": (None, 100), "mirostat_eta": (None, 1), "repeat_penalty": (None, 1000),
    "repeat_last_n": (-1, MOST_TOKENS),
}  # fmt: skip
CHAT = {
    **SAMPLED, "max_completion_tokens": (1, MOST_TOKENS), "replaces": (1, MOST_MESSAGES),
    "top_logprobs": (0, 20),
}  # fmt: skip
MESSAGES = {
    "max_tokens": (1, MOST_TOKENS),
    "temperature": (0, 5),
    "top_p": (None, 1),
    "top_k": (0, MOST_TOKENS),
}
OPTIONS = {
    "temperature": (0, 5), "top_p": (0, 1), "top_k": (-1, MOST_TOKENS), "min_p": (0, 1),
    "repeat_penalty": (None, 1000), "repeat_last_n": (-1, MOST_TOKENS), "num_predict": (None, MOST_TOKENS),
    "presence_penalty": (-100, 100), "frequency_penalty": (-100, 100), "typical_p": (None, 1),
    "mirostat": (0, 2), "mirostat_tau": (None, 100), "mirostat_eta": (None, 1),
}  # fmt: skip
LIMITS = [
    *((openai, name, limits) for name, limits in CHAT.items()),
    *((anthropic, name, limits) for name, limits in MESSAGES.items()),
    *((with_options, name, limits) for name, limits in OPTIONS.items()),
]


@pytest.mark.parametrize(
    ("made", "name", "limits"), LIMITS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_number_is_taken_within_its_limits_alone(made: Any, name: str, limits: tuple[Any, Any]) -> None:
    for limit, step in zip(limits, (-1, 1), strict=True):
        if limit is None:
            continue
        made(**{name: limit})
        beyond = limit + step if isinstance(limit, int) and limit not in (0, 1) else limit + step * 0.01
        for value in (beyond, limit + step):
            with pytest.raises(ValidationError):
                made(**{name: value})


@pytest.mark.parametrize(
    ("fields", "sampling"),
    [
        ({"samplers": ["top_k", "typ_p", "tfs_z", "temp", "top_k"]},
         {"samplers": ("top_k", "typical_p", "temperature")}),
        ({"samplers": "kt?"}, {"samplers": ("top_k", "temperature")}),
        ({"samplers": []}, {"samplers": ()}),
        ({"typ_p": 0.5, "repetition_penalty": 1.25}, {"typical_p": 0.5, "repeat_penalty": 1.25}),
        ({"top_k": -1, "top_n_sigma": -1, "repeat_last_n": -1, "dry_penalty_last_n": -1, "seed": -1},
         {"top_k": 0, "top_n_sigma": 0, "repeat_last_n": 1 << 16, "dry_penalty_last_n": 1 << 16}),
        ({"dry_sequence_breakers": ["a", ""]}, {"dry_sequence_breakers": ("a",)}),
        ({"dry_sequence_breakers": None, "samplers": None}, {}),
    ],
)  # fmt: skip
def test_names_and_values_of_llama_cpp_and_its_relatives_are_understood(
    fields: dict[str, Any], sampling: dict[str, Any]
) -> None:
    for made in (openai, with_options):
        assert made(**fields).request("").sampling == sampling


def test_a_limit_of_minus_one_is_none() -> None:
    assert openai(max_tokens=-1, max_completion_tokens=-1).request("").max_tokens == 0
    assert openai(n_predict=7).request("").max_tokens == 7
    with pytest.raises(ValidationError):
        openai(max_tokens=-2)


def test_a_text_that_breaks_sequences_is_not_too_long() -> None:
    with pytest.raises(Denied) as caught:
        openai(dry_sequence_breakers=["x" * (MOST_STOP_CHARS + 1)]).request("")

    assert caught.value.param == "dry_sequence_breakers"


@pytest.mark.parametrize("made", [openai, anthropic])
def test_fields_of_other_servers_are_passed_over(made: Any) -> None:
    made(top_a=0.3, functions=[], function_call="none", session_id="x", **{"x" * 100: 1}).check_unknown("/x")
    made(**{f"field{i}": i for i in range(64)}).check_unknown("/x")


def test_a_field_that_is_passed_over_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "shepherd.server")
    for _ in range(2):
        openai(minimum_words=3).check_unknown("/v1/chat/completions")

    assert caplog.messages == ["/v1/chat/completions: the field 'minimum_words' is ignored"]


@pytest.mark.parametrize(
    ("body", "code", "param", "words"),
    [
        (openai(memmory=False), "invalid_request", "memmory", "did you mean memory?"),
        (openai(Memory=False), "invalid_request", "Memory", "did you mean memory?"),
        (anthropic(memory_tool=True), "invalid_request", "memory_tool", "did you mean memory_tools?"),
        (openai(functions=[{"name": "x"}]), "unsupported_parameter", "functions", "send tools"),
        (openai(guided_json={"type": "object"}), "unsupported_parameter", "guided_json", "response_format"),
        (openai(**{f"field{i}": i for i in range(65)}), "invalid_request", "body", "more than 64 fields"),
    ],
)
def test_a_field_that_matters_is_never_passed_over(body: Any, code: str, param: str, words: str) -> None:
    with pytest.raises(Denied, match=words.replace("?", r"\?")) as caught:
        body.check_unknown("/x")

    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


@pytest.mark.parametrize("name", ["typical_p", "mirostat_tau", "mirostat_eta", "repeat_penalty"])
def test_zero_is_no_value_of_what_has_to_be_positive(name: str) -> None:
    for made in (openai, with_options):
        with pytest.raises(ValidationError):
            made(**{name: 0})


@pytest.mark.parametrize("made", [openai, anthropic, ollama])
def test_lists_are_as_long_as_their_limits(made: Any) -> None:
    tool = {"name": "see"} if made is anthropic else BARE
    made(messages=[USER] * MOST_MESSAGES, tools=[tool] * MOST_TOOLS)
    for fields in ({"messages": [USER] * (MOST_MESSAGES + 1)}, {"tools": [tool] * (MOST_TOOLS + 1)}):
        with pytest.raises(ValidationError):
            made(**fields)
    if made is not ollama:
        with pytest.raises(ValidationError):
            made(messages=[])


def test_anthropics_user_is_named_in_either_field() -> None:
    assert anthropic().named_user() is None
    assert anthropic(user="anna").named_user() == "anna"
    assert anthropic(metadata={"user_id": "anna"}).named_user() == "anna"
    assert anthropic(user="anna", metadata={"user_id": "anna"}).named_user() == "anna"
    assert anthropic(metadata={"user_id": "user_1_session_2"}).named_user() is None
    assert anthropic(user="anna", metadata={"user_id": "a_session_2"}).named_user() == "anna"
    with pytest.raises(Denied, match="differs from user"):
        anthropic(user="anna", metadata={"user_id": "bert"}).named_user()


# ---- answers


def test_anthropics_answer_is_in_blocks_whole_and_streamed() -> None:
    pieces = [Thought("hm"), Thought("!"), "Hä", "llo", ToolCall("1", "look", '{"ä": 1}'),
              ToolCall("2", "see", ""), "end"]  # fmt: skip
    whole, streamed = anthropic_api._Blocks(), anthropic_api._Blocks()

    assert whole.end() == b""
    assert [whole.add(piece) for piece in pieces] == [True, False, True, False, True, True, True]
    sent = b"".join(streamed.events_of(piece) for piece in pieces) + streamed.end()

    assert whole.has_calls
    assert whole.whole() == [
        {"type": "thinking", "thinking": "hm!", "signature": ""},
        {"type": "text", "text": "Hällo"},
        {"type": "tool_use", "id": "1", "name": "look", "input": {"ä": 1}},
        {"type": "tool_use", "id": "2", "name": "see", "input": {}},
        {"type": "text", "text": "end"},
    ]
    events = [json.loads(one.partition("data: ")[2]) for one in sent.decode().split("\n\n") if one]
    assert [one["index"] for one in events if one["type"] == "content_block_start"] == [0, 1, 2, 3, 4]
    assert [one["index"] for one in events if one["type"] == "content_block_stop"] == [0, 1, 2, 3, 4]
    assert [one["delta"] for one in events if one["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "thinking_delta", "thinking": "!"},
        {"type": "text_delta", "text": "Hä"},
        {"type": "text_delta", "text": "llo"},
        {"type": "input_json_delta", "partial_json": '{"ä": 1}'},
        {"type": "input_json_delta", "partial_json": "{}"},
        {"type": "text_delta", "text": "end"},
    ]
    assert events[0]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (openai, {"stop": ["x"] * 17}, "stop: List should have at most 16 items after validation, not 17"),
        (openai, {"stop": 7}, "stop: Input should be a valid string"),
        (anthropic, {"thinking": "on"}, "thinking: Input should be a valid object"),
        (ollama, {"options": []}, "options: Input should be a valid object"),
    ],
    ids=["too many", "neither type", "not an object", "a list for an object"],
)
def test_a_refused_field_is_named_as_clients_know_it(make, fields, message):
    with pytest.raises(ValidationError) as refused:
        make(**fields)

    problem = problem_of_fields(refused.value.errors())
    assert (problem.message, problem.param) == (message, message.partition(":")[0])


def test_a_body_that_is_no_json_is_not_named_by_a_position():
    error = {"type": "json_invalid", "loc": ("body", 1), "msg": "JSON decode error"}

    assert problem_of_fields([error]).message == "the body: JSON decode error"

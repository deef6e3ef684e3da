"""Answers in the shape of each API: their pieces, their ends, what they cost, and log-probabilities."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from shepherd.server import anthropic_api, completion_api, ollama_api, openai_answers
from shepherd.server.errors import Denied, Problem
from shepherd.server.response_events import ResponseInTheMaking
from shepherd.server.responses_bodies import ResponseBody
from shepherd.types import Message, ReplySchema, Thought, TokenLogprob, Tool, ToolCall, TurnStats

PIECES = [
    Thought("hm"),
    Thought("!"),
    "Hä",
    "llo",
    ToolCall("1", "look", '{"ä": 1}'),
    ToolCall("2", "see", ""),
]
STATS = TurnStats(
    prompt_tokens=9, reused_tokens=4, generated_tokens=3, total_ms=1500.5, prefill_ms=2.25, decode_ms=7.0,
    finish_reason="stop",
)  # fmt: skip


def without_time(line: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line) if isinstance(line, bytes) else line
    assert found.pop("created_at")[-1] == "Z"
    return found


# ---- Ollama's


COST = {
    "done": True, "done_reason": "stop", "total_duration": 1_500_500_000, "load_duration": 0,
    "prompt_eval_count": 9, "prompt_eval_duration": 2_250_000, "eval_count": 3, "eval_duration": 7_000_000,
}  # fmt: skip
CALLS = [
    {"id": "1", "function": {"index": 0, "name": "look", "arguments": {"ä": 1}}},
    {"id": "2", "function": {"index": 1, "name": "see", "arguments": {}}},
]


@pytest.mark.parametrize("shows", [True, False])
def test_ollamas_chat_is_told_in_lines_and_as_one(shows: bool) -> None:
    lines = ollama_api._ChatLines("tiny", shows_thoughts=shows)
    told = [without_time(line) for piece in PIECES if (line := lines.of(piece))]
    end = without_time(lines.last(STATS))
    whole = without_time(ollama_api._ChatLines("tiny", shows_thoughts=shows).whole(PIECES, STATS))

    assert [one["message"].get("thinking") for one in told[:2]] == (["hm", "!"] if shows else [None, None])
    assert [one["message"]["content"] for one in told] == ["", "", "Hä", "llo", "", ""][0 if shows else 2 :]
    assert [call for one in told for call in one["message"].get("tool_calls", ())] == CALLS
    assert not any(one["done"] for one in told)
    assert end == {"model": "tiny", "message": {"role": "assistant", "content": ""}, **COST}
    thought = {"thinking": "hm!"} if shows else {}
    message = {"role": "assistant", "content": "Hällo", **thought, "tool_calls": CALLS}
    assert whole == {"model": "tiny", "message": message, **COST}


def test_ollamas_text_is_told_alone() -> None:
    lines = ollama_api._GenerateLines("tiny", shows_thoughts=True)

    assert without_time(lines.whole(PIECES[:4], STATS)) == {
        "model": "tiny", "response": "Hällo", "thinking": "hm!", **COST,
    }  # fmt: skip
    assert without_time(lines.of("a")) == {"model": "tiny", "response": "a", "done": False}
    assert without_time(lines.loaded("unload")) == {
        "model": "tiny", "response": "", "done": True, "done_reason": "unload",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("n", "text"),
    [(999, "999"), (1000, "1.0K"), (4_460_000, "4.5M"), (999_999, "1000.0K"), (7_600_000_000, "7.6B")],
)
def test_ollama_counts_parameters_in_letters(n: int, text: str) -> None:
    assert ollama_api._counted(n) == text


def test_ollamas_times_have_microseconds() -> None:
    assert ollama_api._written(86_400.25) == "1970-01-02T00:00:00.250000Z"


# ---- why an answer ended


@pytest.mark.parametrize(
    ("reason", "calls", "openai", "anthropic", "ollama"),
    [
        ("stop", False, "stop", "end_turn", "stop"),
        ("stop", True, "tool_calls", "tool_use", "stop"),
        ("length", False, "length", "max_tokens", "length"),
        ("length", True, "length", "max_tokens", "length"),
        ("cancelled", False, "length", "max_tokens", "length"),
        ("tool_calls", True, "tool_calls", "tool_use", "stop"),
        ("filtered", False, "content_filter", "refusal", "stop"),
    ],
)
def test_each_api_says_in_its_words_why_an_answer_ended(
    reason: Any, calls: bool, openai: str, anthropic: str, ollama: str
) -> None:
    stats = TurnStats(finish_reason=reason, stopped_by=-1)
    blocks = anthropic_api._Blocks()
    if calls:
        blocks.add(PIECES[4])

    assert openai_answers._reason(stats, calls) == openai
    assert anthropic_api._ending(SimpleNamespace(stats=stats, stops=("x",)), blocks) == {  # type: ignore[arg-type]
        "stop_reason": anthropic,
        "stop_sequence": None,
    }
    assert ollama_api._ending(stats)["done_reason"] == ollama


@pytest.mark.parametrize(("by", "text"), [(0, "x"), (1, "y"), (2, None), (-1, None)])
def test_anthropics_answer_names_the_clients_own_string_that_ended_it(by: int, text: str | None) -> None:
    chat: Any = SimpleNamespace(stats=TurnStats(stopped_by=by), stops=("x", "y"))

    ending = anthropic_api._ending(chat, anthropic_api._Blocks())

    assert ending == {"stop_reason": "stop_sequence" if text else "end_turn", "stop_sequence": text}


def test_tokens_are_counted_as_each_api_counts_them() -> None:
    assert openai_answers.usage_of(STATS) == {
        "prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }  # fmt: skip
    assert anthropic_api._usage(STATS) == {
        "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 3,
    }  # fmt: skip


# ---- log-probabilities


HALF = [TokenLogprob(7, b"\xc3", -0.5, (TokenLogprob(7, b"\xc3", -0.5), TokenLogprob(8, b"a", -math.inf)))]
REST = [TokenLogprob(9, b"\xa4b", -1.0), TokenLogprob(6, b"c", -2.0)]


def test_parts_of_characters_are_told_by_their_bytes() -> None:
    assert openai_answers.chat_logprobs(HALF) == {
        "content": [
            {
                "token": "\\xc3", "logprob": -0.5, "bytes": [195],
                "top_logprobs": [
                    {"token": "\\xc3", "logprob": -0.5, "bytes": [195]},
                    {"token": "a", "logprob": -9999.0, "bytes": [97]},
                ],
            }
        ],
        "refusal": None,
    }  # fmt: skip


def test_offsets_of_tokens_are_those_of_the_text() -> None:
    logprobs = completion_api.CompletionLogprobs(offset=5)

    first, rest = logprobs.of(HALF), logprobs.of(REST)

    assert first == {
        "tokens": ["bytes:\\xc3"], "token_logprobs": [-0.5], "text_offset": [5],
        "top_logprobs": [{"bytes:\\xc3": -0.5, "a": -9999.0}],
    }  # fmt: skip
    assert rest is not None
    # The first token of the rest ends the character that the half token began.
    assert (rest["text_offset"], rest["token_logprobs"]) == ([5, 7], [-1.0, -2.0])
    assert logprobs.of([]) is None


def test_the_likeliest_choice_has_the_highest_mean() -> None:
    values = [{"logprobs": {"token_logprobs": one}} for one in ([-1.0, -3.0], [-1.5, -1.5], [])]

    assert [completion_api._mean_logprob(one) for one in values] == [-2.0, -1.5, -math.inf]
    assert completion_api._mean_logprob({"logprobs": None}) == -math.inf


# ---- OpenAI's responses


def response(**fields: Any) -> ResponseBody:
    return ResponseBody.model_validate({"input": "hi", **fields})


FUNCTION = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
SCHEMA = {"type": "object", "properties": {}}


def test_a_body_of_responses_is_a_request() -> None:
    plain = response().request("anna")
    full = response(
        instructions="be brief", memory=False, memory_tools=True, temperature=0.5, top_k=3, seed=5,
        max_output_tokens=7, tools=[FUNCTION, {"type": "function", "name": "see"}],
        tool_choice={"type": "function", "name": "see"}, top_logprobs=2, parallel_tool_calls=False,
        conversation={"id": "talk"},
        text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": False}},
    ).request("anna")  # fmt: skip

    assert plain.messages == (Message("user", "hi"),)
    assert (plain.user_id, plain.uses_memory, plain.sampling, plain.max_tokens) == ("anna", True, {}, 0)
    assert (plain.schema, plain.tools, plain.tool_choice, plain.logprobs) == (None, (), "auto", None)
    assert (plain.parallel_calls, plain.memory_tools, plain.session) == (True, False, "")
    assert [(one.role, one.raw) for one in full.messages] == [("system", "be brief"), ("user", "hi")]
    assert (full.uses_memory, full.memory_tools, full.max_tokens) == (False, True, 7)
    assert full.sampling == {"temperature": 0.5, "top_k": 3, "seed": 5}
    assert full.tools == (
        Tool("look", "Looks.", {"type": "object"}),
        Tool("see", "", {"type": "object", "properties": {}}),
    )
    assert (full.tool_choice, full.logprobs, full.parallel_calls, full.session) == ("see", 2, False, "talk")
    assert full.schema == ReplySchema(SCHEMA, "n", False)
    assert full.schema_field == "text.format"
    logprobs = response(include=["message.output_text.logprobs"]).request("").logprobs
    assert (logprobs, response(top_logprobs=0).request("").logprobs) == (0, None)
    assert response(conversation="talk").request("").session == "talk"
    assert response(text={"format": {"type": "text"}}).request("").schema is None
    named = response(text={"format": {"type": "json_schema", "schema": SCHEMA}}).request("").schema
    assert named is not None
    assert named.name == "answer"
    assert (response().is_stored, response(store=None).is_stored, response(store=False).is_stored) == (
        True, True, False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"background": True, "store": False}, "invalid_request", "background"),
        ({"background": True, "learned": True}, "invalid_request", "learned"),
        ({"prompt": {"id": "x"}}, "unsupported_parameter", "prompt"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools"),
        ({"tools": [{"type": "function"}]}, "unsupported_parameter", "tools"),
        ({"tool_choice": "required"}, "invalid_request", "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "x"}}, "unsupported_parameter", "tool_choice"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "mcp"}}, "unsupported_parameter", "tool_choice"),
        ({"text": {"format": {"type": "json_schema"}}}, "invalid_request", "text.format"),
        ({"input": []}, "invalid_request", "input"),
        ({"input": [{"type": "odd"}]}, "unsupported_content", "input.0"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "invalid_request", "input"),
        ({"input": [{"role": "user", "content": [{"type": "odd"}]}]}, "unsupported_content",
         "input.0.content.0"),
    ],
)  # fmt: skip
def test_what_responses_cannot_have_is_refused(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(Denied) as caught:
        response(**fields).request("")

    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


def made(
    stats: TurnStats, *pieces: Any, cancelled: bool = False
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the events of an answer with these pieces, and the response."""
    making = ResponseInTheMaking(response(), "tiny", SimpleNamespace())  # type: ignore[arg-type]
    making.chat = SimpleNamespace(stats=stats, has_logprobs=False, news=None)  # type: ignore[assignment]
    making.was_cancelled = lambda: cancelled
    sent = making.opening() + b"".join(making.events_of(piece) for piece in pieces) + making.ending()
    events = [json.loads(one.partition("data: ")[2]) for one in sent.decode().split("\n\n") if one]
    return events, making.shown()


def test_a_response_has_an_item_for_each_run_and_each_call() -> None:
    events, whole = made(STATS, *PIECES, "end")

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [(item["type"], item["status"]) for item in whole["output"]] == [
        ("reasoning", "completed"), ("message", "completed"), ("function_call", "completed"),
        ("function_call", "completed"), ("message", "completed"),
    ]  # fmt: skip
    assert [item["content"][0]["text"] for item in whole["output"] if "content" in item] == [
        "hm!",
        "Hällo",
        "end",
    ]
    assert [item["arguments"] for item in whole["output"] if "arguments" in item] == ['{"ä": 1}', ""]
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[:2] == ["created", "in_progress"]
    assert kinds[2:8] == [
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta",
        "reasoning_text.done", "content_part.done",
    ]  # fmt: skip
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert [event["output_index"] for event in events if event["type"].endswith("item.done")] == [
        0,
        1,
        2,
        3,
        4,
    ]
    for event in events:
        if "item_id" in event:
            assert event["item_id"] == whole["output"][event["output_index"]]["id"]
    assert whole["usage"] == {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "cancelled", "status", "why"),
    [
        ("stop", False, "completed", None),
        ("length", False, "incomplete", "max_output_tokens"),
        ("filtered", False, "incomplete", "content_filter"),
        ("cancelled", False, "incomplete", "max_output_tokens"),
        ("cancelled", True, "cancelled", None),
        ("stop", True, "completed", None),
    ],
)
def test_a_response_says_whether_it_is_whole(
    reason: Any, cancelled: bool, status: str, why: str | None
) -> None:
    events, whole = made(TurnStats(finish_reason=reason), "so", cancelled=cancelled)

    assert whole["status"] == status
    assert events[-1]["type"] == f"response.{status}"
    assert whole["incomplete_details"] == (why and {"reason": why})
    assert (whole["completed_at"] is not None) is (status == "completed")
    assert whole["output"][0]["status"] == ("completed" if status == "completed" else "incomplete")


def test_a_response_without_a_word_has_an_empty_message() -> None:
    _, whole = made(STATS, Thought("hm"))

    assert [item["type"] for item in whole["output"]] == ["reasoning", "message"]
    assert whole["output"][1]["content"][0]["text"] == ""


@pytest.mark.parametrize(("cancelled", "status"), [(False, "failed"), (True, "cancelled")])
def test_a_response_that_fails_says_why_unless_it_was_cancelled(cancelled: bool, status: str) -> None:
    making = ResponseInTheMaking(response(), "tiny", SimpleNamespace())  # type: ignore[arg-type]
    making.was_cancelled = lambda: cancelled

    last = json.loads(making.failed(Problem(500, "model_failed", "gone")).partition(b"data: ")[2])

    assert last["type"] == f"response.{status}"
    error = None if cancelled else {"code": "server_error", "message": "gone (model_failed)"}
    assert making.shown()["error"] == error
    assert making.has_failed

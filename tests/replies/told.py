# ruff: noqa: RUF001 (DeepSeek writes its markers with a fullwidth bar)
"""What the parser tells of a reply, for its tests: one template of each family, and the events in brief."""

from __future__ import annotations

import json
from itertools import count

from shepherd.replies import ReplyEvent, ReplyParser
from shepherd.types import Thought, ToolCall

TEMPLATES = {
    "hermes": "{{ '<tool_call>' }} {{ '<think>' }}",
    "llama3": "<|start_header_id|> <|python_tag|>",
    "mistral": "[TOOL_CALLS] [THINK] [/THINK]",
    "harmony": "<|start|> <|channel|>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜> </think>",
    "functiongemma": "<start_function_call>",
    "gemma": "<start_of_turn>",
    "kimi": "<|tool_calls_section_begin|> <|tool_call_argument_begin|>",
    "lfm2": "<|tool_call_start|>",
    "command": "<|START_ACTION|> <|START_THINKING|> <|END_THINKING|>",
    "functionary": "<function=",
    "seed": "<seed:tool_call> <seed:think>",
    "listed": "<tool_calls>",
    "gemma4": "<|tool_call> <|channel>thought",
    "invoked": "<minimax:tool_call> ｜DSML｜",
    "json": "{% for m in messages %}",
}
TOOLS = ("get_weather", "add")


def events_of(family: str, pieces, *, prompt: str = "", tools=TOOLS) -> list:
    """The events of a stream, neighbours of one kind joined."""
    ids = (f"id{n}" for n in count())
    parser = ReplyParser(TEMPLATES[family], prompt=prompt, tools=tools, new_id=lambda: next(ids))
    found = [event for piece in pieces for event in parser.feed(piece)] + parser.end()
    joined: list = []
    for event in found:
        last = joined[-1] if joined else None
        if last is not None and (both := sum_of(last.piece, event.piece)) is not None:
            joined[-1] = ReplyEvent(both, last.raw + event.raw)
        else:
            joined.append(event)
    return joined


def sum_of(first, second):
    """Two pieces as one; a marker, which is "", goes with anything but a call. None where they differ."""
    if isinstance(first, ToolCall) or isinstance(second, ToolCall):
        return None
    if first == "" or second == "":
        return first or second
    if type(first) is not type(second):
        return None
    return first + second if isinstance(first, str) else Thought(first.text + second.text)


def told(family: str, text: str, **options) -> tuple[str, str, list[tuple[str, dict]]]:
    """Text, thought and calls of a reply."""
    events = events_of(family, [text], **options)
    assert "".join(event.raw for event in events) == text
    pieces = [event.piece for event in events]
    said = "".join(piece for piece in pieces if isinstance(piece, str))
    thought = "".join(piece.text for piece in pieces if isinstance(piece, Thought))
    calls = [(c.name, json.loads(c.arguments)) for c in pieces if isinstance(c, ToolCall)]
    return said, thought, calls

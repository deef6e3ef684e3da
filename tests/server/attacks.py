"""Requests that are refused by what they would cost, and the largest of those that no limit refuses."""

from __future__ import annotations

from typing import Any

from shepherd.server import limits

__all__ = ["ANTHROPIC", "LARGEST", "OPENAI", "REFUSED", "chat", "messages", "nested", "tools"]


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "default", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}], **fields}


def tools(n: int, description: str = "") -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": f"tool_{i}", "description": description}} for i in range(n)
    ]


def messages(n: int) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": "x"} for i in range(n)]


def nested(depth: int) -> Any:
    value: Any = "the end"
    for _ in range(depth):
        value = {"a": value}
    return value


LONG = "x" * (limits.MOST_TEXT_CHARS + 1)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["x" * 300_000]}}}
OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
REFUSED = {
    "100,000 tools": (OPENAI, chat(tools=tools(100_000)), 413, "100,000 values"),
    "too many tools": (OPENAI, chat(tools=tools(513)), 400, "512 items"),
    "tools of Anthropic's API": (
        ANTHROPIC,
        chat(tools=[{"name": f"tool_{i}", "input_schema": {}} for i in range(513)]),
        400,
        "512 items",
    ),
    "long tools": (OPENAI, chat(tools=tools(2, "x" * 600_000)), 413, "1,000,000 characters"),
    "380,001 messages": (OPENAI, chat(messages=messages(380_001)), 413, "100,000 values"),
    "too many messages": (OPENAI, chat(messages=messages(10_001)), 400, "10000 items"),
    "messages of Anthropic's API": (ANTHROPIC, chat(messages=messages(10_001)), 400, "10000 items"),
    "tokens to count": (ANTHROPIC + "/count_tokens", chat(messages=messages(10_001)), 400, "10000 items"),
    "long text to count": (
        ANTHROPIC + "/count_tokens",
        {"model": "default", "messages": [{"role": "user", "content": LONG}]},
        413,
        "2,000,000 characters",
    ),
    "long message": (OPENAI, chat(messages=[{"role": "user", "content": LONG}]), 413, "2,000,000 characters"),
    "long prompt": ("/v1/completions", {"model": "default", "prompt": LONG}, 413, "2,000,000 characters"),
    "token ids": ("/v1/completions", {"model": "default", "prompt": [1] * 100_001}, 413, "100,000 values"),
    "long stop": (OPENAI, chat(stop=["x" * 1001]), 400, "1,000 characters"),
    "long schema": (OPENAI, chat(response_format=SCHEMA), 413, "250,000 characters"),
    "nested tool": (
        OPENAI,
        chat(tools=[{"type": "function", "function": {"name": "t", "parameters": nested(900)}}]),
        400,
        "64 levels",
    ),
    "nested metadata": ("/v1/knowledge/nodes", {"title": "t", "metadata": nested(900)}, 400, "64 levels"),
    "nested fact": ("/v1/facts/a", {"value": nested(900)}, 400, "64 levels"),
    "nested search": ("/v1/memory/search", {"query": nested(900)}, 400, "64 levels"),
    "nested edge": ("/v1/knowledge/edges", nested(900), 400, "64 levels"),
}


def _filled(text: str) -> dict[str, Any]:
    times = limits.MOST_TEXT_CHARS // len(text)
    return chat(messages=[{"role": "user", "content": text * times}])


def _called(n: int) -> list[dict[str, Any]]:
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for i in range(n)
    ]
    results = [{"role": "tool", "tool_call_id": f"call_{i}", "content": "x"} for i in range(n)]
    question = {"role": "user", "content": "hi"}
    return [question, {"role": "assistant", "content": "", "tool_calls": calls}, *results]


# Requests to a model whose window they exceed.
LARGEST = {
    "words": _filled("word "),
    "letters": _filled("x"),
    "lines": _filled("a\n"),
    "quotation marks": _filled('"a '),
    "statements": _filled("I live in Ulm. "),
    "questions": _filled("What is my name? "),
    "parts of a message": chat(
        messages=[{"role": "user", "content": [{"type": "text", "text": "x"} for _ in range(20_000)]}]
    ),
    "calls": chat(messages=_called(4_000)),
    "tools": chat(tools=tools(512, "x" * 1_900)),
}

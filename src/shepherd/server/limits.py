"""Limits of a request's content, checked before any work that grows with it.

The structure of a JSON body is counted in its bytes, before it is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from shepherd.server.errors import Denied, Problem
from shepherd.types import Message, ReplySchema, Tool

__all__ = [
    "MOST_ANSWERS",
    "MOST_MESSAGES",
    "MOST_NESTED",
    "MOST_STOP_CHARS",
    "MOST_TEXT_CHARS",
    "MOST_TOOLS",
    "MOST_VALUES",
    "check_conversation",
    "check_text",
    "problem_of_json",
]

# Values of a JSON body: objects, lists, strings, numbers. A message has three or four.
MOST_VALUES = 100_000
MOST_NESTED = 64
MOST_MESSAGES = 10_000
MOST_ANSWERS = 16  # to one request; those beyond the slots wait
MOST_TOOLS = 512
# Characters of one text. Tokenising a million takes about a second, for which others wait.
MOST_TEXT_CHARS = 2_000_000
# Characters of the names, descriptions and schemas of all tools together, and of the schema of an answer.
_MOST_TOOL_CHARS = 1_000_000
_MOST_SCHEMA_CHARS = 250_000

MOST_STOP_CHARS = 1000

_STRUCTURE = b"[]{},"
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_AS_BRACES = bytes.maketrans(b"[]", b"{}")
_SLICE = 1 << 20


def problem_of_json(
    body: bytes, *, most_values: int = MOST_VALUES, most_nested: int = MOST_NESTED
) -> Problem | None:
    """Return why a JSON body is refused before it is parsed, None if it is not. Linear in its size."""
    if b"\0" in body:  # UTF-16 or UTF-32, whose structure these bytes do not show
        return Problem(400, "invalid_request", "the body: JSON decode error")
    too_many = Problem(413, "request_too_large", f"the body has more than {most_values:,} values")
    # A key and a string for each value: mostly these are enough, and a part of the body.
    n_quotes = 0
    for begin in range(0, len(body), _SLICE):
        end = begin + _SLICE
        n_quotes += body.count(b'"', begin, end) - body.count(b'\\"', begin, end + 1)
        if n_quotes > 4 * most_values + 2:
            return too_many
    n_open = body.count(b"[") + body.count(b"{")
    if n_open <= most_nested and n_open + body.count(b",") <= most_values:
        return None
    # Strings contain such characters as well. Without its escapes a string ends at the next quote.
    text = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if text.count(b'"') > 4 * most_values + 2:
        return too_many
    bare = b"".join(text.split(b'"')[::2]).translate(_AS_BRACES, _OTHERS)
    braces = bare.replace(b",", b"")
    if len(bare) - len(braces) // 2 > most_values:
        return too_many
    if not braces:
        return None
    for _ in range(most_nested):
        inner = braces.replace(b"{}", b"")
        if not inner or len(inner) == len(braces):  # all levels are gone, or it is no JSON
            return None
        braces = inner
    return Problem(400, "invalid_request", f"the body is nested more than {most_nested} levels deep")


def check_conversation(
    messages: Sequence[Message], tools: Sequence[Tool], schema: ReplySchema | None = None
) -> None:
    """Raise Denied if a text, the tools or the schema of the answer are too long."""
    for message in messages:
        check_text(message.content, "messages")
        check_text(message.thought, "messages")
    size = sum(len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) for tool in tools)
    _check(size, _MOST_TOOL_CHARS, "tools", "they have")
    if schema is not None:
        _check(len(json.dumps(schema.schema)), _MOST_SCHEMA_CHARS, "response_format", "the schema has")


def check_text(text: str, param: str) -> None:
    """Raise Denied for a text that takes too long to tokenise."""
    _check(len(text), MOST_TEXT_CHARS, param, "a text has")


def _check(n_chars: int, most: int, param: str, what: str) -> None:
    if n_chars > most:
        message = f"{param}: {what} more than {most:,} characters"
        raise Denied(413, "request_too_large", message, param=param)

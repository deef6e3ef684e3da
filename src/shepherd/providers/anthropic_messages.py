"""Anthropic's messages, with marks that let its cache keep the prefix that does not change."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from shepherd.pictures import base64_of, media_type_of, parts_of
from shepherd.providers.exchange import End, Event, Usage
from shepherd.providers.settings import ProviderSettings
from shepherd.providers.transport import Request, Transport
from shepherd.types import FinishReason, Message, Picture, Thought, Tool, ToolCall

__all__ = ["AnthropicMessages", "request_body"]

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "filtered",
}
_SAMPLING = ("temperature", "top_p", "top_k")
# How thinking is asked for, in the order in which it is tried: newer models choose the budget themselves.
_THINKING = ("enabled", "adaptive")
_NOT_TAKEN = re.compile(
    r"not (support|permit|allow)|unsupported|deprecated|extra input|may only be|cannot both"
    r"|not match any|should be 'enabled'",
    re.I,
)
_LEAST_THINKING = 1024
_MARK = {"type": "ephemeral"}
# An empty text is refused; an answer that was only thought, or cut before its first word, has one.
_NOTHING_SAID = "(no answer)"


class AnthropicMessages(Transport):
    """Connection to one server that speaks Anthropic's protocol."""

    _client_class = "Anthropic"

    def _body(self, request: Request) -> dict[str, Any]:
        return request_body(self._provider, request, self._refused)

    def _create(self, client: Any, body: dict[str, Any]) -> Any:
        return client.messages.create(**body)

    def _events(self, stream: Any) -> Iterator[Event]:
        return _events(stream)

    def _drop_refused(self, error: Exception, body: dict[str, Any]) -> bool:
        told = str(getattr(error, "message", ""))
        if not _NOT_TAKEN.search(told):
            return False
        named = [name for name in _SAMPLING if name in body.get("extra_body", ()) and _names(told, name)]
        if len(named) > 1 and _names(told, "both"):
            del named[0]  # one of them may stay
        if not named and "thinking" in body and _names(told, "thinking"):
            named = [body["thinking"]["type"]]
        self._refused |= set(named)
        return bool(named)


def request_body(
    provider: ProviderSettings, request: Request, refused: Collection[str] = ()
) -> dict[str, Any]:
    """Return the fields of a request, without those that the server refused.

    Cache marks stand at the end of the tools, of the system prompt, and of the last message before the newest
    one of the user: what is before each is the same in the next turn. The newest message is not marked, since
    its tail may be stripped; a mark there would pay for a cache that is never read.
    """
    system = "\n\n".join(message.sent for message in request.messages if message.role == "system")
    others = [message for message in request.messages if message.role != "system"]
    newest = max((i for i, message in enumerate(others) if message.role == "user"), default=0)
    messages: list[dict[str, Any]] = []
    for i, message in enumerate(others):
        _append(messages, message, is_marked=i == newest - 1)
    body: dict[str, Any] = {
        "model": provider.model,
        "max_tokens": request.max_tokens,
        "messages": messages,
        "stream": True,
    }
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _MARK}]
    if request.tools:
        body["tools"] = _tools(request.tools)
    if request.must_call:
        name = request.must_call
        body["tool_choice"] = {"type": "tool", "name": name} if isinstance(name, str) else {"type": "any"}
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema.schema)}}
    # A thought can only go on after a tool's result with its signature, which is not kept; and a call can
    # only be demanded without one.
    may_think = not request.must_call and not (others and others[-1].role == "tool")
    way = next((way for way in _THINKING if way not in refused), "")
    if provider.thinking and may_think and way:
        # Its budget is a part of max_tokens; temperature and the like are not allowed beside it.
        budget = max(provider.thinking, _LEAST_THINKING)
        body["thinking"] = {"type": way} | ({"budget_tokens": budget} if way == "enabled" else {})
        body["max_tokens"] = request.max_tokens + budget
    elif sampling := _sampling(request, refused):
        # Beside the client's own fields: newer clients have none for these, the API of older models has.
        body["extra_body"] = sampling
    return body


def _names(told: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z_]){word}(?![A-Za-z_])", told) is not None


def _sampling(request: Request, refused: Collection[str]) -> dict[str, Any]:
    sampling = {
        name: request.sampling[name] for name in _SAMPLING if name in request.sampling and name not in refused
    }
    if "temperature" in sampling:
        sampling["temperature"] = min(sampling["temperature"], 1.0)
    return sampling


def _append(messages: list[dict[str, Any]], message: Message, *, is_marked: bool) -> None:
    """Add a message; the results of calls that were made together belong into one."""
    blocks: list[dict[str, Any]] = []
    if message.role == "tool":
        result: Any = [_block(part) for part in _shown_parts(message)] if message.pictures else message.sent
        blocks = [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": result}]
    else:
        blocks += [_block(part) for part in _shown_parts(message)]
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call)}
            for call in message.tool_calls
        ]
    blocks = blocks or [{"type": "text", "text": _NOTHING_SAID}]
    if is_marked:
        blocks[-1] = blocks[-1] | {"cache_control": _MARK}
    if message.role == "tool" and messages and messages[-1]["content"][-1]["type"] == "tool_result":
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": "assistant" if message.role == "assistant" else "user", "content": blocks})


def _shown_parts(message: Message) -> list[str | Picture]:
    return [part for part in parts_of(message) if isinstance(part, Picture) or part.strip()]


def _block(part: str | Picture) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    source = {"type": "base64", "media_type": media_type_of(part), "data": base64_of(part)}
    return {"type": "image", "source": source}


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    described = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
        for tool in tools
    ]
    described[-1]["cache_control"] = _MARK
    return described


def _events(stream: Any) -> Iterator[Event]:
    """Yield the events of a stream. The prompt is counted at its beginning, the answer at its end."""
    calls: dict[int, list[str]] = {}
    prompt = cached = answer = 0
    end = End("stop")
    for event in stream:
        kind = getattr(event, "type", "")
        if kind == "message_start":
            prompt, cached = _prompt_tokens(event.message.usage)
        elif kind == "content_block_start" and getattr(event.content_block, "type", "") == "tool_use":
            calls[event.index] = [event.content_block.id, event.content_block.name, ""]
        elif kind == "content_block_delta":
            yield from _pieces(event, calls)
        elif kind == "content_block_stop" and event.index in calls:
            call_id, name, arguments = calls.pop(event.index)
            yield ToolCall(call_id, name, arguments.strip() or "{}")  # a tool without parameters
        elif kind == "message_delta":
            stop = getattr(event.delta, "stop_sequence", None)
            reason = _REASONS.get(event.delta.stop_reason or "", "stop")
            end = End(reason, stop if isinstance(stop, str) else "")
            answer = getattr(event.usage, "output_tokens", None) or 0
        elif kind == "message_stop":
            if prompt:
                yield Usage(prompt, answer, cached)
            yield end


def _pieces(event: Any, calls: dict[int, list[str]]) -> Iterator[Event]:
    delta = event.delta
    kind = getattr(delta, "type", "")
    if kind == "text_delta" and delta.text:
        yield delta.text
    elif kind == "thinking_delta" and delta.thinking:
        yield Thought(delta.thinking)
    elif kind == "input_json_delta" and event.index in calls:
        calls[event.index][2] += delta.partial_json or ""


def _prompt_tokens(usage: Any) -> tuple[int, int]:
    """Return all tokens of the prompt, and how many of them came from the cache."""
    new, written, read = (
        getattr(usage, name, None) or 0
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    return new + written + read, read

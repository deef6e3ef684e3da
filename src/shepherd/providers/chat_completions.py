"""OpenAI's chat completions, as OpenAI itself, Gemini, Ollama, another Shepherd and many more speak them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from shepherd.pictures import base64_of, media_type_of, parts_of, without_pictures
from shepherd.providers.exchange import End, Event, Usage
from shepherd.providers.keys import ApiKey
from shepherd.providers.settings import ProviderSettings
from shepherd.providers.transport import Request, Transport
from shepherd.replies import ReplyParser
from shepherd.types import FinishReason, Message, Picture, Thought, Tool, ToolCall

__all__ = ["ChatCompletions", "extra_content", "from_provider", "sealed_extra", "thought_to_return"]

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}
# What OpenAI's own API knows; other servers know more, and get it beside the standard fields.
_STANDARD = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed")
_OTHER = (
    *("top_k", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold"),
    *("mirostat", "mirostat_tau", "mirostat_eta", "repeat_penalty", "repeat_last_n"),
    *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    *("dry_sequence_breakers", "samplers"),
)
# How a field may be called, in the order in which it is tried; "" leaves it out. OpenAI's newer models know
# only the second name of max_tokens, most other servers only the first.
_NAMES = {
    "max_tokens": ("max_tokens", "max_completion_tokens", ""),
    "stream_options": ("stream_options", ""),
    "temperature": ("temperature", ""),
    "top_p": ("top_p", ""),
    "frequency_penalty": ("frequency_penalty", ""),
    "presence_penalty": ("presence_penalty", ""),
    "seed": ("seed", ""),
}
_UNKNOWN = re.compile(
    r"un(supported|known|recognized|expected)|not (support|permit|allow)|extra (input|field)", re.I
)


# Some servers refuse a call of a tool whose thought is missing: DeepSeek, Kimi, and those in front of them.
_THOUGHT = "reasoning_content"
_ALL_CALLS, _ALL_ANSWERS = 1, 2


class ChatCompletions(Transport):
    """Connection to one server that speaks OpenAI's protocol.

    A thought before a call goes back to the server that sent it, in the conversation's later requests too. A
    server that still misses one gets it, or an empty one, with all calls, and then with all answers.
    """

    _client_class = "OpenAI"
    # From which messages on thoughts are sent: those that came here, those with calls, all answers.
    _thoughts = 0

    def __init__(self, provider: ProviderSettings, key: ApiKey) -> None:
        super().__init__(provider, key)
        is_openai = provider.kind == "openai" and provider.is_at_home
        self._refused = {"max_tokens"} if is_openai else set()
        self._sends_other = provider.kind in ("openai", "shepherd") and not is_openai

    def _create(self, client: Any, body: dict[str, Any]) -> Any:
        return client.chat.completions.create(**body)

    def _events(self, stream: Any) -> Iterator[Event]:
        return _events(stream, self._provider.address)

    def _body(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": self._provider.model or "default",
            "messages": self._messages(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": request.max_tokens,
        }
        fields |= {name: request.sampling[name] for name in _STANDARD if name in request.sampling}
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        fields |= _demands(request)
        extra: dict[str, Any] = {}
        if self._sends_other:
            extra = {name: request.sampling[name] for name in _OTHER if name in request.sampling}
        if self._provider.kind == "shepherd" and not (
            request.uses_memory and self._provider.memory is not False
        ):
            extra["memory"] = False
        body = {self._name(name): value for name, value in fields.items()}
        body.pop("", None)
        return body | ({"extra_body": extra} if extra else {})

    def _name(self, field: str) -> str:
        return next(name for name in _NAMES.get(field, (field,)) if name not in self._refused)

    def _drop_refused(self, error: Exception, body: dict[str, Any]) -> bool:
        told = f"{getattr(error, 'message', '')} {getattr(error, 'code', '')}"
        is_unknown = _UNKNOWN.search(told) is not None
        told += f" {getattr(error, 'param', '')}"
        if _THOUGHT in told and _THOUGHT not in self._refused:
            if is_unknown:
                self._refused.add(_THOUGHT)
                return any(_THOUGHT in message for message in body["messages"])
            self._thoughts += 1
            return self._thoughts <= _ALL_ANSWERS
        if not is_unknown:
            return False
        names = {name for names in _NAMES.values() for name in names if name}
        refused = {name for name in names & body.keys() if re.search(rf"\b{name}\b", told)}
        self._refused |= refused
        return bool(refused)

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the messages; results can only be text, so their pictures follow them in one of the user."""
        told: list[dict[str, Any]] = []
        pictures: list[Picture] = []
        for message in messages:
            if message.role != "tool" and pictures:
                told.append({"role": "user", "content": [_part(picture) for picture in pictures]})
                pictures = []
            told.append(_message(message, self._provider.address) | self._thought(message))
            if message.role == "tool":
                pictures += message.pictures
        if pictures:
            told.append({"role": "user", "content": [_part(picture) for picture in pictures]})
        return told

    def _thought(self, message: Message) -> dict[str, str]:
        if message.role != "assistant" or _THOUGHT in self._refused:
            return {}
        thought = thought_to_return(message, self._provider.address)
        is_wanted = self._thoughts >= (_ALL_CALLS if message.tool_calls else _ALL_ANSWERS)
        return {_THOUGHT: thought} if thought or is_wanted else {}


def _message(message: Message, address: str) -> dict[str, Any]:
    if message.role == "tool":
        text = without_pictures(message).sent
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    content = [_part(part) for part in parts_of(message)] if message.pictures else message.sent
    body: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        body["tool_calls"] = [_asked(call, address) for call in message.tool_calls]
    return body


def _part(part: str | Picture) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    url = f"data:{media_type_of(part)};base64,{base64_of(part)}"
    return {"type": "image_url", "image_url": {"url": url}}


def _asked(call: ToolCall, address: str) -> dict[str, Any]:
    body = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    extra = extra_content(call, address)
    return body if extra is None else body | {"extra_content": extra}


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _demands(request: Request) -> dict[str, Any]:
    """Return the fields that constrain the answer."""
    demands: dict[str, Any] = {}
    if request.stop:
        demands["stop"] = list(request.stop)
    if request.must_call:
        name = request.must_call
        named = {"type": "function", "function": {"name": name}}
        demands["tool_choice"] = named if isinstance(name, str) else "required"
    schema = request.schema
    if schema is not None and schema.is_any_object:
        demands["response_format"] = {"type": "json_object"}
    elif schema is not None:
        told: dict[str, Any] = {"name": schema.name, "schema": dict(schema.schema)}
        if schema.is_strict is not None:
            told["strict"] = schema.is_strict
        demands["response_format"] = {"type": "json_schema", "json_schema": told}
    return demands


def _events(chunks: Any, address: str) -> Iterator[Event]:
    """Yield the events of a stream; fields that should be there may be missing or null, as servers do."""
    parser = ReplyParser("")  # servers may leave thoughts in the answer
    calls: list[_Call] = []
    thinks = False
    for chunk in chunks:
        for choice in getattr(chunk, "choices", None) or ():
            delta = getattr(choice, "delta", None)
            if delta is not None:
                yield from _pieces(delta, parser)
                _collect(calls, delta)
                thinks = thinks or bool(getattr(delta, _THOUGHT, None))
            if reason := getattr(choice, "finish_reason", None):
                yield from (event.piece for event in parser.end())
                yield from (call.whole(address, thinks) for call in sorted(calls, key=attrgetter("index")))
                calls.clear()
                yield End(_REASONS.get(reason, "stop"))
        if usage := _usage(getattr(chunk, "usage", None)):
            yield usage


def _pieces(delta: Any, parser: ReplyParser) -> Iterator[Event]:
    thought = getattr(delta, _THOUGHT, None) or getattr(delta, "reasoning", None)
    if isinstance(thought, str) and thought:
        yield Thought(thought)
    for text in (getattr(delta, "content", None), getattr(delta, "refusal", None)):
        if isinstance(text, str) and text:
            yield from (event.piece for event in parser.feed(text))


@dataclass(slots=True)
class _Call:
    """A call while it comes: its id and name first, its arguments letter by letter."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: object = None

    def goes_on(self, index: object, call_id: str, name: str) -> bool:
        """Return whether a part with these belongs to this call: a name begins a new one.

        With an index, a name without an id goes on: some servers repeat it. So do those that give each part a
        new id, but no name.
        """
        if isinstance(index, int):
            return index == self.index and (not call_id or not name or self.id in ("", call_id))
        return call_id == self.id if call_id else not name

    def whole(self, address: str, thinks: bool) -> ToolCall:
        # Results refer to their call by its id, so a call without an id gets one here.
        call_id = self.id or f"call_{secrets.token_hex(12)}"
        arguments = self.arguments.strip() or "{}"  # some servers send none for a tool without parameters
        return ToolCall(call_id, self.name, arguments, sealed_extra(self.extra, address, thinks=thinks))


def _collect(calls: list[_Call], delta: Any) -> None:
    """Add what one chunk says of calls: their parts may come without an index, or all with the same."""
    for part in getattr(delta, "tool_calls", None) or ():
        index, call_id = getattr(part, "index", None), getattr(part, "id", None) or ""
        function = getattr(part, "function", None)
        name = getattr(function, "name", None) or ""
        call = next((call for call in reversed(calls) if call.goes_on(index, call_id, name)), None)
        if call is None:
            call = _Call(index if isinstance(index, int) else len(calls))
            calls.append(call)
        call.id, call.name = call.id or call_id, call.name or name
        call.arguments += getattr(function, "arguments", None) or ""
        extra = getattr(part, "extra_content", None)
        call.extra = call.extra if extra is None else extra


def _usage(usage: Any) -> Usage | None:
    prompt, answer = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if not isinstance(prompt, int) or not isinstance(answer, int):
        return None
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
    thinking = getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)
    return Usage(
        prompt,
        answer,
        cached if isinstance(cached, int) else 0,
        thinking if isinstance(thinking, int) else 0,
    )


def sealed_extra(content: object, address: str = "", *, thinks: bool = False) -> str:
    """Return `ToolCall.extra` for the `extra_content` that the server at `address` sent; "" for None.

    With `thinks` it sent a thought before the call, which it gets back, from `Message.thought`. Gemini signs
    the thought before a call, and refuses the conversation without that. No other server gets it, since it
    may refuse what it does not know. Without an address it comes from a client, who has it from the provider
    in use, and may be sent there.
    """
    if content is None and not thinks:
        return ""
    sealed = {"address": address, "content": content} | ({"thinks": True} if thinks else {})
    return json.dumps(sealed, separators=(",", ":"))


def extra_content(call: ToolCall, address: str = "") -> Any:
    """Return the `extra_content` for the server at `address`, or for a client; None without one."""
    if not call.extra:
        return None
    sealed = json.loads(call.extra)
    return sealed["content"] if not address or sealed["address"] in ("", address) else None


def from_provider(message: Message) -> Message:
    """Return a client's message, whose thought came from the provider in use and may go back there."""
    if not (message.thought and message.tool_calls):
        return message
    made = message.copy()
    made.tool_calls = tuple(
        replace(call, extra=sealed_extra(extra_content(call), thinks=True)) for call in message.tool_calls
    )
    return made


def thought_to_return(message: Message, address: str = "") -> str:
    """Return the thought before calls that the server at `address` sent, or any; "" for none."""
    sealed = [json.loads(call.extra) for call in message.tool_calls if call.extra and message.thought]
    is_its = any(one.get("thinks") and address in ("", one["address"] or address) for one in sealed)
    return message.thought if is_its else ""

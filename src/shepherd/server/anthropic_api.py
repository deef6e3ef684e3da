"""Anthropic's messages API: requests and answers in its form, streamed or whole."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from shepherd.errors import ShepherdError
from shepherd.server.chat import MOST_TOKENS, Chat, ChatRequest
from shepherd.server.errors import Denied, anthropic_error, problem_of
from shepherd.server.http import EventStream, JsonRoute, LastEvents, event
from shepherd.server.identity import caller_of
from shepherd.server.openai_api import require_model
from shepherd.server.scopes import MEMORY
from shepherd.server.state import ServerState
from shepherd.server.streaming import blocking, ended_with_its_client
from shepherd.types import FinishReason, Message, Piece, ReplySchema, Thought, Tool, ToolCall, TurnStats

__all__ = ["CountBody", "MessagesBody", "route", "router"]


_MOST_STOPS = 16


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Lenient(BaseModel):
    """What clients send back as they got it, with cache marks and the like in it."""

    model_config = ConfigDict(extra="ignore")


class _Block(_Lenient):
    """Text, a thought, a call of a tool, or its result: which fields count depends on the type."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[_Block] | None = None


class _Message(_Lenient):
    role: Literal["user", "assistant"]
    content: str | list[_Block]


class _Tool(_Lenient):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    type: str | None = None


class _Choice(_Lenient):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool = False


class _Thinking(_Lenient):
    type: str


class _Format(_Lenient):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _Output(_Lenient):
    format: _Format | None = None


class _Metadata(_Lenient):
    user_id: str | None = None


class CountBody(_Body):
    """POST /v1/messages/count_tokens: a conversation."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    thinking: _Thinking | None = None
    output_config: _Output | None = None
    # For Anthropic's service alone.
    cache_control: dict[str, Any] | None = None
    speed: str | None = None
    user_profile_id: str | None = None
    workspace_id: str | None = None

    def conversation(self) -> tuple[Message, ...]:
        """The messages as we have them; neighbours of one role are one, as Anthropic's service takes them.

        Denied for what is no text, or is not answered.
        """
        system = _text_of(self.system, "system")
        messages = [Message("system", system)] if system else []
        for i, sent in enumerate(self.messages):
            for message in _messages(sent, f"messages.{i}"):
                last = messages[-1] if messages else None
                if last is not None and last.role == message.role != "tool":
                    messages[-1] = _joined(last, message)
                else:
                    messages.append(message)
        if messages[-1].role not in ("user", "tool"):
            raise Denied(
                400, "invalid_request", "messages: the last one must be the user's", param="messages"
            )
        return tuple(messages)

    def offered(self) -> tuple[Tool, ...]:
        """The tools. Denied for those that run on Anthropic's side."""
        for i, tool in enumerate(self.tools or ()):
            if tool.type not in (None, "custom"):
                raise Denied(
                    400, "unsupported_parameter", f"tools.{i}: only tools of your own", param="tools"
                )
        return tuple(
            Tool(tool.name, tool.description or "", tool.input_schema or {"type": "object", "properties": {}})
            for tool in self.tools or ()
        )


class MessagesBody(CountBody):
    """POST /v1/messages."""

    max_tokens: int = Field(ge=1, le=MOST_TOKENS)
    stream: bool | None = False
    stop_sequences: list[str] | None = Field(default=None, max_length=_MOST_STOPS)
    temperature: float | None = Field(default=None, ge=0, le=5)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    metadata: _Metadata | None = None
    # For Anthropic's service alone.
    service_tier: str | None = None
    inference_geo: str | None = None
    diagnostics: Any = None
    # Ours.
    memory: bool | None = None
    memory_tools: bool | None = None
    user: str | None = None

    def request(self, user_id: str) -> ChatRequest:
        """What is asked. Denied for what cannot be had."""
        names = ("temperature", "top_p", "top_k")
        sampling = {name: value for name in names if (value := getattr(self, name)) is not None}
        return ChatRequest(
            self.conversation(),
            user_id,
            self.memory is not False,
            sampling,
            self.max_tokens,
            tuple(text for text in self.stop_sequences or () if text),
            self._schema(),
            self.offered(),
            self._choice(),
            bool(self.memory_tools),
            "output_config.format",
            parallel_calls=self.tool_choice is None or not self.tool_choice.disable_parallel_tool_use,
        )

    def _schema(self) -> ReplySchema | None:
        wanted = self.output_config.format if self.output_config is not None else None
        return None if wanted is None else ReplySchema(wanted.schema_, is_strict=True)

    def _choice(self) -> str:
        choice = self.tool_choice
        if choice is None:
            return "auto"
        if choice.type == "any" and not (self.tools or self.memory_tools):
            raise Denied(
                400, "invalid_request", "tool_choice: there are no tools to call", param="tool_choice"
            )
        if choice.type != "tool":
            return "required" if choice.type == "any" else choice.type
        if choice.name not in {tool.name for tool in self.tools or ()}:
            raise Denied(400, "invalid_request", "tool_choice: name one of the tools", param="tool_choice")
        return choice.name


def _messages(message: _Message, place: str) -> list[Message]:
    """What one message is in our terms: results of tools are messages of their own, before the text."""
    if isinstance(message.content, str):
        return [Message(message.role, message.content)]
    texts, calls, results = [], [], []
    for i, block in enumerate(message.content):
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "tool_use" and message.role == "assistant":
            calls.append(ToolCall(block.id, block.name, json.dumps(block.input or {}, ensure_ascii=False)))
        elif block.type == "tool_result" and message.role == "user":
            said = _text_of(block.content, f"{place}.content.{i}")
            results.append(Message("tool", said, tool_call_id=block.tool_use_id))
        elif block.type not in ("thinking", "redacted_thinking"):
            raise _unsupported(block, f"{place}.content.{i}")
    text = "\n".join(texts)
    own = [Message(message.role, text, tool_calls=tuple(calls))] if text or calls or not results else []
    return [*results, *own]


def _joined(first: Message, second: Message) -> Message:
    text = "\n".join(text for text in (first.raw, second.raw) if text)
    return Message(first.role, text, tool_calls=(*first.tool_calls, *second.tool_calls))


def _text_of(content: str | list[_Block] | None, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for i, block in enumerate(content):
        if block.type != "text":
            raise _unsupported(block, f"{place}.{i}")
    return "\n".join(block.text for block in content)


def _unsupported(block: _Block, place: str) -> Denied:
    message = f"{place}: the model reads text, no block of type {block.type[:40]!a}"
    return Denied(400, "unsupported_content", message, param=place)


router = APIRouter(prefix="/v1/messages")

_ROUTE = "/v1/messages"
_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "cancelled": "max_tokens",  # it was cut, when the server ended
    "tool_calls": "tool_use",
    "filtered": "refusal",
}


async def messages(request: Request, body: MessagesBody) -> Response:
    """The answer to a conversation."""
    state: ServerState = request.app.state.shepherd
    require_model(state, body.model)
    caller = caller_of(request, body.user)
    if body.memory_tools:
        caller.require(MEMORY)
    chat = await Chat.begin(state, _ROUTE, body.request(caller.user_id), request.receive)
    head = {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": state.conversations.models.name,
    }
    if body.stream:
        return EventStream(_streamed(chat, head), chat.cancel)
    blocks = _Blocks()
    async with ended_with_its_client(request.receive, chat.cancel), chat:
        async for piece in chat:
            blocks.add(piece)
    return JSONResponse(
        {**head, "content": blocks.whole(), **_ending(chat, blocks), "usage": _usage(chat.stats)}
    )


route = JsonRoute(_ROUTE, MessagesBody, messages)


@router.post("/count_tokens")
async def count_tokens(request: Request, body: CountBody) -> dict[str, int]:
    """Tokens of a conversation as it stands, without what memory would add."""
    state: ServerState = request.app.state.shepherd
    require_model(state, body.model)
    conversation, tools = body.conversation(), body.offered()
    return {"input_tokens": await blocking(lambda: state.conversations.count_tokens(conversation, tools))}


class _Blocks:
    """The content as Anthropic has it: runs of text and of thought, and calls, each a block."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, list[str], ToolCall | None]] = []

    def add(self, piece: Piece) -> bool:
        """Take in one piece; whether a new block began with it."""
        kind = _kind_of(piece)
        text = piece if isinstance(piece, str) else getattr(piece, "text", "")
        if kind != "tool_use" and self._blocks and self._blocks[-1][0] == kind:
            self._blocks[-1][1].append(text)
            return False
        self._blocks.append((kind, [text], piece if isinstance(piece, ToolCall) else None))
        return True

    @property
    def last(self) -> int:
        """The index of the newest block; -1 without any."""
        return len(self._blocks) - 1

    @property
    def has_calls(self) -> bool:
        """Whether a tool is to be called."""
        return any(call is not None for _, _, call in self._blocks)

    def whole(self) -> list[dict[str, Any]]:
        """All of them, complete."""
        blocks = []
        for kind, texts, call in self._blocks:
            block = _opening(kind, call)
            if call is not None:
                block["input"] = _arguments(call)
            else:
                block[kind] = "".join(texts)
            blocks.append(block)
        return blocks


async def _streamed(chat: Chat, head: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    start = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
    usage = {"input_tokens": chat.prompt_tokens, "output_tokens": 0}
    # What stands before the next piece and goes out with it.
    ahead = event({"type": "message_start", "message": {**start, "usage": usage}}, "message_start")
    blocks = _Blocks()
    try:
        async with chat:
            await chat.wait()
            if not chat.has_piece:
                yield ahead
                ahead = b""
            async for piece in chat:
                before = blocks.last
                if blocks.add(piece):
                    ahead += _stop(before) if before >= 0 else b""
                    call = piece if isinstance(piece, ToolCall) else None
                    opening = _opening(_kind_of(piece), call)
                    ahead += _indexed("content_block_start", blocks.last, content_block=opening)
                yield ahead + _indexed("content_block_delta", blocks.last, delta=_delta(piece))
                ahead = b""
    except ShepherdError as error:
        yield ahead + event(anthropic_error(problem_of(error)), "error")
        return
    ahead += _stop(blocks.last) if blocks.last >= 0 else b""
    ending = _ending(chat, blocks)
    last = event({"type": "message_delta", "delta": ending, "usage": _usage(chat.stats)}, "message_delta")
    yield LastEvents(ahead + last + event({"type": "message_stop"}, "message_stop"))


def _indexed(kind: str, index: int, **fields: Any) -> bytes:
    return event({"type": kind, "index": index, **fields}, kind)


def _stop(index: int) -> bytes:
    return _indexed("content_block_stop", index)


def _kind_of(piece: Piece) -> str:
    if isinstance(piece, Thought):
        return "thinking"
    return "tool_use" if isinstance(piece, ToolCall) else "text"


def _opening(kind: str, call: ToolCall | None) -> dict[str, Any]:
    """A block before it has its content."""
    if call is not None:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    return {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}


def _delta(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text_delta", "text": piece}
    if isinstance(piece, Thought):
        return {"type": "thinking_delta", "thinking": piece.text}
    return {"type": "input_json_delta", "partial_json": json.dumps(_arguments(piece), ensure_ascii=False)}


def _arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which is all that Anthropic's clients take."""
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        return {"arguments": call.arguments}
    return value if isinstance(value, dict) else {"arguments": value}


def _ending(chat: Chat, blocks: _Blocks) -> dict[str, Any]:
    stats, stops = chat.stats, chat.stops
    # Behind the client's own come those of the template.
    if 0 <= stats.stopped_by < len(stops):
        return {"stop_reason": "stop_sequence", "stop_sequence": stops[stats.stopped_by]}
    reason = _REASONS[stats.finish_reason]
    if blocks.has_calls and reason == "end_turn":
        reason = "tool_use"
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(stats: TurnStats) -> dict[str, int]:
    """As Anthropic counts: what was read from the cache is not in `input_tokens`."""
    return {
        "input_tokens": stats.prompt_tokens - stats.reused_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": stats.reused_tokens,
        "output_tokens": stats.generated_tokens,
    }

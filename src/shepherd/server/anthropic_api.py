"""Anthropic's messages API: requests and answers in its form, streamed or whole."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from shepherd.server.chat import (
    MOST_TOKENS,
    Chat,
    ChatFields,
    ChatRequest,
    arguments_object,
)
from shepherd.server.contents import (
    Content,
    Note,
    Part,
    message_of,
    noted,
    picture_from_base64,
    picture_from_url,
)
from shepherd.server.description import MODEL, described
from shepherd.server.errors import Denied, Problem, anthropic_error, invalid
from shepherd.server.http import (
    ClientBody,
    EventStream,
    Ignored,
    JsonRoute,
    LenientBody,
    ModelName,
    Refused,
    event,
)
from shepherd.server.identity import caller_of
from shepherd.server.limits import MOST_MESSAGES, MOST_STOP_CHARS, MOST_TOOLS, check_conversation, check_text
from shepherd.server.picture_addresses import counting
from shepherd.server.state import ServerState
from shepherd.server.streaming import cancelled_on_disconnect
from shepherd.server.template_fields import options_of, split_prefill
from shepherd.types import (
    FinishReason,
    Message,
    Picture,
    Piece,
    ReplySchema,
    Thought,
    Tool,
    ToolCall,
    TurnStats,
)

__all__ = ["CountBody", "MessagesBody", "route", "router"]


_BREAK = "\n\n"
_MOST_STOPS = 16
_Stop = Annotated[str, Field(max_length=MOST_STOP_CHARS)]


class _Source(LenientBody):
    type: str
    data: str | None = None
    url: str | None = None


class _Block(LenientBody):
    """A block of text, of thought, a call of a tool, or its result; its type says which fields count."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    thinking: str = ""
    tool_use_id: str = ""
    content: str | list[_Block] | None = None
    source: _Source | None = None


class _Message(LenientBody):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block]


class _Tool(LenientBody):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    type: str | None = None


class _Choice(LenientBody):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool = False


class _Thinking(LenientBody):
    type: str


class _Format(LenientBody):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _Output(LenientBody):
    format: _Format | None = None


class _Metadata(LenientBody):
    user_id: str | None = None


class CountBody(ClientBody):
    """POST /v1/messages/count_tokens: a conversation."""

    model: ModelName = Field(default="", description=MODEL)
    messages: list[_Message] = Field(min_length=1, max_length=MOST_MESSAGES)
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Ignored[_Choice | None] = None
    thinking: Ignored[_Thinking | None] = None
    output_config: Ignored[_Output | None] = None
    # Ignored: they are about Anthropic's service.
    context_management: Ignored[dict[str, Any] | None] = None
    cache_control: Ignored[dict[str, Any] | None] = None
    speed: Ignored[str | None] = None
    user_profile_id: Ignored[str | None] = None
    workspace_id: Ignored[str | None] = None

    def conversation(self) -> tuple[Message, ...]:
        """Return the messages; neighbours of one role are joined, as Anthropic's service joins them.

        Denied for content that models don't read.
        """
        system = message_of("system", _content_of(self.system, "system"))
        messages = [system] if system.content else []
        parts = [part for i, entry in enumerate(self.messages) for part in _parts(entry, f"messages.{i}")]
        messages += [part.message() for part in _joined(parts)]
        return tuple(messages)

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools. Denied for those that Anthropic runs."""
        for i, tool in enumerate(self.tools or ()):
            if tool.type not in (None, "custom"):
                raise Denied(
                    400, "unsupported_parameter", f"tools.{i}: only tools of your own", param="tools"
                )
        return tuple(
            Tool(tool.name, tool.description or "", tool.input_schema or {"type": "object", "properties": {}})
            for tool in self.tools or ()
        )


class MessagesBody(ChatFields, CountBody):
    """POST /v1/messages."""

    max_tokens: int = Field(ge=1, le=MOST_TOKENS)
    stop_sequences: list[_Stop] | None = Field(default=None, max_length=_MOST_STOPS)
    temperature: float | None = Field(default=None, ge=0, le=5)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    tool_choice: _Choice | None = None
    output_config: _Output | None = None
    thinking: _Thinking | None = None
    metadata: _Metadata | None = None
    thread: Refused[Any] = None
    # Ignored: they are about Anthropic's service.
    service_tier: Ignored[str | None] = None
    inference_geo: Ignored[str | None] = None
    diagnostics: Ignored[Any] = None

    def named_user(self) -> str | None:
        """Return `user`, else Anthropic's own field for it. Denied if they differ.

        Programs such as Claude Code put a session into that field: each one would have a memory of its own.
        """
        named = self.metadata.user_id if self.metadata is not None else None
        if named and "session" in named:
            named = None
        if self.user and named and self.user != named:
            raise invalid("metadata.user_id", "differs from user; send one of them", "invalid_user")
        return self.user or named

    def request(self, user_id: str) -> ChatRequest:
        """Return the request in no API's shape. Denied for what is not supported."""
        if self.thread is not None:
            # By this code, Anthropic's libraries know that they have to send the whole conversation.
            message = "thread: no conversations are kept here for /v1/messages; send all messages each time"
            raise Denied(400, "thread_unsupported_request", message, param="thread")
        names = ("temperature", "top_p", "top_k")
        sampling = {name: value for name in names if (value := getattr(self, name)) is not None}
        messages, prefill = split_prefill(self.conversation())
        thinks = None if self.thinking is None else self.thinking.type != "disabled"
        return ChatRequest(
            messages,
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
            template=options_of(thinks=thinks),
            prefill=prefill,
        )

    def _schema(self) -> ReplySchema | None:
        wanted = self.output_config.format if self.output_config is not None else None
        return None if wanted is None else ReplySchema(wanted.schema_, is_strict=True)

    def _choice(self) -> str:
        choice = self.tool_choice
        if choice is None:
            return "auto"
        if choice.type == "any" and not (self.tools or self.memory_tools):
            raise invalid("tool_choice", "there are no tools to call")
        if choice.type != "tool":
            return "required" if choice.type == "any" else choice.type
        if choice.name not in {tool.name for tool in self.tools or ()}:
            raise invalid("tool_choice", "name one of the tools")
        return choice.name


def _parts(message: _Message, place: str) -> Iterator[Part]:
    """Yield one message as several: results of tools are messages of their own, before the text."""
    blocks = message.content
    if isinstance(blocks, str):
        blocks = [_Block(type="text", text=blocks)]
    if message.role == "system":
        # Only the first message of a template may be the system's, and a later one would change all that the
        # model has read. So it is a note beside the user's words, as Claude Code writes it for older models.
        texts = _content_of(blocks, f"{place}.content")
        text = "\n".join(text for text in texts if isinstance(text, str))
        yield Part("user", [Note(f"<system-reminder>\n{text}\n</system-reminder>")])
        return
    content: list[str | Picture] = []
    calls: list[ToolCall] = []
    thoughts: list[str] = []
    n_results = 0
    for i, block in enumerate(blocks):
        where = f"{place}.content.{i}"
        if block.type in ("text", "image"):
            read = _read_block(block, where)
            content.append(noted(read) if message.role == "user" and isinstance(read, str) else read)
        elif block.type == "tool_use" and message.role == "assistant":
            calls.append(ToolCall(block.id, block.name, json.dumps(block.input or {}, ensure_ascii=False)))
        elif block.type == "tool_result" and message.role == "user":
            n_results += 1
            yield Part("tool", [*_content_of(block.content, where)], tool_call_id=block.tool_use_id)
        elif block.type == "thinking":
            thoughts.append(block.thinking)
        elif block.type != "redacted_thinking":
            raise _unsupported(block, where)
    if any(content) or calls or not n_results:
        thought = _BREAK.join(thoughts) if message.role == "assistant" else ""
        yield Part(message.role, content, tuple(calls), thought=thought)


def _joined(parts: list[Part]) -> list[Part]:
    """Return the parts with neighbours of one role as one, and notes about results with the last of them."""
    found: list[Part] = []
    for role, group in groupby(parts, lambda part: part.role):
        neighbours = list(group)
        if role == "tool":
            found += neighbours
            continue
        content = [one for part in neighbours for one in part.content]
        is_about_results = bool(found) and found[-1].role == "tool" and role == "user"
        if is_about_results and all(isinstance(one, Note) for one in content):
            found[-1].content += content
        else:
            calls = tuple(call for part in neighbours for call in part.calls)
            thought = _BREAK.join(part.thought for part in neighbours if part.thought)
            found.append(Part(role, content, calls, thought=thought))
    return found


def _content_of(content: str | list[_Block] | None, place: str) -> Content:
    if content is None or isinstance(content, str):
        return [content] if content else []
    return [_read_block(block, f"{place}.{i}") for i, block in enumerate(content)]


def _read_block(block: _Block, place: str) -> str | Picture:
    if block.type == "text":
        return block.text
    source = block.source
    if block.type != "image" or source is None:
        raise _unsupported(block, place)
    if source.type == "base64":
        return picture_from_base64(source.data, place)
    return picture_from_url(source.url, place)


def _unsupported(block: _Block, place: str) -> Denied:
    return invalid(
        place, f"models read text and pictures, no block of type {block.type[:40]!a}", "unsupported_content"
    )


router = APIRouter(prefix="/v1/messages")

_ROUTE = "/v1/messages"
_STOP = event({"type": "message_stop"}, "message_stop")
_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "cancelled": "max_tokens",  # when the server shut down
    "tool_calls": "tool_use",
    "filtered": "refusal",
}


@described("AnthropicAnswer", 404, events="AnthropicEvent", streams_with="stream")
async def messages(request: Request, body: MessagesBody) -> Response:
    """Answer a conversation, with what memory adds to its newest message."""
    chat = await Chat.of(request, _ROUTE, body)
    head = {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": chat.model,
    }
    blocks = _Blocks()
    if body.stream:
        usage = {"input_tokens": chat.prompt_tokens, "output_tokens": 0}
        start: dict[str, Any] = {
            **head,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        opening = event({"type": "message_start", "message": start}, "message_start")
        stream = chat.stream(opening, blocks.events_of, lambda: _last_events(chat, blocks), _error, _closing)
        return EventStream(stream, chat.cancel)
    async with cancelled_on_disconnect(request.receive, chat.cancel), chat:
        async for piece in chat:
            blocks.add(piece)
    return JSONResponse(
        {**head, "content": blocks.whole(), **_ending(chat, blocks), "usage": _usage(chat.stats)}
    )


route = JsonRoute(_ROUTE, MessagesBody, messages)


@router.post("/count_tokens")
@described("InputTokens", 404)
async def count_tokens(request: Request, body: CountBody) -> dict[str, int]:
    """Count the tokens of a conversation as it stands, without what memory would add."""
    state: ServerState = request.app.state.shepherd
    user_id = caller_of(request, None).user_id
    lease = await state.pool.lease(body.model, request.receive)

    def count() -> int:
        conversation, tools = body.conversation(), body.offered()
        check_conversation(conversation, tools)
        check_text("".join(message.raw for message in conversation), "messages")
        return lease.conversations.count_tokens(conversation, tools)

    with lease:
        return {"input_tokens": await counting(request, user_id, count)}


class _Blocks:
    """The content in Anthropic's shape: runs of text and of thought, and calls, each a block."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, list[str], ToolCall | None]] = []

    def add(self, piece: Piece) -> bool:
        """Add a piece; return True if it began a new block."""
        kind = _kind_of(piece)
        text = piece if isinstance(piece, str) else getattr(piece, "text", "")
        if kind != "tool_use" and self._blocks and self._blocks[-1][0] == kind:
            self._blocks[-1][1].append(text)
            return False
        self._blocks.append((kind, [text], piece if isinstance(piece, ToolCall) else None))
        return True

    def events_of(self, piece: Piece) -> bytes:
        """Add a piece, and return the events that send it."""
        before, started = self.end(), b""
        if self.add(piece):
            block = _empty_block(_kind_of(piece), piece if isinstance(piece, ToolCall) else None)
            started = before + self._event("content_block_start", content_block=block)
        return started + self._event("content_block_delta", delta=_delta(piece))

    def end(self) -> bytes:
        """Return the event that ends the newest block, b"" without any."""
        return self._event("content_block_stop") if self._blocks else b""

    @property
    def has_calls(self) -> bool:
        """True if a tool is called."""
        return any(call is not None for _, _, call in self._blocks)

    def whole(self) -> list[dict[str, Any]]:
        """Return all blocks."""
        blocks = []
        for kind, texts, call in self._blocks:
            block = _empty_block(kind, call)
            if call is not None:
                block["input"] = arguments_object(call)
            else:
                block[kind] = "".join(texts)
            blocks.append(block)
        return blocks

    def _event(self, kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "index": len(self._blocks) - 1, **fields}, kind)


def _error(problem: Problem) -> bytes:
    return event(anthropic_error(problem), "error")


def _last_events(chat: Chat, blocks: _Blocks) -> bytes:
    delta = {"type": "message_delta", "delta": _ending(chat, blocks), "usage": _usage(chat.stats)}
    stop = _STOP if chat.news is None else b""
    return blocks.end() + event(delta, "message_delta") + stop


def _closing(learned: list[dict[str, Any]]) -> bytes:
    """Return the event about what was learned, which Anthropic's clients pass over, and the end."""
    return event({"type": "learned", "learned": learned}, "learned") + _STOP


def _kind_of(piece: Piece) -> str:
    if isinstance(piece, Thought):
        return "thinking"
    return "tool_use" if isinstance(piece, ToolCall) else "text"


def _empty_block(kind: str, call: ToolCall | None) -> dict[str, Any]:
    """Return a block without its content."""
    if call is not None:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    return {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}


def _delta(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text_delta", "text": piece}
    if isinstance(piece, Thought):
        return {"type": "thinking_delta", "thinking": piece.text}
    return {
        "type": "input_json_delta",
        "partial_json": json.dumps(arguments_object(piece), ensure_ascii=False),
    }


def _ending(chat: Chat, blocks: _Blocks) -> dict[str, Any]:
    stats, stops = chat.stats, chat.stops
    # The template's stop strings follow the client's own.
    if 0 <= stats.stopped_by < len(stops):
        return {"stop_reason": "stop_sequence", "stop_sequence": stops[stats.stopped_by]}
    reason = _REASONS[stats.finish_reason]
    if blocks.has_calls and reason == "end_turn":
        reason = "tool_use"
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(stats: TurnStats) -> dict[str, int]:
    """Return tokens as Anthropic counts them: `input_tokens` is without those of the cache."""
    return {
        "input_tokens": stats.prompt_tokens - stats.reused_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": stats.reused_tokens,
        "output_tokens": stats.generated_tokens,
    }

"""Anthropic's messages, streamed and not, and how many tokens a conversation has."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from shepherd.errors import ShepherdError
from shepherd.serving.answering import blocking, ended_with_its_client
from shepherd.serving.anthropic_shapes import CountBody, MessagesBody
from shepherd.serving.chat import Chat
from shepherd.serving.errors import anthropic_error, problem_of
from shepherd.serving.event_stream import EventStream, LastEvents, event
from shepherd.serving.identity import caller_of
from shepherd.serving.json_route import JsonRoute
from shepherd.serving.openai_api import require_model
from shepherd.serving.scopes import MEMORY
from shepherd.serving.state import ServerState
from shepherd.types import FinishReason, Piece, Thought, ToolCall, TurnStats

__all__ = ["route", "router"]

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

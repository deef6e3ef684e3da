"""OpenAI's chat completions, streamed and not."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.providers.extras import extra_content
from shepherd.serving.answering import ended_with_its_client
from shepherd.serving.chat import Chat, Collected
from shepherd.serving.errors import Denied, openai_error, problem_of
from shepherd.serving.event_stream import EventStream, LastEvents, dumps, event, quoted
from shepherd.serving.identity import caller_of
from shepherd.serving.json_route import JsonRoute
from shepherd.serving.logprobs import chat_logprobs
from shepherd.serving.openai_shapes import ChatBody
from shepherd.serving.scopes import MEMORY
from shepherd.serving.state import ServerState
from shepherd.types import FinishReason, Piece, Thought, TokenLogprob, ToolCall, TurnStats

__all__ = ["REASONS", "require_model", "route", "usage_of"]

_ROUTE = "/v1/chat/completions"
REASONS: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "cancelled": "length",  # it was cut, when the server ended
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}


async def chat_completions(request: Request, body: ChatBody) -> Response:
    """The answer to a conversation."""
    state: ServerState = request.app.state.shepherd
    require_model(state, body.model)
    caller = caller_of(request, body.user)
    if body.memory_tools:
        caller.require(MEMORY)
    chat = await Chat.begin(state, _ROUTE, body.request(caller.user_id), request.receive)
    if body.stream:
        include_usage = body.stream_options is not None and body.stream_options.include_usage
        return EventStream(_streamed(chat, state.conversations.models.name, include_usage), chat.cancel)
    return await _whole(request, chat, state.conversations.models.name)


route = JsonRoute(_ROUTE, ChatBody, chat_completions)


async def _whole(request: Request, chat: Chat, model: str) -> Response:
    collected = Collected()
    tokens: list[TokenLogprob] = []
    async with ended_with_its_client(request.receive, chat.cancel), chat:
        async for piece in chat:
            collected.add(piece)
            tokens += chat.take_logprobs()
    tokens += chat.take_logprobs()
    message: dict[str, Any] = {"role": "assistant", "content": collected.text, "refusal": None}
    if collected.thought:
        message["reasoning_content"] = collected.thought
    if collected.calls:
        message["content"] = collected.text or None
        message["tool_calls"] = [_call(call) for call in collected.calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": chat_logprobs(tokens) if chat.has_logprobs else None,
        "finish_reason": _reason(chat.stats, bool(collected.calls)),
    }
    answer = {**_head("chat.completion", model), "choices": [choice], "usage": usage_of(chat.stats)}
    return JSONResponse(answer)


async def _streamed(chat: Chat, model: str, include_usage: bool) -> AsyncGenerator[bytes, None]:
    head = _head("chat.completion.chunk", model)
    # Everything but the delta is the same in each chunk.
    before = dumps(head)[:-1] + ',"choices":[{"index":0,"delta":'
    after = ',"finish_reason":null}]' + (',"usage":null}' if include_usage else "}")
    opening = event(before + '{"role":"assistant","content":""},"logprobs":null' + after)
    n_calls = 0
    try:
        async with chat:
            await chat.wait()
            if not chat.has_piece:
                yield opening
                opening = b""
            async for piece in chat:
                logprobs = dumps(_new_logprobs(chat)) if chat.has_logprobs else "null"
                yield opening + event(f'{before}{_delta(piece, n_calls)},"logprobs":{logprobs}{after}')
                opening = b""
                n_calls += isinstance(piece, ToolCall)
    except ShepherdError as error:
        yield opening + event(openai_error(problem_of(error)))
        return
    reason = _reason(chat.stats, n_calls > 0)
    end = {"index": 0, "delta": {}, "logprobs": _new_logprobs(chat), "finish_reason": reason}
    last = [opening, event({**head, "choices": [end], **({"usage": None} if include_usage else {})})]
    if include_usage:
        last.append(event({**head, "choices": [], "usage": usage_of(chat.stats)}))
    yield LastEvents(b"".join([*last, event("[DONE]")]))


def _new_logprobs(chat: Chat) -> dict[str, Any] | None:
    tokens = chat.take_logprobs() if chat.has_logprobs else []
    return chat_logprobs(tokens) if tokens else None


def _head(kind: str, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


def _delta(piece: Piece, index: int) -> str:
    """What one piece adds, as JSON."""
    if isinstance(piece, str):
        return f'{{"content":{quoted(piece)}}}'
    if isinstance(piece, Thought):
        return f'{{"reasoning_content":{quoted(piece.text)}}}'
    return dumps({"tool_calls": [{"index": index, **_call(piece)}]})


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    told = {"id": call.id, "type": "function", "function": function}
    extra = extra_content(call)
    return told if extra is None else told | {"extra_content": extra}


def _reason(stats: TurnStats, has_calls: bool) -> str:
    reason = REASONS[stats.finish_reason]
    return "tool_calls" if has_calls and reason == "stop" else reason


def usage_of(stats: TurnStats) -> dict[str, Any]:
    """Tokens as OpenAI counts them; of the prompt, those that the KV cache held."""
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.generated_tokens,
        "total_tokens": stats.prompt_tokens + stats.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.reused_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def require_model(state: ServerState, name: str) -> None:
    """Denied for a model that is not the server's."""
    names = state.conversations.models.names
    if name not in names:
        raise Denied(
            404,
            "model_not_found",
            f"there is no such model here; there is {names[0]} (which 'default' names, too)",
            param="model",
        )

"""Answers in the form of OpenAI's chat API, whole or streamed, one to a request or several."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.providers.chat_completions import extra_content
from shepherd.server.chat import Chat
from shepherd.server.errors import Problem, openai_error, problem_of
from shepherd.server.http import EventStream, FinalEvents, dumps, event, quoted
from shepherd.server.public_ids import public_injection
from shepherd.server.streaming import cancelled_on_disconnect, merged
from shepherd.server.telemetry import fingerprint
from shepherd.types import FinishReason, Piece, Thought, TokenLogprob, ToolCall, TurnStats

__all__ = ["REASONS", "chat_logprobs", "finite", "streamed", "usage_of", "whole"]

_LEAST_LOGPROB = -9999.0
_DONE = event("[DONE]")
REASONS: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "cancelled": "length",  # when the server shut down
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}


async def whole(request: Request, chat: Chat, model: str) -> Response:
    """Return the answers to a request as one object."""
    chats = (chat, *chat.others)
    async with cancelled_on_disconnect(request.receive, chat.cancel):
        found = [found async for found in merged([_choice(one, i) for i, one in enumerate(chats)])]
    choices = sorted(found, key=lambda choice: int(choice["index"]))
    head = _head("chat.completion", model)
    about = {**chat.timings, **_verbose(chat), **_session(chat)}
    return JSONResponse({**head, "choices": choices, "usage": _usage(chat), **about})


def _session(chat: Chat) -> dict[str, Any]:
    """Return the fields about where the turn was stored, for a client that has named the conversation."""
    if not chat.session:
        return {}
    deleted = {"session_deleted": True} if chat.stored.is_deleted else {}
    return {"session": chat.stored.session if chat.stored.is_stored else None, **deleted}


def _verbose(chat: Chat) -> dict[str, Any]:
    """Return the field of llama.cpp's that tells the prompt, if the client asked for it."""
    return {} if chat.shown_prompt is None else {"__verbose": {"prompt": chat.shown_prompt}}


async def _choice(chat: Chat, index: int) -> AsyncGenerator[dict[str, Any], None]:
    """Yield one thing: an answer, whole."""
    said: list[str] = []
    thought: list[str] = []
    calls: list[ToolCall] = []
    tokens: list[TokenLogprob] = []
    async with chat:
        async for piece in chat:
            if isinstance(piece, ToolCall):
                calls.append(piece)
            elif isinstance(piece, Thought):
                thought.append(piece.text)
            else:
                said.append(piece)
            tokens += chat.take_logprobs()
    tokens += chat.take_logprobs()
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said), "refusal": None}
    if any(thought):
        message["reasoning_content"] = "".join(thought)
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = [_call(call) for call in calls]
    yield {
        "index": index,
        "message": message,
        "logprobs": chat_logprobs(tokens) if chat.has_logprobs else None,
        "finish_reason": _reason(chat.stats, bool(calls)),
    }


def streamed(
    chat: Chat,
    model: str,
    *,
    include_usage: bool = False,
    tells_recalled: bool = False,
    tells_progress: bool = False,
) -> EventStream:
    """Return the answers to a request in chunks, as they come."""
    chunks = _Chunks(chat, _head("chat.completion.chunk", model), include_usage)
    if tells_recalled:
        chunks.tell_recalled()
    if chat.others:
        return EventStream(_several(chunks), chat.cancel)
    progress = chunks.progress if tells_progress else None
    pause = chunks.pause if tells_progress else None
    events = chat.stream(chunks.opening, chunks.of, chunks.last, _error, chunks.closing, progress, pause)
    return EventStream(events, chat.cancel)


async def _several(first: _Chunks) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of several answers as they come."""
    chat = first.chat
    all_chunks = [first, *(first.beside(other, i) for i, other in enumerate(chat.others, 1))]
    try:
        async with aclosing(merged([chunks.alone() for chunks in all_chunks])) as events:
            async for one in events:
                yield one
    except ShepherdError as error:
        yield _error(problem_of(error))
        return
    if chat.news is None:
        yield FinalEvents(first.total() + _DONE)
        return
    yield first.total()
    yield FinalEvents(first.closing(await chat.news.wait()))


class _Chunks:
    """The chunks of one streamed answer: `opening`, those `of` its pieces, and the `last` ones."""

    def __init__(self, chat: Chat, head: dict[str, Any], include_usage: bool, index: int = 0) -> None:
        self.chat, self._include_usage, self._index = chat, include_usage, index
        self._head = head
        # Everything but the delta is the same in each chunk.
        self._before = f'{dumps(head)[:-1]},"choices":[{{"index":{index},"delta":'
        self._after = ',"finish_reason":null}]' + (',"usage":null}' if include_usage else "}")
        self._n_calls = 0
        self.opening = event(self._before + '{"role":"assistant"},"logprobs":null' + self._after)

    def beside(self, chat: Chat, index: int) -> _Chunks:
        """Return the chunks of another answer to the same request."""
        return _Chunks(chat, self._head, self._include_usage, index)

    def tell_recalled(self) -> None:
        """Begin with what was recalled."""
        usage = {"usage": None} if self._include_usage else {}
        recalled = public_injection(self.chat.injection, self.chat.newest_message)
        self.opening += event({**self._head, "choices": [], **usage, "recalled": recalled})

    async def alone(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of this answer, without those about all answers of the request."""
        async with self.chat:
            yield self.opening
            async for piece in self.chat:
                yield self.of(piece)
        yield self._end()

    def of(self, piece: Piece) -> bytes:
        logprobs = dumps(self._new_logprobs()) if self.chat.has_logprobs else "null"
        chunk = f'{self._before}{_delta(piece, self._n_calls)},"logprobs":{logprobs}{self._after}'
        self._n_calls += isinstance(piece, ToolCall)
        return event(chunk)

    def progress(self, about: dict[str, int]) -> bytes:
        """Return the chunk about the reading of the prompt."""
        usage = {"usage": None} if self._include_usage else {}
        return event({**self._head, "choices": [], **usage, "prompt_progress": about})

    def pause(self, seconds: float, reason: str) -> bytes:
        """Return the chunk about a pause before a provider is asked again."""
        usage = {"usage": None} if self._include_usage else {}
        return event({**self._head, "choices": [], **usage, "retry": {"after_s": seconds, "reason": reason}})

    def last(self) -> bytes:
        return self._end() + self.total() + (_DONE if self.chat.news is None else b"")

    def total(self) -> bytes:
        """Return the chunk about what all answers cost, b"" if the client has not asked for it."""
        if not self._include_usage:
            return b""
        return event({**self._head, "choices": [], "usage": _usage(self.chat), **self._about()})

    def _about(self) -> dict[str, Any]:
        """Return what llama.cpp's clients read in the last chunk."""
        return {**self.chat.timings, **_verbose(self.chat)}

    def _end(self) -> bytes:
        reason = _reason(self.chat.stats, self._n_calls > 0)
        about = {"index": self._index, "delta": {}}
        end = {**about, "logprobs": self._new_logprobs(), "finish_reason": reason}
        rest = {"usage": None} if self._include_usage else self._about()
        stored = _session(self.chat) if self._index == 0 else {}  # of several answers, the first one is
        return event({**self._head, "choices": [end], **rest, **stored})

    def closing(self, learned: list[dict[str, Any]]) -> bytes:
        """Return the chunk about what was learned, and the end."""
        usage = {"usage": None} if self._include_usage else {}
        return event({**self._head, "choices": [], **usage, "learned": learned}) + _DONE

    def _new_logprobs(self) -> dict[str, Any] | None:
        tokens = self.chat.take_logprobs() if self.chat.has_logprobs else []
        return chat_logprobs(tokens) if tokens else None


def _error(problem: Problem) -> bytes:
    return event(openai_error(problem))


def _head(kind: str, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": fingerprint(),
    }


def _delta(piece: Piece, index: int) -> str:
    """Return the delta of one piece as JSON."""
    if isinstance(piece, str):
        return f'{{"content":{quoted(piece)}}}'
    if isinstance(piece, Thought):
        return f'{{"reasoning_content":{quoted(piece.text)}}}'
    return dumps({"tool_calls": [{"index": index, **_call(piece)}]})


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    extra = extra_content(call)
    rest = {} if extra is None else {"extra_content": extra}
    return {"id": call.id, "type": "function", "function": function, **rest}


def _reason(stats: TurnStats, has_calls: bool) -> str:
    reason = REASONS[stats.finish_reason]
    return "tool_calls" if has_calls and reason == "stop" else reason


def _usage(chat: Chat) -> dict[str, Any]:
    """Return the tokens of all answers to a request; the prompt, which they share, counts once."""
    generated = sum(one.stats.generated_tokens for one in (chat, *chat.others))
    return usage_of(replace(chat.stats, generated_tokens=generated))


def usage_of(stats: TurnStats) -> dict[str, Any]:
    """Return tokens as OpenAI counts them, those of the prompt that the KV cache held included."""
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.generated_tokens,
        "total_tokens": stats.prompt_tokens + stats.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.reused_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """Return log-probabilities as chat completions have them.

    Part of a character becomes `\\xe2`; `bytes` has it unchanged.
    """
    content = [{**_entry(token), "top_logprobs": [_entry(one) for one in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


def finite(logprob: float) -> float:
    """Return a log-probability for JSON, which has no infinity."""
    return logprob if logprob > _LEAST_LOGPROB else _LEAST_LOGPROB


def _entry(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.piece.decode("utf-8", "backslashreplace"),
        "logprob": finite(token.logprob),
        "bytes": list(token.piece),
    }

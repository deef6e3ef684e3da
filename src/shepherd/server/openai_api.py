"""OpenAI's chat API: requests and answers in its form, streamed or whole."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.providers.chat_completions import extra_content, sealed_extra
from shepherd.server.chat import MOST_TOKENS, Chat, ChatRequest, Collected
from shepherd.server.errors import Denied, openai_error, problem_of
from shepherd.server.http import EventStream, JsonRoute, LastEvents, dumps, event, quoted
from shepherd.server.identity import caller_of
from shepherd.server.logprobs import MOST_LIKELY, chat_logprobs
from shepherd.server.scopes import MEMORY
from shepherd.server.state import ServerState
from shepherd.server.streaming import ended_with_its_client
from shepherd.types import (
    FinishReason,
    Message,
    Piece,
    ReplySchema,
    Thought,
    TokenLogprob,
    Tool,
    ToolCall,
    TurnStats,
)

__all__ = [
    "REASONS",
    "ChatBody",
    "CompletionBody",
    "EmbeddingBody",
    "StreamOptions",
    "given_sampling",
    "refuse_unless",
    "require_model",
    "route",
    "usage_of",
]


_MOST_STOPS = 16
_MOST_TEXTS = 2048
_SAMPLING = ("temperature", "top_p", "seed", "top_k", "min_p", "repeat_penalty", "repeat_last_n")
_LARGEST_SEED = 0xFFFFFFFF
_LARGEST_PENALTY = 1000


class _Body(BaseModel):
    # A field that is not known may be one that matters.
    model_config = ConfigDict(extra="forbid")


class _Lenient(BaseModel):
    """What clients send back as they got it, with fields of other services in it."""

    model_config = ConfigDict(extra="ignore")


class StreamOptions(_Lenient):
    """How it streams."""

    include_usage: bool = False


class _Part(_Lenient):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Function(_Lenient):
    name: str
    arguments: str = ""


class _Call(_Lenient):
    id: str
    type: str = "function"
    function: _Function
    extra_content: Any = None


class ChatMessage(_Lenient):
    """One message; `content` is text, or parts of it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None

    def message(self, place: str) -> Message:
        """The same as we have it. Denied for what is no text."""
        calls = tuple(
            ToolCall(call.id, call.function.name, call.function.arguments, sealed_extra(call.extra_content))
            for call in self.tool_calls or ()
        )
        role = "system" if self.role == "developer" else self.role
        text = _text_of(self.content, f"{place}.content")
        return Message(role, text, tool_calls=calls, tool_call_id=self.tool_call_id or "")


class _ToolFunction(_Lenient):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(_Lenient):
    type: Literal["function"]
    function: _ToolFunction


class _Named(_Lenient):
    name: str


class _NamedTool(_Lenient):
    type: Literal["function"]
    function: _Named


class _JsonSchema(_Lenient):
    name: str = ""
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class _Format(_Lenient):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


Stop: TypeAlias = str | Annotated[list[str], Field(max_length=_MOST_STOPS)] | None


class _Sampled(_Body):
    """What all that generates has in common."""

    model: str
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    temperature: float | None = Field(default=None, ge=0, le=5)
    top_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = None
    stop: Stop = None
    n: int | None = 1
    frequency_penalty: float | None = 0
    presence_penalty: float | None = 0
    logit_bias: dict[str, float] | None = None
    user: str | None = None
    # llama.cpp's own.
    top_k: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repeat_penalty: float | None = Field(default=None, gt=0, le=_LARGEST_PENALTY)
    repeat_last_n: int | None = Field(default=None, ge=0, le=MOST_TOKENS)

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end the answer."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in stop if text)

    def refuse_what_is_not_there(self) -> None:
        """Denied for what would change the answer and is not to be had."""
        refuse_unless(self.n in (None, 1), "n", "there is one answer to a request; send it again for another")
        refuse_unless(not self.frequency_penalty, "frequency_penalty", "use repeat_penalty, 1 is off")
        refuse_unless(not self.presence_penalty, "presence_penalty", "use repeat_penalty, 1 is off")
        refuse_unless(not self.logit_bias, "logit_bias", "leave it out")


class ChatBody(_Sampled):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    tools: list[_Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | _NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_LIKELY)
    modalities: list[str] | None = None
    # Ours.
    memory: bool | None = None
    memory_tools: bool | None = None
    # For OpenAI's service alone.
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    moderation: Any = None
    safety_identifier: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None

    def request(self, user_id: str) -> ChatRequest:
        """What is asked. Denied for what cannot be had."""
        self.refuse_what_is_not_there()
        refuse_unless(
            not self.modalities or self.modalities == ["text"], "modalities", "the model writes text"
        )
        messages = tuple(m.message(f"messages.{i}") for i, m in enumerate(self.messages))
        if messages[-1].role not in ("user", "tool"):
            raise Denied(
                400,
                "invalid_request",
                f"messages: the last one is of role {self.messages[-1].role}; "
                "the model answers a user or a tool",
                param="messages",
            )
        return ChatRequest(
            messages,
            user_id,
            self.memory is not False,
            given_sampling(self),
            self.max_completion_tokens or self.max_tokens or 0,
            self.stops,
            self._schema(),
            tuple(_tool(tool.function) for tool in self.tools or ()),
            self._choice(),
            bool(self.memory_tools),
            logprobs=self._logprobs(),
            parallel_calls=self.parallel_tool_calls is not False,
        )

    def _schema(self) -> ReplySchema | None:
        wanted = self.response_format
        if wanted is None or wanted.type == "text":
            return None
        if wanted.type == "json_object":
            return ReplySchema({"type": "object"})
        told = wanted.json_schema
        if told is None or told.schema_ is None:
            raise Denied(400, "invalid_request", "response_format: it has no schema", param="response_format")
        return ReplySchema(told.schema_, told.name or "answer", told.strict)

    def _logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise Denied(
                400, "invalid_request", "top_logprobs: set logprobs to true as well", param="top_logprobs"
            )
        return self.top_logprobs or 0 if self.logprobs else None

    def _choice(self) -> str:
        if isinstance(self.tool_choice, _NamedTool):
            name = self.tool_choice.function.name
            known = {tool.function.name for tool in self.tools or ()}
            refuse_unless(name in known, "tool_choice", "name a tool that is among the tools")
            return name
        if self.tool_choice == "required" and not (self.tools or self.memory_tools):
            raise Denied(
                400, "invalid_request", "tool_choice: there are no tools to call", param="tool_choice"
            )
        return self.tool_choice or "auto"


class CompletionBody(_Sampled):
    """POST /v1/completions: text goes on, without a chat around it."""

    prompt: str | list[str] | list[int] | list[list[int]]
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = 1
    logprobs: int | None = Field(default=None, ge=0, le=MOST_LIKELY)

    def refuse_what_is_not_there(self) -> None:
        """Denied for what would change the answer and is not to be had."""
        super().refuse_what_is_not_there()
        refuse_unless(self.logprobs is None or not self.echo, "echo", "the prompt has no logprobs")
        refuse_unless(not self.suffix, "suffix", "leave it out")
        refuse_unless(self.best_of in (None, 1), "best_of", "there is one answer to a request")


class EmbeddingBody(_Body):
    """POST /v1/embeddings."""

    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = None
    user: str | None = None

    @property
    def texts(self) -> list[str]:
        """What is to be embedded. Denied for token ids: a client has them of some other model."""
        inputs = [self.input] if isinstance(self.input, str) else self.input
        texts = [text for text in inputs if isinstance(text, str)]
        if not texts or len(texts) != len(inputs) or len(texts) > _MOST_TEXTS:
            raise Denied(
                400,
                "invalid_request",
                f"input: send a text, or up to {_MOST_TEXTS} of them, no token ids "
                "(langchain-openai: check_embedding_ctx_length=False)",
                param="input",
            )
        return texts


def refuse_unless(is_fine: bool, param: str, hint: str) -> None:
    """Denied as what this server does not do."""
    if not is_fine:
        raise Denied(400, "unsupported_parameter", f"{param}: not supported here ({hint})", param=param)


def given_sampling(body: _Sampled) -> dict[str, float]:
    """What the client has set of the sampling. OpenAI's clients send nulls for what they have not."""
    given = {name: value for name in _SAMPLING if (value := getattr(body, name)) is not None}
    if "seed" in given:
        given["seed"] = int(given["seed"]) % _LARGEST_SEED  # OpenAI's are 64 bits, signed
    if given.get("top_p") == 0:
        given["temperature"], given["top_p"] = 0, 1  # the likeliest token
    return given


def _text_of(content: str | list[_Part] | None, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content:
        if part.type not in ("text", "refusal"):
            raise Denied(
                400,
                "unsupported_content",
                f"{place}: the model reads text, no part of type {part.type[:40]!a}",
                param=place,
            )
        texts.append(part.text or part.refusal or "")
    return "\n".join(texts)


def _tool(function: _ToolFunction) -> Tool:
    return Tool(
        function.name, function.description or "", function.parameters or {"type": "object", "properties": {}}
    )


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

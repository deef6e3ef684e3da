"""Ollama's API: requests and answers in its form, as JSON lines or whole."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response

from shepherd.errors import ShepherdError
from shepherd.inference.names import HUB_PREFIX
from shepherd.inference.template import TemplateOptions
from shepherd.replies import thinking_marks
from shepherd.server.chat import (
    MOST_TOKENS,
    Chat,
    ChatFields,
    ChatRequest,
    arguments_object,
    grammar_of,
)
from shepherd.server.contents import message_of, picture_from_base64
from shepherd.server.continuation import Continuation, Prompt, Wanted, gap_of, prompts_in
from shepherd.server.description import described
from shepherd.server.errors import Problem, invalid, ollama_error, problem_of, unsupported
from shepherd.server.http import FinalEvents, JsonRoute, LenientBody, LineStream, Refused, line
from shepherd.server.limits import MOST_MESSAGES, MOST_STOP_CHARS, MOST_TOOLS
from shepherd.server.offers import About
from shepherd.server.openai_api import EmbeddingBody, OfferedTool
from shepherd.server.pool import Lease
from shepherd.server.pulls import TAG
from shepherd.server.retrieval_api import embedded
from shepherd.server.sampling_fields import MOST_STOPS, SamplingFields, sampling_in
from shepherd.server.served_model import ServedModel
from shepherd.server.state import ServerState
from shepherd.server.streaming import ReplyReader, cancelled_on_disconnect
from shepherd.server.template_fields import options_of, split_prefill
from shepherd.turn import sampling_of
from shepherd.types import Message, Picture, Piece, ReplySchema, Thought, Tool, ToolCall, TurnStats

__all__ = ["ChatBody", "GenerateBody", "router", "routes"]

# The version of Ollama whose API this is: clients ask for it before they use what came with it.
_VERSION = "0.12.6"
_NS_PER_MS = 1_000_000


class _Options(SamplingFields, LenientBody):
    """Sampling options. Those for loading a model are ignored, since it is loaded already."""

    num_predict: int | None = Field(default=None, le=MOST_TOKENS)
    stop: str | list[str] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings that end the answer. Denied for too many, or too long ones."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stop) > MOST_STOPS or any(len(text) > MOST_STOP_CHARS for text in stop):
            raise invalid(
                "options.stop", f"send up to {MOST_STOPS} texts of at most {MOST_STOP_CHARS:,} characters"
            )
        return tuple(text for text in stop if text)


class _Function(LenientBody):
    name: str
    arguments: dict[str, Any] | None = None


class _Call(LenientBody):
    id: str | None = None
    function: _Function


class _Message(LenientBody):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = ""
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None


class _Fields(ChatFields):
    """Fields of both kinds of answers; like Ollama, this API passes over fields that it does not know."""

    model_config = ConfigDict(extra="ignore")

    stream: bool | None = Field(default=True, description="Stream the answer, a JSON object a line.")
    learned: Refused[bool | None] = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    options: _Options | None = None
    think: bool | str | None = Field(
        default=None,
        description="With false, the model is asked not to think, and thoughts are left out of the answer.",
    )
    keep_alive: str | float | None = Field(
        default=None, description="Only read in a request that asks nothing; the model stays loaded."
    )

    @field_validator("model")
    @classmethod
    def _without_tag(cls, name: str) -> str:
        return name.removesuffix(TAG)

    @property
    def is_to_load(self) -> bool:
        """True if nothing is asked: Ollama loads the model then, or unloads it."""
        raise NotImplementedError  # abstract: each body has another field with the question

    def _request(
        self, user_id: str, messages: tuple[Message, ...], tools: tuple[Tool, ...], prefill: str = ""
    ) -> ChatRequest:
        if self.learned:
            raise unsupported("learned", "GET /v1/learned lists what was learned")
        options = self.options or _Options()
        return ChatRequest(
            messages,
            user_id,
            self.memory is not False,
            sampling_in(options),
            max(options.num_predict or 0, 0),
            options.stops,
            self._schema(),
            tools,
            memory_tools=bool(self.memory_tools),
            schema_field="format",
            template=self._template(),
            prefill=prefill,
        )

    def _template(self) -> TemplateOptions:
        if isinstance(self.think, str):
            return options_of(effort=self.think)
        return options_of(thinks=self.think)

    def _schema(self) -> ReplySchema | None:
        if not self.format:
            return None
        return ReplySchema({"type": "object"} if self.format == "json" else dict(self.format))


class ChatBody(_Fields):
    """POST /api/chat."""

    messages: list[_Message] = Field(default_factory=list, max_length=MOST_MESSAGES)
    tools: list[OfferedTool] | None = Field(default=None, max_length=MOST_TOOLS)

    @property
    def is_to_load(self) -> bool:
        """True if nothing is asked."""
        return not self.messages

    def request(self, user_id: str) -> ChatRequest:
        """Return the request in no API's shape. Denied for what is not supported."""
        tools = tuple(tool.tool() for tool in self.tools or ())
        messages, prefill = split_prefill(tuple(_messages(self.messages)))
        return self._request(user_id, messages, tools, prefill)


class GenerateBody(_Fields):
    """POST /api/generate: a conversation of one message."""

    prompt: str = ""
    system: str = ""
    suffix: str = ""
    template: Refused[str] = ""
    raw: bool | None = False
    context: Refused[list[int] | None] = None
    images: list[str] | None = None

    @property
    def is_to_load(self) -> bool:
        """True if nothing is asked."""
        return not self.prompt and not self.images

    def request(self, user_id: str) -> ChatRequest:
        """Return the request in no API's shape. Denied for what is not supported."""
        hints = {
            "template": "the model's own is used",
            "context": "/api/chat takes the messages so far",
        }
        for name, hint in hints.items():
            if getattr(self, name):
                raise unsupported(name, hint)
        system = (Message("system", self.system),) if self.system else ()
        message = message_of("user", [*_pictures(self.images, "images"), self.prompt])
        return self._request(user_id, (*system, message), ())


def _messages(given: list[_Message]) -> Iterator[Message]:
    """Yield the messages with IDs of calls and results, which older clients leave out.

    Made IDs depend on the place alone, so that a conversation is known again when it comes back.
    """
    open_calls: list[ToolCall] = []
    for i, message in enumerate(given):
        calls: tuple[ToolCall, ...] = ()
        answered = ""
        if message.role == "assistant":
            calls = tuple(
                ToolCall(
                    call.id or f"call_{i}_{k}",
                    call.function.name,
                    json.dumps(call.function.arguments or {}, ensure_ascii=False),
                )
                for k, call in enumerate(message.tool_calls or ())
            )
            open_calls = list(calls)
        elif message.role == "tool":
            answered = message.tool_call_id or _answered(message.tool_name or "", open_calls)
            open_calls = [call for call in open_calls if call.id != answered]
        content: list[str | Picture] = [
            *_pictures(message.images, f"messages.{i}.images"),
            message.content or "",
        ]
        made = message_of(message.role, content, tool_calls=calls, tool_call_id=answered)
        if message.role == "assistant":
            made.thought = message.thinking or ""
        yield made


def _answered(name: str, open_calls: list[ToolCall]) -> str:
    """Return the ID of the call that a result without one answers: the first of that tool, or of any."""
    named = [call.id for call in open_calls if call.name == name]
    return (named or [call.id for call in open_calls] or [""])[0]


def _pictures(images: list[str] | None, place: str) -> list[Picture]:
    """Return the pictures of a message, which have no place in its text: they come before it."""
    return [picture_from_base64(data, place) for data in images or ()]


@described("OllamaChat", 404, lines="OllamaChat", streams_with="stream")
async def _chat(request: Request, body: ChatBody) -> Response:
    """Answer a conversation, with what memory adds to its newest message."""
    return await _answer(request, body, _ChatLines)


@described("OllamaGenerated", 404, lines="OllamaGenerated", streams_with="stream")
async def _generate(request: Request, body: GenerateBody) -> Response:
    """Answer one message; continue a text as it is (`raw`), or fill a gap in it (`suffix`)."""
    if (body.raw or body.suffix) and not body.is_to_load:
        return await _continued(request, body)
    return await _answer(request, body, _GenerateLines)


routes = [JsonRoute("/api/chat", ChatBody, _chat), JsonRoute("/api/generate", GenerateBody, _generate)]


async def _answer(request: Request, body: _Fields, kind: type[_Lines]) -> Response:
    state: ServerState = request.app.state.shepherd
    lines = kind(body.model, shows_thoughts=body.think is not False)
    if body.is_to_load:
        if body.keep_alive in (0, "0"):
            state.pool.require(body.model)
        else:
            (await state.pool.lease(body.model, request.receive)).release()
        return JSONResponse(lines.loaded("unload" if body.keep_alive in (0, "0") else "load"))
    chat = await Chat.of(request, request.url.path, body)
    if body.stream is not False:
        stream = chat.stream(b"", lines.of, lambda: line(lines.last(chat.stats)), _error, lambda _: b"")
        return LineStream(stream, chat.cancel)
    pieces: list[Piece] = []
    async with cancelled_on_disconnect(request.receive, chat.cancel), chat:
        async for piece in chat:
            pieces.append(piece)
    return JSONResponse(lines.whole(pieces, chat.stats))


async def _continued(request: Request, body: GenerateBody) -> Response:
    """Continue a text below the chat, without memory, as editors ask for."""
    state: ServerState = request.app.state.shepherd
    asked = body.request("")
    lease = await state.pool.lease(body.model, request.receive)
    lines = _GenerateLines(body.model, shows_thoughts=False)
    try:
        continuation, prompt = _continuation(state, lease, body, asked)
        reader = await continuation.begin(prompt)
    except BaseException:
        lease.release()
        raise
    if body.stream is not False:
        return LineStream(_lines_of(lines, continuation, reader, lease), continuation.cancel)
    with lease:
        async with cancelled_on_disconnect(request.receive, continuation.cancel):
            try:
                pieces = [piece async for piece in reader]
            finally:
                stats = await continuation.end()
    return JSONResponse(lines.whole(pieces, stats))


def _continuation(
    state: ServerState, lease: Lease, body: GenerateBody, asked: ChatRequest
) -> tuple[Continuation, Prompt]:
    engine = lease.engine
    if engine is None:
        raise unsupported("raw" if body.raw else "suffix", "a remote model has chats only")
    prompt: Prompt
    if body.suffix:
        prompt = gap_of(engine, body.prompt, body.suffix, "suffix")
    else:
        (prompt,) = prompts_in(body.prompt)
    sampling = sampling_of(lease.conversations.config, engine.info.sampling, asked.sampling)
    wanted = Wanted(sampling, asked.max_tokens or None, asked.stop, grammar_of(asked))
    return Continuation(state, engine, "/api/generate", wanted), prompt


async def _lines_of(
    lines: _GenerateLines, continuation: Continuation, reader: ReplyReader, lease: Lease
) -> AsyncGenerator[bytes, None]:
    try:
        try:
            async for piece in reader:
                yield lines.of(piece)
        finally:
            stats = await continuation.end()
            lease.release()
    except ShepherdError as error:
        yield _error(problem_of(error))
        return
    yield FinalEvents(line(lines.last(stats)))


def _error(problem: Problem) -> bytes:
    return line(ollama_error(problem))


class _Lines:
    """The lines of one answer: those `of` its pieces and the `last` one; or the `whole` in one object."""

    def __init__(self, model: str, *, shows_thoughts: bool) -> None:
        self._model, self._shows_thoughts = model, shows_thoughts
        self._n_calls = 0

    def of(self, piece: Piece) -> bytes:
        """Return the line of a piece, b"" for a thought that is not wanted."""
        if isinstance(piece, Thought) and not self._shows_thoughts:
            return b""
        return line({**self._head(), **self._content([piece]), "done": False})

    def last(self, stats: TurnStats) -> dict[str, Any]:
        """Return the last line, with what the answer cost."""
        return {**self._head(), **self._content([]), **_ending(stats)}

    def whole(self, pieces: list[Piece], stats: TurnStats) -> dict[str, Any]:
        """Return the answer as one object."""
        shown = [piece for piece in pieces if self._shows_thoughts or not isinstance(piece, Thought)]
        return {**self._head(), **self._content(shown), **_ending(stats)}

    def loaded(self, reason: str) -> dict[str, Any]:
        """Return the answer to a request that asks nothing."""
        return {**self._head(), **self._content([]), "done": True, "done_reason": reason}

    def _head(self) -> dict[str, Any]:
        return {"model": self._model, "created_at": _written(time.time())}

    def _content(self, pieces: list[Piece]) -> dict[str, Any]:
        raise NotImplementedError  # abstract: each API names it in its own way

    def _calls(self, pieces: list[Piece]) -> list[dict[str, Any]]:
        calls = []
        for call in (piece for piece in pieces if isinstance(piece, ToolCall)):
            function = {"index": self._n_calls, "name": call.name, "arguments": arguments_object(call)}
            calls.append({"id": call.id, "function": function})
            self._n_calls += 1
        return calls


class _ChatLines(_Lines):
    """The answers of /api/chat."""

    def _content(self, pieces: list[Piece]) -> dict[str, Any]:
        said, thought = _texts(pieces)
        message: dict[str, Any] = {"role": "assistant", "content": said}
        if thought:
            message["thinking"] = thought
        if calls := self._calls(pieces):
            message["tool_calls"] = calls
        return {"message": message}


class _GenerateLines(_Lines):
    """The answers of /api/generate."""

    def _content(self, pieces: list[Piece]) -> dict[str, Any]:
        said, thought = _texts(pieces)
        return {"response": said, **({"thinking": thought} if thought else {})}


def _texts(pieces: list[Piece]) -> tuple[str, str]:
    said = "".join(piece for piece in pieces if isinstance(piece, str))
    return said, "".join(piece.text for piece in pieces if isinstance(piece, Thought))


def _ending(stats: TurnStats) -> dict[str, Any]:
    is_cut = stats.finish_reason in ("length", "cancelled")
    return {
        "done": True,
        "done_reason": "length" if is_cut else "stop",
        "total_duration": int(stats.total_ms * _NS_PER_MS),
        "load_duration": 0,
        "prompt_eval_count": stats.prompt_tokens,
        "prompt_eval_duration": int(stats.prefill_ms * _NS_PER_MS),
        "eval_count": stats.generated_tokens,
        "eval_duration": int(stats.decode_ms * _NS_PER_MS),
    }


def _written(moment: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1_000_000):06d}Z"


# ---- the models

router = APIRouter(prefix="/api")


class ShowBody(LenientBody):
    """POST /api/show. `name` is the older name of the field."""

    model: str = ""
    name: str = ""


class EmbedBody(LenientBody):
    """POST /api/embed."""

    model: str
    input: str | list[str]
    dimensions: int | None = None


class OldEmbeddingBody(LenientBody):
    """POST /api/embeddings, the older way to embed one text."""

    model: str
    prompt: str


@router.get("/version")
@described("OllamaVersion")
async def version() -> dict[str, str]:
    """Return the version of Ollama's API that is spoken here."""
    return {"version": _VERSION}


@router.get("/tags")
@described("OllamaModels")
async def tags(request: Request) -> dict[str, Any]:
    """List the models, loaded or not."""
    state: ServerState = request.app.state.shepherd
    return {"models": [*(_listed(state, model) for model in state.pool.models), *_embedders(state)]}


@router.get("/ps")
@described("OllamaModels")
async def running(request: Request) -> dict[str, Any]:
    """List the models in memory. They stay there until others need the room."""
    state: ServerState = request.app.state.shepherd
    never = _written(state.started_at + 100 * 365 * 86_400)
    shown = []
    for model in state.pool.loaded:
        engine = model.engine
        if engine is None:
            continue
        on_gpu = engine.info.size_bytes if engine.info.n_gpu_layers else 0
        more = {"expires_at": never, "size_vram": on_gpu, "context_length": engine.window_tokens}
        shown.append({**_listed(state, model), **more})
    return {"models": shown}


@router.post("/show")
@described("OllamaShown", 404)
async def show(request: Request, body: ShowBody) -> dict[str, Any]:
    """Describe a model."""
    state: ServerState = request.app.state.shepherd
    model = state.pool.require((body.model or body.name).removesuffix(TAG))
    listed = _listed(state, model)
    shown: dict[str, Any] = {
        "modelfile": f"FROM {model.name}",
        "parameters": "",
        "template": "",
        "details": listed["details"],
        "model_info": {"general.basename": model.name},
        "capabilities": ["completion", "tools"],
        "modified_at": listed["modified_at"],
    }
    if model.reads_pictures:
        shown["capabilities"].append("vision")
    about = model.about
    if about is not None:
        shown["template"] = about.chat_template
        if any(mark in about.chat_template for mark in thinking_marks(about.chat_template)):
            shown["capabilities"].append("thinking")
        shown["model_info"] |= {
            "general.architecture": about.architecture,
            "general.parameter_count": about.n_params,
            f"{about.architecture}.context_length": about.n_ctx_train,
        }
    return shown


@router.post("/embed")
@described("OllamaEmbeddings", 404)
async def embed(request: Request, body: EmbedBody) -> dict[str, Any]:
    """Embed texts."""
    began = time.perf_counter()
    given: Any = body.input
    asked = EmbeddingBody(model=body.model.removesuffix(TAG), input=given, dimensions=body.dimensions)
    rows, n_tokens = await embedded(request, asked)
    return {
        "model": body.model,
        "embeddings": [row.tolist() for row in rows],
        "total_duration": int((time.perf_counter() - began) * 1e9),
        "load_duration": 0,
        "prompt_eval_count": n_tokens,
    }


@router.post("/embeddings")
@described("OllamaEmbedding", 404)
async def embed_one(request: Request, body: OldEmbeddingBody) -> dict[str, Any]:
    """Embed one text."""
    asked = EmbeddingBody(model=body.model.removesuffix(TAG), input=body.prompt)
    rows, _ = await embedded(request, asked)
    return {"embedding": rows[0].tolist()}


def _embedders(state: ServerState) -> list[dict[str, Any]]:
    name = state.embeddings.name if state.embeddings is not None else ""
    return [_entry(state, name, None)] if name else []


def _listed(state: ServerState, model: ServedModel) -> dict[str, Any]:
    return _entry(state, model.name, model.about)


def _entry(state: ServerState, name: str, about: About | None) -> dict[str, Any]:
    family = about.architecture if about is not None else ""
    size = about.size_bytes if about is not None else 0
    # Clients tell models apart by it; the file itself may have gigabytes.
    digest = hashlib.sha256(f"{name}\0{size}".encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "name": name if name.startswith(HUB_PREFIX) else f"{name}{TAG}",
        "model": name if name.startswith(HUB_PREFIX) else f"{name}{TAG}",
        "modified_at": _written(state.started_at),
        "size": size,
        "digest": digest,
        "details": {
            "parent_model": "",
            "format": "gguf" if about is not None else "",
            "family": family,
            "families": [family] if family else [],
            "parameter_size": _counted(about.n_params) if about is not None else "",
            "quantization_level": about.quant if about is not None else "",
        },
    }


def _counted(n: int) -> str:
    """Return a number of parameters as Ollama writes it: 4.5M, 7.6B."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if n >= unit:
            return f"{n / unit:.1f}{letter}"
    return str(n)

"""Routes of llama.cpp's own server: tokens, the chat template, the model and its slots, reranking."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from shepherd.inference import Engine
from shepherd.inference.template import TemplateOptions
from shepherd.server.description import MODEL, described
from shepherd.server.errors import Denied, invalid
from shepherd.server.http import LARGE_BYTES, LenientBody, ModelName
from shepherd.server.identity import caller_of
from shepherd.server.limits import MOST_MESSAGES, MOST_TOOLS, check_conversation, check_text
from shepherd.server.openai_api import ChatMessage, OfferedTool
from shepherd.server.picture_addresses import counting
from shepherd.server.state import ServerState
from shepherd.server.streaming import blocking
from shepherd.server.telemetry import fingerprint
from shepherd.server.template_fields import Value, options_of
from shepherd.types import Message, Tool

__all__ = ["router"]

router = APIRouter()

_MOST_DOCUMENTS = 2048
_MOST_IDS = 100_000


class _Body(LenientBody):
    model: ModelName = Field(default="", description=MODEL)


class TextBody(_Body):
    """POST /tokenize."""

    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class TokensBody(_Body):
    """POST /detokenize."""

    tokens: list[int] = Field(max_length=_MOST_IDS)


class TemplateBody(_Body):
    """POST /apply-template: a conversation."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    tools: list[OfferedTool] | None = Field(default=None, max_length=MOST_TOOLS)
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Value] | None = None
    reasoning_effort: str | None = None

    def conversation(self) -> tuple[list[Message], list[Tool]]:
        """Return messages and tools. Denied for those that are too long."""
        messages = [message.message(f"messages.{i}") for i, message in enumerate(self.messages)]
        tools = [tool.tool() for tool in self.tools or ()]
        check_conversation(messages, tools)
        return messages, tools

    @property
    def template(self) -> TemplateOptions:
        """The options for the template."""
        return options_of(self.chat_template_kwargs, self.reasoning_effort)


class _Document(LenientBody):
    text: str


class RerankBody(LenientBody):
    """POST /v1/rerank, as Jina's API has it; `texts` is the name in Hugging Face's."""

    query: str
    documents: list[str | _Document] = Field(default_factory=list, max_length=_MOST_DOCUMENTS)
    texts: list[str] = Field(default_factory=list, max_length=_MOST_DOCUMENTS)
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False
    return_text: bool = False

    @property
    def all_texts(self) -> list[str]:
        """Return what is to be ranked. Denied for nothing."""
        texts = [one if isinstance(one, str) else one.text for one in self.documents] or self.texts
        if not texts:
            raise invalid("documents", "send the texts to rank")
        return texts


@asynccontextmanager
async def _leased(request: Request, name: str) -> AsyncIterator[Engine]:
    """Give the engine of the model of that name."""
    state: ServerState = request.app.state.shepherd
    with await state.pool.lease(name) as lease:
        if lease.engine is None:
            raise _remote()
        yield lease.engine


def _remote() -> Denied:
    return Denied(404, "not_found", "a remote model answers here, whose tokens are not known")


@router.post("/tokenize")
@described("Tokens", 404)
async def tokenize(request: Request, body: TextBody) -> dict[str, Any]:
    """Return the ids of a text's tokens, with their pieces if asked for."""
    check_text(body.content, "content")

    def work(engine: Engine) -> list[Any]:
        ids = engine.tokenize(body.content, special=body.parse_special)
        if body.add_special:
            ids = [*engine.tokenize_prompt("")[:1], *ids]
        return [{"id": one, "piece": _piece(engine, one)} for one in ids] if body.with_pieces else ids

    async with _leased(request, body.model) as engine:
        tokens = await blocking(lambda: work(engine), is_large=len(body.content) > LARGE_BYTES)
    return {"tokens": tokens}


def _piece(engine: Engine, token: int) -> str | list[int]:
    """Return a token's text, or its bytes if they are part of a character."""
    piece = engine.detokenize([token])
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)


@router.post("/detokenize")
@described("Content", 404)
async def detokenize(request: Request, body: TokensBody) -> dict[str, str]:
    """Return the text of tokens."""
    async with _leased(request, body.model) as engine:
        text = await blocking(lambda: engine.detokenize(body.tokens))
    return {"content": text.decode("utf-8", "replace")}


@router.post("/apply-template")
@described("Prompt", 404)
async def apply_template(request: Request, body: TemplateBody) -> dict[str, str]:
    """Return the prompt that the model's template makes of a conversation, without what memory would add."""

    def work(engine: Engine) -> str:
        return engine.render(*body.conversation(), template=body.template, asks=body.add_generation_prompt)

    is_large = len(await request.body()) > LARGE_BYTES
    async with _leased(request, body.model) as engine:
        return {"prompt": await blocking(lambda: work(engine), is_large=is_large)}


@router.post("/v1/chat/completions/input_tokens")
@described("InputTokens", 404)
async def count_tokens(request: Request, body: TemplateBody) -> dict[str, Any]:
    """Count the tokens of a conversation as it stands, without what memory would add."""
    state: ServerState = request.app.state.shepherd
    user_id = caller_of(request, None).user_id
    lease = await state.pool.lease(body.model, request.receive)
    with lease:
        count = lease.conversations.count_tokens
        n_tokens = await counting(request, user_id, lambda: count(*body.conversation()))
    return {"object": "response.input_tokens", "input_tokens": n_tokens}


@router.get("/props")
@described("Props")
async def props(request: Request, model: str = "") -> dict[str, Any]:
    """Describe a model and the server; less of a model that is not loaded."""
    state: ServerState = request.app.state.shepherd
    served = state.pool.require(model)
    engine = served.engine
    shown: dict[str, Any] = {
        "model_alias": served.name,
        # Its name alone: where it is on the disk is nobody's business.
        "model_path": "" if served.path is None else served.path.name,
        "build_info": fingerprint(),
        "total_slots": engine.settings.slots if engine is not None else 1,
        "modalities": {"vision": served.reads_pictures, "audio": False},
        "default_generation_settings": {"params": state.config.sampling},
    }
    if engine is not None:
        shown["default_generation_settings"]["n_ctx"] = engine.window_tokens
        shown["chat_template"] = engine.info.chat_template
        kept = await blocking(engine.kept)
        shown["kept_conversations"] = None if kept is None else asdict(kept)
    return shown


@router.get("/slots")
@described("SlotList", 404)
async def slots(request: Request, model: str = "") -> list[dict[str, Any]]:
    """List a model's slots and whether they are in use, without anybody's text; none if it isn't loaded."""
    state: ServerState = request.app.state.shepherd
    served = state.pool.require(model)
    engine, conversations = served.engine, served.conversations
    if conversations is not None and not conversations.models.is_local:
        raise _remote()
    if engine is None or conversations is None:
        return []
    n_busy = conversations.models.n_lent
    return [
        {"id": i, "n_ctx": engine.window_tokens, "is_processing": i < n_busy}
        for i in range(engine.settings.slots)
    ]


@router.post("/v1/rerank")
@described("Ranking", 404)
async def rerank(request: Request, body: RerankBody) -> dict[str, Any] | list[dict[str, Any]]:
    """Order texts by their relevance to a question; `texts` are answered as Hugging Face's servers do."""
    state: ServerState = request.app.state.shepherd
    reranker = state.reranker
    if reranker is None:
        raise Denied(
            404,
            "model_not_found",
            "this server has no reranker (the setting knowledge_reranker names a GGUF made for reranking)",
            param="model",
        )
    texts = body.all_texts
    check_text("".join((body.query, *texts)), "documents")
    scores, n_tokens = await blocking(lambda: reranker.counted_scores(body.query, texts), is_large=True)
    ranked = sorted(zip(scores, range(len(texts)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    if not body.documents:
        shown = [{"text": text} if body.return_text else {} for text in texts]
        return [{"index": i, "score": score, **shown[i]} for score, i in ranked[: body.top_n]]
    results = [
        {
            "index": i,
            "relevance_score": score,
            **({"document": {"text": texts[i]}} if body.return_documents else {}),
        }
        for score, i in ranked[: body.top_n]
    ]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return {"object": "list", "model": reranker.name, "usage": usage, "results": results}

"""For programs that build prompts themselves: OpenAI's embeddings, made by a GGUF for embeddings, and prompts
with everything that Shepherd knows about a question.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from shepherd.inference.embedding import Embedder
from shepherd.prompt.one_shot import DEFAULT_TOKENS
from shepherd.server.continuation import tokens_in
from shepherd.server.description import described
from shepherd.server.errors import Denied, invalid, refuse_gone
from shepherd.server.openai_api import EmbeddingBody, require_supported
from shepherd.server.state import OwnMemory, ServerState
from shepherd.server.streaming import cancelled_on_disconnect
from shepherd.turn.components import build_context

__all__ = ["Embeddings", "embedded", "router"]

router = APIRouter(prefix="/v1")

# Texts that are embedded between two checks that the client is still connected.
_BATCH = 64
_LONGEST_QUESTION = 1 << 20
_MOST_TOKENS = 1 << 20


class Embeddings:
    """The server's embedder and its name; loaded with the first request. Thread-safe.

    It has one thread, which computes a batch at a time, so that requests do not occupy the threads of chats.
    """

    def __init__(self, name: str, open_embedder: Callable[[], Embedder]) -> None:
        self.name = name
        self._open = open_embedder
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shepherd-embed")

    async def embedded(
        self, texts: Sequence[str | list[int | str]], dimensions: int | None, is_gone: threading.Event
    ) -> tuple[list[Any], int]:
        """Return the vectors and the number of tokens.

        Denied for texts that the model would cut, and once `is_gone` is set; ModelError if the embedder
        cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._work(texts, dimensions, is_gone))

    def _work(
        self, texts: Sequence[str | list[int | str]], dimensions: int | None, is_gone: threading.Event
    ) -> tuple[list[Any], int]:
        refuse_gone(is_gone.is_set())
        with self._lock:
            embedder = self._embedder = self._embedder or self._open()
        tokens = _tokens_of(embedder, texts, dimensions)
        rows: list[Any] = []
        for begin in range(0, len(tokens), _BATCH):
            refuse_gone(is_gone.is_set())
            rows.extend(embedder.embed_tokens(tokens[begin : begin + _BATCH]))
        return rows, sum(map(len, tokens))

    def close(self) -> None:
        """Free the embedder. May be called twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()


async def embedded(request: Request, body: EmbeddingBody) -> tuple[list[Any], int]:
    """Return a vector of length 1 for each text, and the number of tokens.

    Denied without an embedder of that name, and for texts that it would cut.
    """
    state: ServerState = request.app.state.shepherd
    source = state.embeddings
    if source is None:
        raise Denied(
            404,
            "model_not_found",
            "this server makes no embeddings (the setting server_embeddings names a GGUF made for them)",
            param="model",
        )
    if body.model not in (source.name, "default", "") and not state.pool.takes_any(body.model):
        message = f"there is no such model for embeddings here; there is {source.name}"
        raise Denied(404, "model_not_found", message, param="model")
    texts = body.texts
    is_gone = threading.Event()
    async with cancelled_on_disconnect(request.receive, is_gone.set):
        return await source.embedded(texts, body.dimensions, is_gone)


@router.post("/embeddings")
@described("Embeddings", 404)
async def embeddings(request: Request, body: EmbeddingBody) -> dict[str, Any]:
    """Embed texts: a vector of length 1 for each."""
    rows, n_tokens = await embedded(request, body)
    state: ServerState = request.app.state.shepherd
    name = state.embeddings.name if state.embeddings is not None else body.model
    if body.encoding_format == "base64":
        rows = [_as_base64(row) for row in rows]
    else:
        rows = [row.tolist() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return {"object": "list", "data": data, "model": name, "usage": usage}


def _tokens_of(
    embedder: Embedder, texts: Sequence[str | list[int | str]], dimensions: int | None
) -> list[array[int]]:
    """Return the tokens of the texts. Denied for a text that the model would cut."""
    require_supported(
        dimensions in (None, embedder.dimension),
        "dimensions",
        f"the model's vectors have {embedder.dimension}",
    )
    found = []
    for i, text in enumerate(texts):
        if isinstance(text, str):
            ids = embedder.tokenize(text)
        else:
            ids = array("i", tokens_in(text, lambda part, _: embedder.tokenize(part, framed=False)))
            if not all(0 <= token < embedder.n_vocab for token in ids):
                raise invalid(f"input.{i}", "one of the numbers is not a token of this model")
        if len(ids) > embedder.most_tokens:
            message = (
                f"input.{i} is too large: it has {len(ids)} tokens, the model reads {embedder.most_tokens}"
            )
            raise Denied(400, "context_length_exceeded", message, param="input")
        found.append(ids)
    return found


def _as_base64(row: Any) -> str:
    """Return little-endian 32-bit floats as Base64, which OpenAI's client asks for."""
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")


class ContextBody(BaseModel):
    """A question, the length of the prompt, and the stored conversation that it continues, or `last`."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, max_length=_LONGEST_QUESTION)
    max_tokens: int = Field(default=DEFAULT_TOKENS, ge=1, le=_MOST_TOKENS)
    session: str = Field(default="", max_length=256)
    times: bool = False


@router.post("/context")
@described("BuiltPrompt")
def build_prompt(request: Request, own: OwnMemory, body: ContextBody) -> dict[str, Any]:
    """Build a prompt of the caller's memory, knowledge and conversation."""
    state: ServerState = request.app.state.shepherd
    lease = state.pool.lease_on_thread()
    conversations = lease.conversations
    model = conversations.models.take()
    try:
        summarizer = conversations.summarizer
        made = build_context(
            body.question,
            own.memory,
            state.config,
            own.user,
            session_id=body.session,
            max_tokens=body.max_tokens,
            count=model.count_tokens,
            times=body.times,
            summarize=None if summarizer is None else summarizer.summarize,
        )
    finally:
        conversations.models.give_back(model)
        lease.release()
    return made.as_dict()

"""OpenAI's embeddings, by a GGUF that was made for them."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter, Request

from shepherd.inference.embedding import Embedder
from shepherd.server.errors import Denied
from shepherd.server.openai_api import EmbeddingBody, refuse_unless
from shepherd.server.state import ServerState
from shepherd.server.streaming import ended_with_its_client

__all__ = ["Embeddings", "router"]

router = APIRouter(prefix="/v1")

# Texts that are embedded before it is looked whether the client is still there.
_BATCH = 64


class Embeddings:
    """The server's embedder under its name; loaded when it is first asked. Thread-safe.

    It computes one batch at a time: requests wait for one thread of their own, not in those that chats need.
    """

    def __init__(self, name: str, open_embedder: Callable[[], Embedder]) -> None:
        self.name = name
        self._open = open_embedder
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shepherd-embed")

    def opened(self) -> Embedder:
        """The embedder; raises ModelError when it cannot be loaded."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._open()
            return self._embedder

    async def embedded(
        self, texts: Sequence[str], dimensions: int | None, is_gone: threading.Event
    ) -> tuple[list[Any], int]:
        """The vectors, and how many tokens that were. Denied for texts that the model would cut, and once
        `is_gone` is set; raises ModelError when the embedder cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._work(texts, dimensions, is_gone))

    def _work(
        self, texts: Sequence[str], dimensions: int | None, is_gone: threading.Event
    ) -> tuple[list[Any], int]:
        _refuse_gone(is_gone)
        embedder = self.opened()
        n_tokens = _count_tokens(embedder, texts, dimensions)
        rows: list[Any] = []
        for begin in range(0, len(texts), _BATCH):
            _refuse_gone(is_gone)
            rows.extend(embedder.embed(texts[begin : begin + _BATCH]))
        return rows, n_tokens

    def close(self) -> None:
        """Free it. May be called twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()


@router.post("/embeddings")
async def embeddings(request: Request, body: EmbeddingBody) -> dict[str, Any]:
    """A vector of length 1 for each text."""
    state: ServerState = request.app.state.shepherd
    source = state.embeddings
    if source is None:
        raise Denied(
            404,
            "model_not_found",
            "this server makes no embeddings (the setting server_embeddings names a GGUF made for them)",
            param="model",
        )
    if body.model not in (source.name, "default"):
        message = f"there is no such model for embeddings here; there is {source.name}"
        raise Denied(404, "model_not_found", message, param="model")
    texts = body.texts
    is_gone = threading.Event()
    async with ended_with_its_client(request.receive, is_gone.set):
        rows, n_tokens = await source.embedded(texts, body.dimensions, is_gone)
    encode = _as_base64 if body.encoding_format == "base64" else _as_floats
    data = [{"object": "embedding", "index": i, "embedding": encode(row)} for i, row in enumerate(rows)]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return {"object": "list", "data": data, "model": source.name, "usage": usage}


def _refuse_gone(is_gone: threading.Event) -> None:
    """Denied, which nobody reads, where the client has gone away."""
    if is_gone.is_set():
        raise Denied(499, "client_closed_request", "the client has gone away")


def _count_tokens(embedder: Embedder, texts: Sequence[str], dimensions: int | None) -> int:
    """Tokens of all texts together. Denied for one that the model would cut."""
    refuse_unless(
        dimensions in (None, embedder.dimension),
        "dimensions",
        f"the model's vectors have {embedder.dimension}",
    )
    counts = [embedder.count_tokens(text) for text in texts]
    for i, count in enumerate(counts):
        if count > embedder.most_tokens:
            raise Denied(
                400,
                "context_length_exceeded",
                f"input.{i} has {count} tokens, the model reads {embedder.most_tokens}",
                param="input",
            )
    return sum(counts)


def _as_floats(row: Any) -> list[float]:
    floats: list[float] = row.tolist()
    return floats


def _as_base64(row: Any) -> str:
    """Little-endian 32-bit floats, as OpenAI's client asks for them."""
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")

"""OpenAI's embeddings, by a GGUF that was made for them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request

from shepherd.inference.embedding import Embedder
from shepherd.serving.answering import blocking
from shepherd.serving.errors import Denied
from shepherd.serving.openai_shapes import EmbeddingBody, refuse_unless
from shepherd.serving.state import ServerState

__all__ = ["Embeddings", "router"]

router = APIRouter(prefix="/v1")


class Embeddings:
    """The server's embedder under its name; loaded when it is first asked. Thread-safe."""

    def __init__(self, name: str, open_embedder: Callable[[], Embedder]) -> None:
        self.name = name
        self._open = open_embedder
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None

    def opened(self) -> Embedder:
        """The embedder; raises ModelError when it cannot be loaded."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._open()
            return self._embedder

    def close(self) -> None:
        """Free it. May be called twice."""
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
    rows, n_tokens = await blocking(lambda: _embedded(source.opened(), texts, body.dimensions))
    encode = _as_base64 if body.encoding_format == "base64" else _as_floats
    data = [{"object": "embedding", "index": i, "embedding": encode(row)} for i, row in enumerate(rows)]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return {"object": "list", "data": data, "model": source.name, "usage": usage}


def _embedded(embedder: Embedder, texts: list[str], dimensions: int | None) -> tuple[Any, int]:
    """The vectors, and how many tokens that were. Denied for texts that the model would cut."""
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
    return embedder.embed(texts), sum(counts)


def _as_floats(row: Any) -> list[float]:
    floats: list[float] = row.tolist()
    return floats


def _as_base64(row: Any) -> str:
    """Little-endian 32-bit floats, as OpenAI's client asks for them."""
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")

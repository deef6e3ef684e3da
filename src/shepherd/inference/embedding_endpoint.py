"""Vectors by an OpenAI-compatible server (/v1/embeddings)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shepherd.errors import ModelError, ProviderUnavailableError
from shepherd.http_endpoint import api_url, bearer_headers, post_json

__all__ = ["EndpointEmbedder", "embeddings_url"]

Floats = npt.NDArray[np.float32]

_MOST_BYTES = 64 << 20
# Too busy, or what is behind it is: nothing that the text could help.
_BUSY = frozenset((408, 425, 429, 502, 503, 504))
_HINTS = {
    401: "set memory_vectors_api_key",
    403: "set memory_vectors_api_key",
    404: "check memory_vectors and memory_vectors_model",
}


def embeddings_url(endpoint: str) -> str:
    """Return the URL to post to; see `api_url`."""
    return api_url("memory_vectors", endpoint, "/embeddings")


class EndpointEmbedder:
    """Post texts and gets vectors, which are brought to length 1. ModelError when the server does not.

    UsageError for an address or a key that cannot be sent.
    A question has `query_timeout_s`, since somebody waits for it; a batch of memories a minute.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        model: str = "",
        api_key: str = "",
        query_timeout_s: float = 2.0,
        batch_timeout_s: float = 60.0,
    ) -> None:
        self.url = embeddings_url(endpoint)
        self._model = model or "default"
        self._headers = bearer_headers("memory_vectors_api_key", api_key)
        self._query_timeout_s = query_timeout_s
        self._batch_timeout_s = batch_timeout_s
        # The width is part of what vectors can be compared by, and only the server knows it.
        self.dimension = 0
        self.dimension = self._post(["width"], query_timeout_s).shape[1]
        self.name = f"{self.url} {self._model}/{self.dimension}"

    def embed_query(self, text: str) -> Floats:
        """Return the vector (dimension,) of a question."""
        row: Floats = self._post([text], self._query_timeout_s)[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return the vectors (n_texts, dimension) of what is searched."""
        return self._post(list(texts), self._batch_timeout_s)

    def close(self) -> None:
        """Do nothing: no connection is kept between calls."""

    def _post(self, texts: list[str], timeout_s: float) -> Floats:
        import httpx

        # An empty text is refused by some servers.
        body = {"model": self._model, "input": [text or " " for text in texts], "encoding_format": "float"}
        try:
            response = post_json(self.url, body, self._headers, timeout=timeout_s, max_bytes=_MOST_BYTES)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            # A slow batch may be due to its texts; any other transport error is the server's.
            is_slow = isinstance(error, httpx.ReadTimeout) and timeout_s == self._batch_timeout_s
            is_away = isinstance(error, httpx.TransportError) and not is_slow
            raise (ProviderUnavailableError if is_away else ModelError)(
                f"{self.url}: {type(error).__name__}", hint="is the server of memory_vectors up?"
            ) from error
        if response.status != 200:
            kind = ProviderUnavailableError if response.status in _BUSY else ModelError
            raise kind(f"{self.url} answers {response.status}", hint=_HINTS.get(response.status, ""))
        return self._vectors(response.body, len(texts))

    def _vectors(self, data: bytes, n: int) -> Floats:
        try:
            entries: list[dict[str, Any]] = json.loads(data)["data"]
            ordered = sorted(entries, key=lambda entry: int(entry.get("index", 0)))
            vectors = np.array([entry["embedding"] for entry in ordered], np.float32)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"{self.url}: the answer has no embeddings") from error
        if vectors.ndim != 2 or len(vectors) != n or self.dimension not in (0, vectors.shape[1]):
            raise ModelError(f"{self.url}: embeddings of shape {vectors.shape} for {n} texts")
        if not np.isfinite(vectors).all():
            raise ModelError(f"{self.url}: an embedding with infinite numbers")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)

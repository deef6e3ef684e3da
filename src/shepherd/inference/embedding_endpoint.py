"""Vectors by an OpenAI-compatible server (/v1/embeddings)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from shepherd.errors import ModelError, ProviderUnavailableError, UsageError

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
    """Where to post for an endpoint written with or without /v1; UsageError for what is no address."""
    try:
        parts = urlsplit(endpoint.strip())
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise UsageError("memory_vectors is no HTTP address", hint="write it like http://127.0.0.1:8080/v1")
    path = parts.path.rstrip("/").removesuffix("/embeddings")
    if not path.endswith("/v1"):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}/embeddings"


class EndpointEmbedder:
    """Posts texts and gets vectors, which are brought to length 1. ModelError when the server does not.

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
        # What a header cannot carry: clients say so with the key in their message.
        if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise UsageError("memory_vectors_api_key holds characters that no key has", hint="copy it again")
        self._model = model or "default"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._query_timeout_s = query_timeout_s
        self._batch_timeout_s = batch_timeout_s
        # The width is part of what vectors can be compared by, and only the server knows it.
        self.dimension = 0
        self.dimension = self._post(["width"], query_timeout_s).shape[1]
        self.name = f"{self.url} {self._model}/{self.dimension}"

    def embed_query(self, text: str) -> Floats:
        """The vector (dimension,) of a question."""
        row: Floats = self._post([text], self._query_timeout_s)[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """The vectors (n_texts, dimension) of what is searched."""
        return self._post(list(texts), self._batch_timeout_s)

    def close(self) -> None:
        """Nothing is held between calls."""

    def _post(self, texts: list[str], timeout_s: float) -> Floats:
        import httpx

        # An empty text is refused by some servers.
        body = {"model": self._model, "input": [text or " " for text in texts], "encoding_format": "float"}
        try:
            with (
                httpx.Client(timeout=timeout_s) as client,
                client.stream("POST", self.url, json=body, headers=self._headers) as response,
            ):
                data = bytearray()
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > _MOST_BYTES:
                        raise ModelError(f"{self.url}: the answer is longer than {_MOST_BYTES} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            # A batch may take too long for its texts' sake; whatever else fails on the way is the server's.
            is_slow = isinstance(error, httpx.ReadTimeout) and timeout_s == self._batch_timeout_s
            is_away = isinstance(error, httpx.TransportError) and not is_slow
            raise (ProviderUnavailableError if is_away else ModelError)(
                f"{self.url}: {type(error).__name__}", hint="is the server of memory_vectors up?"
            ) from error
        if response.status_code != 200:
            kind = ProviderUnavailableError if response.status_code in _BUSY else ModelError
            raise kind(
                f"{self.url} answers {response.status_code}", hint=_HINTS.get(response.status_code, "")
            )
        return self._vectors(bytes(data), len(texts))

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

"""Vectors of texts some of which the embedder may refuse, such as a server with a token limit.

A text that is refused must not keep the others from getting their vectors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np

from shepherd.errors import ProviderUnavailableError, ShepherdError
from shepherd.memory.vectors.table import Floats, TextEmbedder

__all__ = ["BackOff", "embed_all", "embed_question"]

_log = logging.getLogger(__name__)

# A text that every embedder takes: one that refuses it refuses everything, or is unavailable.
_PROBE = "probe"
_SHORTEST_CHARS = 32
_SHORT_QUESTION_CHARS = 512
_RETRY_S = 5.0
_MOST_RETRY_S = 300.0


def embed_all(embedder: TextEmbedder, texts: Sequence[str]) -> Floats:
    """Return the vectors (n_texts, dimension), in order. Raises the embedder's error if it takes no text.

    A text that is refused by itself gets the vector of its beginning, or zeros, which are near nothing, if
    that is refused too.
    """
    try:
        return embedder.embed_documents(texts)
    except ProviderUnavailableError:
        raise
    except ShepherdError as error:
        probe = embedder.embed_documents([_PROBE])
        _log.info("texts are embedded one by one: %s", error)
    return np.concatenate([_embed_beginning(embedder, text, probe) for text in texts])


def embed_question(embedder: TextEmbedder, text: str) -> Floats:
    """Return the vector (dimension,) of a question, or of its beginning if all of it is refused."""
    try:
        return embedder.embed_query(text)
    except ShepherdError as error:
        if isinstance(error, ProviderUnavailableError) or len(text) <= _SHORT_QUESTION_CHARS:
            raise
    return embedder.embed_query(text[:_SHORT_QUESTION_CHARS])


def _embed_beginning(embedder: TextEmbedder, text: str, probe: Floats) -> Floats:
    while True:
        try:
            return embedder.embed_documents([text])
        except ProviderUnavailableError:
            raise
        except ShepherdError as error:
            # The probe fails if the embedder is unavailable; else it is the text.
            embedder.embed_documents([_PROBE])
            if len(text) <= _SHORTEST_CHARS:
                _log.warning("a text has no vector: %s", error)
                return np.zeros_like(probe)
        text = text[: len(text) // 2]


class BackOff:
    """Pause after failures of an embedder: 5 s, then twice as long each time, up to 300."""

    def __init__(self) -> None:
        self.retry_s = _RETRY_S
        self._next_try = 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until the embedder may be tried again; at most 0: now."""
        return self._next_try - time.monotonic()

    def failed(self, error: ShepherdError) -> None:
        """Begin a pause after an error, which is logged."""
        _log.warning(
            "no vectors for %.0f s: %s%s", self.retry_s, error, f" ({error.hint})" if error.hint else ""
        )
        self._next_try = time.monotonic() + self.retry_s
        self.retry_s = min(2 * self.retry_s, _MOST_RETRY_S)

    def reset(self) -> None:
        """End the pause, after a success or to try at once."""
        self.retry_s, self._next_try = _RETRY_S, 0.0

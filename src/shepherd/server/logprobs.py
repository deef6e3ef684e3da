"""Log-probabilities in the shapes of OpenAI's two APIs."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from shepherd.types import TokenLogprob

__all__ = ["MOST_LIKELY", "CompletionLogprobs", "chat_logprobs"]

MOST_LIKELY = 20  # OpenAI's, and the engine's
_LEAST = -9999.0  # replaces minus infinity, which JSON does not have


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """Return those of chat completions. Part of a character becomes `\\xe2`; `bytes` has it unchanged."""
    content = [{**_entry(token), "top_logprobs": [_entry(one) for one in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


class CompletionLogprobs:
    """Those of text completions, whose tokens have offsets in the text; `offset` is the next token's."""

    def __init__(self, offset: int = 0) -> None:
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def of(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Return the entry for the next tokens of the text."""
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(self._decoder.decode(token.piece))
        return {
            "tokens": [_legacy_text(token.piece) for token in tokens],
            "token_logprobs": [_finite(token.logprob) for token in tokens],
            "top_logprobs": [_by_text(token.top) for token in tokens],
            "text_offset": offsets,
        }


def _entry(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": token.piece.decode("utf-8", "backslashreplace"),
        "logprob": _finite(token.logprob),
        "bytes": list(token.piece),
    }


def _by_text(tokens: Sequence[TokenLogprob]) -> dict[str, float]:
    """Return log-probabilities by text; of several tokens with one text the likeliest, which is the first."""
    found: dict[str, float] = {}
    for token in tokens:
        found.setdefault(_legacy_text(token.piece), _finite(token.logprob))
    return found


def _legacy_text(piece: bytes) -> str:
    """Return the text of a piece; for part of a character its bytes, as OpenAI writes them."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def _finite(value: float) -> float:
    return value if value > _LEAST else _LEAST

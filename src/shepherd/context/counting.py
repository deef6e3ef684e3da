"""Tokens of texts that come again turn after turn, counted once.

A fact line, a chunk or a node is the same text as long as nothing changes, and a tokenizer takes 100 times
as long as a look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable

from shepherd.lru_cache import FIFODict

__all__ = ["TokenCounts", "most_tokens"]

_MOST_TEXTS = 4096
# What is longer is a message of a person, which does not come again.
_LONGEST_CHARS = 1 << 14


def most_tokens(text: str) -> int:
    """At least as many tokens as a text has, by any tokenizer: none is empty, one may stand before it."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) + 1


class TokenCounts:
    """Counts by one model's tokenizer; call it with a text. For one thread at a time."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: FIFODict[str, int] = FIFODict(_MOST_TEXTS)

    def __call__(self, text: str) -> int:
        """How many tokens `text` has."""
        known = self._known.get(text)
        if known is not None:
            return known
        tokens = self._count(text)
        if len(text) <= _LONGEST_CHARS:
            self._known[text] = tokens
        return tokens

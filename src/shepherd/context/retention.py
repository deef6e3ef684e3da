"""What becomes of the tails of earlier messages: kept, stripped every turn, or stripped many at once.

A tail that stays costs its tokens in the window. A tail that goes makes the KV cache diverge at its message,
and everything after it is read again. `auto` keeps them until they crowd the window, then strips all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from shepherd._native.tokens import stripped_tokens
from shepherd.types import Message

__all__ = ["CROWDED_SHARE", "Retention", "strip_tails", "tail_tokens", "tails_to_strip"]

Retention = Literal["auto", "strip", "keep"]

# A quarter of the window. With tails of 60 tokens, 8192 tokens hold 34 of them before one re-reading of the
# history; stripping every turn would have re-read the last answer 34 times.
CROWDED_SHARE = 0.25


def tails_to_strip(earlier: Sequence[Message], retention: Retention, window_tokens: int) -> list[Message]:
    """Those of the earlier messages that lose their tail before the next turn; all that have one, or none."""
    carriers = [message for message in earlier if _has_tail(message)]
    if retention == "keep":
        return []
    if retention == "auto" and sum(map(tail_tokens, carriers)) <= CROWDED_SHARE * window_tokens:
        return []
    return carriers


def strip_tails(messages: Iterable[Message]) -> int:
    """Give each message its raw text back and correct its tokens; returns how many tokens that freed.

    `injected` stays, as the record of what the model had seen at the time.
    """
    freed = 0
    for message in messages:
        freed += tail_tokens(message)
        message.tokens -= tail_tokens(message)
        message.sent = message.raw
    return freed


def tail_tokens(message: Message) -> int:
    """Tokens of the tail, by that message's own ratio; 0 without one, or while `tokens` is unknown."""
    if not _has_tail(message) or message.tokens <= 0:
        return 0
    return message.tokens - stripped_tokens(len(message.sent), message.tokens, len(message.raw))


def _has_tail(message: Message) -> bool:
    return message.role == "user" and message.sent != message.raw

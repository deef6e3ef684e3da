"""Eviction: which old turns leave a full window, and which old tails are stripped before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from shepherd._native.tokens import stripped_tokens
from shepherd.types import Message

__all__ = [
    "CROWDED_SHARE",
    "LOW_WATER",
    "Retention",
    "evict",
    "output_reserve",
    "strip_tails",
    "tail_tokens",
    "tails_to_strip",
    "turns",
]


# What is left of the history's room after an eviction. At 8,192 tokens and turns of 200 the next one is 14
# turns away; evicting one turn at a time would read the whole window again with each of them.
LOW_WATER = 0.6
# Of the window: no more is kept free for the answer, however long it may become.
_MOST_RESERVED = 0.25


def turns(messages: Sequence[Message]) -> list[list[int]]:
    """The turns as indices into `messages`, oldest first; system messages belong to none.

    A turn begins with a user message that does not follow another one. What an assistant said before the user
    spoke at all is a turn of its own.
    """
    found: list[list[int]] = []
    previous = ""
    for i, message in enumerate(messages):
        if message.role == "system":
            continue
        if not found or (message.role == "user" and previous != "user"):
            found.append([])
        found[-1].append(i)
        previous = message.role
    return found


def output_reserve(window_tokens: int, max_tokens: int, fixed_tokens: int) -> int:
    """Tokens kept free for the answer, when `fixed_tokens` of the window cannot be had anyway."""
    reserve = min(max_tokens or window_tokens, int(window_tokens * _MOST_RESERVED))
    # A message that nearly fills the window gets a short answer rather than none.
    return min(reserve, max(0, window_tokens - fixed_tokens) // 2)


def evict(
    messages: Sequence[Message],
    counts: Sequence[int],
    *,
    window_tokens: int,
    max_tokens: int,
    low_water: float = LOW_WATER,
) -> list[int]:
    """Indices of the messages that leave, in order; none while the prompt leaves room for the answer.

    `counts`: the messages' tokens. The system part and the turn of the newest user message never leave; the
    oldest other turns do, until what is left of them fills at most `low_water` of the room that they have.
    None leave either when that cannot help: what must stay exceeds the window.
    """
    own = turns(messages)[:-1]
    history = [sum(counts[i] for i in turn) for turn in own]
    fixed = sum(counts) - sum(history)
    room = window_tokens - fixed - output_reserve(window_tokens, max_tokens, fixed)
    left = sum(history)
    if left <= room or fixed >= window_tokens:
        return []
    leaving: list[int] = []
    for turn, tokens in zip(own, history, strict=True):
        if left <= low_water * room:
            break
        leaving += turn
        left -= tokens
    return leaving


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

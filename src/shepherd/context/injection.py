"""Append what is remembered to the newest message, when all guards hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shepherd.types import ANONYMOUS_USERS, Injection, Message

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["inject", "recalled"]

_NOTHING = Injection()


def inject(
    messages: Sequence[Message],
    *,
    memory: Memory | None,
    user_id: str,
    session_id: str = "",
    session_since: int = 0,
    enabled: bool = True,
) -> Injection:
    """Recall for the last message and append the tail to what the model sees of it; gives the injection back.

    Nothing happens when injection is off, there is no memory, the last message is not the user's, the user is
    nobody in particular, or nothing is remembered: the message is then untouched. `raw` never changes.
    What the running session, `session_id`, told since `session_since` (unix seconds) is not recalled: its
    history holds it already.
    Raises StoreError when the memory fails; the message is untouched then, too.
    """
    if not enabled or not messages or messages[-1].role != "user":
        return _NOTHING
    message = messages[-1]
    injection = recalled(message.raw, memory, user_id, session_id=session_id, session_since=session_since)
    if injection:
        message.sent = message.raw + injection.tail
        message.injected = injection
    return injection


def recalled(
    text: str, memory: Memory | None, user_id: str, *, session_id: str = "", session_since: int = 0
) -> Injection:
    """What memory has for a text; nothing without a memory, or for nobody in particular."""
    if memory is None or user_id in ANONYMOUS_USERS:
        return _NOTHING
    return memory.recall(text, user_id, except_session=session_id, except_since=session_since)

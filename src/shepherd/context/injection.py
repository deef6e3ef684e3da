"""What memory has for the newest message, when all guards hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shepherd.types import ANONYMOUS_USERS, Injection

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["recalled"]

_NOTHING = Injection()


def recalled(
    text: str, memory: Memory | None, user_id: str, *, session_id: str = "", session_since: int = 0
) -> Injection:
    """What memory has for a text; nothing without a memory, or for nobody in particular.

    What the running session, `session_id`, told since `session_since` (unix seconds) is not recalled: its
    history holds it already. Raises StoreError when the memory fails.
    """
    if memory is None or user_id in ANONYMOUS_USERS:
        return _NOTHING
    return memory.recall(text, user_id, except_session=session_id, except_since=session_since)

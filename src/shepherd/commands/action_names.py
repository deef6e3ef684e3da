"""Names of actions that people use for one another, such as `forget` for `clear`."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["action_meant"]

_SAME = (
    ("clear", "forget", "delete", "rm", "remove", "unset", "drop", "revoke"),
    ("add", "create", "new", "set", "put", "store"),
    ("show", "get", "view", "cat"),
    ("list", "ls", "all"),
    ("search", "find", "grep"),
)


def action_meant(word: str, actions: Collection[str]) -> str:
    """Return the one of these actions that somebody means who writes another word for it; "" for none."""
    same = next((names for names in _SAME if word in names), ())
    return next((name for name in same if name in actions), "")

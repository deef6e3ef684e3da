"""What a person reads before a tool of another program is called: all of it, so that nothing hides in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["arguments_in_full"]

# Longer arguments are shown from both ends: nobody reads more than some screens before saying yes.
_SHOWN_CHARS = 2000


def arguments_in_full(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call as JSON, one to a line; "" for none.

    As JSON a value cannot pass for another argument, nor for the question; what cannot be seen is spelled
    out as `\\u200b` is.
    """
    if not arguments:
        return ""
    text = json.dumps(arguments, ensure_ascii=False, indent=2, default=str)
    shown = "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
    hidden = len(shown) - 2 * _SHOWN_CHARS
    if hidden <= 0:
        return shown
    between = f"\N{HORIZONTAL ELLIPSIS} {hidden:,} of {len(shown):,} characters are not shown"
    return f"{shown[:_SHOWN_CHARS]}\n{between}\n{shown[-_SHOWN_CHARS:]}"

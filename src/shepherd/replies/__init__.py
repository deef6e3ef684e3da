"""What models say, told apart while it comes: text, thoughts, tool calls, in the manner of every family.

It knows text alone: nothing of tokens, engines or servers.
"""

from __future__ import annotations

from shepherd.replies.parser import (
    Family,
    ReplyEvent,
    ReplyParser,
    ends_in_thought,
    family_of,
    marks_of,
    thinking_marks,
)

__all__ = [
    "Family",
    "ReplyEvent",
    "ReplyParser",
    "ends_in_thought",
    "family_of",
    "marks_of",
    "thinking_marks",
]

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
from shepherd.replies.tool_calls import parameter_types, types_of_arguments

__all__ = [
    "Family",
    "ReplyEvent",
    "ReplyParser",
    "ends_in_thought",
    "family_of",
    "marks_of",
    "parameter_types",
    "thinking_marks",
    "types_of_arguments",
]

"""Parsing of model output as it streams: text, thoughts and tool calls, in the format of each family.

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

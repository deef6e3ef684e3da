"""The request that turns a user's lines into facts and memories.

The small model of `tools/mini_model` is trained on exactly these words: changing them means training it
again. Full models follow them as well, since they name the shape of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["EXTRACTION_PROMPT", "extraction_request"]

EXTRACTION_PROMPT = (
    "Extract lasting facts about the user as JSON: "
    '{"facts": {"key": "value"}, "context": [{"q": "question", "a": "answer"}]}. '
    "Facts are short values under snake_case keys; context is anything else worth remembering. "
    "Small talk and questions give nothing: both empty."
)


def extraction_request(lines: Iterable[str]) -> str:
    """The user's message of an extraction call: one `User: …` line for each text the user typed."""
    return "\n".join(f"User: {line}" for line in lines)

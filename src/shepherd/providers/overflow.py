"""What a server's refusal of a prompt as too long says about its window and about the prompt.

Each number is taken for what the words beside it say that it is: these messages also hold the room asked for
the answer, and sums of both. A number without such words teaches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Overflow", "overflow_of"]

_CODES = {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
_WORDS = re.compile(
    r"context (length|window|size|limit)|maximum (context|prompt length|model length)"
    r"|(prompt|input) is too long|too many (input )?tokens|input token count"
    r"|reduce the length of (the|your) (messages|prompt|input)",
    re.I,
)
# Python refuses to read a number of thousands of digits; no window needs more than this.
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Overflow:
    """Tokens of the window, and of the prompt without the answer; 0 where nobody said."""

    window: int = 0
    prompt: int = 0


def _pattern(words: str) -> re.Pattern[str]:
    """N stands for a number that is taken, M for another one."""
    number = r"(?<![\d,.])\d[\d,]*"
    return re.compile(words.replace("N", f"({number})").replace("M", number), re.I)


# The first that fits holds. Who says what is in tests/providers/test_overflow.py.
_WINDOWS = [
    _pattern(words)
    for words in (
        r"context limit: M \+ M > N",
        r"M tokens > N maximum",
        r"N maximum context length",
        r"maximum (?:prompt|model) length (?:is|of) N",
        r"maximum number of tokens allowed \(?N",
        r"only supports up to N",
        r"context (?:length|window|size)(?: is| of)?(?: only)? \(?N",
        r"(?:the|its) window (?:of provider \S+ )?(?:has )?N",
    )
]
_PROMPTS = [
    _pattern(words)
    for words in (
        r"context limit: N \+ M > M",
        r"prompt is too long: N tokens",
        r"resulted in N tokens",
        r"(?:prompt|request) (?:contains|has) N (?:input )?tokens",
        r"messages have N tokens",
        r"has N input tokens",
        r"input token count \(N\)",
        r"input token count is N",
        r"(?:request|input) \(N tokens\)",
        r"prompt \(length N\)",
    )
]
# Both together, and the answer's part: what is left is the prompt, whatever that is made of.
_WITH_ANSWER = _pattern(
    r"requested (?:about |a total of )?N tokens.*?N (?:tokens )?(?:in|for) the (?:completion|output)"
)


def overflow_of(status: int, codes: Collection[str], details: Mapping[str, Any]) -> Overflow | None:
    """What an error says when it means that the prompt, or the prompt and its answer, do not fit; else None.

    `details` is the error object of the body; llama-server has the numbers in fields of it.
    """
    message = details.get("message")
    message = message if isinstance(message, str) else ""
    if not _CODES & set(codes) and not (status in (0, 400, 413, 422) and _WORDS.search(message)):
        return None
    fields = [details.get("n_ctx"), details.get("n_prompt_tokens")]
    window, prompt = (field if isinstance(field, int) and field > 0 else 0 for field in fields)
    return Overflow(window or _first(_WINDOWS, message), prompt or _prompt(message))


def _prompt(message: str) -> int:
    if both := _WITH_ANSWER.search(message):
        return max(_number(both[1]) - _number(both[2]), 0)
    return _first(_PROMPTS, message)


def _first(patterns: list[re.Pattern[str]], message: str) -> int:
    return next((_number(found[1]) for pattern in patterns if (found := pattern.search(message))), 0)


def _number(digits: str) -> int:
    return int(digits.replace(",", "")[:_MOST_DIGITS])

"""The answer to an extraction call: its JSON schema, and how what came is read."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from shepherd.errors import ModelError
from shepherd.extraction.request import LONGEST_KEY, LONGEST_VALUE

__all__ = ["ANSWER_SCHEMA", "Extracted", "UnusableAnswerError", "parse_answer"]

_TEXT = {"type": "string"}
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "facts": {"type": "object", "additionalProperties": _TEXT},
        "context": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"q": _TEXT, "a": _TEXT},
                "required": ["q", "a"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["facts", "context"],
    "additionalProperties": False,
}

_THOUGHTS = ("<think>", "</think>")
# The request's own example, said back.
_EXAMPLE_FACT, _EXAMPLE_ITEM = ("key", "value"), ("question", "answer")


class UnusableAnswerError(ModelError):
    """An answer that holds no object of the asked form."""


@dataclass(slots=True)
class Extracted:
    """What was understood of an answer. `dropped` counts what had another shape."""

    facts: dict[str, str] = field(default_factory=dict)
    context: list[tuple[str, str]] = field(default_factory=list)
    dropped: int = 0

    def __iadd__(self, other: Extracted) -> Extracted:
        self.facts |= other.facts
        self.context += other.context
        self.dropped += other.dropped
        return self


def parse_answer(text: str) -> Extracted:
    """Facts, and pairs of question and answer; thoughts, code fences and prose around the object are ignored.

    NONE is nothing. Raises UnusableAnswerError when there is no such object.
    """
    after_thoughts = text.rpartition(_THOUGHTS[1])[2]
    if re.fullmatch(r"[\W_]*none[\W_]*", after_thoughts, re.IGNORECASE):
        return Extracted()
    answer = _first_object(after_thoughts)
    # The mark may stand in a value; what stands inside thoughts is no answer.
    if answer is None and not text.lstrip().startswith(_THOUGHTS[0]):
        answer = _first_object(text)
    if answer is None:
        raise UnusableAnswerError("the answer holds no object with facts and context")
    extracted = Extracted()
    _take_facts(extracted, answer.get("facts", {}))
    _take_context(extracted, answer.get("context", []))
    return extracted


def _first_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        try:
            value, _ = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and ("facts" in value or "context" in value):
            return value
        position = text.find("{", position + 1)
    return None


def _take_facts(extracted: Extracted, facts: object) -> None:
    if not isinstance(facts, dict):
        extracted.dropped += facts is not None
        return
    for name, value in facts.items():
        key, text = "_".join(str(name).split()), _text(value)
        if not key or not text or len(key) > LONGEST_KEY or (key, text) == _EXAMPLE_FACT:
            extracted.dropped += 1
        else:
            extracted.facts[key] = text


def _take_context(extracted: Extracted, context: object) -> None:
    if not isinstance(context, list):
        extracted.dropped += context is not None
        return
    for item in context:
        pair = (_text(item.get("q")), _text(item.get("a"))) if isinstance(item, dict) else ("", "")
        if not all(pair) or pair == _EXAMPLE_ITEM:
            extracted.dropped += 1
        else:
            extracted.context.append(pair)


def _text(value: object) -> str:
    """The value as text; "" for what is none, empty, or too long to be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return json.dumps(value) if math.isfinite(value) else ""
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= LONGEST_VALUE else ""

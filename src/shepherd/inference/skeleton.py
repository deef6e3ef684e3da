"""A template's own text around the contents of a conversation, found by rendering placeholders for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shepherd.types import Message

__all__ = ["Part", "Place", "Shape", "Skeleton", "Slot", "match", "render_form", "shape_of"]

# Of each part: its role, whether it has a content and a thought, and the rest of it as JSON.
Shape = tuple[tuple[str, bool, bool, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What the template gets as one message. `owners`: the messages it is made of; `more` is JSON.

    `answer` is an answer of our own, which has its sampled ids.
    """

    role: str
    text: str
    owners: tuple[int, ...]
    thought: str = ""
    more: str = ""
    answer: Message | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the content or the thought of a part stands."""

    part: int
    is_thought: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a skeleton: in `texts[piece]`, at `offset`."""

    piece: int
    offset: int


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The template's own text: `texts[i]`, then what is in `slots[i]`, ..., at last `texts[-1]`.

    `closing`: how much of that last text belongs to the last message; the rest asks for an answer. -1 is
    unknown. What was called with which arguments is a part of the texts.
    """

    texts: tuple[str, ...]
    slots: tuple[Slot, ...]
    closing: int
    _numbers: dict[Slot, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._numbers.update((slot, number) for number, slot in enumerate(self.slots))

    def after(self, slot: Slot) -> int | None:
        """The piece behind a slot; None when there is no such slot."""
        number = self._numbers.get(slot)
        return None if number is None else number + 1


def render_form(
    role: str, content: str, thought: str, more: Mapping[str, Any], thought_keys: Sequence[str]
) -> dict[str, Any]:
    """A message as templates take it."""
    return {
        "role": role,
        "content": content,
        **(dict.fromkeys(thought_keys, thought) if thought else {}),
        **more,
    }


def shape_of(parts: Sequence[Part]) -> Shape:
    """What of the parts the template's own text depends on."""
    return tuple((part.role, bool(part.text), bool(part.thought), part.more) for part in parts)


def match(
    text: str, skeleton: Skeleton, parts: Sequence[Part], *, since: int = 0, at: int = 0
) -> list[str] | None:
    """What stands in each slot of the rendered text; None when text and skeleton do not add up exactly.

    With `since`, that many slots are passed over, and the next one's content begins at `at`.
    """
    if since == 0:
        if not text.startswith(skeleton.texts[0]):
            return None
        at = len(skeleton.texts[0])
    contents = [""] * since
    for slot, after in zip(skeleton.slots[since:], skeleton.texts[since + 1 :], strict=True):
        for content in _as_templates_write(parts[slot.part], is_thought=slot.is_thought):
            if text.startswith(content, at) and text.startswith(after, at + len(content)):
                contents.append(content)
                at += len(content) + len(after)
                break
        else:
            return None
    return contents if at == len(text) else None


def _as_templates_write(part: Part, *, is_thought: bool) -> Iterator[str]:
    text = part.thought if is_thought else part.text
    yield text
    yield text.strip("\n")
    yield text.strip()
    # Some write results through tojson; the quotes are the template's.
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    if not is_thought and part.role == "assistant" and "</think>" in text:
        answer = text.rsplit("</think>", 1)[1]
        yield answer
        yield answer.lstrip("\n")
        yield answer.strip()

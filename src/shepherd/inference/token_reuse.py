"""Reuse of tokens of earlier turns: prompts that begin alike, and answers as they were sampled."""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shepherd._native.fields import FieldReader
from shepherd.inference.template import ChatTemplate, Part, Place, Shape, Slot, TemplateLayout, shape_of
from shepherd.inference.template_journal import Journal
from shepherd.inference.tokenization import Mark, Vocabulary
from shepherd.inference.tools import ToolPrompt
from shepherd.lru_cache import CachedFunction, LRUCache
from shepherd.replies import ReplyParser, marks_of, thinking_marks, types_of_arguments
from shepherd.types import Message, ToolCall

__all__ = ["THOUGHT_KEYS", "AnswerReuse", "Key", "PrefixCache", "PromptPrefix", "ReusedAnswer", "keys_of"]


_MOST = 32
Key = tuple[Any, ...]
# All of a message that a prompt depends on. They are changed in place: what was there is what is compared.
_OF_KEYS = FieldReader(
    Message, "role", "sent", "raw", "thought", "token_ids", "tool_calls", "tool_call_id", "pictures"
)


def keys_of(messages: Sequence[Message]) -> list[Key]:
    """Return for each message the values that a prompt depends on."""
    return _OF_KEYS.values(messages)


@dataclass(frozen=True, slots=True)
class PromptPrefix:
    """A conversation up to a message of the user, mostly the newest one, whose text comes next.

    `forms`: what the template got of it; `text`: what that wrote; `ids` and `mark`: how far the prompt was;
    `calls`: names of the tools that were called, by the calls' ids; `tools` were shown; `gap`: the end of
    `text`, which the template wrote between the content before and the newest one; `journal` records the last
    rendering. `n_earlier`: how many characters of `text` precede the message of the user before the newest.
    """

    keys: list[Key]
    forms: list[dict[str, Any]]
    text: str
    ids: array[int]
    mark: Mark
    calls: Mapping[str, str]
    tools: str = ""
    gap: str = ""
    journal: Journal | None = None
    n_earlier: int = 0

    def is_clear(self, messages: Sequence[Message]) -> bool:
        """Return whether no call or result that is new says, by its id, something of what came before."""
        new = {call.id: call.name for message in messages for call in message.tool_calls}
        if any(self.calls.get(id_, name) != name for id_, name in new.items()):
            return False
        results = {message.tool_call_id for message in messages if message.role == "tool"}
        return not any(id_ in self.calls for id_ in results - new.keys())


class PrefixCache:
    """Cache of the prefixes used last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prefixes: list[PromptPrefix] = []

    def find(self, messages: Sequence[Message]) -> PromptPrefix | None:
        """Return the longest that this conversation goes on from; of equal ones, the one kept last."""
        found = [
            prefix
            for prefix in reversed(self._prefixes)
            if len(prefix.keys) < len(messages) and _OF_KEYS.begin_with(messages, prefix.keys)
        ]
        return max(found, key=lambda prefix: len(prefix.keys), default=None)

    def keep(self, prefix: PromptPrefix, *, instead_of: PromptPrefix | None = None) -> None:
        """Remember it; the one used longest ago leaves."""
        with self._lock:
            kept = [one for one in self._prefixes if one is not instead_of]
            self._prefixes = [*kept[-_MOST + 1 :], prefix]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._prefixes = []


THOUGHT_KEYS = ("reasoning_content", "thinking")
_CACHED, _CACHED_BYTES = 4096, 16 << 20
# End of an answer in harmony's format. <|end|> also separates its messages.
_HARMONY_END = re.compile(r"<\|(?:call|return)\|>|<\|end\|>(?!<\|start\|>assistant)")


@dataclass(frozen=True, slots=True)
class ReusedAnswer:
    """An answer that enters as its ids, in place of what the template writes from `begin` to `end`.

    `gap`: the blanks that stood behind the generation prompt.
    """

    part: int
    begin: Place
    end: Place
    gap: str
    token_ids: tuple[int, ...]


class AnswerReuse:
    """Answers of earlier turns that enter a prompt as their sampled ids. Thread-safe.

    `layout` returns the layout of a shape and tools.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        template: ChatTemplate,
        tools: ToolPrompt,
        layout: Callable[[Shape, str], TemplateLayout | None],
    ) -> None:
        self._vocabulary, self._template, self._tools = vocabulary, template, tools
        self._layout = layout
        # One that says nothing of thoughts leaves them where they are.
        marks = (*thinking_marks(template.source), *THOUGHT_KEYS, "<|channel|>")
        self._forgets_thoughts = any(mark in template.source for mark in marks)
        self._detokenizes = CachedFunction(
            self._detokenizes_to, max_entries=_CACHED, max_bytes=_CACHED_BYTES, size_of=_bytes_of_check
        )
        self._parses_back = CachedFunction(
            self._parses_back_to, max_entries=_CACHED, max_bytes=_CACHED_BYTES, size_of=_bytes_of_check
        )
        self._asked_texts: LRUCache[tuple[Shape, bool, str], tuple[str | None]] = LRUCache(
            _CACHED, max_bytes=_CACHED_BYTES, size_of=_bytes_of_asked
        )

    def keep(
        self,
        layout: TemplateLayout,
        contents: Sequence[str],
        parts: Sequence[Part],
        tools: str,
        *,
        since: int = 0,
    ) -> list[ReusedAnswer]:
        """Return the answers from part `since` on that enter as their ids, in order."""
        kept: list[ReusedAnswer] = []
        shape = shape_of(parts)
        last: Slot | None = None  # before this part
        for i, part in enumerate(parts):
            before, last = last, Slot(i, not part.text) if part.text or part.thought else last
            if part.answer is None or i == 0 or i < since:
                continue
            piece = 0 if before is None else layout.after(before)
            asked = self._asked(shape, i, 0 if before is None else before.part, tools)
            if asked is None or piece is None:
                continue
            begin = Place(piece, len(asked.rstrip()))
            if not layout.texts[piece].startswith(asked.rstrip()):
                continue
            end = self._plain_end(layout, contents, part, i, begin)
            if end is None and self._shows_all(layout, part, part.answer, i):
                end = self._marked_end(layout, part.answer, i, begin, asked)
            if end is not None:
                kept.append(ReusedAnswer(i, begin, end, asked[begin.offset :], part.answer.token_ids))
        return kept

    def _asked(self, shape: Shape, i: int, since: int, tools: str) -> str | None:
        """Return the text behind the last content before part `i` when that was requested; None if unknown.

        It is found out once for all conversations that are alike since part `since`, which has that content.
        Were another one unlike, its answers would not be kept, or be kept behind other blanks.
        """
        key = (shape[since:i], since < 2, tools)
        known = self._asked_texts.get(key)
        if known is None:
            earlier = self._layout(shape[:i], tools)
            known = (None if earlier is None else earlier.texts[-1],)
            self._asked_texts.put(key, known)
        return known[0]

    def _plain_end(
        self, layout: TemplateLayout, contents: Sequence[str], part: Part, i: int, begin: Place
    ) -> Place | None:
        """Return the end of an answer that is text alone and equal to its ids; None for any other."""
        answer, at = part.answer, begin.piece
        if answer is None or part.more or at >= len(layout.slots) or layout.slots[at] != Slot(i, False):
            return None
        if layout.texts[at][begin.offset :].strip() or part.text != answer.sent:
            return None
        if contents[at] not in (answer.sent, answer.sent.strip()):
            return None
        return Place(at + 1, 0) if self._detokenizes(answer.token_ids, answer.sent) else None

    def _shows_all(self, layout: TemplateLayout, part: Part, answer: Message, i: int) -> bool:
        """Return whether the template still shows the text and the thought of this answer."""
        if part.text.strip() and layout.after(Slot(i, False)) is None:
            return False
        if not answer.thought.strip() or not self._forgets_thoughts:
            return True
        return layout.after(Slot(i, True)) is not None

    def _marked_end(
        self, layout: TemplateLayout, answer: Message, i: int, begin: Place, asked: str
    ) -> Place | None:
        """Return where an answer ends that has thoughts, calls or heads, if its ids tell just what it is."""
        own = max(layout.after(Slot(i, False)) or 0, layout.after(Slot(i, True)) or 0)
        place = Place(own, 0) if own else begin
        text = layout.texts[place.piece]
        at = self._end_of_turn(text, place.offset)
        if at is None and answer.tool_calls:
            return None
        end = place if at is None else Place(place.piece, at)
        shown = "".join(layout.texts[begin.piece : end.piece + 1])
        if self._tools.takes_calls and not all(call.name in shown for call in answer.tool_calls):
            return None
        is_same = self._parses_back(answer.token_ids, answer.sent, answer.tool_calls, asked)
        return end if is_same else None

    def _end_of_turn(self, text: str, start: int) -> int | None:
        if "<|channel|>" in self._template.source:
            found = _HARMONY_END.search(text, start)
            return None if found is None else found.start()
        for token in self._vocabulary.control_pattern.finditer(text, start):
            if self._vocabulary.is_end(self._vocabulary.controls[token[0]]):
                return token.start()
        return None

    def _detokenizes_to(self, token_ids: tuple[int, ...], text: str) -> bool:
        if not all(0 <= token < self._vocabulary.n_tokens for token in token_ids):
            return False
        return self._vocabulary.detokenize(token_ids).decode("utf-8", "replace") == text

    def _parses_back_to(
        self, token_ids: tuple[int, ...], text: str, calls: tuple[ToolCall, ...], asked: str
    ) -> bool:
        """Return whether these ids, parsed again, give this answer. Values in tags keep their types."""
        if not all(0 <= token < self._vocabulary.n_tokens for token in token_ids):
            return False
        source, family = self._template.source, self._tools.family if calls else None
        shown = self._vocabulary.ids_of(marks_of(source, family=family, has_tools=bool(calls)))
        spoken = self._vocabulary.detokenize(token_ids, shown=shown).decode("utf-8", "replace")
        tools = types_of_arguments([(call.name, call.arguments) for call in calls])
        parser = ReplyParser(source, family=family, prompt=asked, tools=tools)
        pieces = [event.piece for event in (*parser.feed(spoken), *parser.end())]
        told = [(piece.name, piece.arguments) for piece in pieces if isinstance(piece, ToolCall)]
        said = "".join(piece for piece in pieces if isinstance(piece, str))
        return said == text and told == [(call.name, call.arguments) for call in calls]


def _bytes_of_check(key: tuple[Hashable, ...], is_so: bool) -> int:
    ids, text = key[:2]
    assert isinstance(ids, tuple)
    assert isinstance(text, str)
    return 512 + 40 * len(ids) + 4 * len(text)  # an id is an object


def _bytes_of_asked(key: tuple[Shape, bool, str], text: tuple[str | None]) -> int:
    shape, _, tools = key
    n_chars = len(tools) + sum(len(part[3]) for part in shape) + len(text[0] or "")
    return 512 + 256 * len(shape) + 4 * n_chars

"""A conversation as token ids: what a template renders, cut so that only new messages are tokenised.

The rendered text is matched against the template's skeleton, the same rendering with placeholders for
contents. So it is known which characters the template wrote and which a person did:

- only the template's own text may become control tokens. A user who types `<|im_end|>` gets its letters;
- the text between two control tokens is tokenised on its own and cached. llama.cpp's tokenizers do the same
  inside, so the ids are those of the whole text;
- an answer of our own enters as the ids that were sampled, after the generation prompt that it was sampled
  after: tokenising its text again may give others, and the cache would be lost from there on. That holds for
  its thoughts and calls too, as long as the template still shows them.

Tools, and the calls of earlier answers, are a part of the skeleton. They get a zero-width space inside every
control token that they contain. So does everything where a template writes contents in another way (as JSON,
in upper case, some of them twice) and does not match its skeleton: then the whole is rendered and tokenised,
correct, only slower. The comparison is made with the real rendering on every turn.
"""

from __future__ import annotations

import json
import re
import secrets
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from shepherd.errors import TemplateError
from shepherd.inference.grammar import call_grammar
from shepherd.inference.prompt_builder import Prompt, PromptBuilder
from shepherd.inference.template import (
    ChatTemplate,
    Part,
    Place,
    Shape,
    Skeleton,
    Slot,
    match,
    render_form,
    shape_of,
)
from shepherd.inference.token_reuse import THOUGHT_KEYS, Key, OwnAnswers, Past, Pasts, keys_of
from shepherd.inference.tools import ToolPrompt, one_call_each
from shepherd.inference.vocabulary import Vocabulary
from shepherd.lru_cache import CachedFunction
from shepherd.replies import Family, ends_in_thought, marks_of, thinking_marks
from shepherd.types import Message, Tool

__all__ = ["Prompt", "Transcript"]

_ZERO_WIDTH_SPACE = "\u200b"
_CACHED_RUNS, _CACHED_RUNS_BYTES = 4096, 16 << 20
_CACHED_SKELETONS = 256
_BEGIN = Place(0, 0)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A conversation and what the template wrote of it: `contents` of the skeleton's slots.

    What stands before part `since` is there for the skeleton alone; `forms` are those of all messages.
    """

    parts: list[Part]
    tools: str
    text: str
    forms: list[dict[str, Any]] = field(default_factory=list)
    skeleton: Skeleton | None = None
    contents: list[str] = field(default_factory=list)
    since: int = 0

    @property
    def newest(self) -> int:
        """The newest part of the user; -1 without one."""
        return next((i for i in range(len(self.parts) - 1, -1, -1) if self.parts[i].role == "user"), -1)


class Transcript:
    """Renders and tokenises conversations for one model. Not thread-safe: one engine owns it."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate) -> None:
        self._vocabulary = vocabulary
        self._template = template
        self._tools = ToolPrompt(template)
        self._thought_keys = tuple(key for key in THOUGHT_KEYS if key in template.source)
        # Cannot occur in a template that was written before it was drawn.
        self._nonce = secrets.token_hex(8)
        self._marks = re.compile(f"zq{self._nonce}[xt][0-9]+zq")
        self._tokenize = CachedFunction(
            self._tokenize_run, max_entries=_CACHED_RUNS, max_bytes=_CACHED_RUNS_BYTES, size_of=_bytes_of_run
        )
        self._skeleton = lru_cache(_CACHED_SKELETONS)(self._make_skeleton)
        self._own = OwnAnswers(vocabulary, template, self._tools, self._skeleton)
        self._pasts = Pasts()
        self._folds_system: bool | None = None

    def family(self, tools: Sequence[Tool]) -> Family | None:
        """How calls are written when these tools are there; None: as the template says."""
        return self._tools.family if tools else None

    def call_grammar(self, tools: Sequence[Tool], name: str = "") -> str:
        """The grammar of an answer that calls one of these tools, or the one of that name."""
        return call_grammar(tools, self._tools.family, self._vocabulary.controls, name)

    def shown(self, tools: Sequence[Tool]) -> tuple[int, ...]:
        """The control tokens that a parser of answers must see."""
        marks = marks_of(self._template.source, family=self.family(tools), has_tools=bool(tools))
        return self._vocabulary.ids_of(marks)

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, ends_thought: bool = False
    ) -> Prompt:
        """The ids that ask for the next answer. TemplateError when the template refuses the conversation.

        With `ends_thought`, a thought that the template begins for the model is ended at once.
        """
        if not messages:
            raise TemplateError("there are no messages to render", hint="begin with a user message")
        if self._template.turn_day():  # skeletons may hold the date
            self._skeleton.cache_clear()
        keys = keys_of(messages)
        builder = PromptBuilder(self._vocabulary, self._tokenize, len(messages))
        text = self._continue(builder, messages, tools, keys)
        counts: list[int] | None = builder.counts
        if text is None:
            laid = self._lay(messages, tools)
            text = laid.text
            if laid.skeleton is None:
                builder.template(text)
                counts = None
            else:
                self._assemble(builder, laid)
                self._remember(builder, laid, messages, keys, None)
        if ends_thought and ends_in_thought(self._template.source, text):
            ending = f"\n\n{thinking_marks(self._template.source)[1]}\n\n"
            builder.template(ending)
            text += ending
        builder.flush()
        if counts is None:
            counts = _by_length(len(builder.ids), [message.sent for message in messages])
        return builder.prompt(counts, text)

    def _lay(self, messages: Sequence[Message], tools: Sequence[Tool]) -> _Laid:
        """The whole conversation, laid on its skeleton; without one where it does not fit any."""
        parts, shown_tools, text, is_plain = self._rendered(messages, tools)
        skeleton = self._skeleton(shape_of(parts), shown_tools)
        contents = None if skeleton is None else match(text, skeleton, parts)
        if skeleton is None or contents is None:
            return _Laid(parts, shown_tools, self._render(self._neutral(parts), shown_tools))
        forms = self._forms(parts) if is_plain else []
        return _Laid(parts, shown_tools, text, forms, skeleton, contents)

    # ---- going on from what was made before

    def _continue(
        self, builder: PromptBuilder, messages: Sequence[Message], tools: Sequence[Tool], keys: list[Key]
    ) -> str | None:
        """Go on where the last turn's newest message began; None when that cannot be, and nothing is done.

        The text is the template's own rendering of the whole conversation, and begins as it did. What
        follows is laid on the skeleton of a short conversation, which it must fit exactly: the turn before
        and what is new.
        """
        past = self._pasts.find(keys)
        if past is None or not past.is_clear(messages[len(past.keys) :]):
            return None
        window = self._window(messages, tools, past)
        if window is None or not window.text.startswith(past.text) or window.skeleton is None:
            return None
        since = window.since
        at = window.skeleton.after(Slot(since, False))
        if at is None:
            return None
        contents = match(window.text, window.skeleton, window.parts, since=at - 1, at=len(past.text))
        if contents is None:
            return None
        laid = replace(window, contents=contents)
        builder.resume(past.mark, past.ids)
        self._assemble(builder, laid, Place(at - 1, len(window.skeleton.texts[at - 1])))
        self._remember(builder, laid, messages, keys, past)
        return laid.text

    def _window(self, messages: Sequence[Message], tools: Sequence[Tool], past: Past) -> _Laid | None:
        """A short conversation that ends as this one: its system message, a turn, and all behind `past`."""
        n = len(past.keys)
        n_head = int(messages[0].role == "system")
        begin = next((i for i in range(n - 1, n_head - 1, -1) if messages[i].role == "user"), -1)
        if begin < 0:
            return None
        parts, shown = self._parts([*messages[:n_head], *messages[begin:]], tools)
        skipped = begin - n_head
        since = next((i for i, part in enumerate(parts) if part.owners == (n - skipped,)), 0)
        is_folded = bool(n_head) and parts[0].role != "system"
        if since < 2 or (is_folded and tools) or parts[0].role != past.forms[0]["role"]:
            return None
        new = self._forms(parts[since:])
        head = self._forms(parts[:1]) if parts[0].role == "system" else past.forms[:1]
        forms = [*head, *past.forms[1:], *new]
        try:
            text = self._template.render(forms, add_generation_prompt=True, tools=_loads(shown) or None)
        except TemplateError:
            return None
        parts[since:] = [_moved(part, skipped) for part in parts[since:]]
        return _Laid(parts, shown, text, forms, self._skeleton(shape_of(parts), shown), [], since)

    def _remember(
        self,
        builder: PromptBuilder,
        laid: _Laid,
        messages: Sequence[Message],
        keys: list[Key],
        past: Past | None,
    ) -> None:
        """Keep what the next turn can go on from: all before the newest message of the user."""
        newest, mark = laid.newest, builder.marked
        n_forms = len(laid.forms) - len(laid.parts) + newest
        if mark is None or laid.skeleton is None or n_forms < 2 or len(laid.parts[newest].owners) != 1:
            return
        begin, at = 0, len(laid.skeleton.texts[0])
        if past is not None:
            begin, at = (laid.skeleton.after(Slot(laid.since, False)) or 1) - 1, len(past.text)
        end = (laid.skeleton.after(Slot(newest, False)) or 1) - 1
        for i in range(begin, end):
            at += len(laid.contents[i]) + len(laid.skeleton.texts[i + 1])
        n = laid.parts[newest].owners[0]
        known = 0 if past is None else len(past.keys)
        calls = {call.id: call.name for message in messages[known:n] for call in message.tool_calls}
        if past is not None:
            calls = {**past.calls, **calls}
        kept = Past(keys[:n], laid.forms[:n_forms], laid.text[:at], builder.ids[: mark.n_ids], mark, calls)
        self._pasts.keep(kept, instead_of=past)

    # ---- parts

    def _rendered(
        self, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> tuple[list[Part], str, str, bool]:
        """Parts, tools, text, and whether all was said: a template that refuses gets less."""
        parts, shown_tools = self._parts(messages, tools)
        try:
            return parts, shown_tools, self._render(parts, shown_tools), True
        except TemplateError:
            has_several = any(len(message.tool_calls) > 1 for message in messages)
            if not has_several and not any(part.thought for part in parts):
                raise
        # Some take thoughts in certain places only, some one call at a time.
        parts = [replace(part, thought="") for part in parts]
        try:
            return parts, shown_tools, self._render(parts, shown_tools), False
        except TemplateError:
            if not has_several:
                raise
        owners, single = one_call_each(messages)
        parts, _ = self._parts(single, tools)
        parts = [
            replace(part, thought="", answer=None, owners=tuple(owners[i] for i in part.owners))
            for part in parts
        ]
        return parts, shown_tools, self._render(parts, shown_tools), False

    def _parts(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[list[Part], str]:
        prepared = self._tools.prepare(messages, tools)
        parts = []
        for entry in prepared.entries:
            message = messages[entry.owners[-1]] if entry.owners else None
            is_answer = message is not None and message.role == "assistant"
            parts.append(
                Part(
                    entry.role,
                    entry.text,
                    entry.owners or (0,),
                    message.thought if message is not None and is_answer and self._thought_keys else "",
                    self._neutral_json(entry.more) if entry.more else "",
                    message if message is not None and is_answer and message.token_ids else None,
                )
            )
        shown = self._neutral_json(prepared.tools) if prepared.tools else ""
        if len(parts) < 2 or parts[0].role != "system" or parts[1].role != "user" or not self._must_fold():
            return parts, shown
        system, user = parts[0], parts[1]
        text = f"{system.text}\n\n{user.text}" if system.text else user.text
        return [Part("user", text, (*system.owners, *user.owners)), *parts[2:]], shown

    def _must_fold(self) -> bool:
        """Whether the template has no place for a system message, so that it goes before the user's first."""
        if self._folds_system is None:
            user = {"role": "user", "content": "b"}
            try:
                self._template.render([{"role": "system", "content": "a"}, user], add_generation_prompt=True)
                self._folds_system = False
            except TemplateError:
                self._template.render([user], add_generation_prompt=True)
                self._folds_system = True
        return self._folds_system

    def _forms(self, parts: Sequence[Part]) -> list[dict[str, Any]]:
        return [
            render_form(part.role, part.text, part.thought, _loads(part.more), self._thought_keys)
            for part in parts
        ]

    def _render(self, parts: Sequence[Part], tools: str) -> str:
        return self._template.render(
            self._forms(parts), add_generation_prompt=True, tools=_loads(tools) or None
        )

    def _neutral_json(self, value: object) -> str:
        return self._vocabulary.control_pattern.sub(_broken, json.dumps(value, ensure_ascii=False))

    def _neutral(self, parts: Sequence[Part]) -> list[Part]:
        pattern = self._vocabulary.control_pattern
        return [
            replace(part, text=pattern.sub(_broken, part.text), thought=pattern.sub(_broken, part.thought))
            for part in parts
        ]

    # ---- skeletons

    def _make_skeleton(self, shape: Shape, tools: str) -> Skeleton | None:
        """The skeleton of a conversation of this shape, empty contents staying empty; None without one."""
        forms: list[dict[str, Any]] = []
        marks: dict[str, Slot] = {}
        may_lack: set[str] = set()
        for i, (role, has_text, has_thought, more) in enumerate(shape):
            content = f"zq{self._nonce}x{i}zq" if has_text else ""
            thought = f"zq{self._nonce}t{i}zq" if has_thought else ""
            marks |= {mark: Slot(i, mark is thought) for mark in (content, thought) if mark}
            may_lack |= {thought, content if role == "assistant" and more else ""}
            forms.append(render_form(role, content, thought, _loads(more), self._thought_keys))
        shown_tools = _loads(tools) or None
        try:
            text = self._template.render(forms, add_generation_prompt=True, tools=shown_tools)
        except TemplateError:
            return None
        texts, slots, start = [], [], 0
        for mark in self._marks.finditer(text):
            slots.append(marks.pop(mark[0], None))
            texts.append(text[start : mark.start()])
            start = mark.end()
        # Each once, but for those that a template may leave out.
        if None in slots or not may_lack.issuperset(marks):
            return None
        closing = self._closing(forms, shown_tools, text, start)
        return Skeleton((*texts, text[start:]), tuple(slot for slot in slots if slot), closing)

    def _closing(self, forms: list[dict[str, Any]], tools: Any, text: str, start: int) -> int:
        try:
            uninvited = self._template.render(forms, add_generation_prompt=False, tools=tools)
        except TemplateError:
            return -1
        return len(uninvited) - start if start <= len(uninvited) and text.startswith(uninvited) else -1

    # ---- ids

    def _assemble(self, builder: PromptBuilder, laid: _Laid, begin: Place = _BEGIN) -> None:
        """Write the conversation from `begin` on into the builder."""
        if laid.skeleton is None:
            return
        place = begin
        kept = self._own.keep(laid.skeleton, laid.contents, laid.parts, laid.tools, since=laid.since)
        for answer in kept:
            if (answer.begin.piece, answer.begin.offset) < (place.piece, place.offset):
                continue
            self._write(builder, laid, laid.skeleton, place, answer.begin)
            builder.owner = laid.parts[answer.part].owners[-1]
            builder.template(answer.gap)
            builder.answer(answer.token_ids)
            place = answer.end
        self._write(builder, laid, laid.skeleton, place, None)

    def _write(
        self, builder: PromptBuilder, laid: _Laid, skeleton: Skeleton, begin: Place, end: Place | None
    ) -> None:
        """Texts and contents from one place to another, or to the end."""
        parts, newest = laid.parts, laid.newest
        last = len(skeleton.slots) if end is None else end.piece
        for piece in range(begin.piece, last + 1):
            start = begin.offset if piece == begin.piece else 0
            slot = skeleton.slots[piece] if piece < len(skeleton.slots) else None
            if slot is not None:
                builder.owner = parts[slot.part].owners[-1]
            if piece == last:
                stop = None if end is None else end.offset
                bound_at = skeleton.closing - start if end is None else -1
                builder.template(skeleton.texts[piece][start:stop], bound_at=bound_at)
            elif slot is not None:
                builder.template(skeleton.texts[piece][start:])
                is_newest = slot.part == newest
                if is_newest:
                    builder.mark()
                is_head = slot.part > 0 and parts[slot.part - 1].role == "system"
                if is_head or is_newest:
                    builder.bound(is_head=is_head)
                builder.content(laid.contents[piece])

    def _tokenize_run(self, text: str, after_ids: bool) -> array[int]:
        return self._vocabulary.tokenize_after(text) if after_ids else self._vocabulary.tokenize(text)


def _bytes_of_run(key: tuple[Hashable, ...], ids: array[int]) -> int:
    return 256 + 4 * len(str(key[0])) + len(ids) * ids.itemsize


def _moved(part: Part, by: int) -> Part:
    return replace(part, owners=tuple(owner + by for owner in part.owners))


def _loads(text: str) -> Any:
    return json.loads(text) if text else {}


def _broken(control: re.Match[str]) -> str:
    return control[0][0] + _ZERO_WIDTH_SPACE + control[0][1:]


def _by_length(total: int, texts: Sequence[str]) -> list[int]:
    """`total` shared out by characters, for a prompt whose messages could not be told apart."""
    weights = [len(text) + 1 for text in texts]
    counts = [total * weight // sum(weights) for weight in weights]
    counts[-1] += total - sum(counts)
    return counts

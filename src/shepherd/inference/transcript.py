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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from shepherd.errors import TemplateError
from shepherd.inference.forcing import call_grammar
from shepherd.inference.prompt_builder import Prompt, PromptBuilder
from shepherd.inference.skeleton import Part, Place, Shape, Skeleton, Slot, match, render_form
from shepherd.inference.template import ChatTemplate
from shepherd.inference.tools import ToolPrompt, one_call_each
from shepherd.inference.vocabulary import Vocabulary
from shepherd.replies import Family, ReplyParser, ends_in_thought, marks_of, thinking_marks
from shepherd.types import Message, Tool, ToolCall

__all__ = ["Prompt", "Transcript"]

_ZERO_WIDTH_SPACE = "\u200b"
_CACHED_RUNS = 4096
_CACHED_SKELETONS = 256
_THOUGHT_KEYS = ("reasoning_content", "thinking")
# Where an answer ends in harmony's manner: between its messages stands <|end|> as well.
_HARMONY_END = re.compile(r"<\|(?:call|return)\|>|<\|end\|>(?!<\|start\|>assistant)")


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer that enters as its ids, in place of what the template writes from `begin` to `end`.

    `gap`: the blanks that stood behind the generation prompt.
    """

    part: int
    begin: Place
    end: Place
    gap: str
    token_ids: tuple[int, ...]


class Transcript:
    """Renders and tokenises conversations for one model. Not thread-safe: one engine owns it."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate) -> None:
        self._vocabulary = vocabulary
        self._template = template
        self._tools = ToolPrompt(template)
        self._thought_keys = tuple(key for key in _THOUGHT_KEYS if key in template.source)
        # One that says nothing of thoughts leaves them where they are.
        marks = (*thinking_marks(template.source), *_THOUGHT_KEYS, "<|channel|>")
        self._forgets_thoughts = any(mark in template.source for mark in marks)
        # Cannot occur in a template that was written before it was drawn.
        self._nonce = secrets.token_hex(8)
        self._tokenize = lru_cache(_CACHED_RUNS)(self._tokenize_run)
        self._skeleton = lru_cache(_CACHED_SKELETONS)(self._make_skeleton)
        self._says = lru_cache(_CACHED_RUNS)(self._detokenizes_to)
        self._tells = lru_cache(_CACHED_RUNS)(self._is_told_by)
        self._asked_texts: dict[tuple[Shape, bool, str], str | None] = {}
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
        return self._controls(marks)

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, ends_thought: bool = False
    ) -> Prompt:
        """The ids that ask for the next answer. TemplateError when the template refuses the conversation.

        With `ends_thought`, a thought that the template begins for the model is ended at once.
        """
        if not messages:
            raise TemplateError("there are no messages to render", hint="begin with a user message")
        parts, shown_tools, text = self._rendered(messages, tools)
        skeleton = self._skeleton(_shape(parts), shown_tools)
        contents = None if skeleton is None else match(text, skeleton, parts)
        builder = PromptBuilder(self._vocabulary, self._tokenize, len(messages))
        if skeleton is None or contents is None:
            text = self._render(self._neutral(parts), shown_tools)
            builder.template(text)
            counts = None
        else:
            kept = self._kept(skeleton, contents, parts, shown_tools)
            self._assemble(builder, skeleton, contents, parts, kept)
            counts = builder.counts
        if ends_thought and ends_in_thought(self._template.source, text):
            ending = f"\n\n{thinking_marks(self._template.source)[1]}\n\n"
            builder.template(ending)
            text += ending
        builder.flush()
        if counts is None:
            counts = _by_length(len(builder.ids), [message.sent for message in messages])
        return builder.prompt(counts, text)

    # ---- parts

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[list[Part], str, str]:
        """Parts, tools and text; a template that refuses gets less of what only some take."""
        parts, shown_tools = self._parts(messages, tools)
        try:
            return parts, shown_tools, self._render(parts, shown_tools)
        except TemplateError:
            has_several = any(len(message.tool_calls) > 1 for message in messages)
            if not has_several and not any(part.thought for part in parts):
                raise
        # Some take thoughts in certain places only, some one call at a time.
        parts = [replace(part, thought="") for part in parts]
        try:
            return parts, shown_tools, self._render(parts, shown_tools)
        except TemplateError:
            if not has_several:
                raise
        owners, single = one_call_each(messages)
        parts, _ = self._parts(single, tools)
        parts = [
            replace(part, thought="", answer=None, owners=tuple(owners[i] for i in part.owners))
            for part in parts
        ]
        return parts, shown_tools, self._render(parts, shown_tools)

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

    def _render(self, parts: Sequence[Part], tools: str) -> str:
        forms = [
            render_form(part.role, part.text, part.thought, _loads(part.more), self._thought_keys)
            for part in parts
        ]
        return self._template.render(forms, add_generation_prompt=True, tools=_loads(tools) or None)

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
        counts = {mark: text.count(mark) for mark in marks}
        if any(n != 1 and not (n == 0 and mark in may_lack) for mark, n in counts.items()):
            return None
        found = sorted((text.index(mark), mark) for mark, n in counts.items() if n)
        texts, start = [], 0
        for at, mark in found:
            texts.append(text[start:at])
            start = at + len(mark)
        closing = self._closing(forms, shown_tools, text, start)
        return Skeleton((*texts, text[start:]), tuple(marks[mark] for _, mark in found), closing)

    def _closing(self, forms: list[dict[str, Any]], tools: Any, text: str, start: int) -> int:
        try:
            uninvited = self._template.render(forms, add_generation_prompt=False, tools=tools)
        except TemplateError:
            return -1
        return len(uninvited) - start if start <= len(uninvited) and text.startswith(uninvited) else -1

    # ---- answers of our own

    def _kept(
        self, skeleton: Skeleton, contents: Sequence[str], parts: Sequence[Part], tools: str
    ) -> list[_Kept]:
        """The answers that enter as their ids, in order."""
        kept: list[_Kept] = []
        shape = _shape(parts)
        last: Slot | None = None  # before this part
        for i, part in enumerate(parts):
            before, last = last, Slot(i, not part.text) if part.text or part.thought else last
            if part.answer is None or i == 0:
                continue
            piece = 0 if before is None else skeleton.after(before)
            asked = self._asked(shape, i, 0 if before is None else before.part, tools)
            if asked is None or piece is None:
                continue
            begin = Place(piece, len(asked.rstrip()))
            if not skeleton.texts[piece].startswith(asked.rstrip()):
                continue
            end = self._plain_end(skeleton, contents, part, i, begin)
            if end is None and self._shows_all(skeleton, part, part.answer, i):
                end = self._marked_end(skeleton, part.answer, i, begin, asked)
            if end is not None:
                kept.append(_Kept(i, begin, end, asked[begin.offset :], part.answer.token_ids))
        return kept

    def _asked(self, shape: Shape, i: int, since: int, tools: str) -> str | None:
        """What stood behind the last content before part `i` when that was asked for; None if not known.

        It is found out once for all conversations that are alike since part `since`, which has that content.
        Were another one unlike, its answers would not be kept, or be kept behind other blanks.
        """
        key = (shape[since:i], since < 2, tools)
        if key not in self._asked_texts:
            if len(self._asked_texts) >= _CACHED_RUNS:
                self._asked_texts.clear()
            earlier = self._skeleton(shape[:i], tools)
            self._asked_texts[key] = None if earlier is None else earlier.texts[-1]
        return self._asked_texts[key]

    def _plain_end(
        self, skeleton: Skeleton, contents: Sequence[str], part: Part, i: int, begin: Place
    ) -> Place | None:
        """Where an answer ends that is text alone, whole, and said by its ids; None when it is not that."""
        answer, at = part.answer, begin.piece
        if answer is None or part.more or at >= len(skeleton.slots) or skeleton.slots[at] != Slot(i, False):
            return None
        if skeleton.texts[at][begin.offset :].strip() or part.text != answer.sent:
            return None
        if contents[at] not in (answer.sent, answer.sent.strip()):
            return None
        return Place(at + 1, 0) if self._says(answer.token_ids, answer.sent) else None

    def _shows_all(self, skeleton: Skeleton, part: Part, answer: Message, i: int) -> bool:
        """Whether the template still shows the text and the thought of this answer."""
        if part.text.strip() and skeleton.after(Slot(i, False)) is None:
            return False
        if not answer.thought.strip() or not self._forgets_thoughts:
            return True
        return skeleton.after(Slot(i, True)) is not None

    def _marked_end(
        self, skeleton: Skeleton, answer: Message, i: int, begin: Place, asked: str
    ) -> Place | None:
        """Where an answer ends that has thoughts, calls or heads, if its ids tell just what it is."""
        own = max(skeleton.after(Slot(i, False)) or 0, skeleton.after(Slot(i, True)) or 0)
        place = Place(own, 0) if own else begin
        text = skeleton.texts[place.piece]
        at = self._end_of_turn(text, place.offset)
        if at is None and answer.tool_calls:
            return None
        end = place if at is None else Place(place.piece, at)
        shown = "".join(skeleton.texts[begin.piece : end.piece + 1])
        if self._tools.takes_calls and not all(call.name in shown for call in answer.tool_calls):
            return None
        is_told = self._tells(answer.token_ids, answer.sent, answer.tool_calls, asked)
        return end if is_told else None

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

    def _is_told_by(
        self, token_ids: tuple[int, ...], text: str, calls: tuple[ToolCall, ...], asked: str
    ) -> bool:
        """Whether these ids, parsed again, are this answer."""
        if not all(0 <= token < self._vocabulary.n_tokens for token in token_ids):
            return False
        source, family = self._template.source, self._tools.family if calls else None
        shown = self._controls(marks_of(source, family=family, has_tools=bool(calls)))
        spoken = self._vocabulary.detokenize(token_ids, shown=shown).decode("utf-8", "replace")
        parser = ReplyParser(source, family=family, prompt=asked, tools=[call.name for call in calls])
        pieces = [event.piece for event in (*parser.feed(spoken), *parser.end())]
        told = [(piece.name, piece.arguments) for piece in pieces if isinstance(piece, ToolCall)]
        said = "".join(piece for piece in pieces if isinstance(piece, str))
        return said == text and told == [(call.name, call.arguments) for call in calls]

    def _controls(self, marks: Sequence[str]) -> tuple[int, ...]:
        controls = self._vocabulary.controls
        return tuple(sorted({controls[mark] for mark in marks if mark in controls}))

    # ---- ids

    def _assemble(
        self,
        builder: PromptBuilder,
        skeleton: Skeleton,
        contents: Sequence[str],
        parts: Sequence[Part],
        kept: Sequence[_Kept],
    ) -> None:
        place = Place(0, 0)
        newest = next((i for i in range(len(parts) - 1, -1, -1) if parts[i].role == "user"), -1)
        for answer in kept:
            if (answer.begin.piece, answer.begin.offset) < (place.piece, place.offset):
                continue
            self._write(builder, skeleton, contents, parts, place, answer.begin, newest)
            builder.owner = parts[answer.part].owners[-1]
            builder.template(answer.gap)
            builder.answer(answer.token_ids)
            place = answer.end
        self._write(builder, skeleton, contents, parts, place, None, newest)

    def _write(
        self,
        builder: PromptBuilder,
        skeleton: Skeleton,
        contents: Sequence[str],
        parts: Sequence[Part],
        begin: Place,
        end: Place | None,
        newest: int,
    ) -> None:
        """Texts and contents from one place to another, or to the end. `newest`: the user's newest part."""
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
                if slot.part > 0 and parts[slot.part - 1].role == "system":
                    builder.bound(is_head=True)
                elif slot.part == newest:
                    builder.bound()
                builder.content(contents[piece])

    def _tokenize_run(self, text: str, after_ids: bool) -> array[int]:
        return self._vocabulary.tokenize_after(text) if after_ids else self._vocabulary.tokenize(text)


def _shape(parts: Sequence[Part]) -> Shape:
    return tuple((part.role, bool(part.text), bool(part.thought), part.more) for part in parts)


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

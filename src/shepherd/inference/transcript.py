"""A conversation as token ids: what a template renders, cut so that only new messages are tokenised.

The rendered text is matched against the template's layout, the same rendering with placeholders for
contents. So it is known which characters the template wrote and which a person did:

- only the template's own text may become control tokens. A user who types `<|im_end|>` gets its letters;
- the text between two control tokens is tokenised on its own and cached. llama.cpp's tokenizers do the same
  inside, so the ids are those of the whole text;
- an answer of our own enters as the ids that were sampled, after the generation prompt that it was sampled
  after: tokenising its text again may give others, and the cache would be lost from there on. That holds for
  its thoughts and calls too, as long as the template still shows them.

Tools, and the calls of earlier answers, are a part of the layout. They get a zero-width space inside every
control token that they contain. So does everything where a template writes contents in another way (as JSON,
in upper case, some of them twice) and does not match its layout: then the whole is rendered and tokenised,
correct, only slower. The comparison is made with the real rendering on every turn.
"""

from __future__ import annotations

import json
import re
import secrets
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shepherd.errors import TemplateError
from shepherd.inference.grammar import call_grammar
from shepherd.inference.template import (
    ChatTemplate,
    Part,
    Place,
    Shape,
    Slot,
    TemplateLayout,
    match,
    render_form,
    shape_of,
)
from shepherd.inference.template_journal import Journal
from shepherd.inference.token_reuse import THOUGHT_KEYS, AnswerReuse, Key, PrefixCache, PromptPrefix, keys_of
from shepherd.inference.tokenization import Prompt, PromptBuilder, Vocabulary
from shepherd.inference.tools import ToolPrompt, one_call_each
from shepherd.inference.vision import VisionModel, place
from shepherd.lru_cache import CachedFunction
from shepherd.pictures import MARK, has_pictures, with_marks, without_pictures
from shepherd.replies import Family, ends_in_thought, marks_of, thinking_marks
from shepherd.types import Message, Tool

__all__ = ["Prompt", "Transcript"]

_ZERO_WIDTH_SPACE = "\u200b"
_CACHED_RUNS, _CACHED_RUNS_BYTES = 4096, 16 << 20
_CACHED_LAYOUTS, _CACHED_LAYOUTS_BYTES = 256, 16 << 20
# So many messages make it worth while to record a rendering; before that, a template must be compiled.
_LONG = 16
_BEGIN = Place(0, 0)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A conversation and what the template wrote of it: `contents` of the layout's slots.

    What stands before part `since` is there for the layout alone; `forms` are those of all messages.
    `journal` has the record of the rendering. With `heads_newest`, the template writes something else before
    the newest message than before older ones.
    """

    parts: list[Part]
    tools: str
    text: str
    forms: list[dict[str, Any]] = field(default_factory=list)
    layout: TemplateLayout | None = None
    contents: list[str] = field(default_factory=list)
    since: int = 0
    journal: Journal | None = None
    heads_newest: bool = False

    @property
    def newest(self) -> int:
        """Return the newest part of the user; -1 without one."""
        return self._user_before(len(self.parts))

    @property
    def earlier(self) -> int:
        """Return the part of the user before the newest one; -1 without one."""
        return self._user_before(self.newest)

    @property
    def kept(self) -> int:
        """Return the user's part before which the next turn's text should be the same; -1 without one."""
        return self.earlier if self.heads_newest else self.newest

    def _user_before(self, i: int) -> int:
        return next((k for k in range(i - 1, -1, -1) if self.parts[k].role == "user"), -1)


class Transcript:
    """Prompts of one model: it renders and tokenises conversations. Thread-safe."""

    def __init__(
        self, vocabulary: Vocabulary, template: ChatTemplate, *, vision: VisionModel | None = None
    ) -> None:
        self._vocabulary = vocabulary
        self._vision = vision
        self._template = template
        self._tools = ToolPrompt(template)
        self._thought_keys = tuple(key for key in THOUGHT_KEYS if key in template.source)
        # Cannot occur in a template that was written before it was drawn.
        self._nonce = secrets.token_hex(8)
        self._marks = re.compile(f"zq{self._nonce}[xt][0-9]+zq")
        self._tokenize = CachedFunction(
            self._tokenize_run, max_entries=_CACHED_RUNS, max_bytes=_CACHED_RUNS_BYTES, size_of=_bytes_of_run
        )
        self._layout = CachedFunction(
            self._make_layout,
            max_entries=_CACHED_LAYOUTS,
            max_bytes=_CACHED_LAYOUTS_BYTES,
            size_of=_bytes_of_layout,
        )
        self._answers = AnswerReuse(vocabulary, template, self._tools, self._layout)
        self._prefixes = PrefixCache()
        self._has_no_system: bool | None = None
        # Whether the template was seen to write something else before the newest message than before older
        # ones, such as the system prompt.
        self._heads_newest = False

    def family(self, tools: Sequence[Tool]) -> Family | None:
        """Return how calls are written when these tools are there; None: as the template says."""
        return self._tools.family if tools else None

    def call_grammar(self, tools: Sequence[Tool], name: str = "") -> str:
        """Return the grammar of an answer that calls one of these tools, or the one of that name."""
        return call_grammar(tools, self._tools.family, self._vocabulary.controls, name)

    def shown(self, tools: Sequence[Tool]) -> tuple[int, ...]:
        """Return the control tokens that a parser of answers must see."""
        marks = marks_of(self._template.source, family=self.family(tools), has_tools=bool(tools))
        return self._vocabulary.ids_of(marks)

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, ends_thought: bool = False
    ) -> Prompt:
        """Return the prompt of the next answer. Raises TemplateError when the template refuses the messages.

        With `ends_thought`, a thought that the template begins for the model is ended at once.
        """
        if not messages:
            raise TemplateError("there are no messages to render", hint="begin with a user message")
        if self._template.turn_day():  # layouts and prompts may hold the date
            self._layout.clear()
            self._prefixes.clear()
        if has_pictures(messages):
            messages = self._with_marks(messages)
        builder = PromptBuilder(self._vocabulary, self._tokenize, len(messages), vision=self._vision)
        prefix = self._prefixes.find(messages)
        known = [] if prefix is None else prefix.keys
        keys = [*known, *keys_of(messages[len(known) :])]
        text = self._continue(builder, messages, tools, keys, prefix)
        counts: list[int] | None = builder.counts
        if text is None:
            journal = Journal() if prefix is None or prefix.journal is None else prefix.journal
            rendered = self._lay_out(messages, tools, journal if len(messages) >= _LONG else None)
            text = rendered.text
            if rendered.layout is None:
                self._write_plainly(builder, text, messages)
                counts = None
            else:
                self._assemble(builder, rendered)
                self._remember(builder, rendered, messages, keys, None)
        if ends_thought and ends_in_thought(self._template.source, text):
            ending = f"\n\n{thinking_marks(self._template.source)[1]}\n\n"
            builder.template(ending)
            text += ending
        builder.flush()
        if not builder.ids:
            raise TemplateError(
                "the model's chat template writes nothing",
                hint="use a GGUF with a working tokenizer.chat_template",
            )
        if counts is None:
            counts = _by_length(len(builder.ids), [message.sent for message in messages])
        prompt = builder.prompt(counts, text)
        if self._vision is None or not has_pictures(messages):
            return prompt
        pictures = [picture for message in messages for picture in message.pictures]
        return replace(prompt, pictures=place(prompt.token_ids, pictures, self._vision))

    def unasked(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """Return the text of a conversation, up to where the template would ask for an answer."""
        parts, shown_tools, _, _ = self._rendered(messages, tools, None)
        return self._template.render(
            self._forms(self._neutral(parts)), add_generation_prompt=False, tools=_loads(shown_tools) or None
        )

    def _with_marks(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with a mark for each picture and no others; with words if none can be read."""
        if self._vision is None:
            return [without_pictures(message) for message in messages]
        return [with_marks(message) for message in messages]

    def _write_plainly(self, builder: PromptBuilder, text: str, messages: Sequence[Message]) -> None:
        """Write a conversation that fits no layout."""
        pictures = [picture for message in messages for picture in message.pictures]
        texts = text.split(MARK) if pictures else [text]
        for i, piece in enumerate(texts):
            if 0 < i <= len(pictures):
                builder.content(MARK, [pictures[i - 1]])
            builder.template(piece)

    def _lay_out(
        self, messages: Sequence[Message], tools: Sequence[Tool], journal: Journal | None
    ) -> _Rendered:
        """Return the whole conversation, rendered on its layout; without one where it does not fit any."""
        parts, shown_tools, text, is_plain = self._rendered(messages, tools, journal)
        layout = self._layout(shape_of(parts), shown_tools)
        contents = None if layout is None else match(text, layout, parts)
        if layout is None or contents is None:
            return _Rendered(parts, shown_tools, self._render(self._neutral(parts), shown_tools))
        forms = self._forms(parts) if is_plain else []
        return _Rendered(
            parts,
            shown_tools,
            text,
            forms,
            layout,
            contents,
            journal=journal,
            heads_newest=self._heads_newest,
        )

    # ---- going on from what was made before

    def _continue(
        self,
        builder: PromptBuilder,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        keys: list[Key],
        prefix: PromptPrefix | None,
    ) -> str | None:
        """Go on where the last turn's newest message began; None when that cannot be, and nothing is done.

        The text is the template's own rendering of the whole conversation, and begins as it did. What
        follows is rendered on the layout of a short conversation, which it must fit exactly: the turn before
        and what is new.
        """
        if prefix is None or not prefix.is_clear(messages[len(prefix.keys) :]):
            return None
        window = self._window(messages, tools, prefix)
        if window is None or window.layout is None:
            return None
        at = window.layout.after(Slot(window.since, False))
        if at is None:
            return None
        rendered = self._spliced(window, prefix, at) or self._compared(window, prefix, at)
        if rendered is None:
            return None
        builder.resume(prefix.mark, prefix.ids)
        self._assemble(builder, rendered, Place(at - 1, len(window.layout.texts[at - 1])))
        self._remember(builder, rendered, messages, keys, prefix)
        return rendered.text

    def _compared(self, window: _Rendered, prefix: PromptPrefix, at: int) -> _Rendered | None:
        """Render the whole conversation, and match what follows `prefix`; None where it is another one."""
        journal = prefix.journal
        if journal is None and len(window.forms) >= _LONG:
            journal = Journal()
        try:
            text = self._template.render(
                window.forms,
                add_generation_prompt=True,
                tools=_loads(window.tools) or None,
                journal=journal,
            )
        except TemplateError:
            return None
        if window.layout is None:
            return None
        if not text.startswith(prefix.text):
            self._heads_newest |= text.startswith(prefix.text[: prefix.n_earlier])
            return None
        contents = match(text, window.layout, window.parts, since=at - 1, at=len(prefix.text))
        return None if contents is None else replace(window, text=text, contents=contents, journal=journal)

    def _spliced(self, window: _Rendered, prefix: PromptPrefix, at: int) -> _Rendered | None:
        """Render the short conversation alone, and put `prefix` before what is new in it.

        The template must write each message by itself: then the short conversation, which begins with the
        same message, ends as the whole one does. None where that is not proven, or where the text before
        the newest content has changed since.
        """
        layout, parts = window.layout, window.parts
        if not self._template.is_local or layout is None or parts[0].role != "system":
            return None
        if prefix.tools != window.tools or prefix.gap != layout.texts[at - 1]:
            return None
        forms = self._forms(parts)
        if forms[0] != prefix.forms[0]:
            return None
        try:
            text = self._template.render(
                forms, add_generation_prompt=True, tools=_loads(window.tools) or None
            )
        except TemplateError:
            return None
        contents = match(text, layout, parts)
        if contents is None:
            return None
        begin = sum(map(len, layout.texts[:at])) + sum(map(len, contents[: at - 1]))
        return replace(window, text=prefix.text + text[begin:], contents=contents)

    def _window(
        self, messages: Sequence[Message], tools: Sequence[Tool], prefix: PromptPrefix
    ) -> _Rendered | None:
        """Return a short conversation with this end: system message, one turn, all behind `prefix`."""
        n = len(prefix.keys)
        n_head = int(messages[0].role == "system")
        begin = next((i for i in range(n - 1, n_head - 1, -1) if messages[i].role == "user"), -1)
        if begin < 0:
            return None
        parts, shown = self._parts([*messages[:n_head], *messages[begin:]], tools)
        skipped = begin - n_head
        since = next((i for i, part in enumerate(parts) if part.owners == (n - skipped,)), 0)
        if since < 2 or parts[0].role != prefix.forms[0]["role"]:
            return None
        if parts[0].role != "system":
            # What stands before the user's words: a system prompt and tools without a place of their own.
            before = parts[0].text.removesuffix(messages[begin].sent)
            if prefix.forms[0]["content"] != before + messages[n_head].sent:
                return None
        new = self._forms(parts[since:])
        head = prefix.forms[:1]
        if parts[0].role == "system" and (system := self._forms(parts[:1])) != head:
            head = system
        forms = [*head, *prefix.forms[1:], *new]
        parts[since:] = [_moved(part, skipped) for part in parts[since:]]
        layout = self._layout(shape_of(parts), shown)
        return _Rendered(parts, shown, "", forms, layout, since=since, heads_newest=self._heads_newest)

    def _remember(
        self,
        builder: PromptBuilder,
        rendered: _Rendered,
        messages: Sequence[Message],
        keys: list[Key],
        prefix: PromptPrefix | None,
    ) -> None:
        """Keep the part that the next turn can continue from: everything before a message of the user."""
        last, mark = rendered.kept, builder.marked
        n_forms = len(rendered.forms) - len(rendered.parts) + last
        if mark is None or rendered.layout is None or n_forms < 2 or len(rendered.parts[last].owners) != 1:
            return
        begin, at = 0, len(rendered.layout.texts[0])
        if prefix is not None:
            begin, at = (rendered.layout.after(Slot(rendered.since, False)) or 1) - 1, len(prefix.text)
        end = (rendered.layout.after(Slot(last, False)) or 1) - 1
        n_earlier = at
        for i in range(begin, end):
            if rendered.layout.slots[i] == Slot(rendered.earlier, False):
                n_earlier = at
            at += len(rendered.contents[i]) + len(rendered.layout.texts[i + 1])
        n = rendered.parts[last].owners[0]
        known = 0 if prefix is None else len(prefix.keys)
        calls = {call.id: call.name for message in messages[known:n] for call in message.tool_calls}
        if prefix is not None:
            calls = {**prefix.calls, **calls}
        kept = PromptPrefix(
            keys[:n],
            rendered.forms[:n_forms],
            rendered.text[:at],
            builder.ids[: mark.n_ids],
            mark,
            calls,
            rendered.tools,
            rendered.layout.texts[end],
            rendered.journal,
            n_earlier,
        )
        self._prefixes.keep(kept, instead_of=prefix)

    # ---- parts

    def _rendered(
        self, messages: Sequence[Message], tools: Sequence[Tool], journal: Journal | None
    ) -> tuple[list[Part], str, str, bool]:
        """Parts, tools, text, and whether all was said: a template that refuses gets less."""
        self._template.learn_contents()
        parts, shown_tools = self._parts(messages, tools)
        try:
            return parts, shown_tools, self._render(parts, shown_tools, journal), True
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
                    () if message is None else message.pictures,
                )
            )
        shown = self._neutral_json(prepared.tools) if prepared.tools else ""
        if (
            len(parts) < 2
            or parts[0].role != "system"
            or parts[1].role != "user"
            or not self._merges_system()
        ):
            return parts, shown
        system, user = parts[0], parts[1]
        text = f"{system.text}\n\n{user.text}" if system.text else user.text
        pictures = (*system.pictures, *user.pictures)
        merged = Part("user", text, (*system.owners, *user.owners), pictures=pictures)
        return [merged, *parts[2:]], shown

    def _merges_system(self) -> bool:
        """Return whether the template has no place for a system message, which then precedes the user's."""
        if self._has_no_system is None:
            user = {"role": "user", "content": "b"}
            try:
                self._template.render([{"role": "system", "content": "a"}, user], add_generation_prompt=True)
                self._has_no_system = False
            except TemplateError:
                self._template.render([user], add_generation_prompt=True)
                self._has_no_system = True
        return self._has_no_system

    def _forms(self, parts: Sequence[Part]) -> list[dict[str, Any]]:
        return [
            render_form(part.role, part.text, part.thought, _loads(part.more), self._thought_keys)
            for part in parts
        ]

    def _render(self, parts: Sequence[Part], tools: str, journal: Journal | None = None) -> str:
        return self._template.render(
            self._forms(parts), add_generation_prompt=True, tools=_loads(tools) or None, journal=journal
        )

    def _neutral_json(self, value: object) -> str:
        return self._vocabulary.reserved_pattern.sub(_broken, json.dumps(value, ensure_ascii=False))

    def _neutral(self, parts: Sequence[Part]) -> list[Part]:
        pattern = self._vocabulary.reserved_pattern
        return [
            replace(part, text=pattern.sub(_broken, part.text), thought=pattern.sub(_broken, part.thought))
            for part in parts
        ]

    # ---- layouts

    def _make_layout(self, shape: Shape, tools: str) -> TemplateLayout | None:
        """Return the layout of a conversation of this shape; None without one. Empty contents stay empty."""
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
        return TemplateLayout((*texts, text[start:]), tuple(slot for slot in slots if slot), closing)

    def _closing(self, forms: list[dict[str, Any]], tools: Any, text: str, start: int) -> int:
        try:
            uninvited = self._template.render(forms, add_generation_prompt=False, tools=tools)
        except TemplateError:
            return -1
        return len(uninvited) - start if start <= len(uninvited) and text.startswith(uninvited) else -1

    # ---- ids

    def _assemble(self, builder: PromptBuilder, rendered: _Rendered, begin: Place = _BEGIN) -> None:
        """Write the conversation from `begin` on into the builder."""
        if rendered.layout is None:
            return
        place = begin
        kept = self._answers.keep(
            rendered.layout, rendered.contents, rendered.parts, rendered.tools, since=rendered.since
        )
        for answer in kept:
            if (answer.begin.piece, answer.begin.offset) < (place.piece, place.offset):
                continue
            self._write(builder, rendered, rendered.layout, place, answer.begin)
            builder.owner = rendered.parts[answer.part].owners[-1]
            builder.template(answer.gap)
            builder.answer(answer.token_ids)
            place = answer.end
        self._write(builder, rendered, rendered.layout, place, None)

    def _write(
        self,
        builder: PromptBuilder,
        rendered: _Rendered,
        layout: TemplateLayout,
        begin: Place,
        end: Place | None,
    ) -> None:
        """Texts and contents from one place to another, or to the end."""
        parts, newest, kept = rendered.parts, rendered.newest, rendered.kept
        last = len(layout.slots) if end is None else end.piece
        for piece in range(begin.piece, last + 1):
            start = begin.offset if piece == begin.piece else 0
            slot = layout.slots[piece] if piece < len(layout.slots) else None
            if slot is not None:
                builder.owner = parts[slot.part].owners[-1]
            if piece == last:
                stop = None if end is None else end.offset
                bound_at = layout.closing - start if end is None else -1
                builder.template(layout.texts[piece][start:stop], bound_at=bound_at)
            elif slot is not None:
                builder.template(layout.texts[piece][start:])
                is_newest = slot.part == newest
                if slot.part == kept:
                    builder.mark()
                is_head = slot.part > 0 and parts[slot.part - 1].role == "system"
                if is_head or is_newest:
                    builder.bound(is_head=is_head, is_newest=is_newest)
                builder.content(
                    rendered.contents[piece], () if slot.is_thought else parts[slot.part].pictures
                )

    def _tokenize_run(self, text: str, after_ids: bool) -> array[int]:
        return self._vocabulary.tokenize_after(text) if after_ids else self._vocabulary.tokenize(text)


def _bytes_of_run(key: tuple[Hashable, ...], ids: array[int]) -> int:
    return 256 + 4 * len(str(key[0])) + len(ids) * ids.itemsize


def _bytes_of_layout(key: tuple[Hashable, ...], layout: TemplateLayout | None) -> int:
    shape, tools = key
    assert isinstance(shape, tuple)
    texts = () if layout is None else layout.texts
    n_chars = len(str(tools)) + sum(len(part[3]) for part in shape) + sum(map(len, texts))
    return 512 + 256 * len(shape) + 4 * n_chars


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

"""A conversation as token ids: what a template renders, cut so that only new messages are tokenised.

The rendered text is matched against the template's skeleton, the same rendering with placeholders for
contents. So it is known which characters the template wrote and which a person did:

- only the template's own text may become control tokens. A user who types `<|im_end|>` gets its letters;
- the text between two control tokens is tokenised on its own and cached. llama.cpp's tokenizers do the same
  inside, so the ids are those of the whole text;
- an answer of our own enters as the ids that were sampled, after the generation prompt that it was sampled
  after: tokenising its text again may give others, and the cache would be lost from there on.

A template that writes contents in another way (as JSON, in upper case, some of them twice) does not match.
Then the whole is rendered and tokenised, with a zero-width space inside every control token that a
content contains: correct, only slower. The comparison is made with the real rendering on every turn.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from shepherd.errors import TemplateError
from shepherd.inference.template import ChatTemplate
from shepherd.inference.vocabulary import Vocabulary
from shepherd.types import Message

__all__ = ["Prompt", "Transcript"]

_Tokenize = Callable[[str, bool], "array[int]"]

_ZERO_WIDTH_SPACE = "\u200b"
_CACHED_RUNS = 4096
_CACHED_SKELETONS = 256


@dataclass(frozen=True, slots=True)
class Prompt:
    """Ids for the engine; how many each message has of them, the template's text around it included.

    `boundaries`: lengths at which later prompts may part from this one, ascending: the end of the system
    prompt and that of the last message, before the template's invitation to answer.
    """

    token_ids: array[int]
    tokens_per_message: tuple[int, ...]
    text: str
    boundaries: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """What the template gets as one message. `owners`: the messages it is made of."""

    role: str
    text: str
    owners: tuple[int, ...]
    answer: Message | None = None


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """The template's own text: `texts[i]`, then the content of part `slots[i]`, ..., at last `texts[-1]`.

    `closing`: how much of that last text belongs to the last message; the rest asks for an answer. -1 is
    unknown.
    """

    texts: tuple[str, ...]
    slots: tuple[int, ...]
    closing: int


class Transcript:
    """Renders and tokenises conversations for one model. Not thread-safe: one engine owns it."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate) -> None:
        self._vocabulary = vocabulary
        self._template = template
        # Cannot occur in a template that was written before it was drawn.
        self._nonce = secrets.token_hex(8)
        self._tokenize = lru_cache(_CACHED_RUNS)(self._tokenize_run)
        self._skeleton = lru_cache(_CACHED_SKELETONS)(self._make_skeleton)
        self._says = lru_cache(_CACHED_RUNS)(self._detokenizes_to)
        self._folds_system: bool | None = None

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """The ids that ask for the next answer. TemplateError when the template refuses the conversation."""
        if not messages:
            raise TemplateError("there are no messages to render", hint="begin with a user message")
        parts = self._parts(messages)
        text = self._template.render(
            [{"role": part.role, "content": part.text} for part in parts], add_generation_prompt=True
        )
        skeleton = self._skeleton(tuple((part.role, bool(part.text)) for part in parts))
        contents = None if skeleton is None else _match(text, skeleton, parts)
        builder = _Builder(self._vocabulary, self._tokenize, len(messages))
        if skeleton is None or contents is None:
            text = self._neutral(parts)
            builder.template(text)
            builder.flush()
            counts = _by_length(len(builder.ids), [message.sent for message in messages])
        else:
            self._assemble(builder, skeleton, contents, parts)
            counts = builder.counts
        return builder.prompt(counts, text)

    def _parts(self, messages: Sequence[Message]) -> list[_Part]:
        parts = [
            _Part(m.role, m.sent, (i,), m if m.role == "assistant" and m.token_ids else None)
            for i, m in enumerate(messages)
        ]
        if len(parts) < 2 or parts[0].role != "system" or parts[1].role != "user" or not self._must_fold():
            return parts
        system, user = parts[0], parts[1]
        text = f"{system.text}\n\n{user.text}" if system.text else user.text
        return [_Part("user", text, (0, 1)), *parts[2:]]

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

    def _make_skeleton(self, shape: tuple[tuple[str, bool], ...]) -> _Skeleton | None:
        """The skeleton of a conversation of these roles, empty contents staying empty; None without one."""
        marks = [f"zq{self._nonce}x{i}zq" if full else "" for i, (_, full) in enumerate(shape)]
        messages = [{"role": role, "content": mark} for (role, _), mark in zip(shape, marks, strict=True)]
        try:
            text = self._template.render(messages, add_generation_prompt=True)
        except TemplateError:
            return None
        found = sorted((text.find(mark), i) for i, mark in enumerate(marks) if mark)
        if any(at < 0 or text.count(marks[i]) != 1 for at, i in found):
            return None
        texts, start = [], 0
        for at, i in found:
            texts.append(text[start:at])
            start = at + len(marks[i])
        return _Skeleton(
            (*texts, text[start:]), tuple(i for _, i in found), self._closing(messages, text, start)
        )

    def _closing(self, messages: list[dict[str, str]], text: str, start: int) -> int:
        try:
            uninvited = self._template.render(messages, add_generation_prompt=False)
        except TemplateError:
            return -1
        return len(uninvited) - start if start <= len(uninvited) and text.startswith(uninvited) else -1

    def _assemble(
        self, builder: _Builder, skeleton: _Skeleton, contents: Sequence[str], parts: Sequence[_Part]
    ) -> None:
        for before, slot, content in zip(skeleton.texts, skeleton.slots, contents, strict=False):
            part = parts[slot]
            builder.owner = part.owners[-1]
            answer = part.answer
            asked = None if answer is None else self._generation_prompt(parts, slot, before)
            if answer is not None and asked is not None and self._is_kept(answer, content):
                builder.template(asked)
                builder.answer(answer.token_ids)
            else:
                builder.template(before)
                if slot > 0 and parts[slot - 1].role == "system":
                    builder.bound()
                builder.content(content)
        builder.template(skeleton.texts[-1], bound_at=skeleton.closing)
        builder.flush()

    def _generation_prompt(self, parts: Sequence[_Part], slot: int, before: str) -> str | None:
        """The template's text before this answer when it was sampled, if it differs in blanks at most."""
        earlier = self._skeleton(tuple((part.role, bool(part.text)) for part in parts[:slot]))
        if earlier is None:
            return None
        asked = earlier.texts[-1]
        return asked if asked.rstrip() == before.rstrip() else None

    def _is_kept(self, answer: Message, content: str) -> bool:
        """Whether the template shows this answer whole and its ids still say what it says."""
        if content != answer.sent and content != answer.sent.strip():
            return False
        return self._says(answer.token_ids, answer.sent)

    def _detokenizes_to(self, token_ids: tuple[int, ...], text: str) -> bool:
        if not all(0 <= token < self._vocabulary.n_tokens for token in token_ids):
            return False
        return self._vocabulary.detokenize(token_ids).decode("utf-8", "replace") == text

    def _tokenize_run(self, text: str, after_ids: bool) -> array[int]:
        return self._vocabulary.tokenize_after(text) if after_ids else self._vocabulary.tokenize(text)

    def _neutral(self, parts: Sequence[_Part]) -> str:
        pattern = self._vocabulary.control_pattern
        messages = [
            {
                "role": part.role,
                "content": pattern.sub(lambda m: m[0][0] + _ZERO_WIDTH_SPACE + m[0][1:], part.text),
            }
            for part in parts
        ]
        return self._template.render(messages, add_generation_prompt=True)


def _match(text: str, skeleton: _Skeleton, parts: Sequence[_Part]) -> list[str] | None:
    """What stands in each slot of the rendered text; None when text and skeleton do not add up exactly."""
    if not text.startswith(skeleton.texts[0]):
        return None
    at, contents = len(skeleton.texts[0]), []
    for slot, after in zip(skeleton.slots, skeleton.texts[1:], strict=True):
        for content in _as_templates_write(parts[slot]):
            if text.startswith(content, at) and text.startswith(after, at + len(content)):
                contents.append(content)
                at += len(content) + len(after)
                break
        else:
            return None
    return contents if at == len(text) else None


def _as_templates_write(part: _Part) -> Iterator[str]:
    yield part.text
    yield part.text.strip()
    if part.role == "assistant" and "</think>" in part.text:
        answer = part.text.rsplit("</think>", 1)[1]
        yield answer
        yield answer.lstrip("\n")
        yield answer.strip()


def _by_length(total: int, texts: Sequence[str]) -> list[int]:
    """`total` shared out by characters, for a prompt whose messages could not be told apart."""
    weights = [len(text) + 1 for text in texts]
    counts = [total * weight // sum(weights) for weight in weights]
    counts[-1] += total - sum(counts)
    return counts


class _Builder:
    """Collects ids: control tokens where the template writes them, runs of text between them, sampled ids."""

    def __init__(self, vocabulary: Vocabulary, tokenize: _Tokenize, n_messages: int) -> None:
        self._vocabulary, self._tokenize = vocabulary, tokenize
        self.ids: array[int] = array("i")
        self.counts = [0] * n_messages
        self.owner = 0
        self._run: list[str] = []
        self._run_owner: int | None = None
        self._after_ids = False
        self._strip_next = False
        self._boundaries: list[int] = []

    def bound(self) -> None:
        """A boundary behind the ids that nothing to come can change."""
        if self.ids:
            self._boundaries.append(len(self.ids))

    def template(self, text: str, *, bound_at: int = -1) -> None:
        """The template's text; a boundary before the control token that begins at `bound_at`, if one does."""
        start = 0
        for match in self._vocabulary.control_pattern.finditer(text):
            self._run.append(text[start : match.start()])
            self._control(self._vocabulary.controls[match[0]], is_bound=match.start() == bound_at)
            start = match.end()
        self._run.append(text[start:])

    def content(self, text: str) -> None:
        self._run.append(text)
        # The run ends in the template's text of the next message, and still is this one's.
        self._run_owner = self.owner

    def answer(self, token_ids: Sequence[int]) -> None:
        self.flush()
        self._add(array("i", token_ids))
        self._after_ids = True

    def flush(self, *, strip_end: bool = False) -> None:
        run = "".join(self._run)
        self._run.clear()
        if self._strip_next:
            run = run.lstrip()
        if strip_end:
            run = run.rstrip()
        if run:
            self._add(self._tokenize(run, self._after_ids))
        self._run_owner = None
        self._after_ids = self._strip_next = False

    def prompt(self, counts: list[int], text: str) -> Prompt:
        """The ids, after one BOS if the model wants one: templates may have written it themselves."""
        bos, boundaries = self._vocabulary.bos, self._boundaries
        if self._vocabulary.adds_bos and (not self.ids or self.ids[0] != bos):
            self.ids.insert(0, bos)
            counts[0] += 1
            boundaries = [length + 1 for length in boundaries]
        inner = sorted({length for length in boundaries if length < len(self.ids)})
        return Prompt(self.ids, tuple(counts), text, tuple(inner))

    def _control(self, token: int, *, is_bound: bool) -> None:
        before, after = self._vocabulary.strips(token)
        self.flush(strip_end=before)
        if is_bound:
            self.bound()
        self._add(array("i", [token]))
        self._strip_next = after

    def _add(self, ids: array[int]) -> None:
        self.ids.extend(ids)
        self.counts[self.owner if self._run_owner is None else self._run_owner] += len(ids)

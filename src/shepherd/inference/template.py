"""A model's chat template, rendered in a sandbox, because it comes from an untrusted file."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jinja2 import TemplateError as JinjaError

from shepherd.errors import ModelFormatError, TemplateError
from shepherd.inference.template_journal import Journal
from shepherd.inference.template_locality import writes_each_message_by_itself
from shepherd.inference.template_resuming import ResumableTemplate
from shepherd.inference.template_sandbox import LimitError, SandboxedEnvironment, limited
from shepherd.replies import ends_in_thought, family_of, thinking_marks
from shepherd.types import Message, Picture

__all__ = [
    "CHATML",
    "GENERIC",
    "ChatTemplate",
    "Part",
    "Place",
    "Shape",
    "Slot",
    "TemplateLayout",
    "TemplateOptions",
    "match",
    "render_form",
    "shape_of",
]


CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# For base models, without a template and without ChatML's tokens: they continue a dialogue.
GENERIC = (
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}"
    "{% else %}{{ message['role'] | capitalize + ': ' + message['content'] + '\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
GENERIC_STOPS = ("\nUser:",)
# Names that templates have for a switch of thoughts.
_SWITCHES = ("enable_thinking", "thinking")
# Variables that Firefunction's templates read.
_OF_FIREFUNCTION = ("functions", "datetime")
_LONGEST_MESSAGE = 500
_LONGEST_TIME_FORMAT = 200
# What a probe says: digits, which are the same in upper case, in JSON and in titles.
_PROBE = "80274913665120947"


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """Options of a chat template beside the conversation; most templates read none of them.

    `thinks` asks for an answer with thoughts before it, or without; None leaves that to the template.
    `variables` are others, by name, such as `reasoning_effort`.
    """

    thinks: bool | None = None
    variables: tuple[tuple[str, str | int | float | None], ...] = ()

    def for_source(self, source: str) -> TemplateOptions:
        """Return the options without variables that the template of this source doesn't name."""
        return replace(self, variables=tuple(pair for pair in self.variables if pair[0] in source))


class ChatTemplate:
    """Render messages as the model was trained to see them. Thread-safe.

    `source` is the template of the GGUF; without one, ChatML if `has_chatml_tokens`, else a plain dialogue
    with the stop string that it needs. The clock that templates may ask for stands still until `turn_day`
    finds another day: a prompt that says another minute each turn would be read anew each turn. `clock` gives
    unix seconds.
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str = "",
        eos: str = "",
        has_chatml_tokens: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.source = source or (CHATML if has_chatml_tokens else GENERIC)
        self.stops: tuple[str, ...] = GENERIC_STOPS if self.source == GENERIC else ()
        self._clock = clock
        self._now = time.localtime(clock())
        self._variables: dict[str, Any] = {"bos_token": bos, "eos_token": eos}
        self._thinks: bool | None = None
        # Roles whose contents the template takes as lists of parts; None until `learn_contents`.
        self._roles_in_parts: frozenset[str] | None = None
        self._has_date = "date_string" in self.source
        self._is_firefunction = all(name in self.source for name in _OF_FIREFUNCTION)
        self._environment = environment = SandboxedEnvironment()
        # Made when it is needed first; None if it can't be made.
        self._resumable: list[ResumableTemplate | None] = []
        environment.filters["tojson"] = environment.checked("tojson", _to_json)
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: time.strftime(
            str(form)[:_LONGEST_TIME_FORMAT], self._now
        )
        try:
            with limited():
                self._template = environment.from_string(self.source)
                # Each message is written by itself, so that old ones need not be rendered with new ones.
                self.is_local = writes_each_message_by_itself(environment.parsed(self.source))
        except LimitError as error:
            raise _stopped(error) from error
        except Exception as error:  # foreign code, nested too deeply for Jinja or for Python's compiler
            what = error if isinstance(error, JinjaError) else type(error).__name__
            raise TemplateError(
                f"the model's chat template is not Jinja: {str(what)[:_LONGEST_MESSAGE]}",
                hint="use a GGUF with a working tokenizer.chat_template",
            ) from error

    def with_options(self, options: TemplateOptions) -> ChatTemplate:
        """Return the same template, which is told these options in each rendering."""
        other = copy.copy(self)
        switch = {} if options.thinks is None else dict.fromkeys(_SWITCHES, options.thinks)
        other._variables = {**dict(options.variables), **switch, **self._variables}
        other._thinks = options.thinks
        return other

    def turn_day(self) -> bool:
        """Set the clock if another day has begun; whether it has."""
        now = time.localtime(self._clock())
        if (now.tm_year, now.tm_yday) == (self._now.tm_year, self._now.tm_yday):
            return False
        self._now = now
        return True

    def learn_contents(self) -> None:
        """Find out, once, whether the template takes contents as texts or as lists of parts.

        Templates of models that read pictures may know lists alone, and write nothing of a text. Raises
        TemplateError if the template writes what the user says in neither form.
        """
        if self._roles_in_parts is not None:
            return
        begun: list[dict[str, Any]] = [_said("system", "a")]
        as_text = self._shows([_said("user", _PROBE)])
        if as_text or self._shows([*begun, _said("user", _PROBE)]):
            self._roles_in_parts = frozenset()
        elif self._shows([_in_parts(_said("user", _PROBE))]):
            user = _in_parts(_said("user", "a"))
            others = {
                "system": [_said("system", _PROBE), user],
                "assistant": [user, _said("assistant", _PROBE), user],
            }
            found = {role for role, messages in others.items() if not self._shows(messages)}
            self._roles_in_parts = frozenset(("user", "tool", *found))
        elif as_text is None:  # it refuses so short a conversation, and says why when it refuses a real one
            self._roles_in_parts = frozenset()
        else:
            raise TemplateError(
                "the model's chat template does not write what the user says",
                hint="use a GGUF with a working tokenizer.chat_template",
            )

    def _shows(self, messages: Sequence[Mapping[str, Any]]) -> bool | None:
        """Return whether the probe is in the text of these messages; None if they are refused."""
        try:
            return _PROBE in self.render(messages, add_generation_prompt=True)
        except TemplateError:
            return None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
        journal: Journal | None = None,
    ) -> str:
        """Return the prompt's text.

        `tools` in OpenAI's form; tools.py prepares them and the messages for a template. With the journal of
        the conversation's last rendering, only what has changed since is rendered, if the template allows
        that. Raises TemplateError with the template's own words when it refuses the messages,
        ModelFormatError when it does not end.
        """
        if self._roles_in_parts:
            messages = [
                _in_parts(message) if message["role"] in self._roles_in_parts else message
                for message in messages
            ]
        variables = {
            **self._of_day(tools),
            **self._variables,
            "add_generation_prompt": add_generation_prompt,
            "tools": tools or None,
        }
        text = None
        has_failed = False
        if journal is not None:
            try:
                text = self._resumed(journal, messages, tools, variables)
            except Exception:  # an error of the template is raised again by the rendering of the whole
                has_failed = True
        if text is None:
            text = self._whole(messages, tools, variables)
            if has_failed:  # it does something that can't be recorded
                self._resumable[-1] = None
        return text + self._no_thought(text) if add_generation_prompt and self._thinks is False else text

    def _whole(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any],
    ) -> str:
        try:
            with limited([*messages, *tools] if tools else messages):
                # The sandbox keeps the template from changing the messages.
                return self._template.render({**variables, "messages": list(messages)})
        except LimitError as error:
            raise _stopped(error) from error
        except JinjaError as error:
            said = str(error)[:_LONGEST_MESSAGE]
            raise TemplateError(f"the model's chat template refused the messages: {said}") from error
        except Exception as error:
            # Foreign code: any error, such as a missing key, is the template's.
            said = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
            raise TemplateError(f"the model's chat template failed: {said}") from error

    def _resumed(
        self,
        journal: Journal,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any],
    ) -> str | None:
        """Return the text, made from the journal; None where the whole has to be rendered."""
        if not self._resumable:
            self._resumable.append(self._made_resumable())
        template = self._resumable[-1]
        if template is None or not journal.lock.acquire(blocking=False):
            return None
        try:
            key = (template, self._now)
            if journal.key != key:
                journal.forget()
            with limited([*messages, *tools] if tools else messages):
                text = template.render(journal, messages, variables)
            journal.key = key
        except BaseException:
            journal.forget()
            raise
        finally:
            journal.lock.release()
        return text

    def _made_resumable(self) -> ResumableTemplate | None:
        try:
            with limited():
                return ResumableTemplate.of(self.source, self._environment)
        except Exception:  # nested too deeply, as rewritten
            return None

    def _of_day(self, tools: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
        """Return what some templates read in place of `strftime_now` and `tools`.

        Llama 3's would say a day of 2024 without `date_string`.
        """
        found = {"date_string": time.strftime("%d %b %Y", self._now)} if self._has_date else {}
        if self._is_firefunction:
            found["functions"] = json.dumps(list(tools), ensure_ascii=False, indent=2) if tools else ""
            found["datetime"] = time.strftime("%b %d %Y", self._now)
        return found

    def _no_thought(self, text: str) -> str:
        """Return what ends the thought that a prompt begins; an empty thought where only the model would."""
        begin, end = thinking_marks(self.source)
        if family_of(self.source) == "harmony":
            return ""
        if ends_in_thought(self.source, text):
            return end
        has_switch = any(name in self.source for name in _SWITCHES)
        return begin + end if not has_switch and begin in self.source and end in self.source else ""


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def _in_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with its content as a list of one text."""
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _stopped(error: LimitError) -> ModelFormatError:
    return ModelFormatError(
        f"the model's chat template was stopped: {error}",
        hint="it is faulty or malicious: use the file of a publisher that you trust",
    )


def _raise_exception(message: str) -> None:
    raise JinjaError(message)


# json.dumps makes a new encoder for each call.
_plain_json = json.JSONEncoder(ensure_ascii=False).encode


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own tojson escapes for HTML; templates were written for this one.
    if ensure_ascii or indent is not None or separators is not None or sort_keys:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
    return _plain_json(value)


# Of each part: its role, whether it has a content and a thought, and the rest of it as JSON.
Shape = tuple[tuple[str, bool, bool, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One message as the template gets it. `owners`: the messages it is made of; `more` is JSON.

    `answer` is an answer of our own, which has its sampled ids. `text` has a mark for each of `pictures`.
    """

    role: str
    text: str
    owners: tuple[int, ...]
    thought: str = ""
    more: str = ""
    answer: Message | None = None
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """Slot for the content or the thought of a part."""

    part: int
    is_thought: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a layout: in `texts[piece]`, at `offset`."""

    piece: int
    offset: int


@dataclass(frozen=True, slots=True)
class TemplateLayout:
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
        """Return the piece behind a slot; None when there is no such slot."""
        number = self._numbers.get(slot)
        return None if number is None else number + 1


def render_form(
    role: str, content: str, thought: str, more: Mapping[str, Any], thought_keys: Sequence[str]
) -> dict[str, Any]:
    """Return a message as templates take it."""
    return {
        "role": role,
        "content": content,
        **(dict.fromkeys(thought_keys, thought) if thought else {}),
        **more,
    }


def shape_of(parts: Sequence[Part]) -> Shape:
    """Return the features of the parts that the template's own text depends on."""
    return tuple((part.role, bool(part.text), bool(part.thought), part.more) for part in parts)


def match(
    text: str, layout: TemplateLayout, parts: Sequence[Part], *, since: int = 0, at: int = 0
) -> list[str] | None:
    """Return the content of each slot in the rendered text; None when text and layout do not match exactly.

    With `since`, that many slots are passed over, and the next one's content begins at `at`.
    """
    if since == 0:
        if not text.startswith(layout.texts[0]):
            return None
        at = len(layout.texts[0])
    contents = [""] * since
    for slot, after in zip(layout.slots[since:], layout.texts[since + 1 :], strict=True):
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

"""A model's chat template, rendered in a sandbox: it comes out of an untrusted file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import TemplateError as JinjaError
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from shepherd.errors import TemplateError
from shepherd.types import Message

__all__ = [
    "CHATML",
    "GENERIC",
    "ChatTemplate",
    "Part",
    "Place",
    "Shape",
    "Slot",
    "TemplateLayout",
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
_DICT_NAMES = frozenset(dir(dict))
# What the sandbox lets through in any case: it refuses names that begin with _, and looks after formats.
_PLAIN_NAMES: dict[type, frozenset[str]] = {
    str: frozenset(name for name in dir(str) if name[0] != "_" and not name.startswith("format")),
    LoopContext: frozenset(name for name in dir(LoopContext) if name[0] != "_"),
}


class _Generation(Extension):
    """`{% generation %}`: marks an answer for training; renders as what is inside."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a short way to what templates ask for most; all else goes the sandbox's own.

    That asks for Python's attributes before the members of a message and checks what it finds, which made up
    half of a rendering.
    """

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute not in _DICT_NAMES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if attribute in _PLAIN_NAMES.get(kind, ()):
            return getattr(obj, attribute)
        if kind is Namespace and attribute[0] != "_" and hasattr(obj, attribute):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(obj) is dict and type(argument) is str and argument not in _DICT_NAMES:
            return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
        return super().getitem(obj, argument)


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
        self._variables = {"bos_token": bos, "eos_token": eos}
        environment = _Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: time.strftime(form, self._now)
        try:
            self._template = environment.from_string(self.source)
        except JinjaError as error:
            raise TemplateError(
                f"the model's chat template is no Jinja: {error}",
                hint="use a GGUF with a working tokenizer.chat_template",
            ) from error

    def turn_day(self) -> bool:
        """Set the clock if another day has begun; whether it has."""
        now = time.localtime(self._clock())
        if (now.tm_year, now.tm_yday) == (self._now.tm_year, self._now.tm_yday):
            return False
        self._now = now
        return True

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """Return the prompt's text. TemplateError with the template's own words when it refuses the messages.

        `tools` in OpenAI's form; tools.py prepares them and the messages for a template.
        """
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                tools=tools or None,
                **self._variables,
            )
        except JinjaError as error:
            raise TemplateError(f"the model's chat template refused the messages: {error}") from error
        except Exception as error:
            # Foreign code: any error, such as a missing key, is the template's.
            raise TemplateError(
                f"the model's chat template failed: {type(error).__name__}: {error}"
            ) from error


def _raise_exception(message: str) -> None:
    raise JinjaError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own tojson escapes for HTML; templates were written for this one.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


# Of each part: its role, whether it has a content and a thought, and the rest of it as JSON.
Shape = tuple[tuple[str, bool, bool, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One message as the template gets it. `owners`: the messages it is made of; `more` is JSON.

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

"""Streaming parser of model output: text, thoughts, tool calls.

Each family of models marks them in its own way, known by what its chat template has in it. The markers come
as text: the stream must hold those of `marks_of` also where they are control tokens. Nothing is lost: the
`raw` of all events, joined, is the stream, and a call that cannot be read is text. The events do
not depend on how the stream was cut.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from shepherd.replies import tool_calls
from shepherd.replies.tool_calls import Call, JSONEnd, ToolTypes
from shepherd.types import Piece, Thought, ToolCall

__all__ = [
    "Family",
    "ReplyEvent",
    "ReplyParser",
    "ends_in_thought",
    "family_of",
    "marks_of",
    "thinking_marks",
]

Family = Literal[
    "hermes", "llama3", "mistral", "harmony", "deepseek", "functiongemma", "gemma", "kimi", "lfm2", "command",
    "functionary", "seed", "listed", "gemma4", "invoked", "json",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplyEvent:
    """A piece of the answer, "" where only a marker was read; `raw` is what the model wrote for it.

    Where several calls were written as one text, the first has it as its `raw`.
    """

    piece: Piece
    raw: str


# Marker in a template that identifies the family; the first match counts.
_FAMILIES: tuple[tuple[str, Family], ...] = (
    ("<|channel|>", "harmony"),
    ("<\uff5ctool\u2581call\u2581begin\uff5c>", "deepseek"),
    ("[TOOL_CALLS]", "mistral"),
    ("<start_function_call>", "functiongemma"),
    ("<|tool_call_argument_begin|>", "kimi"),
    ("<|tool_call>", "gemma4"),
    ("\uff5cDSML\uff5c", "invoked"),
    ("<minimax:tool_call>", "invoked"),
    ("<|tool_call_start|>", "lfm2"),
    ("<|START_ACTION|>", "command"),
    ("<seed:tool_call>", "seed"),
    ("<tool_calls>", "listed"),
    ("<TOOLCALL>", "listed"),
    ("<tool_call>", "hermes"),
    ("<function=", "functionary"),
    ("<|python_tag|>", "llama3"),
    ("<|start_header_id|>", "llama3"),
    ("<start_of_turn>", "gemma"),
)
_DS_BEGIN, _DS_END, _DS_SEP = (
    "<\uff5ctool\u2581call\u2581begin\uff5c>",
    "<\uff5ctool\u2581call\u2581end\uff5c>",
    "<\uff5ctool\u2581sep\uff5c>",
)
_DS_CALLS_BEGIN, _DS_CALLS_END = (
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
)
_KIMI_CALLS_BEGIN, _KIMI_CALLS_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_KIMI_BEGIN, _KIMI_SEP, _KIMI_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_HEADS = ("<|start|>", "<|channel|>")
_CALL_ENDS = (*_HEADS, "<|end|>", "<|return|>", "<|call|>")
_MARKS = (*_CALL_ENDS, "<|message|>")
# What a call is written with, where vocabularies may have a token for it.
_CALL_MARKS: dict[Family, tuple[str, ...]] = {
    "hermes": ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    "llama3": ("<|python_tag|>",),
    "mistral": ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
    "deepseek": (_DS_CALLS_BEGIN, _DS_BEGIN, _DS_SEP, _DS_END, _DS_CALLS_END),
    "functiongemma": ("<start_function_call>", "<end_function_call>", "<escape>"),
    "kimi": (_KIMI_CALLS_BEGIN, _KIMI_BEGIN, _KIMI_SEP, _KIMI_END, _KIMI_CALLS_END),
    "gemma4": ("<|tool_call>", "<tool_call|>", '<|"|>'),
    "invoked": ("\uff5cDSML\uff5c", "<minimax:tool_call>", "</minimax:tool_call>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "command": ("<|START_ACTION|>", "<|END_ACTION|>"),
    "seed": ("<seed:tool_call>", "</seed:tool_call>"),
    "listed": ("<tool_calls>", "</tool_calls>", "<TOOLCALL>", "</TOOLCALL>"),
}
_THINKING = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)

# Longer calls are text: what is held back has an end.
_LONGEST_CALL = 1 << 20
_LONGEST_HEAD = 512
_ID_CHARACTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9  # Mistral's templates refuse any other
_FIRST_KEYS = frozenset(
    ("name", "type", "id", "function", "tool", "tool_call", "tool_calls", "call", "arguments", "parameters")
)
_FIRST_KEY = re.compile(r'[\s\[]*\{\s*"((?:[^"\\]|\\.)*)"')
_NO_OBJECT = re.compile(r"[\s\[]*(?:[^\s\[{]|\{\s*[^\s\"])")
_SEPARATOR = re.compile(r"[;,]\s*")
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([\w.:/-]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def family_of(template: str) -> Family:
    """Return how a model with this chat template writes tool calls; plain JSON where nothing tells."""
    return next((family for marker, family in _FAMILIES if marker in template), "json")


def thinking_marks(template: str) -> tuple[str, str]:
    """Begin and end of a thought; <think> where the template does not say."""
    return next((marks for marks in _THINKING if marks[0] in template or marks[1] in template), _THINKING[0])


def marks_of(template: str, *, family: Family | None = None, has_tools: bool = True) -> tuple[str, ...]:
    """Return the texts that a parser must see even where they are control tokens, which have no text."""
    family = family or family_of(template)
    messages = (*_MARKS, "<|constrain|>") if family == "harmony" else ()
    opens, closes = thinking_marks(template)
    thoughts = (opens, opens.removesuffix("thought"), closes)
    return (*thoughts, *messages, *(_CALL_MARKS.get(family, ()) if has_tools else ()))


def ends_in_thought(template: str, prompt: str) -> bool:
    """Return whether a rendered prompt leaves the model to begin inside a thought."""
    if family_of(template) == "harmony":
        return _last_channel(prompt) == "analysis"
    return prompt.rstrip().endswith(thinking_marks(template)[0])


def _new_id() -> str:
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))


# Where a call that begins a text ends: -1 when it is none, None when that is not known yet.
_End = Callable[[str], int | None]
_Read = Callable[..., "list[Call] | None"]


@dataclass(frozen=True, slots=True)
class _Form:
    """One way to write calls: after `opener`, up to where `ends()` says; `read` gets what is between the two.

    `closer` is taken off before, where there is one. A marker that calls nothing reads as []. `is_typed`: it
    has tags with values in them, and `read` gets the types of the tools as well. `is_bare`: it is JSON alone.
    """

    opener: str
    ends: Callable[[], _End]
    read: _Read
    closer: str = ""
    is_typed: bool = False
    is_bare: bool = False


class ReplyParser:
    """Take a stream of text and gives its events. One reply each; not thread-safe.

    `family`: how calls are written, where that is not the template's own way (see ToolPrompt).
    `prompt`: the rendered prompt, which may end inside a thought. `tools`: names of the tools that the model
    was told of, with the types of their parameters where those are known; without any, nothing is a call.
    `new_id` makes the ids of calls.
    """

    def __init__(
        self,
        template: str,
        *,
        family: Family | None = None,
        prompt: str = "",
        tools: ToolTypes | Collection[str] = (),
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        self.family = family or family_of(template)
        self._new_id = new_id
        self._tools: ToolTypes = tools if isinstance(tools, Mapping) else {name: {} for name in tools}
        self._opens, self._closes = thinking_marks(template)
        self._forms = _FORMS.get(self.family, ()) if self._tools else ()
        if self._tools and self.family in _FENCING:
            self._forms += (_between("```json\n", "```", self._read_known),)
        self._openers = [form.opener for form in self._forms]
        self._buffer = ""
        self._form: _Form | None = None
        self._ends: _End = _never
        self._channel, self._recipient = _last_channel(prompt), ""
        # Blanks after a marker belong to the marker.
        self._swallows = False
        self._is_after_call = False  # a bare one: another may follow, a separator between
        self._state: Callable[[bool], list[ReplyEvent] | None] = self._start
        if self.family == "harmony":
            # The prompt may have begun the head of a message, or a whole one.
            self._state = self._opening if prompt.rstrip().endswith("assistant") else self._message
        elif ends_in_thought(template, prompt):
            self._state, self._swallows = self._thought, True

    def feed(self, piece: str) -> list[ReplyEvent]:
        """Add a piece; return the events that are certain by now."""
        self._buffer += piece
        return self._drain(last=False)

    def end(self) -> list[ReplyEvent]:
        """Return the remaining events, after the model ended its turn or was stopped."""
        return self._drain(last=True)

    def _drain(self, *, last: bool) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        while self._buffer:
            found = self._state(last)
            if found is None:
                break
            events += found
        return events

    def _take(self, n: int) -> str:
        taken, self._buffer = self._buffer[:n], self._buffer[n:]
        return taken

    # ---- states: each takes from the buffer or goes to another; None waits for more

    def _start(self, last: bool) -> list[ReplyEvent] | None:
        """Before the first word, where a thought or a bare JSON call may begin."""
        body = self._buffer.lstrip()
        blanks = len(self._buffer) - len(body)
        if not last and (not body or (self._opens.startswith(body) and body != self._opens)):
            return None
        separator = _SEPARATOR.match(body) if self._is_after_call else None
        if separator and separator.end() == len(body) and not last:
            return None
        self._is_after_call = False
        if body.startswith(self._opens):
            self._state, self._swallows = self._thought, True
            return [ReplyEvent("", self._take(blanks + len(self._opens)))]
        between = separator[0] if separator else ""
        if self._tools and self.family in _BARE and body.startswith(("{", "["), len(between)):
            self._enter(_Form(between, _json_call, self._read_known, is_bare=True))
        else:
            self._state = self._text
        return self._said(blanks, shown=not self._swallows) or []

    def _thought(self, last: bool) -> list[ReplyEvent] | None:
        if self._swallows and (blanks := self._blanks()):
            return [ReplyEvent("", blanks)]
        at = self._buffer.find(self._closes)
        if at >= 0:
            text = self._buffer[:at].rstrip()
            self._state, self._swallows = self._start, True
            return [ReplyEvent(Thought(text), self._take(at + len(self._closes)))]
        safe = len(self._buffer) - _held(self._buffer, [self._closes])
        safe = len(self._buffer[:safe].rstrip())
        text = self._take(len(self._buffer) if last else safe)
        return [ReplyEvent(Thought(text), text)] if text else None

    def _text(self, last: bool) -> list[ReplyEvent] | None:
        if self._swallows and (blanks := self._blanks()):
            return [ReplyEvent("", blanks)]
        found = [(at, form) for form in self._forms if (at := self._buffer.find(form.opener)) >= 0]
        if not found:
            return self._said(len(self._buffer) - (0 if last else _held(self._buffer, self._openers)))
        at, form = min(found, key=lambda pair: pair[0])
        self._enter(form)
        return self._said(at) or []

    def _enter(self, form: _Form) -> None:
        self._form, self._ends, self._state = form, form.ends(), self._call

    def _call(self, last: bool) -> list[ReplyEvent] | None:
        form = self._form
        assert form is not None
        begin = len(form.opener)
        end = self._ends(self._buffer[begin:_LONGEST_CALL])
        if end is None and len(self._buffer) < _LONGEST_CALL:
            if not last:
                return None
            end = len(self._buffer) - begin  # the end of the turn ends the call too
        self._state, self._form = self._text, None
        body = "" if end is None or end < 0 else self._buffer[begin : begin + end]
        calls = None if end is None or end < 0 else self._read(form, body)
        if calls is None:
            # Only the marker is certain to be text: behind it a call may begin.
            return self._said(begin or max(1, end or 0))
        self._swallows = True
        if form.is_bare:
            self._state, self._is_after_call = self._start, True
        return self._called(calls, self._take(begin + len(body)))

    def _read(self, form: _Form, body: str) -> list[Call] | None:
        text = body.removesuffix(form.closer)
        if not form.is_typed:
            return form.read(text)
        calls = form.read(text, self._tools)
        # A name alone may be a call that was cut short.
        is_cut = text == body and calls is not None and [name for name, _ in calls] == [text.strip()]
        return None if is_cut else calls

    def _called(self, calls: Sequence[Call], raw: str) -> list[ReplyEvent]:
        if not calls:
            return [ReplyEvent("", raw)]
        return [
            ReplyEvent(ToolCall(self._new_id(), name, arguments), "" if i else raw)
            for i, (name, arguments) in enumerate(calls)
        ]

    def _said(self, n: int, *, shown: bool = True) -> list[ReplyEvent] | None:
        text = self._take(n)
        return [ReplyEvent(text if shown else "", text)] if text else None

    def _blanks(self) -> str:
        """Blanks at the head of the buffer; without any, what comes next is no more swallowed."""
        n = len(self._buffer) - len(self._buffer.lstrip())
        self._swallows = n > 0
        return self._take(n)

    def _read_known(self, text: str) -> list[Call] | None:
        """Calls without marks are calls only when they name tools that there are."""
        calls = tool_calls.from_json(text)
        return calls if calls and all(name in self._tools for name, _ in calls) else None

    # ---- harmony: messages with heads

    def _opening(self, last: bool) -> list[ReplyEvent] | None:
        """Return the rest of a head that the prompt began, when it says whom it is to."""
        body = self._buffer.lstrip()
        if not last and "to=".startswith(body[:3]) and len(body) < 3:
            return None
        self._state = self._head if body.startswith("to=") else self._message
        return []

    def _message(self, last: bool) -> list[ReplyEvent] | None:
        """Return the content of a message, up to the head of the next."""
        found = [(at, mark) for mark in _MARKS if (at := self._buffer.find(mark)) >= 0]
        if not found:
            text = self._take(len(self._buffer) - (0 if last else _held(self._buffer, _MARKS)))
            return [self._in_channel(text)] if text else None
        at, mark = min(found)
        if at:
            return [self._in_channel(self._take(at))]
        if mark in _HEADS:
            self._state = self._head
            return []
        self._channel = "final"  # a message without a head is one to the user
        return [ReplyEvent("", self._take(len(mark)))]

    def _in_channel(self, text: str) -> ReplyEvent:
        return ReplyEvent(Thought(text) if self._channel == "analysis" else text, text)

    def _head(self, last: bool) -> list[ReplyEvent] | None:
        at = self._buffer.find("<|message|>", 0, _LONGEST_HEAD)
        if at < 0 and len(self._buffer) < _LONGEST_HEAD and not last:
            return None
        self._state = self._message
        if at < 0:
            return self._said(max(1, self._buffer.find("|>") + 2))
        head = self._buffer[: at + len("<|message|>")]
        channel, recipient = _CHANNEL.search(head), _RECIPIENT.search(head)
        self._channel = channel[1] if channel else "final"
        if recipient:
            self._recipient, self._state = recipient[1], self._message_to_tool
            return []
        self._take(len(head))
        return [ReplyEvent("", head)]

    def _message_to_tool(self, last: bool) -> list[ReplyEvent] | None:
        """Return the buffer begins with the head of a call."""
        begin = self._buffer.index("<|message|>") + len("<|message|>")
        found = [(at, m) for m in _CALL_ENDS if (at := self._buffer.find(m, begin, _LONGEST_CALL)) >= 0]
        if not found and not last and len(self._buffer) < _LONGEST_CALL:
            return None
        at, mark = min(found) if found else (min(len(self._buffer), _LONGEST_CALL), "")
        self._channel, self._state = "final", self._message
        calls = tool_calls.from_named_json(self._recipient, self._buffer[begin:at]) if self._tools else None
        raw = self._take(at if mark in _HEADS else at + len(mark))
        return [ReplyEvent(raw, raw)] if calls is None else self._called(calls, raw)


def _last_channel(prompt: str) -> str:
    """Return the channel of the message that a harmony prompt ends in."""
    if not prompt.endswith("<|message|>"):
        return "final"
    channels = _CHANNEL.findall(prompt)
    return str(channels[-1]) if channels else "final"


def _held(buffer: str, markers: Sequence[str]) -> int:
    """Return how many characters at the end may be the beginning of a marker."""
    longest = max((len(marker) for marker in markers), default=1) - 1
    for n in range(min(longest, len(buffer)), 0, -1):
        tail = buffer[-n:]
        if any(marker.startswith(tail) for marker in markers):
            return n
    return 0


# ---- where calls end


def _until(closer: str) -> Callable[[], _End]:
    def ends(text: str) -> int | None:
        at = text.find(closer)
        return None if at < 0 else at + len(closer)

    return lambda: ends


def _between(opener: str, closer: str, read: _Read, *, is_typed: bool = False) -> _Form:
    return _Form(opener, _until(closer), read, closer, is_typed=is_typed)


def _at_once() -> _End:
    return lambda text: 0


def _never(text: str) -> int | None:
    return None


def _json_call() -> _End:
    """Find the end of a JSON call. A value whose first key is none of a call is an answer."""
    scan = JSONEnd()

    def ends(text: str) -> int | None:
        first = _FIRST_KEY.match(text)
        if _NO_OBJECT.match(text) or (first and first[1] not in _FIRST_KEYS):
            return -1
        return scan.find(text)

    return ends


def _bracketed() -> _End:
    """Mistral: an array of calls, or a name and an object."""
    scan = JSONEnd()

    def ends(text: str) -> int | None:
        body = text.lstrip()
        blanks = len(text) - len(body)
        if not body.startswith(("[{", "[ {", "[\n", "{")):
            name = _NAMED.match(body)
            if name is None:
                return None if _BEGINS_NAME.fullmatch(body) or body in ("", "[", "[ ") else -1
            blanks += name.end() - 1
        at = scan.find(text[blanks:])
        return None if at is None else blanks + at

    return ends


def _deepseek(text: str) -> list[Call] | None:
    kind, separator, rest = text.partition(_DS_SEP)
    if not separator:
        return None
    if kind.strip() != "function":
        return tool_calls.from_named_json(kind, rest)
    name, _, arguments = rest.partition("\n")
    return tool_calls.from_named_json(name, arguments)


def _kimi(text: str) -> list[Call] | None:
    """functions.name:number, a mark, and the arguments."""
    name, separator, arguments = text.partition(_KIMI_SEP)
    name = name.strip().rpartition(":")[0].removeprefix("functions.")
    return tool_calls.from_named_json(name, arguments) if separator else None


def _named(text: str) -> list[Call] | None:
    name, separator, arguments = text.partition(">")
    return tool_calls.from_named_json(name, arguments) if separator else None


def _tagged(text: str) -> list[Call] | None:
    return tool_calls.from_json(text) or tool_calls.from_python(text)


def _nothing(text: str) -> list[Call] | None:
    return []


_NAMED = re.compile(r"[\w.:/-]{1,128}(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?\s*\{", re.ASCII)
_BEGINS_NAME = re.compile(
    r"[\w.:/-]{1,128}(?:\[[A-Z_]{0,7}\]?\w{0,64}(?:\[[A-Z]{0,4}\]?)?)?\s{0,8}", re.ASCII
)
_BARE = ("json", "llama3", "gemma")
_FENCING = ("json", "gemma")
_FORMS: dict[Family, tuple[_Form, ...]] = {
    "hermes": (_between("<tool_call>", "</tool_call>", tool_calls.from_marked, is_typed=True),),
    # Up to the end of the turn: calls separated by semicolons, or one in Python.
    "llama3": (_Form("<|python_tag|>", lambda: _never, _tagged),),
    "mistral": (_Form("[TOOL_CALLS]", _bracketed, tool_calls.from_bracketed),),
    "deepseek": (
        _Form(_DS_CALLS_BEGIN, _at_once, _nothing),
        _between(_DS_BEGIN, _DS_END, _deepseek),
        _Form(_DS_CALLS_END, _at_once, _nothing),
    ),
    "functiongemma": (
        _between("<start_function_call>", "<end_function_call>", tool_calls.from_functiongemma),
    ),
    "gemma4": (_between("<|tool_call>", "<tool_call|>", tool_calls.from_functiongemma),),
    "invoked": tuple(
        _between(f"<{name}>", f"</{name}>", tool_calls.from_invokes, is_typed=True)
        for name in ("minimax:tool_call", "\uff5cDSML\uff5ctool_calls", "\uff5cDSML\uff5cfunction_calls")
    ),
    "kimi": (
        _Form(_KIMI_CALLS_BEGIN, _at_once, _nothing),
        _between(_KIMI_BEGIN, _KIMI_END, _kimi),
        _Form(_KIMI_CALLS_END, _at_once, _nothing),
    ),
    "lfm2": (_between("<|tool_call_start|>", "<|tool_call_end|>", _tagged),),
    "command": (_between("<|START_ACTION|>", "<|END_ACTION|>", tool_calls.from_json),),
    "functionary": (_between("<function=", "</function>", _named),),
    "seed": (_between("<seed:tool_call>", "</seed:tool_call>", tool_calls.from_marked, is_typed=True),),
    "listed": (
        _between("<tool_calls>", "</tool_calls>", tool_calls.from_json),
        _between("<TOOLCALL>", "</TOOLCALL>", tool_calls.from_json),
    ),
    "gemma": (_between("```tool_code\n", "```", tool_calls.from_python),),
}

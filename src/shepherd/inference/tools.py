"""Tools in the prompt: descriptions, calls and results.

Templates differ: some accept tools, calls and results, some only part of that, and many nothing. A rendered
probe shows what a template accepts; the rest is written into the messages, in the format of Hermes models.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from shepherd.errors import TemplateError, UsageError
from shepherd.inference.template import ChatTemplate
from shepherd.replies import Family, family_of
from shepherd.types import Message, Tool, ToolCall

__all__ = ["Entry", "Prepared", "ToolPrompt", "check_tools", "one_call_each", "schema_of"]

_PROBE = "probe_of_shepherd"
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": _PROBE,
        "description": "probe",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    },
}
# Another name than the tool's, which is shown as well.
_CALLED, _RESULT, _ID = "call_by_shepherd", "result_for_shepherd", "123456789"
_KEY, _VALUE = "key_of_shepherd", "value_by_shepherd"
_USER = {"role": "user", "content": "question"}
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)

_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")

_INSTRUCTIONS = """\
You can call these tools:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments in this form:"""
# Of templates that show calls, and not the tools, the family's own form.
_EXAMPLES: dict[Family, str] = {
    "hermes": '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>',
    "mistral": '[TOOL_CALLS][{"name": "...", "arguments": {...}}]',
    "deepseek": (
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>...<\uff5ctool\u2581sep\uff5c>"
        "{...}<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>"
    ),
}


def check_tools(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Return the names of tools; UsageError for one that no model could call, or that is there twice."""
    names: dict[str, None] = {}  # in order
    for i, tool in enumerate(tools):
        if not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name):
            raise UsageError(
                f"tool {i} cannot be called {str(tool.name)[:80]!a}",
                hint="a name has up to 64 letters, digits, _, - and dots, and begins with a letter or _",
            )
        if tool.name in names:
            raise UsageError(f"tool {tool.name!r} is there twice", hint="give each tool a name of its own")
        names[tool.name] = None
    return tuple(names)


def schema_of(tool: Tool) -> dict[str, Any]:
    """Return the tool in OpenAI's form, as templates know it."""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def one_call_each(messages: Sequence[Message]) -> tuple[list[int], list[Message]]:
    """Return the conversation with one call per message, and the index of each message's origin."""
    owners: list[int] = []
    single: list[Message] = []
    # A result belongs to the last call of its id before it.
    results: dict[tuple[int, str], int] = {}
    callers: dict[str, int] = {}
    for i, message in enumerate(messages):
        callers |= dict.fromkeys((call.id for call in message.tool_calls), i)
        if message.role == "tool" and message.tool_call_id in callers:
            results[callers[message.tool_call_id], message.tool_call_id] = i
    moved: set[int] = set()
    for i, message in enumerate(messages):
        calls = message.tool_calls
        if len(calls) < 2:
            if i not in moved:
                owners.append(i)
                single.append(message)
            continue
        for n, call in enumerate(calls):
            owners.append(i)
            single.append(Message("assistant", "" if n else message.raw, tool_calls=(call,)))
            result = results.get((i, call.id))
            if result is not None and result not in moved:
                moved.add(result)
                owners.append(result)
                single.append(messages[result])
    return owners, single


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as the template gets it. `owners`: the messages it is made of."""

    role: str
    text: str
    owners: tuple[int, ...]
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Entries to render, and the tools as the template takes them; None where it takes none."""

    entries: list[Entry]
    tools: list[dict[str, Any]] | None


class ToolPrompt:
    """Messages with tools, as one chat template takes them. Probes are rendered when first needed."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template

    @property
    def family(self) -> Family:
        """Return how the model will write its calls: as the template says, else as our instructions do."""
        family = self._family_of_template
        knows = self.takes_tools or (self.takes_calls and family in _EXAMPLES)
        # Calls that no template shows are written in our own form into the answers.
        is_ours = family == "json" and not self.takes_calls
        return family if knows and not is_ours else "hermes"

    @cached_property
    def takes_tools(self) -> bool:
        """Return whether the template shows the tools to the model."""
        return _PROBE in self._probe([_USER])

    @cached_property
    def takes_results(self) -> bool:
        """Return whether the template has a place for messages of role "tool" that it knows of."""
        if not (self.takes_tools or self.takes_calls):
            return False  # it prints any role, but no model was taught this one
        arguments: object = {_KEY: _VALUE}
        if self._arguments_form == "text":
            arguments = json.dumps(arguments)
        result = {"role": "tool", "content": _RESULT, "tool_call_id": _ID, "name": _PROBE}
        return _RESULT in self._probe([*_called(arguments), result])

    @cached_property
    def takes_calls(self) -> bool:
        """Return whether the template shows the calls of earlier answers."""
        return self._arguments_form is not None

    def prepare(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Prepared:
        """Return what to render. Without tools and calls the messages are role and content, one for one."""
        check_tools(tools)
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        entries: list[Entry] = []
        for i, message in enumerate(messages):
            entry = self._entry(message, i, names)
            entries.append(entry)
        if not self.takes_results:
            entries = _with_joined_results(entries, messages)
        if not tools:
            return Prepared(entries, None)
        shown = [schema_of(tool) for tool in tools]
        if self.takes_tools:
            return Prepared(entries, shown)
        return Prepared(_with_instructions(entries, shown, _EXAMPLES[self.family]), None)

    def _entry(self, message: Message, i: int, names: Mapping[str, str]) -> Entry:
        if message.role == "tool":
            if not self.takes_results:
                return Entry("user", f"<tool_response>\n{message.sent}\n</tool_response>", (i,))
            more = {"tool_call_id": self._shown_id(message.tool_call_id)}
            return Entry("tool", message.sent, (i,), {**more, "name": names.get(message.tool_call_id, "")})
        if not message.tool_calls:
            return Entry(message.role, message.sent, (i,))
        if self.takes_calls:
            calls = [self._shown(call) for call in message.tool_calls]
            return Entry(message.role, message.sent, (i,), {"tool_calls": calls})
        marked = "\n".join(_marked(call) for call in message.tool_calls)
        return Entry(message.role, f"{message.sent}\n{marked}" if message.sent else marked, (i,))

    def _shown(self, call: ToolCall) -> dict[str, Any]:
        arguments: Any = call.arguments
        if self._arguments_form == "object":
            arguments = _object_of(call.arguments)
        function = {"name": call.name, "arguments": arguments}
        return {"id": self._shown_id(call.id), "type": "function", "function": function}

    def _shown_id(self, call_id: str) -> str:
        """Return a call's id as the template takes it: Mistral's accept only nine letters and digits."""
        if self._family_of_template != "mistral" or _MISTRAL_ID.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]

    @cached_property
    def _family_of_template(self) -> Family:
        return family_of(self._template.source)

    @cached_property
    def _arguments_form(self) -> str | None:
        """ "object" or "text", as the template wants arguments; None when it shows no calls."""
        if _shows_call(self._probe(_called({_KEY: _VALUE}))):
            return "object"
        return "text" if _shows_call(self._probe(_called(json.dumps({_KEY: _VALUE})))) else None

    def _probe(self, messages: list[dict[str, Any]]) -> str:
        """Return the rendering; empty when the template refuses."""
        try:
            return self._template.render(messages, add_generation_prompt=False, tools=[_PROBE_TOOL])
        except TemplateError:
            return ""


def _called(arguments: object) -> list[dict[str, Any]]:
    function = {"name": _CALLED, "arguments": arguments}
    call = {"id": _ID, "type": "function", "function": function}
    return [_USER, {"role": "assistant", "content": "", "tool_calls": [call]}]


def _shows_call(text: str) -> bool:
    # Text that went through tojson has its quotes escaped, an object that was printed has Python's.
    is_wrong = f'\\"{_KEY}' in text or f"{{'{_KEY}" in text
    return _CALLED in text and _KEY in text and _VALUE in text and not is_wrong


def _marked(call: ToolCall) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'


def _object_of(arguments: str) -> dict[str, Any]:
    """Arguments as an object; those of remote models and of clients may be anything."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


def _with_joined_results(entries: Sequence[Entry], messages: Sequence[Message]) -> list[Entry]:
    """Join results in sequence: templates without a place for them want user and assistant by turns."""
    joined: list[Entry] = []
    for is_result, group in groupby(entries, key=lambda entry: messages[entry.owners[0]].role == "tool"):
        if is_result:
            parts = list(group)
            text = "\n".join(part.text for part in parts)
            joined.append(Entry("user", text, tuple(part.owners[0] for part in parts)))
        else:
            joined += group
    return joined


def _with_instructions(entries: list[Entry], tools: Sequence[Mapping[str, Any]], example: str) -> list[Entry]:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    text = f"{_INSTRUCTIONS.format(tools=listed)}\n{example}"
    if entries and entries[0].role == "system":
        first = entries[0]
        return [Entry("system", f"{first.text}\n\n{text}", first.owners), *entries[1:]]
    return [Entry("system", text, ()), *entries]

"""Tools in the prompt: what the model may call, what it has called, and what came of it.

Templates differ: some take tools, calls and results, some only part of that, many nothing. What a template
takes is found by rendering a probe; the rest is written into the messages, as Hermes models were taught.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from shepherd.errors import TemplateError, UsageError
from shepherd.inference.replies import Family, family_of
from shepherd.inference.template import ChatTemplate
from shepherd.types import Message, ToolCall

__all__ = ["ToolPrompt", "check_tools", "map_strings"]

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
_ARGUMENT = re.compile(r'"key"\s*:\s*"value"|<parameter=key>|<arg_key>key|\bkey:<escape>value')
_USER = {"role": "user", "content": "question"}
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)

_INSTRUCTIONS = """\
You can call these tools:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments as a JSON object between marks:
<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>"""


def check_tools(tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of tools in OpenAI's form; UsageError for what is none, or is there twice."""
    names = []
    for i, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(
                f"tool {i} has no usable name",
                hint='write it as {"type": "function", "function": {"name": "letters_and_digits", ...}}',
            )
        if name in names:
            raise UsageError(f"tool {name!r} is there twice", hint="give each tool a name of its own")
        names.append(name)
    return tuple(names)


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every string in it changed, keys too; to make harmless what people wrote."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {map_strings(key, change): map_strings(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_strings(entry, change) for entry in value]
    return value


class ToolPrompt:
    """Messages with tools, as one chat template takes them. Probes are rendered when first needed."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template

    @property
    def family(self) -> Family:
        """How the model will write its calls: as the template says, else as our instructions do."""
        return family_of(self._template.source) if self.takes_tools else "hermes"

    @cached_property
    def takes_tools(self) -> bool:
        """Whether the template shows the tools to the model."""
        return _PROBE in self._probe([_USER])

    @cached_property
    def takes_results(self) -> bool:
        """Whether the template has a place for messages of role "tool" that it knows of."""
        if not (self.takes_tools or self.takes_calls):
            return False  # it prints any role, but no model was taught this one
        arguments: object = '{"key": "value"}' if self._arguments_form == "text" else {"key": "value"}
        result = {"role": "tool", "content": _RESULT, "tool_call_id": _ID, "name": _PROBE}
        return _RESULT in self._probe([*_called(arguments), result])

    @cached_property
    def takes_calls(self) -> bool:
        """Whether the template shows the calls of earlier answers."""
        return self._arguments_form is not None

    def prepare(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        """What to render: messages and tools, for `ChatTemplate.render`.

        Without tools and calls the messages are role and content, one for one.
        """
        check_tools(tools)
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        prepared: list[dict[str, Any]] = []
        for message in messages:
            entry = self._entry(message, names)
            # Templates without a place for results want user and assistant by turns.
            if message.role == "tool" and entry["role"] == "user" and prepared and _is_result(prepared[-1]):
                prepared[-1]["content"] += "\n" + entry["content"]
            else:
                prepared.append(entry)
        if not tools:
            return prepared, None
        if self.takes_tools:
            return prepared, [dict(tool) for tool in tools]
        return _with_instructions(prepared, tools), None

    def _entry(self, message: Message, names: Mapping[str, str]) -> dict[str, Any]:
        entry: dict[str, Any] = {"role": message.role, "content": message.sent}
        if message.role == "tool":
            name = names.get(message.tool_call_id, "")
            if self.takes_results:
                return {**entry, "tool_call_id": message.tool_call_id, "name": name}
            return {"role": "user", "content": f"<tool_response>\n{message.sent}\n</tool_response>"}
        if not message.tool_calls:
            return entry
        if self.takes_calls:
            return {**entry, "tool_calls": [self._shown(call) for call in message.tool_calls]}
        calls = "\n".join(_marked(call) for call in message.tool_calls)
        return {**entry, "content": f"{message.sent}\n{calls}" if message.sent else calls}

    def _shown(self, call: ToolCall) -> dict[str, Any]:
        arguments: Any = call.arguments
        if self._arguments_form == "object":
            arguments = json.loads(call.arguments)
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}

    @cached_property
    def _arguments_form(self) -> str | None:
        """Whether the template wants arguments as an object or as text; None when it shows no calls."""
        if _shows_call(self._probe(_called({"key": "value"}))):
            return "object"
        return "text" if _shows_call(self._probe(_called('{"key": "value"}'))) else None

    def _probe(self, messages: list[dict[str, Any]]) -> str:
        """The rendering; empty when the template refuses."""
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
    return _CALLED in text and _ARGUMENT.search(text) is not None


def _marked(call: ToolCall) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'


def _is_result(entry: Mapping[str, Any]) -> bool:
    return entry["role"] == "user" and str(entry["content"]).endswith("</tool_response>")


def _with_instructions(
    messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    text = _INSTRUCTIONS.format(tools=listed)
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]

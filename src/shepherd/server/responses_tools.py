"""Tools of OpenAI's Responses API: functions, custom tools, which take plain text, and both in namespaces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shepherd.server.errors import Denied, invalid
from shepherd.server.http import LenientBody
from shepherd.server.limits import MOST_TOOLS
from shepherd.types import Tool, ToolCall

__all__ = ["NamedTool", "OfferedTool", "ToolBody", "full_name", "input_arguments", "item_of", "offered_by"]

# Agents such as Codex offer these beside their own functions, whether the service has them or not.
_PASSED_OVER = frozenset({"web_search", "web_search_preview", "image_generation", "tool_search"})
_SEPARATOR = "__"
_TEXT_ALONE: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


class ToolBody(LenientBody):
    """A tool as the client offers it; its type says which fields count."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    format: dict[str, Any] | None = None
    tools: list[ToolBody] | None = None


class NamedTool(LenientBody):
    """A tool that the model has to call."""

    type: str
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class OfferedTool:
    """A tool as the model reads it, and its names for the client."""

    tool: Tool
    name: str
    namespace: str
    is_custom: bool


def item_of(call: ToolCall, offered: OfferedTool | None) -> dict[str, Any]:
    """Return the fields of the item of a call; `offered` is None for a tool that was not offered."""
    if offered is None:
        return {"type": "function_call", "name": call.name, "arguments": call.arguments}
    named = {"name": offered.name, **({"namespace": offered.namespace} if offered.namespace else {})}
    if offered.is_custom:
        return {"type": "custom_tool_call", **named, "input": _input_of(call)}
    return {"type": "function_call", **named, "arguments": call.arguments}


def full_name(name: str, namespace: str) -> str:
    """Return the name that the model reads."""
    if not namespace or namespace.endswith(_SEPARATOR):
        return namespace + name
    return f"{namespace}{_SEPARATOR}{name}"


def input_arguments(text: str) -> str:
    """Return the arguments of a call of a custom tool."""
    return json.dumps({"input": text}, ensure_ascii=False)


def offered_by(tools: Sequence[ToolBody]) -> dict[str, OfferedTool]:
    """Return the tools by the names that the model reads. Denied for those that OpenAI's service runs.

    Web search and the like are passed over if the client has tools of its own.
    """
    offered = {one.tool.name: one for one in _offered(tools, "tools")}
    for i, tool in enumerate(tools):
        if tool.type in _PASSED_OVER and not offered:
            raise _denied(tool, f"tools.{i}")
    if len(offered) > MOST_TOOLS:
        raise invalid("tools", f"there are more than {MOST_TOOLS}, with those in namespaces and items")
    return offered


def _offered(tools: Iterable[ToolBody], place: str, namespace: str = "") -> Iterator[OfferedTool]:
    for i, tool in enumerate(tools):
        if tool.type == "namespace" and tool.name and not namespace:
            yield from _offered(tool.tools or (), f"{place}.{i}.tools", tool.name)
        elif tool.type in ("function", "custom") and tool.name:
            yield OfferedTool(_tool_of(tool, namespace), tool.name, namespace, tool.type == "custom")
        elif tool.type not in _PASSED_OVER:
            raise _denied(tool, f"{place}.{i}")


def _tool_of(tool: ToolBody, namespace: str) -> Tool:
    name, description = full_name(tool.name, namespace), tool.description or ""
    if tool.type == "function":
        return Tool(name, description, tool.parameters or {"type": "object", "properties": {}})
    # A grammar can't be enforced, but the model can read it.
    grammar = (tool.format or {}).get("definition")
    described = f"{description}\n\nThe input follows this grammar:\n{grammar}" if grammar else description
    return Tool(name, described, _TEXT_ALONE)


def _input_of(call: ToolCall) -> str:
    """Return the text that a custom tool is called with; what the model wrote if that has no such field."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return call.arguments
    text = arguments.get("input") if isinstance(arguments, dict) else None
    return text if isinstance(text, str) else call.arguments


def _denied(tool: ToolBody, place: str) -> Denied:
    message = f"{place}: this server runs no tools of type {tool.type[:40]!a}, only your functions"
    return Denied(400, "unsupported_parameter", message, param="tools")

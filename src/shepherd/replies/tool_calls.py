"""Tool calls as models write them, family by family: from the text of one or several to names and arguments.

Nothing here knows of streams; replies.py finds where a call begins and ends. A text that is no call gives
None, and whoever asked shows it as text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "Call",
    "JSONEnd",
    "from_bracketed",
    "from_functiongemma",
    "from_invokes",
    "from_json",
    "from_marked",
    "from_named_json",
    "from_python",
]

# A name and its arguments as a JSON object.
Call = tuple[str, str]

_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}", re.ASCII)
_FENCED = re.compile(r"\s*```(?:json|tool_code|python)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_XML_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
_XML_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_ARGUMENT_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_GEMMA_CALL = re.compile(r"\s*call:([\w.:/-]+)\{(.*)\}\s*", re.DOTALL)
_GEMMA_VALUE = re.compile(r"\s*,?\s*([\w.-]+):(?:<escape>(.*?)<escape>|([^,{}\[\]]*))", re.DOTALL)
_INVOKE = re.compile(
    r'<(?:\uff5cDSML\uff5c)?invoke name="([^"\n]+)">(.*?)</(?:\uff5cDSML\uff5c)?invoke>', re.DOTALL
)
_INVOKE_PARAMETER = re.compile(
    r'<(?:\uff5cDSML\uff5c)?parameter name="([^"\n]+)"(?: string="(true|false)")?>(.*?)'
    r"</(?:\uff5cDSML\uff5c)?parameter>",
    re.DOTALL,
)
_CALL_KEYS = ("function", "tool_call", "tool", "call")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")


class JSONEnd:
    """Finds where the JSON object or array ends that begins a text which comes in pieces."""

    def __init__(self) -> None:
        self._at = self._depth = 0
        self._in_string = self._escaped = False

    def find(self, text: str) -> int | None:
        """The end, if `text`, beginning with what was shown before, has it; reads each character once."""
        for i in range(self._at, len(text)):
            character = text[i]
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = character == "\\"
                self._in_string = character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self._at = i
                    return i + 1
        self._at = len(text)
        return None


def from_json(text: str) -> list[Call] | None:
    """Calls written as one JSON object, an array of them, or several, in any of the usual spellings."""
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    values = _json_values(text)
    if values is None:
        return None
    found: list[Call] = []
    for value in values:
        calls = _calls_of(value)
        if calls is None:
            return None
        found += calls
    return found or None


def from_named_json(name: str, arguments: str) -> list[Call] | None:
    """One call whose name stands before its arguments: Mistral, DeepSeek, harmony."""
    if fenced := _FENCED.fullmatch(arguments):
        arguments = fenced[1]
    values = _json_values(arguments) if arguments.strip() else [{}]
    if values is None or len(values) != 1:
        return None
    call = _call(name.strip(), values[0])
    return None if call is None else [call]


def from_marked(text: str) -> list[Call] | None:
    """What stands between <tool_call> marks: JSON (Hermes, Qwen), or tags (Qwen3-Coder, GLM)."""
    if calls := from_json(text):
        return calls
    if function := _XML_FUNCTION.fullmatch(text):
        values = {key.strip(): _value(value) for key, value in _XML_PARAMETER.findall(function[2])}
        rest = _XML_PARAMETER.sub("", function[2])
        call = None if rest.strip() else _call(function[1].strip(), values)
        return None if call is None else [call]
    name, _, rest = text.strip().partition("\n" if "\n" in text.strip() else "<")
    rest = text.strip()[len(name) :]
    if "<arg_key>" not in rest or _ARGUMENT_PAIR.sub("", rest).strip():
        return None
    values = {key.strip(): _value(value) for key, value in _ARGUMENT_PAIR.findall(rest)}
    call = _call(name.strip(), values)
    return None if call is None else [call]


def from_invokes(text: str) -> list[Call] | None:
    """Calls as tags: <invoke name="add"><parameter name="a">1</parameter></invoke> (MiniMax, DeepSeek)."""
    calls: list[Call] = []
    for name, body in _INVOKE.findall(text):
        values = {
            key: value if is_text == "true" else _value(value)
            for key, is_text, value in _INVOKE_PARAMETER.findall(body)
        }
        call = None if _INVOKE_PARAMETER.sub("", body).strip() else _call(name, values)
        if call is None:
            return None
        calls.append(call)
    return calls if calls and not _INVOKE.sub("", text).strip() else None


def from_bracketed(text: str) -> list[Call] | None:
    """What follows Mistral's [TOOL_CALLS]: an array of calls, or name[CALL_ID]id[ARGS]{...}."""
    if text.lstrip().startswith(("[{", "[ {", "[\n", "{")):
        return from_json(text)
    name, marker, arguments = text.partition("[ARGS]")
    if not marker:
        name, arguments = text[: text.find("{")], text[max(0, text.find("{")) :]
    return from_named_json(name.partition("[CALL_ID]")[0], arguments)


def from_python(text: str) -> list[Call] | None:
    """Calls in Python with literal arguments: name(key="value"), a list of them, Llama's name.call(...)."""
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
    calls = [_python_call(node) for node in nodes]
    return [call for call in calls if call is not None] if calls and all(calls) else None


def from_functiongemma(text: str) -> list[Call] | None:
    """What stands between Gemma's marks: call:name{key:<escape>text<escape>,key:1}, or with <|"|>."""
    found = _GEMMA_CALL.fullmatch(text.replace('<|"|>', "<escape>"))
    if found is None:
        return None
    values: dict[str, Any] = {}
    at, body = 0, found[2]
    while at < len(body):
        pair = _GEMMA_VALUE.match(body, at)
        if pair is None:
            return None
        values[pair[1]] = pair[2] if pair[2] is not None else _value(pair[3])
        at = pair.end()
    call = _call(found[1], values)
    return None if call is None else [call]


def _python_call(node: ast.expr) -> Call | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    name = ast.unparse(node.func)
    try:
        values = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if len(values) != len(node.keywords):
        return None
    # Llama's built-in tools: brave_search.call(query="...").
    return _call(name.removesuffix(".call"), values)


def _calls_of(value: object) -> list[Call] | None:
    if isinstance(value, list):
        parts = [_calls_of(part) for part in value]
        return None if None in parts else [call for part in parts if part for call in part]
    if not isinstance(value, Mapping):
        return None
    if "tool_calls" in value:
        return _calls_of(value["tool_calls"])
    for key in _CALL_KEYS:
        if isinstance(value.get(key), Mapping):
            return _calls_of(value[key])
    # {"type": "function", "function": "name", "parameters": {...}}
    name = value.get("name", value.get("function", value.get("tool_name")))
    arguments = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if not isinstance(name, str) or arguments is None:
        return None
    call = _call(name, arguments)
    return None if call is None else [call]


def _call(name: str, arguments: object) -> Call | None:
    if isinstance(arguments, str):  # JSON within JSON
        inner = _json_values(arguments)
        arguments = inner[0] if inner is not None and len(inner) == 1 else arguments
    if not isinstance(arguments, Mapping) or not _NAME.fullmatch(name):
        return None
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        text = json.dumps(arguments)
    except (ValueError, TypeError, RecursionError):
        return None
    return name, text


def _json_values(text: str) -> list[object] | None:
    """The JSON values in `text`, blanks, commas and semicolons between; None if there is anything else."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    values: list[object] = []
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or (values and text[at] in ",;")):
            at += 1
        if at == len(text):
            return values or None
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        values.append(value)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _value(text: str) -> object:
    """A value that was written without quotes: JSON where it is, else the text itself."""
    values = _json_values(text)
    return values[0] if values is not None and len(values) == 1 else text

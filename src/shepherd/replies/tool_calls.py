"""Tool calls as models write them, family by family: from the text of one or several to names and arguments.

Nothing here knows of streams; replies.py finds where a call begins and ends. A text that is no call gives
None, and the caller shows it as text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence

__all__ = [
    "Call",
    "JSONEnd",
    "ToolTypes",
    "from_bracketed",
    "from_functiongemma",
    "from_invokes",
    "from_json",
    "from_marked",
    "from_named_json",
    "from_python",
    "parameter_types",
    "types_of_arguments",
]

# A name and its arguments as a JSON object.
Call = tuple[str, str]
# Of each tool, by its name, the JSON types that its parameters may have; one that is not there may have any.
ToolTypes = Mapping[str, Mapping[str, frozenset[str]]]

_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}", re.ASCII)
_FENCED = re.compile(r"\s*```(?:json|tool_code|python)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_XML_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
_XML_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_ARGUMENTS_BEGIN = re.compile(r"\n|<arg_key>")
_ARGUMENT_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_GEMMA_CALL = re.compile(r"\s*call:([\w.:/-]+)(?=\{)")
_GEMMA_QUOTES = ("<escape>", '<|"|>')
_GEMMA_KEY = re.compile(r"([\w.-]+):")
_GEMMA_BARE = re.compile(r"[^,{}\[\]]*")
_GEMMA_COMMA = re.compile(r"\s*,?\s*")
_GEMMA_DEPTH = 64
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
    """Find where the JSON object or array ends that begins a text which comes in pieces."""

    def __init__(self) -> None:
        self._at = self._depth = 0
        self._in_string = self._escaped = False

    def find(self, text: str) -> int | None:
        """Return the end, if `text`, which extends the text of the last call, has it. Linear in all."""
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


def parameter_types(parameters: object) -> Mapping[str, frozenset[str]]:
    """Return the types of a tool's parameters, out of their JSON schema, as far as it tells them plainly."""
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    found = {name: _types_of(schema) for name, schema in properties.items()}
    return {name: types for name, types in found.items() if types}


def types_of_arguments(calls: Sequence[Call]) -> ToolTypes:
    """Return the types of these calls' arguments, so that parsing them again gives the same values."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for name, arguments in calls:
        types = found.setdefault(name, {})
        values = _json_values(arguments)
        for key, value in values[0].items() if values and isinstance(values[0], Mapping) else ():
            types[key] = types.get(key, frozenset()) | {_type_of(value)}
    return found


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


def from_marked(text: str, tools: ToolTypes) -> list[Call] | None:
    """Read the text between <tool_call> marks: JSON (Hermes, Qwen), or tags (Qwen3-Coder, GLM).

    A name alone is a call when it is that of a tool.
    """
    if calls := from_json(text):
        return calls
    if function := _XML_FUNCTION.fullmatch(text):
        name = function[1].strip()
        rest = _XML_PARAMETER.sub("", function[2])
        values = _typed(_XML_PARAMETER.findall(function[2]), tools.get(name, {}))
        call = None if rest.strip() else _call(name, values)
        return None if call is None else [call]
    text = text.strip()
    begin = _ARGUMENTS_BEGIN.search(text)
    name = text if begin is None else text[: begin.start()].strip()
    rest = "" if begin is None else text[begin.start() :]
    if _ARGUMENT_PAIR.sub("", rest).strip() or not (rest or name in tools):
        return None
    call = _call(name, _typed(_ARGUMENT_PAIR.findall(rest), tools.get(name, {})))
    return None if call is None else [call]


def from_invokes(text: str, tools: ToolTypes) -> list[Call] | None:
    """Calls as tags: <invoke name="add"><parameter name="a">1</parameter></invoke> (MiniMax, DeepSeek)."""
    calls: list[Call] = []
    for name, body in _INVOKE.findall(text):
        types = tools.get(name, {})
        values: dict[str, object] = {}
        for key, is_text, value in _INVOKE_PARAMETER.findall(body):
            may_be = frozenset() if is_text else types.get(key, frozenset())
            values[key] = value if is_text == "true" else _value(value, may_be)
        call = None if _INVOKE_PARAMETER.sub("", body).strip() else _call(name, values)
        if call is None:
            return None
        calls.append(call)
    return calls if calls and not _INVOKE.sub("", text).strip() else None


def from_bracketed(text: str) -> list[Call] | None:
    """Read the text after Mistral's [TOOL_CALLS]: an array of calls, or name[CALL_ID]id[ARGS]{...}."""
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
    """Read the text between Gemma's marks: call:name{key:<escape>text<escape>,key:1}, or with <|"|>."""
    found = _GEMMA_CALL.match(text)
    if found is None:
        return None
    try:
        values, end = _gemma_value(text, found.end())
    except ValueError:
        return None
    call = None if text[end:].strip() else _call(found[1], values)
    return None if call is None else [call]


def _gemma_value(text: str, at: int, depth: int = 0) -> tuple[object, int]:
    """Return the value that begins at `at`, and its end: {key:value}, [value], text in marks, or bare.

    ValueError where there is none.
    """
    if depth > _GEMMA_DEPTH:
        raise ValueError("too deep")
    if text.startswith(_GEMMA_QUOTES, at):
        return _gemma_text(text, at)
    if text[at : at + 1] not in ("{", "["):
        end = _require(_GEMMA_BARE.match(text, at)).end()
        return _value(text[at:end]), end
    is_object = text[at] == "{"
    values: dict[str, object] = {}
    at = _require(_GEMMA_COMMA.match(text, at + 1)).end()
    while not text.startswith("}" if is_object else "]", at):
        key = str(len(values))  # in a list its place
        if is_object and text.startswith(_GEMMA_QUOTES, at):
            key, at = _gemma_text(text, at)
            at = text.index(":", at, at + 1) + 1
        elif is_object:
            named = _require(_GEMMA_KEY.match(text, at))
            key, at = named[1], named.end()
        begin = at
        values[key], at = _gemma_value(text, at, depth + 1)
        if at == begin and not is_object:
            raise ValueError("a list with nothing in a place")
        at = _require(_GEMMA_COMMA.match(text, at)).end()
    return (values if is_object else list(values.values())), at + 1


def _gemma_text(text: str, at: int) -> tuple[str, int]:
    quote = next(quote for quote in _GEMMA_QUOTES if text.startswith(quote, at))
    end = text.index(quote, at + len(quote))
    return text[at + len(quote) : end], end + len(quote)


def _require(found: re.Match[str] | None) -> re.Match[str]:
    if found is None:
        raise ValueError("not as Gemma writes it")
    return found


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
    """Return the JSON values in `text`, separated by blanks, commas and semicolons; None for other text."""
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
    raise ValueError(f"{constant} is not JSON")


def _typed(pairs: Sequence[tuple[str, str]], types: Mapping[str, frozenset[str]]) -> dict[str, object]:
    return {key.strip(): _value(value, types.get(key.strip(), frozenset())) for key, value in pairs}


def _value(text: str, types: frozenset[str] = frozenset()) -> object:
    """Return a value that was written without quotes: JSON where it is, else the text itself.

    Where it may be a string, and not what it would be as JSON, it is the text: a postal code, the content of
    a file, words in quotes.
    """
    values = _json_values(text)
    value = values[0] if values is not None and len(values) == 1 else text
    if "string" not in types:
        return value
    kind = _type_of(value)
    allowed = types | {"integer"} if "number" in types else types
    return text if kind == "string" or kind not in allowed else value


def _types_of(schema: object) -> frozenset[str]:
    """Return the JSON types that a schema allows; none where it does not say."""
    if not isinstance(schema, Mapping):
        return frozenset()
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset((named,))
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))
    choices = schema.get("anyOf", schema.get("oneOf"))
    types = [_types_of(choice) for choice in choices] if isinstance(choices, list) else []
    return frozenset[str]().union(*types) if all(types) else frozenset()


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = ((str, "string"), (int, "integer"), (float, "number"), (list, "array"), (Mapping, "object"))
    return next((name for kind, name in names if isinstance(value, kind)), "null")

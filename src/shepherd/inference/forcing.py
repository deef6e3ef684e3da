"""The grammar of an answer that is a tool call, in the form in which a family of models writes calls."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from shepherd.errors import UsageError
from shepherd.inference.grammar import rename_rules, schema_to_grammar
from shepherd.replies import Family
from shepherd.types import Tool

__all__ = ["call_grammar"]

_DS = "\uff5c"
# What stands before and after the arguments of a call; NAME is the tool's.
_FORMS: dict[Family, tuple[str, str]] = {
    "hermes": ('<tool_call>\n{"name": "NAME", "arguments": ', "}\n</tool_call>"),
    "llama3": ('{"name": "NAME", "parameters": ', "}"),
    "json": ('{"name": "NAME", "arguments": ', "}"),
    "gemma": ('```json\n{"name": "NAME", "parameters": ', "}\n```"),
    "mistral": ('[TOOL_CALLS][{"name": "NAME", "arguments": ', "}]"),
    "listed": ('<tool_calls>\n{"name": "NAME", "arguments": ', "}\n</tool_calls>"),
    "command": ('<|START_ACTION|>[{"tool_name": "NAME", "parameters": ', "}]<|END_ACTION|>"),
    "functionary": ("<function=NAME>", "</function>"),
    "harmony": ("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>", ""),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>",
        "<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "deepseek": (
        f"<{_DS}tool\u2581calls\u2581begin{_DS}><{_DS}tool\u2581call\u2581begin{_DS}>NAME<{_DS}tool\u2581sep{_DS}>",
        f"<{_DS}tool\u2581call\u2581end{_DS}><{_DS}tool\u2581calls\u2581end{_DS}>",
    ),
}


def call_grammar(tools: Sequence[Tool], family: Family, controls: dict[str, int], name: str = "") -> str:
    """GBNF of one call of any of these tools, or of the one of that name, its arguments by its schema.

    `controls`: the vocabulary's control tokens, which the markers are where they are among them. UsageError
    for an unknown name, a family whose calls are no JSON, and for schemas that no grammar can say.
    """
    chosen = [tool for tool in tools if not name or tool.name == name]
    if not chosen:
        raise UsageError("there is no tool of the name that must be called", hint="name one of the tools")
    if family not in _FORMS:
        raise UsageError(
            f"this model writes calls in a form that cannot be forced ({family})", hint="leave it the choice"
        )
    before, after = _FORMS[family]
    rules = []
    for i, tool in enumerate(chosen):
        parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
        rules.append(rename_rules(schema_to_grammar(parameters), f"t{i}-"))
        begin, end = (_literal(text.replace("NAME", tool.name), controls) for text in (before, after))
        rules.append(f"call{i} ::= {begin} t{i}-root {end}")
    choice = " | ".join(f"call{i}" for i in range(len(chosen)))
    return "\n".join([f"root ::= {choice}", *rules])


def _literal(text: str, controls: dict[str, int]) -> str:
    """The text as GBNF, its control tokens as themselves."""
    marks = sorted((mark for mark in controls if mark in text), key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, marks))})", text) if marks else [text]
    return " ".join(
        f"<[{controls[part]}]>" if part in controls else json.dumps(part, ensure_ascii=False)
        for part in parts
        if part
    )

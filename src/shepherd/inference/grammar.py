"""Grammars that an answer must follow: GBNF, llama.cpp's own notation, and JSON schemas turned into it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from shepherd.errors import UsageError
from shepherd.inference.binding import last_error
from shepherd.inference.pattern_grammar import MOST_REPEATED, literal
from shepherd.inference.sampler import Lending
from shepherd.inference.schema_grammar import SchemaError, gbnf_of_schema
from shepherd.replies import Family
from shepherd.types import Tool

__all__ = ["GrammarCache", "call_grammar", "check_grammar", "rename_rules", "schema_to_grammar"]


_ROOT = b"root"
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#[^\n]*)
      | (?P<head>[a-zA-Z0-9-]+)(?=[ \t]*::=) | (?P<is>::=)
      | (?P<name>[a-zA-Z0-9-]+)
      | (?P<text>"(?:[^"\\]|\\.)*" | \[(?:[^\]\\]|\\.)*\] | \. | !?<[^<>\s]+>)
      | (?P<open>\() | (?P<close>\))
      | \{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\}
      | (?P<other>[|*+?])""",
    re.VERBOSE | re.DOTALL,
)
_BAD_ESCAPE = re.compile(
    r"""(?<!\\)(?:\\\\)*(\\(?!["\\\[\]nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}).?)""", re.DOTALL
)
# llama.cpp's parser and its check for left recursion call themselves once per level; some thousands of levels
# end the process.
_DEEPEST, _MOST_RULES, _MOST_BYTES = 200, 2000, 1 << 18
# All together: each becomes a rule in memory, of some 500 bytes.
_MOST_IN_ALL = 100_000


def schema_to_grammar(schema: Mapping[str, Any]) -> str:
    """Return the GBNF of the JSON texts that match a JSON schema, members in the schema's order.

    What no grammar can say well, such as ranges of numbers, is left out: see schema_grammar.py.
    Raises UsageError for a schema that it cannot be said in.
    """
    try:
        grammar = gbnf_of_schema(schema)
    except SchemaError as error:
        raise UsageError(f"the JSON schema cannot be made a grammar: {error}", hint=error.hint) from None
    try:
        check_grammar(grammar)
    except UsageError as error:
        raise UsageError(
            f"the JSON schema cannot be made a grammar: {str(error).rpartition(': ')[2]}",
            hint="use a smaller schema, with fewer members and smaller bounds",
        ) from None
    return grammar


def rename_rules(grammar: str, prefix: str) -> str:
    """Return the same grammar with `prefix` before the name of each rule, to stand beside another one."""
    parts, position = [], 0
    while position < len(grammar):
        token = _token_at(grammar, position)
        parts.append(prefix + token[0] if token["head"] or token["name"] else token[0])
        position = token.end()
    return "".join(parts)


def check_grammar(grammar: str) -> None:
    """UsageError, with the line, for what llama.cpp's parser prints, hangs or ends the process on."""
    if len(grammar.encode("utf-8", "replace")) > _MOST_BYTES or "\0" in grammar:
        raise _problem(1, f"a grammar has at most {_MOST_BYTES} bytes, none of them 0")
    position = depth = repeated = 0
    line = 1
    defined: set[str] = set()
    named: dict[str, int] = {}
    while position < len(grammar):
        token = _token_at(grammar, position)
        if token["open"] or token["close"]:
            depth += 1 if token["open"] else -1
            if not 0 <= depth <= _DEEPEST:
                raise _problem(line, "a ) without (" if depth < 0 else f"more than {_DEEPEST} nested (")
        elif token["head"]:
            defined.add(token["head"])
        elif token["name"]:
            named.setdefault(token["name"], line)
        elif token["least"]:
            repeated += _repeated(line, int(token["least"]), token["most"])
        position = token.end()
        line += token[0].count("\n")
    if depth:
        raise _problem(line, "a ( without )")
    for name, line in [*named.items(), ("root", 1)]:
        if name not in defined:
            raise _problem(line, f"there is no rule {name[:40]!a}")
    if len(defined) > _MOST_RULES or repeated > _MOST_IN_ALL:
        raise _problem(1, f"a grammar has at most {_MOST_RULES} rules, and {_MOST_IN_ALL} repetitions in all")


def _token_at(grammar: str, position: int) -> re.Match[str]:
    token = _TOKEN.match(grammar, position)
    bad = token and token["text"] and _BAD_ESCAPE.search(token["text"])
    if token is None or bad:
        what = f"there is no escape {bad[1]}" if bad else "this is not GBNF"
        raise _problem(grammar.count("\n", 0, position) + 1, what)
    return token


def _repeated(line: int, least: int, most: str | None) -> int:
    top = int(most) if most else least
    if top < least or top > MOST_REPEATED:
        raise _problem(line, f"a repetition goes from small to large, up to {MOST_REPEATED}")
    return top


def _problem(line: int, what: str) -> UsageError:
    return UsageError(
        f"the grammar is not valid GBNF: line {line}: {what}",
        hint="llama.cpp's grammars/README.md has the notation",
    )


class GrammarCache(Lending[str]):
    """llama.cpp's samplers for grammars. UsageError for what is no grammar."""

    def __init__(self, vocabulary_address: int) -> None:
        super().__init__()
        self._vocabulary = vocabulary_address

    def _build(self, key: str) -> Any:
        grammar = key
        check_grammar(grammar)
        sampler = self._c.llama_sampler_init_grammar(
            self._vocabulary, grammar.encode("utf-8", "replace"), _ROOT
        )
        reason = last_error()
        if not sampler:
            raise UsageError(
                f"llama.cpp refuses the grammar{': ' + reason if reason else ''}",
                hint="a rule can't begin with itself; llama.cpp's grammars/README.md has the notation",
            )
        return sampler


_DS = "\uff5c"
# Text before and after the arguments of a call; NAME is the tool's name.
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
            f"this model writes calls in a form that cannot be forced ({family})",
            hint="let the model choose (tool_choice auto)",
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
    """Return the text as GBNF, its control tokens as themselves."""
    marks = sorted((mark for mark in controls if mark in text), key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, marks))})", text) if marks else [text]
    return " ".join(f"<[{controls[part]}]>" if part in controls else literal(part) for part in parts if part)

"""Grammars that an answer must follow: GBNF, llama.cpp's own notation, and JSON schemas turned into it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import module_from_spec
from typing import Any

from shepherd.errors import UsageError
from shepherd.inference.binding import last_error, llama, llama_module
from shepherd.inference.sampler import Lending
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
# llama.cpp's parser and its check for left recursion call themselves once per level; some thousands of levels
# end the process. Its own limit for repetitions is 2,000.
_DEEPEST, _MOST_RULES, _MOST_BYTES, _MOST_REPEATED = 200, 2000, 1 << 18, 2000
# Items of an array are in brackets, which count as repetitions as well.
_MOST_ITEMS = 1990
# All together: each becomes a rule in memory, of some 500 bytes.
_MOST_IN_ALL = 100_000
_BOUNDS = ("minItems", "maxItems", "minLength", "maxLength")
# The converter lets raw control characters into strings, which JSON forbids.
_LAX_CHARACTER, _CHARACTER = 'char ::= [^"\\\\] |', 'char ::= [^"\\\\\\x00-\\x1F\\x7F] |'


def schema_to_grammar(schema: Mapping[str, Any]) -> str:
    """Return the GBNF of the JSON texts that match a JSON schema, members in the schema's order.

    What llama-cpp-python's converter does not know, such as ranges of numbers, is left out.
    Raises UsageError for a schema that it cannot be said in.
    """
    llama()
    try:
        text = str(_converter().json_schema_to_gbnf(json.dumps(schema), prop_order=_members(schema)))
        grammar = text.replace(_LAX_CHARACTER, _CHARACTER)
    except _BoundsError as error:
        raise UsageError(
            f"the JSON schema cannot be made a grammar: {_keyword(schema, error.number)} {error.number:,}",
            hint=f"bounds go from small to large, of items up to {_MOST_ITEMS:,}, of characters and in "
            f"patterns up to {_MOST_REPEATED:,}",
        ) from None
    except Exception as error:  # it has no error of its own: KeyError, AssertionError …
        raise UsageError(
            f"the JSON schema cannot be made a grammar: {type(error).__name__}",
            hint="leave out what is unusual in it, such as $ref to other files",
        ) from error
    try:
        check_grammar(grammar)
    except UsageError as error:
        raise UsageError(
            f"the JSON schema cannot be made a grammar: {str(error).rpartition(': ')[2]}",
            hint="use a smaller schema, with fewer members and smaller bounds",
        ) from None
    return grammar


@lru_cache(maxsize=1)
def _converter() -> Any:
    """llama-cpp-python's converter, a copy of our own, with llama.cpp's notation for what is repeated.

    It writes a repetition out: up to 500 characters are 500 brackets in each other, and a billion is
    gigabytes of text.
    """
    spec = llama_module("llama_grammar").__spec__
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    module._build_repetition = _repetition
    return module


class _BoundsError(Exception):
    """Bounds of a repetition that no grammar has; `number` is the one."""

    def __init__(self, number: float) -> None:
        super().__init__(number)
        self.number = number


def _repetition(
    item: str, least: int, most: int | None, separator_rule: str = "", item_rule_is_literal: bool = False
) -> str:
    """`item` from `least` to `most` times, None being without end, with separators between."""
    for bound in (least, 0 if most is None else most):
        if bound != int(bound):
            raise _BoundsError(bound)
    least, most = int(least), None if most is None else int(most)
    limit = _MOST_ITEMS if separator_rule else _MOST_REPEATED
    if not 0 <= least <= limit:
        raise _BoundsError(least)
    if most is not None and not least <= most <= limit:
        raise _BoundsError(most)
    if most == 0:
        return ""
    if not separator_rule:
        return f"{item}{{{least},{'' if most is None else most}}}"
    more = f"{max(least - 1, 0)},{'' if most is None else most - 1}"
    items = f"{item} ({separator_rule} {item}){{{more}}}"
    return items if least else f"({items})?"


def _keyword(schema: object, number: float) -> str:
    """Return the keyword of a schema that has this number; a number in no bound is in a pattern."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            for bound in _BOUNDS:
                if part.get(bound) == number and not isinstance(part[bound], bool):
                    return bound
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return "a pattern that repeats"


def rename_rules(grammar: str, prefix: str) -> str:
    """Return the same grammar with `prefix` before the name of each rule, to stand beside another one."""
    parts, position = [], 0
    while position < len(grammar):
        token = _TOKEN.match(grammar, position)
        if token is None:
            raise _problem(grammar.count("\n", 0, position) + 1, "this is not GBNF")
        parts.append(prefix + token[0] if token["head"] or token["name"] else token[0])
        position = token.end()
    return "".join(parts)


def _members(schema: object) -> list[str]:
    """Names of all properties, in the order of their writing."""
    if isinstance(schema, Mapping):
        here = schema.get("properties")
        names = list(here) if isinstance(here, Mapping) else []
        return names + [name for value in schema.values() for name in _members(value)]
    if isinstance(schema, list):
        return [name for value in schema for name in _members(value)]
    return []


def check_grammar(grammar: str) -> None:
    """UsageError, with the line, for what llama.cpp's parser prints, hangs or ends the process on."""
    if len(grammar.encode("utf-8", "replace")) > _MOST_BYTES or "\0" in grammar:
        raise _problem(1, f"a grammar has at most {_MOST_BYTES} bytes, none of them 0")
    position = depth = repeated = 0
    line = 1
    defined: set[str] = set()
    named: dict[str, int] = {}
    while position < len(grammar):
        token = _TOKEN.match(grammar, position)
        if token is None:
            raise _problem(line, "this is not GBNF")
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


def _repeated(line: int, least: int, most: str | None) -> int:
    top = int(most) if most else least
    if top < least or top > _MOST_REPEATED:
        raise _problem(line, f"a repetition goes from small to large, up to {_MOST_REPEATED}")
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
    return " ".join(
        f"<[{controls[part]}]>" if part in controls else json.dumps(part, ensure_ascii=False)
        for part in parts
        if part
    )

"""Traces as MeTTa's atoms: an expression for each path, whose segments it has as its elements.

    (context "a1b2" 000003 budget total 4096)
    (context "a1b2" 000003 tail facts "a/b" "c d")

so that a pattern finds what a `*` finds: `(match &self (context $s $t budget total $n) ($t $n))`. A session
is always a string; other segments are symbols where MeTTa reads them as such (or as the number of a place),
and strings elsewhere. The file begins with the signatures of the predicates. Reading it needs no MeTTa.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from shepherd.errors import UsageError
from shepherd.trace.paths import Value, checked_path, decode_segment, encode_segment
from shepherd.trace.predicates import PREDICATES
from shepherd.trace.records import plain

__all__ = ["atom_of", "header", "read_atoms"]

_SYMBOL = re.compile("[a-z][a-z0-9_]*", re.ASCII)
_PLACE = re.compile(r"\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
# A string, or whatever stands until the next blank or the end of the expression.
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()"]+')
_SEPARATED = re.compile(rf"(?:{_ELEMENT.pattern})(?: (?:{_ELEMENT.pattern}))*")
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPED = {text[1]: char for char, text in _ESCAPED.items()}
# MeTTa ends lines at none of the others, but people's tools do.
_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f\x85\u2028\u2029]')
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.))", re.DOTALL)


def header() -> str:
    """What an export begins with: the signatures of the predicates, in their groups."""
    lines = ["; Traces of turns: (context SESSION TURN … VALUE), and what computes them."]
    group = ""
    for predicate in PREDICATES:
        if predicate.group != group:
            group = predicate.group
            lines += ["", f"; {group}"]
        lines.append(predicate.signature)
    return "\n".join([*lines, "", "; turns", ""])


def atom_of(path: str, value: Value) -> str:
    """The atom of one path, with the end of its line."""
    _, root, session, *rest = path.split("/")
    elements = [root, _string(decode_segment(session)), *map(_element, rest), _literal(value)]
    return f"({' '.join(elements)})\n"


def read_atoms(file: BinaryIO) -> Iterator[tuple[str, Value]]:
    """The paths and values of atoms as `atom_of` writes them, one a line.

    Comments and signatures are skipped. UsageError names the line that is no atom of ours.
    """
    for number, line in enumerate(file, 1):
        if line.strip() and not line.startswith((b";", b"(: ")):
            yield _entry(number, line)


def _entry(number: int, line: bytes) -> tuple[str, Value]:
    try:
        text = line.decode().rstrip("\n")
        inside = text[1:-1]
        if not (text.startswith("(") and text.endswith(")") and _SEPARATED.fullmatch(inside)):
            raise ValueError("not an expression of symbols, numbers and strings")
        *segments, last = _ELEMENT.findall(inside)
        path = "".join(f"/{_segment(segment)}" for segment in segments)
        return checked_path(path), _value(last)
    except (ValueError, UsageError) as error:
        what = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise UsageError(
            f"line {number}: {what}", hint="an atom is (context SESSION TURN … VALUE), alone on its line"
        ) from None


def _element(segment: str) -> str:
    if _SYMBOL.fullmatch(segment) or _PLACE.fullmatch(segment):
        return segment
    return _string(decode_segment(segment))


def _segment(element: str) -> str:
    return encode_segment(_text(element) if element.startswith('"') else element)


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return _string(value)
    return repr(value)  # True, 4096, 0.83: MeTTa writes them as Python does


def _value(element: str) -> Value:
    if element.startswith('"'):
        return _text(element)
    if element in ("True", "False"):
        return element == "True"
    number = _NUMBER.fullmatch(element)
    if number is None:
        raise ValueError("the last element has to be a string, a number, True or False")
    value = float(element) if number[1] or number[2] else int(element)
    if plain(value) != value:
        raise ValueError("the number does not fit 64 bits")
    return value


def _string(text: str) -> str:
    return f'"{_SPECIAL.sub(lambda match: _escape(match[0]), text)}"'


def _escape(char: str) -> str:
    return _ESCAPED.get(char) or f"\\u{{{ord(char):x}}}"


def _text(literal: str) -> str:
    return _ESCAPE.sub(_unescaped, literal[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] not in _UNESCAPED:
        raise ValueError("an escape that is none")
    return _UNESCAPED[match[2]]

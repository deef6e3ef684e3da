"""Regular expressions of JSON schemas (ECMA 262's) as GBNF of what is between the quotes of a JSON string."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

__all__ = ["MOST_REPEATED", "BoundsError", "PatternError", "literal", "pattern_to_gbnf", "repeated"]

MOST_REPEATED = 2000  # llama.cpp's own limit
# Characters that a JSON string has only behind a backslash.
_QUOTE, _BACKSLASH, _FIRST_RAW = ord('"'), ord("\\"), 0x20
_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)

_Ranges = tuple[tuple[int, int], ...]
_DIGITS: _Ranges = ((0x30, 0x39),)
_WORD: _Ranges = (*_DIGITS, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: _Ranges = ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A))
_SPACE += ((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF))
_LINE_ENDS: _Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D, "0": 0}
_TIMES = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")


class PatternError(Exception):
    """The pattern has something that no grammar can say; the message says what."""


class BoundsError(Exception):
    """Bounds of a repetition that no grammar has; `number` is the one."""

    def __init__(self, number: float) -> None:
        super().__init__(number)
        self.number = number


def pattern_to_gbnf(pattern: str, anything: str) -> str:
    """Return GBNF of the JSON strings' contents in which the pattern is found. PatternError, BoundsError.

    `anything` is GBNF for what may stand before and behind a pattern that is not anchored. Of the ways to
    write a character in JSON there is one alone.
    """
    return _Parser(pattern, anything).whole()


def repeated(least: float, most: float | None, limit: int = MOST_REPEATED) -> tuple[int, int | None]:
    """Return bounds that a grammar has, None being without end. Raises BoundsError."""
    for bound in (least, 0 if most is None else most):
        if bound != int(bound):
            raise BoundsError(bound)
    if not 0 <= least <= limit:
        raise BoundsError(int(least))
    if most is not None and not least <= most <= limit:
        raise BoundsError(int(most))
    return int(least), None if most is None else int(most)


def literal(text: str) -> str:
    """Return a text as GBNF."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", text)
    return '"' + re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", _by_number, escaped) + '"'


def _by_number(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04X}"


class _Parser:
    def __init__(self, pattern: str, anything: str) -> None:
        self._text, self._at, self._anything = pattern, 0, anything

    def whole(self) -> str:
        if not self._text:
            return self._anything
        alternatives = [self._sequence(is_outermost=True)]
        while self._take("|"):
            alternatives.append(self._sequence(is_outermost=True))
        if self._at < len(self._text):
            raise PatternError("it has a ) without (")
        return _either(alternatives)

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _sequence(self, *, is_outermost: bool = False) -> str:
        """Return the parts up to a | or ), or to the end. Anchors may stand at the outermost ends alone."""
        # Texts are joined at last: a repetition is of a single character.
        parts: list[tuple[bool, str]] = []
        if is_outermost and not self._take("^"):
            parts.append((False, self._anything))
        is_ended = False
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if is_ended or self._text[self._at] == "^":
                raise PatternError("it has ^ or $ inside")
            if self._take("$"):
                if not is_outermost:
                    raise PatternError("it has ^ or $ inside")
                is_ended = True
                continue
            parts.append(self._times(*self._atom()))
        if is_outermost and not is_ended:
            parts.append((False, self._anything))
        return _joined(parts)

    def _atom(self) -> tuple[bool, str]:
        """Return whether the next part is a text, and it: as JSON writes it, or as GBNF."""
        character = self._text[self._at]
        self._at += 1
        if character == "(":
            return False, self._group()
        if character == "[":
            return False, _gbnf_of(self._class())
        if character == ".":
            return False, _gbnf_of(_without(_LINE_ENDS))
        if character == "\\":
            ranges = self._escape()
            if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
                return True, _in_json(ranges[0][0])
            return False, _gbnf_of(ranges)
        if character in "*+?":
            raise PatternError(f"nothing stands before {character}")
        return True, _in_json(ord(character))

    def _group(self) -> str:
        if self._take("?") and not self._take(":"):
            name = re.compile(r"P?<[A-Za-z_]\w*>").match(self._text, self._at)
            if name is None:
                raise PatternError(f"(?{self._text[self._at : self._at + 2]} is not supported")
            self._at = name.end()
        alternatives = [self._sequence()]
        while self._take("|"):
            alternatives.append(self._sequence())
        if not self._take(")"):
            raise PatternError("it has a ( without )")
        return f"({' | '.join(alternatives)})"

    def _times(self, is_text: bool, part: str) -> tuple[bool, str]:
        item = literal(part) if is_text else part
        if self._at < len(self._text) and self._text[self._at] in "*+?":
            sign = self._text[self._at]
            self._at += 1
        elif (found := _TIMES.match(self._text, self._at)) is not None:
            self._at = found.end()
            most = found[3] if found[2] else found[1]
            bounds = repeated(_number(found[1]), _number(most) if most else None)
            if bounds[1] == 0:
                return True, ""
            sign = f"{{{bounds[0]},{'' if bounds[1] is None else bounds[1]}}}"
        else:
            return is_text, part
        self._take("?")  # as few as possible: the same texts
        if self._at < len(self._text) and (
            self._text[self._at] in "*+?" or _TIMES.match(self._text, self._at)
        ):
            raise PatternError("it repeats a repetition")
        return False, item + sign

    def _class(self) -> _Ranges:
        is_negated = self._take("^")
        found: list[tuple[int, int]] = []
        while not self._take("]"):
            first = self._member()
            if (
                self._at + 1 < len(self._text)
                and self._text[self._at] == "-"
                and self._text[self._at + 1] != "]"
            ):
                self._at += 1
                last = self._member()
                if len(first) > 1 or len(last) > 1 or first[0][0] > last[0][1]:
                    raise PatternError("a range in [] goes from a smaller to a larger character")
                found.append((first[0][0], last[0][1]))
            else:
                found += first
        return _without(found) if is_negated else tuple(found)

    def _member(self) -> _Ranges:
        if self._at >= len(self._text):
            raise PatternError("it has a [ without ]")
        character = self._text[self._at]
        self._at += 1
        if character != "\\":
            return ((ord(character), ord(character)),)
        return ((0x08, 0x08),) if self._take("b") else self._escape()

    def _escape(self) -> _Ranges:
        """Return the characters that an escape stands for."""
        if self._at >= len(self._text):
            raise PatternError("it ends with a \\")
        kind = self._text[self._at]
        self._at += 1
        sets = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
        if kind.lower() in sets:
            ranges = sets[kind.lower()]
            return ranges if kind.islower() else _without(ranges)
        number = re.compile(r"[0-9A-Fa-f]{2}" if kind == "x" else r"[0-9A-Fa-f]{4}|\{[0-9A-Fa-f]{1,6}\}")
        if kind in "xu" and (found := number.match(self._text, self._at)):
            self._at = found.end()
            code = min(int(found[0].strip("{}"), 16), _LAST)
        elif kind in _CONTROLS and not (kind == "0" and self._text[self._at : self._at + 1].isdigit()):
            code = _CONTROLS[kind]
        elif kind.isascii() and kind.isalnum():
            raise PatternError(f"\\{kind} is not supported")
        else:
            code = ord(kind)
        return ((code, code),)


def _number(digits: str) -> int:
    return int(digits[:20])  # Python refuses very many


def _joined(parts: Iterable[tuple[bool, str]]) -> str:
    found: list[str] = []
    text = ""
    for is_text, part in parts:
        if is_text:
            text += part
            continue
        found += [literal(text)] if text else []
        found.append(part)
        text = ""
    found += [literal(text)] if text or not found else []
    return " ".join(found)


def _either(alternatives: Sequence[str]) -> str:
    return alternatives[0] if len(alternatives) == 1 else f"({' | '.join(alternatives)})"


def _in_json(code: int) -> str:
    """Return a character as a JSON string has it."""
    return json.dumps(chr(code), ensure_ascii=_SURROGATES[0] <= code <= _SURROGATES[1])[1:-1]


def _without(ranges: Iterable[tuple[int, int]]) -> _Ranges:
    """Return all other characters."""
    found, start = [], 0
    for first, last in sorted((*ranges, _SURROGATES)):
        if start < first:
            found.append((start, first - 1))
        start = max(start, last + 1)
    return (*found, (start, _LAST)) if start <= _LAST else tuple(found)


def _gbnf_of(ranges: _Ranges) -> str:
    """Return GBNF of one of these characters, as JSON writes them.

    Control characters without a short form are left out, unless there are no others.
    """
    must_escape = ((0, _FIRST_RAW - 1), (_QUOTE, _QUOTE), (_BACKSLASH, _BACKSLASH), (0x7F, 0x7F))
    raw = _without((*must_escape, *_without(ranges)))
    short = [code for code in (*b'"\\\b\f\n\r\t',) if any(a <= code <= b for a, b in ranges)]
    found = (
        [f"[{''.join(_escaped(a) + ('' if a == b else '-' + _escaped(b)) for a, b in raw)}]"] if raw else []
    )
    found += [literal(_in_json(code)) for code in short]
    if not found:
        controls = (code for a, b in ranges for code in range(a, min(b, 0x7F) + 1))
        found = [literal(f"\\u{code:04x}") for code in controls]
    if not found:
        raise PatternError("[] contains no character")
    return found[0] if len(found) == 1 else f"({' | '.join(found)})"


def _escaped(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\U{code:08X}"

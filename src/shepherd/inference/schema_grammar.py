"""JSON schemas as grammars (GBNF): the texts of the values that match a schema, members in its order.

A grammar may lack values that the schema allows: most characters are written in one way, and objects that
name their members have no others unless the schema has `additionalProperties`.

What is not looked at, so that values may break it: bounds of numbers other than small ranges of whole ones
and signs, `multipleOf`, `uniqueItems`, `contains`, `minProperties`, `maxProperties`, `patternProperties`,
`not`, `if`, lengths beside a pattern, and formats other than dates, times and UUIDs.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from shepherd.inference.pattern_grammar import (
    MOST_REPEATED,
    BoundsError,
    PatternError,
    literal,
    pattern_to_gbnf,
    repeated,
)

__all__ = ["MOST_ITEMS", "SchemaError", "gbnf_of_schema"]

# Items of an array are in brackets, which count as repetitions as well.
MOST_ITEMS = 1990
_MOST_ALTERNATIVES, _MOST_SCHEMAS = 256, 20_000
# Characters of a name that are told from those of others, and those in brackets within brackets.
_MOST_NAMED, _MOST_NESTED = 200, 50
_MOST_DIGITS = 9  # of a place in a list
_UNUSUAL = "leave out what is unusual in it, such as $ref to other files"
_BOUNDS = (
    f"bounds go from small to large, of items up to {MOST_ITEMS:,}, of characters and in "
    f"patterns up to {MOST_REPEATED:,}"
)

# Names of rules that every grammar has, as far as it uses them.
_HEX = "[0-9a-fA-F]"
_RAW = '[^"\\\\\\x00-\\x1F\\x7F]'  # JSON forbids raw control characters
_SHARED = {
    "space": '" "?',
    # Halves of characters beyond the first 65,536 are no characters.
    "char": f'{_RAW} | "\\\\" (["\\\\/bfnrt] | "u" ([0-9a-cA-CefEF] {_HEX}{{3}} | [dD] [0-7] {_HEX}{{2}}))',
    "string": '"\\"" char* "\\"" space',
    "integral": '"0" | [1-9] [0-9]{0,15}',
    "integer": '"-"? integral space',
    "positive": 'integral ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})? space',
    "number": '"-"? positive',
    "boolean": '("true" | "false") space',
    "null": '"null" space',
    "object": '"{" space (string ":" space value ("," space string ":" space value)*)? "}" space',
    "array": '"[" space (value ("," space value)*)? "]" space',
    "value": "object | array | string | number | boolean | null",
    "date": '[0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])'
    ' | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | [12] [0-9]))',
    "time": '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{3})? '
    '("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])',
    "uuid": f'{_HEX}{{8}} ("-" {_HEX}{{4}}){{3}} "-" {_HEX}{{12}}',
}
_FORMATS = {"date": "date", "time": "time", "date-time": 'date "T" time', "uuid": "uuid"}
_TYPES: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "object": Mapping,
    "array": list,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
# What a schema without a type is about.
_IMPLIED = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_IMPLIED["object"] += ("minProperties", "maxProperties")
_CHOICES = ("anyOf", "oneOf")
# Of two bounds that must both hold, the narrower one.
_NARROWER: dict[str, Callable[[float, float], float]] = {
    **dict.fromkeys(("minItems", "minLength", "minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxItems", "maxLength", "maximum", "exclusiveMaximum"), min),
}
_IS_RAW = re.compile('[^"\\\\\x00-\x1f\x7f\ud800-\udfff]').fullmatch
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]')
_NAME = re.compile(r"[a-z][a-z0-9]*")
_KEYWORDS = {
    "type",
    "enum",
    "const",
    "allOf",
    *_CHOICES,
    *(key for keys in _IMPLIED.values() for key in keys),
}


class SchemaError(Exception):
    """The schema has something that no grammar can say; the message names it."""

    def __init__(self, what: str, hint: str = _UNUSUAL) -> None:
        super().__init__(what)
        self.hint = hint


class _NothingLeftError(SchemaError):
    """No value matches."""


def gbnf_of_schema(schema: Any) -> str:
    """Return the GBNF of a schema. Raises SchemaError."""
    try:
        return _Converter(schema).grammar()
    except RecursionError:
        raise SchemaError("it is nested too deeply, or a schema contains itself") from None
    except OverflowError:
        raise SchemaError("a number in it is too large") from None


class _Converter:
    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {}  # of rules, by what they say
        # Rules of schemas that others refer to, by their identity, which lasts as long as they are kept.
        self._of_schemas: dict[int, str] = {}
        self._kept: list[object] = []
        self._numbers = itertools.count()
        self._n_flat = 0

    def grammar(self) -> str:
        self._of_schemas[id(self._root)] = "root"
        is_open = isinstance(self._root, Mapping) and not self._root
        # An answer of which nothing is said is an object, as for llama.cpp's server.
        self._rules["root"] = "object" if is_open else self._body(self._root)
        rules = {name: self._rules[name] for name in ("root", *sorted(self._rules.keys() - {"root"}))}
        waiting = list(rules.values())
        while waiting:  # what they use, and what that uses
            for name in _NAME.findall(_TEXTS.sub("", waiting.pop())):
                if name in _SHARED and name not in rules:
                    rules[name] = _SHARED[name]
                    waiting.append(rules[name])
        return "\n".join(f"{name} ::= {rule}" for name, rule in rules.items())

    def _rule(self, body: str) -> str:
        """Return the name of a rule that says this."""
        if body not in self._names:
            self._names[body] = name = f"r{next(self._numbers)}"
            self._rules[name] = body
        return self._names[body]

    # ---- schemas

    def _value(self, schema: Any) -> str:
        """Return GBNF of the values that match, which may stand beside others."""
        if isinstance(schema, Mapping) and ("$ref" in schema or "allOf" in schema):
            target = self._followed(schema)
            return self._rule_of(target) if isinstance(target, Mapping) else self._value(target)
        body = self._body(schema)
        return body if re.fullmatch(r"[a-z0-9-]+", body) else self._rule(body)

    def _rule_of(self, schema: Mapping[str, Any]) -> str:
        """Return the rule of a schema to which others refer, perhaps from within."""
        name = self._of_schemas.get(id(schema))
        if name is None:
            name = self._of_schemas[id(schema)] = f"s{next(self._numbers)}"
            self._kept.append(schema)
            try:
                self._rules[name] = self._body(schema)
            except _NothingLeftError:  # whoever refers to it may do without
                del self._of_schemas[id(schema)]
                raise
        return name

    def _body(self, schema: Any) -> str:
        """Return what a rule of the values that match says."""
        if schema is True:
            return "value"
        if schema is False:
            raise _NothingLeftError("false allows no value")
        if not isinstance(schema, Mapping):
            raise SchemaError(f"{str(schema)[:40]!a} stands where a schema must be")
        schema = self._flat(schema)
        if "enum" in schema:
            return " | ".join(self._literals(schema))
        for choice in _CHOICES:
            if choice in schema:
                return self._choice(schema, choice)
        types = self._types(schema)
        if not types:
            if "not" in schema:
                raise SchemaError("not, without a type beside it")
            return "value"
        return " | ".join([getattr(self, f"_{kind}")(schema) for kind in types])

    def _types(self, schema: Mapping[str, Any]) -> list[str]:
        if "type" not in schema:
            return [kind for kind, keys in _IMPLIED.items() if any(key in schema for key in keys)][:1]
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        for kind in types:
            if not isinstance(kind, str) or kind not in _TYPES:
                raise SchemaError(f"type {str(kind)[:40]!a}")
        if not types:
            raise _NothingLeftError("type allows no value")
        return [kind for kind in dict.fromkeys(types) if kind != "integer" or "number" not in types]

    def _literals(self, schema: Mapping[str, Any]) -> list[str]:
        types = self._types(schema) if "type" in schema else []
        values = [value for value in schema["enum"] if not types or any(_is(value, kind) for kind in types)]
        if not values:
            raise _NothingLeftError("enum allows no value of the type")
        try:
            return list(dict.fromkeys(literal(_json(value)) for value in values))
        except ValueError:  # infinite, or not a number
            raise SchemaError("enum has a number that JSON does not have") from None

    def _choice(self, schema: Mapping[str, Any], choice: str) -> str:
        rest = {key: value for key, value in schema.items() if key != choice}
        alternatives = _list(schema, choice)
        if len(alternatives) > _MOST_ALTERNATIVES:
            raise SchemaError(f"{choice} has more than {_MOST_ALTERNATIVES} alternatives")
        found: dict[str, None] = {}
        reason: _NothingLeftError | None = None
        for one in alternatives:
            try:
                found[self._value(self._merged(rest, one) if _says_something(rest) else one)] = None
            except _NothingLeftError as error:
                reason = error
        if not found:
            raise reason or _NothingLeftError(f"{choice} has no alternatives")
        return " | ".join(found)

    # ---- references, and schemas that must all match

    def _followed(self, schema: Mapping[str, Any]) -> Any:
        """Return the schema to which one refers that says nothing else; or the same one."""
        seen: list[Any] = []
        while isinstance(schema, Mapping) and "$ref" in schema:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            if _says_something(rest):
                break
            if any(one is schema for one in seen):
                raise SchemaError(f"$ref {_shown(schema['$ref'])} leads to itself")
            seen.append(schema)
            schema = self._target(schema["$ref"])
        return schema

    def _target(self, reference: Any) -> Any:
        found = self._root
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaError(f"$ref {_shown(reference)} is no path in this schema, such as #/$defs/name")
        for part in unquote(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and _is_place(key, found):
                found = found[int(key)]
            else:
                raise SchemaError(f"$ref {_shown(reference)} names nothing in it")
        return found

    def _flat(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a schema without `$ref`, `allOf` and `const`."""
        self._n_flat += 1
        if self._n_flat > _MOST_SCHEMAS:  # a small one can refer to others in very many ways
            raise SchemaError(f"it has more than {_MOST_SCHEMAS:,} schemas, those that it refers to included")
        found = dict(schema)
        parts: list[Any] = []
        if "$ref" in found:
            parts.append(self._followed({"$ref": found.pop("$ref")}))
        if "allOf" in found:
            parts += _list(found, "allOf")
            del found["allOf"]
        if "const" in found:
            found["enum"] = [found.pop("const")]
        if "enum" in found and not isinstance(found["enum"], list):
            raise SchemaError("enum is not a list")
        for part in parts:
            found = self._merged(found, part)
        return found

    def _merged(self, schema: Mapping[str, Any], other: Any) -> dict[str, Any]:
        """Return a schema of the values that match both."""
        if other is True:
            return dict(schema)
        if not isinstance(other, Mapping):
            self._body(other)  # says why not
        one, two = self._flat(schema), self._flat(other)
        found = {**one, **two}
        for key in one.keys() & two.keys():
            found[key] = self._both(key, one[key], two[key])
        if "properties" in found:
            found["properties"] = _members_of_both(one, two)
        return found

    def _both(self, key: str, one: Any, two: Any) -> Any:
        if one == two:
            return one
        if key == "type":
            return self._types_of_both(one, two)
        if key == "enum":
            return [value for value in one if any(_json(value) == _json(other) for other in two)]
        if key == "required":
            return [*one, *(name for name in two if name not in one)]
        if key in _CHOICES:
            pairs = [{"allOf": [a, b]} for a in _list({key: one}, key) for b in _list({key: two}, key)]
            if len(pairs) > _MOST_ALTERNATIVES:
                raise SchemaError(f"{key} has more than {_MOST_ALTERNATIVES} alternatives")
            return pairs
        if key in ("items", "additionalProperties"):
            return False if one is False or two is False else {"allOf": [one, two]}
        if key in _NARROWER and isinstance(one, (int, float)) and isinstance(two, (int, float)):
            return _NARROWER[key](one, two)
        if key in ("pattern", "prefixItems", "format"):
            raise SchemaError(f"{key} twice in what allOf or $ref join")
        return two

    def _types_of_both(self, one: Any, two: Any) -> list[str]:
        first, second = (self._types({"type": types}) for types in (one, two))
        found = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
        found += [kind for kind in second if kind == "integer" and "number" in first and kind not in found]
        if not found:
            raise _NothingLeftError("type allows no value in what allOf, anyOf or $ref join")
        return found

    # ---- one type each

    def _string(self, schema: Mapping[str, Any]) -> str:
        if "pattern" in schema:
            pattern = schema["pattern"]
            if not isinstance(pattern, str):
                raise SchemaError("pattern is not a text")
            try:
                content = pattern_to_gbnf(pattern, "char*")
            except PatternError as error:
                raise SchemaError(
                    f"pattern {_shown(pattern)}: {error}", "write it in a simpler way"
                ) from None
            except BoundsError as error:
                raise SchemaError(f"a pattern that repeats {error.number:,}", _BOUNDS) from None
            return f'"\\"" {content} "\\"" space'
        form = str(schema.get("format", ""))
        form = "uuid" if re.fullmatch("uuid[1-5]", form) else form
        if form in _FORMATS:
            return f'"\\"" {_FORMATS[form]} "\\"" space'
        if "minLength" in schema or "maxLength" in schema:
            least, most = _bounds(schema, "minLength", "maxLength", MOST_REPEATED)
            return f'"\\"" {"" if most == 0 else "char" + _braces(least, most)} "\\"" space'
        return "string"

    def _integer(self, schema: Mapping[str, Any]) -> str:
        least, most = _range(schema)
        if -math.inf < least and most < math.inf:
            first, last = math.ceil(least), math.floor(most)
            if first > last:
                raise _NothingLeftError("minimum and maximum allow no whole number")
            if last - first < _MOST_ALTERNATIVES:
                return f"({' | '.join(literal(str(number)) for number in range(first, last + 1))}) space"
        return "integral space" if least >= 0 else "integer"

    def _number(self, schema: Mapping[str, Any]) -> str:
        return "positive" if _range(schema)[0] >= 0 else "number"

    def _boolean(self, _schema: Mapping[str, Any]) -> str:
        return "boolean"

    def _null(self, _schema: Mapping[str, Any]) -> str:
        return "null"

    def _array(self, schema: Mapping[str, Any]) -> str:
        items = schema.get("items", True)
        first: Sequence[Any] = schema.get("prefixItems", ())
        if isinstance(items, list):  # as older drafts have it
            first, items = items, schema.get("additionalItems", True)
        if not isinstance(first, (list, tuple)):
            raise SchemaError("prefixItems is not a list")
        least, most = _bounds(schema, "minItems", "maxItems", MOST_ITEMS)
        if first:
            # Just these, unless the bounds say otherwise.
            n = max(len(first), least) if most is None else min(max(len(first), least), most)
            values = [self._value(one) for one in first[:n]]
            values += [self._value(items)] * (n - len(first)) if n > len(first) else []
            inside = ' "," space '.join(values)
        elif most == 0 or items is False:
            if least > 0:
                raise _NothingLeftError("minItems asks for items, and items is false")
            inside = ""
        elif not any(key in schema for key in ("items", "minItems", "maxItems")):
            return "array"
        else:
            value = self._value(items)
            inside = (
                f'{value} ("," space {value}){_braces(max(least - 1, 0), None if most is None else most - 1)}'
            )
            inside = inside if least else f"({inside})?"
        return f'"[" space {inside} "]" space'

    def _object(self, schema: Mapping[str, Any]) -> str:
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            raise SchemaError("properties is not an object")
        required = _list(schema, "required") if "required" in schema else []
        # Objects that name their members have no others unless the schema says so.
        others = schema.get("additionalProperties", "properties" not in schema)
        members = dict(properties)
        for name in required:
            if not isinstance(name, str):
                raise SchemaError("required has something else than names")
            if name not in members:
                if schema.get("additionalProperties") is False:
                    raise _NothingLeftError(
                        f"required names {_shown(name)}, which additionalProperties forbids"
                    )
                members[name] = schema.get("additionalProperties", True)
        if not members and others is True:
            return "object"
        written = []
        for name, member in members.items():
            try:
                value = self._value(member)
            except _NothingLeftError:
                if name in required:
                    raise
                continue
            written.append((f'{literal(_json(name))} space ":" space {value}', name in required))
        other = "" if others is False else self._other_member(members, others)
        inside = self._members(written, other)
        return f'"{{" space {inside} "}}" space'

    def _members(self, members: Sequence[tuple[str, bool]], other: str) -> str:
        """Return GBNF of members in this order, with or without the optional ones; then of any others."""
        n_free = next((i for i, (_, is_required) in enumerate(members) if is_required), len(members))
        rest = f'("," space {other})*' if other else ""
        # What may follow each member, from the last one on; rules where one of several may be the first.
        following = [rest]
        for text, is_required in reversed(members[1:]):
            more = f'"," space {text}' if is_required else f'("," space {text})?'
            after = self._rule(following[-1]) if n_free and following[-1] else following[-1]
            following.append(f"{more} {after}" if after else more)
        following.reverse()
        starts = [f"{members[i][0]} {following[i]}" for i in range(min(n_free + 1, len(members)))]
        if n_free == len(members):
            starts += [f"{other} {rest}"] if other else []
            return f"({' | '.join(starts)})?" if starts else ""
        return starts[0] if len(starts) == 1 else f"({' | '.join(starts)})"

    def _other_member(self, members: Mapping[str, Any], schema: Any) -> str:
        value = self._value(schema)
        # A name that is there already would replace its value.
        key = self._other_name(sorted(members)) if members else "string"
        return self._rule(f'{key} space ":" space {value}')

    def _other_name(self, names: Sequence[str]) -> str:
        """Return GBNF of names in quotes that are none of these. They have no escapes."""
        return f'"\\"" {self._unlike(names)}'

    def _unlike(self, ends: Sequence[str], depth: int = 0) -> str:
        """Return GBNF of all ends of names but these, and of the quote behind them.

        Beyond so many characters there are no others that begin like one of these.
        """
        firsts: dict[str, list[str]] = {}
        for end in ends:
            if end:
                firsts.setdefault(end[0], []).append(end[1:])
        ways = [
            f"{literal(first)} {self._unlike(more, depth + 1)}"
            for first, more in firsts.items()
            if depth < _MOST_NAMED and _IS_RAW(first)
        ]
        known = "".join(
            first if first.isalnum() and first.isascii() else f"\\U{ord(first):08X}" for first in firsts
        )
        rest = self._rule(f'{_RAW}* "\\""')
        ways.append(f'[^"\\\\\\x00-\\x1F\\x7F{known}] {rest}')
        if "" not in ends:
            ways.append('"\\""')
        # A letter after the other in brackets: rules of their own would be too many.
        body = " | ".join(ways)
        return self._rule(body) if len(firsts) > 1 or depth % _MOST_NESTED == 0 else f"({body})"


def _is_place(key: str, items: Sequence[Any]) -> bool:
    return key.isdecimal() and len(key) <= _MOST_DIGITS and int(key) < len(items)


def _members_of_both(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of two schemas that must both match."""
    first, second = one.get("properties", {}), two.get("properties", {})
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        raise SchemaError("properties is not an object")
    found = {**first, **second}
    for name in found:
        parts = [
            schema["properties"][name]
            if name in schema.get("properties", {})
            else schema["additionalProperties"]
            for schema in (one, two)
            if name in schema.get("properties", {}) or "additionalProperties" in schema
        ]
        found[name] = parts[0] if len(parts) == 1 else {"allOf": parts}
    return found


def _bounds(schema: Mapping[str, Any], least: str, most: str, limit: int) -> tuple[int, int | None]:
    for key in (least, most):
        value = schema.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise SchemaError(f"{key} is not a number")
    try:
        return repeated(schema.get(least, 0), schema.get(most), limit)
    except BoundsError as error:
        key = most if schema.get(most) == error.number else least
        raise SchemaError(f"{key} {error.number:,}", _BOUNDS) from None


def _range(schema: Mapping[str, Any]) -> tuple[float, float]:
    """Return the least and the greatest number; whole ones next to a bound that is excluded."""
    least, most = -math.inf, math.inf
    for key, value in schema.items():
        if key not in _IMPLIED["number"] or key == "multipleOf" or isinstance(value, bool):
            continue  # older drafts have booleans
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise SchemaError(f"{key} is not a number")
        if key == "minimum":
            least = max(least, value)
        elif key == "maximum":
            most = min(most, value)
        elif key == "exclusiveMinimum":
            least = max(least, math.floor(value) + 1)
        else:
            most = min(most, math.ceil(value) - 1)
    return least, most


def _braces(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(schema[key], list):
        raise SchemaError(f"{key} is not a list")
    return list(schema[key])


def _says_something(schema: Mapping[str, Any]) -> bool:
    return not _KEYWORDS.isdisjoint(schema)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    return isinstance(value, _TYPES[kind]) or (
        kind == "integer" and isinstance(value, float) and value.is_integer()
    )


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return re.sub("[\x7f\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _shown(value: object) -> str:
    return ascii(str(value)[:60])

"""Atoms as Python's values, on the way between two processes.

    MeTTa                             Python                            as JSON
    name                              Symbol("name")                    {"s": "name"}
    "text", 4, 0.5, True              "text", 4, 0.5, True              the same
    (a b)                             [Symbol("a"), Symbol("b")]        [{"s": "a"}, {"s": "b"}]
    (Turn (speaker "User"))           Record("Turn", {"speaker": …})    as an expression
    (Pair "a" "b")                    ("a", "b")                        as an expression
    Nothing, (Just "a"), (Maybe "a")  None, "a", "a"                    as atoms

A record is an expression that begins with a capital letter and has nothing but (field value) behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shepherd.errors import UsageError

__all__ = ["Record", "Symbol", "Value", "as_metta", "as_text", "from_wire", "to_wire"]

# None, str, int, float, bool, Symbol, Record, tuple of two, list of these.
Value: TypeAlias = Any

_NOTHING, _PAIR = "Nothing", "Pair"
# Constructors of a value that may be missing.
_PRESENT = ("Just", "Maybe")


class Symbol(str):
    """A name in MeTTa, as opposed to a string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str(self)!r})"


@dataclass(frozen=True, slots=True)
class Record:
    """A value with named fields, such as a turn."""

    type: str
    fields: Mapping[str, Value] = field(default_factory=dict)

    def get(self, name: str, default: Value = None) -> Value:
        """Return the field of that name."""
        return self.fields.get(name, default)

    def text(self, name: str) -> str:
        """Return the field of that name as text; "" without it. Raises UsageError for an expression."""
        return as_text(self.fields.get(name), f"{name} of {self.type}")


def as_text(value: Value, what: str) -> str:
    """Return a text, symbol or number as text, and None as ""; raises UsageError for anything else."""
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{what} has to be text")


def to_wire(value: Value) -> Any:
    """Return `value` in its JSON form."""
    if value is None:
        return {"s": _NOTHING}
    if isinstance(value, Symbol):
        return {"s": str(value)}
    if isinstance(value, Record):
        return [{"s": value.type}, *([{"s": name}, to_wire(part)] for name, part in value.fields.items())]
    if isinstance(value, tuple):
        return [{"s": _PAIR}, *map(to_wire, value)]
    if isinstance(value, list):
        return [to_wire(part) for part in value]
    if isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"MeTTa has no atom for {type(value).__name__}")


def from_wire(thing: Any) -> Value:
    """Return the value of a JSON form, as `to_wire` took it."""
    if isinstance(thing, dict):
        return None if thing["s"] == _NOTHING else Symbol(thing["s"])
    if not isinstance(thing, list):
        return thing
    head = thing[0]["s"] if thing and isinstance(thing[0], dict) else ""
    parts = thing[1:]
    if head in _PRESENT and len(parts) == 1:
        return from_wire(parts[0])
    if head == _PAIR and len(parts) == 2:
        return from_wire(parts[0]), from_wire(parts[1])
    if head[:1].isupper() and head != _NOTHING and all(_is_field(part) for part in parts):
        return Record(head, {name["s"]: from_wire(value) for name, value in parts})
    return [from_wire(part) for part in thing]


def as_metta(value: Value) -> str:
    """Return `value` as it is written in MeTTa."""
    return _written(to_wire(value))


def _is_field(thing: Any) -> bool:
    return isinstance(thing, list) and len(thing) == 2 and isinstance(thing[0], dict)


def _written(thing: Any) -> str:
    if isinstance(thing, dict):
        return str(thing["s"])
    if isinstance(thing, list):
        return f"({' '.join(map(_written, thing))})"
    if isinstance(thing, str):
        escaped = thing.replace("\\", "\\\\").replace('"', '\\"')
        for char, written in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\0", "\\x00")):
            escaped = escaped.replace(char, written)
        return f'"{escaped}"'
    return repr(thing)

"""Checks an argument of a tool call against its JSON schema, and converts unambiguous values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shepherd.errors import UsageError
from shepherd.escaping import storable

__all__ = ["checked_argument"]

_INTEGERS = range(-(1 << 63), 1 << 63)  # that a database can hold


def checked_argument(where: str, schema: Mapping[str, Any], value: object) -> Any:
    """Return the value in the type that the schema names, or raise UsageError, which begins with `where`.

    Numbers and truth values may come as text, text as a number, and the only item of an array by itself.
    Integers move into the schema's limits.
    """
    kind = str(schema.get("type"))
    if kind == "array":
        values = value if isinstance(value, (list, tuple)) else [value]
        return (
            [checked_argument(where, schema["items"], one) for one in values] if "items" in schema else values
        )
    if kind == "object" and isinstance(value, dict):
        return value
    if kind == "integer" and (whole := _integer(value)) is not None:
        whole = min(max(whole, schema.get("minimum", whole)), schema.get("maximum", whole))
        if whole in _INTEGERS:
            return whole
    if kind == "number" and (number := _number(value)) is not None:
        return number
    if kind == "boolean" and (isinstance(value, bool) or value in ("true", "false")):
        return value in (True, "true")
    if kind == "string" and isinstance(value, (int, float)):
        value = json.dumps(value)
    if kind == "string" and isinstance(value, str):
        if "enum" in schema and value not in schema["enum"]:
            raise UsageError(
                f"{where} is not one of the allowed values", hint="values: " + ", ".join(schema["enum"])
            )
        return storable(value)
    raise UsageError(f"{where} is not of type {kind}")


def _integer(value: Any) -> int | None:
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    try:
        whole = int(value)
        return whole if whole == float(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None

"""Items of a LangGraph store as rows of `nodes`: their names, values and filters.

An item is a node of kind `langgraph`. Its origin is "langgraph:", the labels joined by ".", "..", and the
key. Labels have no full stop and are not empty, so the first ".." ends them, and the items of a namespace are
one range of the index of origins. The node's metadata has the value and the two times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.transactions import Connection

__all__ = [
    "KIND",
    "StoredItem",
    "checked_namespace",
    "find",
    "is_taken",
    "namespaces_under",
    "origin_of",
    "page_under",
    "storable_value",
    "text_of",
]

KIND = "langgraph"
_SCHEME = "langgraph:"
_END = ".."
# The character after the full stop: the end of a range of origins.
_AFTER_STOP = "/"
_COLUMNS = "id, origin, metadata, created_at, updated_at"
_IN_RANGE = "user_id = ? AND origin <> '' AND origin >= ? AND origin < ?"


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A row of `nodes` as an item."""

    node_id: int
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


# ---- names


def checked_namespace(namespace: Sequence[str]) -> tuple[str, ...]:
    """Return the labels; UsageError for an invalid namespace. The empty one is the whole store."""
    if isinstance(namespace, str):
        raise UsageError("a namespace is a tuple of labels, not a text", hint='("memories",) has one label')
    labels = tuple(namespace)
    for place, label in enumerate(labels):
        if not isinstance(label, str) or not label or "." in label:
            raise UsageError(
                f"label {place} of a namespace is {_shown(label)}",
                hint="a label is a text that is not empty and has no full stop",
            )
    return tuple(map(storable, labels))


def _shown(label: object) -> str:
    if not isinstance(label, str):
        return f"a {type(label).__name__}, not a text"
    return "a text with a full stop" if label else "empty"


def origin_of(namespace: tuple[str, ...], key: str) -> str:
    """Return the origin of an item's node."""
    return f"{_SCHEME}{'.'.join(namespace)}{_END}{storable(key)}"


def _names_in(origin: str) -> tuple[tuple[str, ...], str]:
    path, _, key = origin.removeprefix(_SCHEME).partition(_END)
    return tuple(path.split(".")), key


def _range(prefix: tuple[str, ...]) -> tuple[str, str]:
    """Return the range of origins under a prefix; its end is exclusive."""
    begin = _SCHEME + "".join(f"{label}." for label in prefix)
    # The character after the colon of the scheme, or after the full stop of the last label.
    return begin, begin[:-1] + chr(ord(begin[-1]) + 1)


# ---- values


def storable_value(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value as it will be read again; UsageError if it is no JSON object."""
    if not isinstance(value, Mapping):
        raise UsageError(f"a value is a dict, not a {type(value).__name__}")
    try:
        written = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "the value holds what JSON cannot",
            hint="use dicts with str keys, lists, str, finite numbers, bool and None",
        ) from error
    except RecursionError as error:
        raise UsageError("the value is nested too deeply") from error
    kept: dict[str, Any] = json.loads(storable(written))
    return kept


def text_of(value: object, name: str = "") -> str:
    """Return a line `name: leaf` for each leaf of a value, as it is searched and shown."""
    return "\n".join(_lines(value, name))


def _lines(value: object, name: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _lines(below, f"{name}.{key}" if name else key)
    elif isinstance(value, (list, tuple)):
        for below in value:
            yield from _lines(below, name)
    elif value is not None:
        yield f"{name}: {value}" if name else str(value)


# ---- filters


def is_taken(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return True if a value matches all conditions of a filter: {field: value or {$gt: number}}."""
    return all(_fits(value.get(name), condition) for name, condition in (wanted or {}).items())


def _fits(value: object, condition: object) -> bool:
    if isinstance(condition, Mapping):
        if any(isinstance(name, str) and name.startswith("$") for name in condition):
            return all(_compares(value, name, limit) for name, limit in condition.items())
        return isinstance(value, Mapping) and is_taken(value, condition)
    if isinstance(condition, (list, tuple)):
        return isinstance(value, list) and len(value) == len(condition) and all(map(_fits, value, condition))
    return value == condition


def _compares(value: object, operator: str, limit: object) -> bool:
    if operator in ("$eq", "$ne"):
        return (value == limit) is (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise UsageError(
            "a filter has an unknown operator", hint="$eq, $ne, $gt, $gte, $lt and $lte are known"
        )
    order = _order(value, limit)
    if order is None:
        return False
    return {"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[operator]


def _order(value: object, limit: object) -> int | None:
    """Return -1, 0 or 1 for two numbers or two texts (such as ISO 8601 dates); None for other types."""
    if isinstance(value, (int, float)) and isinstance(limit, (int, float)):
        return (value > limit) - (value < limit)
    if isinstance(value, str) and isinstance(limit, str):
        return (value > limit) - (value < limit)
    return None


# ---- rows, inside the caller's transaction


def find(connection: Connection, user_id: str, namespace: tuple[str, ...], key: str) -> StoredItem | None:
    """Return the item of that key."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE user_id = ? AND origin <> '' AND origin = ?",
        (user_id, origin_of(namespace, key)),
    )
    return _item(rows[0]) if rows else None


def page_under(
    connection: Connection, user_id: str, prefix: tuple[str, ...], *, limit: int, offset: int
) -> list[StoredItem]:
    """Return items under a prefix, the latest changed first, ties to the latest created."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE {_IN_RANGE} ORDER BY updated_at DESC, id DESC LIMIT ? OFFSET ?",
        (user_id, *_range(prefix), limit, offset),
    )
    return [_item(row) for row in rows]


def namespaces_under(
    connection: Connection, user_id: str, prefix: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Yield each namespace that has items, in the order of the index, by one query each."""
    begin, end = _range(prefix)
    while rows := connection.execute(
        f"SELECT origin FROM nodes WHERE {_IN_RANGE} ORDER BY origin LIMIT 1", (user_id, begin, end)
    ):
        namespace, _ = _names_in(rows[0][0])
        yield namespace
        # After all origins that begin with "labels..".
        begin = f"{_SCHEME}{'.'.join(namespace)}.{_AFTER_STOP}"


def _item(row: tuple[Any, ...]) -> StoredItem:
    node_id, origin, written, created_at, updated_at = row
    namespace, key = _names_in(origin)
    try:
        metadata = json.loads(written)
    except ValueError:  # a damaged row is still an item
        metadata = {}
    value = metadata.get("value")
    return StoredItem(
        node_id,
        namespace,
        key,
        value if isinstance(value, dict) else {},
        _time(metadata.get("created_at"), created_at),
        _time(metadata.get("updated_at"), updated_at),
    )


def _time(written: object, second: int) -> datetime:
    """Return the written time, else the node's, which has whole seconds."""
    try:
        return datetime.fromisoformat(str(written))
    except ValueError:
        return datetime.fromtimestamp(second, timezone.utc)

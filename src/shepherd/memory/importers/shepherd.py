"""JSON lines of `shepherd memory export`; plain {"question": …, "answer": …} is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shepherd.escaping import storable
from shepherd.memory.importers.records import LARGEST_TIME, Bad, Entry, json_lines, moment
from shepherd.memory.records import FactChange, NewMemory
from shepherd.types import Fact

__all__ = ["FORMAT", "TYPES", "VERSION", "read"]

FORMAT = "shepherd-export"
VERSION = 1
TYPES = ("memory", "fact", "fact-change", FORMAT)


def read(lines: Iterable[str | bytes | Mapping[str, Any]], now: int) -> Iterator[Entry]:
    """Yield the record of each line; empty lines are skipped."""
    for place, item in json_lines(lines):
        try:
            record = item if isinstance(item, Bad) else _record(item, now)
        except ValueError as error:
            record = Bad(place, str(error))
        if record is not None:
            yield record


def _record(entry: Mapping[str, Any], now: int) -> Entry | None:
    match entry.get("type", "memory"):
        case "memory":
            return _memory(entry, now)
        case "fact":
            return _fact(entry, now)
        case "fact-change":
            return _change(entry, now)
        case "shepherd-export":
            if entry.get("version") != VERSION:
                raise ValueError(f"made by another version of the format than {VERSION}")
            return None
        case _:
            raise ValueError("unknown type")


def _memory(entry: Mapping[str, Any], now: int) -> NewMemory:
    question, answer = _text(entry, "question"), _text(entry, "answer")
    if not question.strip() and not answer.strip():
        raise ValueError("neither question nor answer")
    return NewMemory(
        question=question,
        answer=answer,
        timestamp=_time(entry, "timestamp", now),
        source=_text(entry, "source", "import"),
        session=_text(entry, "session", ""),
        pinned=entry.get("pinned") is True,
    )


def _fact(entry: Mapping[str, Any], now: int) -> Fact:
    key, value = _text(entry, "key"), _text(entry, "value")
    if not key.strip() or not value.strip():
        raise ValueError("a fact without key or value")
    created_at = _time(entry, "created_at", now)
    updated_at = _time(entry, "updated_at", created_at)
    return Fact(key, value, created_at, updated_at, _time(entry, "valid_from", updated_at))


def _change(entry: Mapping[str, Any], now: int) -> FactChange:
    key, value = _text(entry, "key"), None if entry.get("value", "") is None else _text(entry, "value")
    if not key.strip():
        raise ValueError("a change of a fact without key")
    changed_at = _time(entry, "changed_at", now)
    return FactChange(
        key,
        value,
        _text(entry, "source", "import"),
        changed_at,
        _time(entry, "valid_from", changed_at),
        _text(entry, "statement", ""),
        _text(entry, "session", ""),
    )


def _text(entry: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = entry.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f'"{name}" is missing or not a string')
    return storable(value)


def _time(entry: Mapping[str, Any], name: str, default: int) -> int:
    value = entry.get(name, default)
    if isinstance(value, str) and (seconds := moment(value, LARGEST_TIME)) < LARGEST_TIME:
        return seconds
    # NaN compares with nothing, so it is refused as well.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LARGEST_TIME:
        raise ValueError(f"{name} is neither a time in unix seconds nor an ISO 8601 date")
    return int(value)

"""Records that importers yield, and readers of what foreign files consist of: JSON, texts, times."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import IO, Any

from shepherd.escaping import storable
from shepherd.memory.discourse import ABOUT_USER
from shepherd.memory.records import FactChange, NewMemory
from shepherd.types import Fact

__all__ = [
    "ABOUT_USER",
    "LARGEST_TIME",
    "Bad",
    "Entry",
    "json_items",
    "json_lines",
    "json_object",
    "moment",
    "relation",
    "statement",
    "text",
    "understood",
]

LARGEST_TIME = 1 << 40

_FRACTION = re.compile(r"(\.\d{6})\d+")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")

_CHUNK = 1 << 16
# No conversation is this large: a longer item is a damaged file, or an attack.
_LARGEST_ITEM = 1 << 26
# Beginning of a container, then those around it: an array, an object, an array in an object.
_OUTER = (("start_array",), ("start_map",), ("start_array", "start_map"))


@dataclass(frozen=True, slots=True)
class Bad:
    """A line or item that was not understood: its place and the problem, never its text."""

    place: str
    problem: str


Entry = NewMemory | Fact | FactChange | Bad


def json_object(line: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object that a line holds; ValueError for anything else."""
    if isinstance(line, Mapping):
        return line
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from None
    except (UnicodeDecodeError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    return entry


def json_lines(
    lines: Iterable[str | bytes | Mapping[str, Any]],
) -> Iterator[tuple[str, Mapping[str, Any] | Bad]]:
    """Yield the place and the object of each line that is not empty, or a Bad for one that holds none."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, (str, bytes)) and not line.strip():
            continue
        place = f"line {number}"
        try:
            yield place, json_object(line)
        except ValueError as error:
            yield place, Bad(place, str(error))


def json_items(file: IO[bytes], noun: str = "item") -> Iterator[tuple[str, str, Any]]:
    """Yield ("item 3", key, value) of a JSON document, or a Bad as the value where it stops being JSON.

    The items of an array have the key "". Those of an object have their own, and its arrays come item by
    item. Memory is bounded by the largest item.
    """
    # Loaded for the import of a JSON document alone.
    import ijson

    source = _BoundedText(file)
    builder = ijson.ObjectBuilder()
    outer: list[str] = []  # the containers whose items are yielded one by one
    key = ""
    number = 1
    try:
        for event, value in ijson.basic_parse(source):
            if builder.containers:
                pass
            elif event == "map_key":
                key = value
                continue
            elif event in ("end_array", "end_map"):
                outer.pop()
                continue
            elif (event, *outer) in _OUTER:
                outer.append(event)
                continue
            elif not outer:
                raise ValueError("not JSON: neither an array nor an object")
            builder.event(event, float(value) if isinstance(value, Decimal) else value)
            if not builder.containers:
                yield f"{noun} {number}", key, builder.value
                number += 1
                source.n_unparsed = 0
    except ijson.JSONError:  # its message quotes the document
        problem = "not JSON: it ends too early" if source.is_whole else "not JSON"
    except ValueError as error:
        problem = str(error)
    else:
        return
    yield f"{noun} {number}", "", Bad(f"{noun} {number}", problem)


class _BoundedText:
    """UTF-8 for ijson: without its byte order mark, with U+FFFD for invalid bytes, an item's size limited."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self.is_whole = False
        self.n_unparsed = 0

    def read(self, size: int) -> bytes:
        """Return the next piece; b"" at the end, and for `size` 0, by which ijson asks for the type."""
        found = b""
        while size and not found and not self.is_whole:
            data = self._file.read(_CHUNK)
            self.is_whole = not data
            found = self._decode(data, final=self.is_whole).encode()
        self.n_unparsed += len(found)
        if self.n_unparsed > _LARGEST_ITEM:
            raise ValueError(f"not JSON: an item of more than {_LARGEST_ITEM >> 20} MiB")
        return found


def understood(place: str, records: Iterator[Entry]) -> Iterator[Entry]:
    """Yield the records of one item, or a Bad from where a value isn't of the type that its format has there.

    One odd item must not cost those before and behind it.
    """
    try:
        yield from records
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        yield Bad(place, "a value has an unexpected type")


def text(value: object) -> str:
    """Return a text as it can be stored, trimmed; "" for anything else."""
    return storable(value).strip() if isinstance(value, str) else ""


def moment(value: object, default: int) -> int:
    """Return unix seconds of a number, or of an ISO 8601 date and time (UTC unless it says otherwise)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) < 1000 * LARGEST_TIME:  # NaN compares with nothing; a longer integer has no float
            return default
        # Some programs count milliseconds.
        seconds = value / 1000 if abs(value) >= 1e11 else value
        return int(seconds) if abs(seconds) < LARGEST_TIME else default
    if isinstance(value, str) and _DAY.match(value.strip()):
        written = _FRACTION.sub(r"\1", value.strip().replace("Z", "+00:00").replace("z", "+00:00"))
        try:
            parsed = datetime.fromisoformat(written)
        except ValueError:
            return default
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)
        return int(aware.timestamp())
    return default


def statement(subject: str, said: str, timestamp: int, source: str, session: str = "") -> NewMemory:
    """Return a bare statement as a memory; its subject is the question."""
    return NewMemory(subject, said, timestamp, source, session)


def relation(subject: str, verb: str, target: str, timestamp: int, source: str) -> NewMemory | None:
    """Return an edge of a graph as a statement about its first node; None where a part is empty."""
    if not (subject and verb and target):
        return None
    return statement(subject, f"{subject} {verb.replace('_', ' ')} {target}", timestamp, source)

"""What importers give, and how they read single values: texts, times, JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from shepherd.escaping import storable
from shepherd.memory.records import FactChange, NewMemory
from shepherd.types import Fact

__all__ = ["ABOUT_USER", "LARGEST_TIME", "Bad", "Entry", "json_object", "moment", "statement", "text"]

LARGEST_TIME = 1 << 40
# The question of what others keep as bare statements about their user. Its words are stop words: it weighs
# nothing in a search, and "User: About me, Assistant: Likes tea" reads as what it is.
ABOUT_USER = "About me"

_FRACTION = re.compile(r"(\.\d{6})\d+")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Bad:
    """A line or item that was not understood: where, and why. Never what it said."""

    place: str
    problem: str


Entry = NewMemory | Fact | FactChange | Bad


def json_object(line: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that a line holds; ValueError otherwise."""
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


def text(value: object) -> str:
    """A text as it can be stored, trimmed; "" for anything else."""
    return storable(value).strip() if isinstance(value, str) else ""


def moment(value: object, default: int) -> int:
    """Unix seconds of a number, or of a date and time as ISO 8601 writes it (UTC unless it says)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        seconds = float(value)
        # Milliseconds, of those who count in them.
        seconds = seconds / 1000 if abs(seconds) >= 1e11 else seconds
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
    """A bare statement as a memory: what it is about is the question."""
    return NewMemory(subject, said, timestamp, source, session)

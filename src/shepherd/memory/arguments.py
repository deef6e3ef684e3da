"""What callers hand in, as a database can take it; UsageError for what is no such thing."""

from __future__ import annotations

from shepherd._native import text as native
from shepherd.errors import UsageError
from shepherd.escaping import storable

__all__ = ["extract_keywords", "share", "unix_seconds", "whole"]

# Of whole numbers in either database. More rows than this nobody has.
_LARGEST = (1 << 63) - 1
_LARGEST_TIME = 1 << 40


def whole(n: int) -> int:
    """How many rows, or after how many: at least 0."""
    return min(max(n, 0), _LARGEST)


def share(name: str, value: float) -> float:
    """A number from 0 to 1."""
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name}: {value} is not between 0 and 1")
    return value


def unix_seconds(moment: float) -> int:
    """A time, in whole seconds."""
    if not abs(moment) < _LARGEST_TIME:
        raise UsageError(
            "timestamp: not a time in unix seconds", hint="give seconds since 1970, not milliseconds"
        )
    return int(moment)


def extract_keywords(text: str) -> list[str]:
    """The words that a text is searched by."""
    try:
        return native.keywords(text)
    except UnicodeError:
        return native.keywords(storable(text))

"""Traces as lines, one path with its value each: what a PathMap is filled from, and read from.

    /context/a1b2/000003/budget/total<TAB>4096
    /context/a1b2/000003/model<TAB>"mini"

The value is JSON, so that its kind and every character of it come back. Paths have no control characters:
the first tab ends them, a line feed ends the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from shepherd.errors import UsageError
from shepherd.trace.paths import Value, checked_path
from shepherd.trace.records import plain

__all__ = ["line_of", "read_lines"]


def line_of(path: str, value: Value) -> str:
    """The line of one path, with its end."""
    return f"{path}\t{json.dumps(value, ensure_ascii=False)}\n"


def read_lines(file: BinaryIO) -> Iterator[tuple[str, Value]]:
    """The paths and values of lines; UsageError names the line that is none. Empty lines are skipped."""
    return _parsed(enumerate(file, 1))


def _parsed(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[str, Value]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            path, tab, text = line.decode().rstrip("\n").partition("\t")
            if not tab:
                raise ValueError("there is no tab in it")
            yield checked_path(path), _value(text)
        except (ValueError, UsageError) as error:
            # UnicodeDecodeError and JSONDecodeError repeat what stands there.
            what = str(error) if type(error) in (ValueError, UsageError) else "not UTF-8, or not JSON"
            raise UsageError(
                f"line {number}: {what}", hint="a line is a path, a tab and a value in JSON"
            ) from None


def _value(text: str) -> Value:
    value = json.loads(text)
    if not isinstance(value, (str, int, float)) or plain(value) != value:
        raise ValueError("the value has to be text, a number that 64 bits hold, true or false")
    return plain(value)

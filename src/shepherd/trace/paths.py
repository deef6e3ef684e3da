"""Paths of traces, /context/{session}/{turn}/…: segments, patterns, and differences between two turns.

A segment is text whose `/`, `%`, `*` and control characters are percent-encoded, so that a path can be split,
matched and written on one line. Numbers are zero-padded: the order of the bytes is the order of the turns.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shepherd.errors import UsageError
from shepherd.escaping import storable

__all__ = [
    "LAST_TURN",
    "ROOT",
    "Change",
    "Value",
    "after",
    "checked_path",
    "decode_segment",
    "diff",
    "encode_segment",
    "has_wildcard",
    "index_segment",
    "session_path",
    "shown_path",
    "split",
    "turn_path",
]

Value: TypeAlias = str | int | float | bool

ROOT = "/context"
_TURN_DIGITS = 6
LAST_TURN = 10**_TURN_DIGITS - 1
_INDEX_DIGITS = 4
# PostgreSQL limits an index entry to 2,704 bytes. Longer names are cut and end in a hash.
_MOST_SEGMENT_BYTES = 256
_MOST_PATH_BYTES = 2048
_HASH_CHARS = 16

_ENCODED = re.compile("[/%*\x00-\x1f\x7f]")
_ESCAPE = re.compile("%([0-9A-F]{2})")
_TURN = re.compile(rf"\d{{{_TURN_DIGITS}}}", re.ASCII)
# Segment of an empty name; no encoded name equals it.
_EMPTY = "%"


def encode_segment(text: str) -> str:
    """Encode `text` as one segment of a path; above 256 bytes it is cut and ends in `~` and a hash."""
    text = storable(text)
    if len(text) * 4 > _MOST_SEGMENT_BYTES:
        text = _cut(text)
    return _ENCODED.sub(lambda match: f"%{ord(match[0]):02X}", text) or _EMPTY


def decode_segment(segment: str) -> str:
    """Decode a segment to its text."""
    return "" if segment == _EMPTY else _ESCAPE.sub(lambda match: chr(int(match[1], 16)), segment)


def index_segment(index: int) -> str:
    """Return the segment of a place in a list."""
    return f"{index:0{_INDEX_DIGITS}d}"


def session_path(session: str) -> str:
    """Return the path of a session."""
    return f"{ROOT}/{encode_segment(session)}"


def turn_path(session: str, turn: int) -> str:
    """Return the path of a turn, which is counted from 0 within its session."""
    if not 0 <= turn <= LAST_TURN:
        raise UsageError(f"there is no turn {turn}: they are numbered from 0 to {LAST_TURN}")
    return f"{session_path(session)}/{turn:0{_TURN_DIGITS}d}"


def after(path: str) -> str:
    """Return the first path behind everything below `path`; the byte after `/` is `0`."""
    return f"{path}0"


def split(path: str) -> list[str]:
    """Split a path into its encoded segments."""
    return path.strip("/").split("/")


def checked_path(path: str) -> str:
    """Return an imported `path` if a value may be stored there; raises UsageError otherwise.

    It needs a session, a turn of six digits, a name below it, and every segment in its encoded form.
    """
    segments = path.split("/")
    wrong = ""
    if not path.startswith(f"{ROOT}/") or len(segments) < 5:
        wrong = f"expected {ROOT}/SESSION/TURN/NAME"
    elif not _TURN.fullmatch(segments[3]):
        wrong = f"the turn has to be {_TURN_DIGITS} digits"
    elif len(path.encode("utf-8", "surrogatepass")) > _MOST_PATH_BYTES:
        wrong = f"more than {_MOST_PATH_BYTES:,} bytes"
    elif any(encode_segment(decode_segment(segment)) != segment for segment in segments[1:]):
        wrong = "a segment is empty, too long, or not percent-encoded as it should be"
    if wrong:
        raise UsageError(f"not a path of a trace: {wrong}")
    return path


def shown_path(path: str, *, last_session: str = "", last_turn: int | None = None) -> str:
    """Return the whole path for the short form that a person types, which may be a pattern.

    `SESSION/3/budget` is short for `/context/SESSION/000003/budget`; `last` stands for the session or turn
    given here.
    """
    path = storable(path)
    text = path.strip().strip("/")
    segments = text.split("/") if text else []
    if not path.strip().startswith("/"):
        segments = [ROOT[1:], *segments]
    if segments and segments[0] != ROOT[1:]:
        raise UsageError(f"traces begin with {ROOT}, not with /{segments[0]}", hint=f"{ROOT}/SESSION/TURN/…")
    if len(segments) > 1 and segments[1] == "last" and last_session:
        segments[1] = encode_segment(last_session)
    if len(segments) > 2:
        segments[2] = _shown_turn(segments[2], last_turn)
    return "/" + "/".join(segments or [ROOT[1:]])


def _shown_turn(segment: str, last_turn: int | None) -> str:
    if segment == "last" and last_turn is not None:
        return f"{last_turn:0{_TURN_DIGITS}d}"
    return segment.zfill(_TURN_DIGITS) if segment.isdecimal() and segment.isascii() else segment


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= _MOST_SEGMENT_BYTES:
        return text
    digest = hashlib.sha256(data).hexdigest()[:_HASH_CHARS]
    beginning = data[: _MOST_SEGMENT_BYTES - _HASH_CHARS - 1].decode("utf-8", "ignore")
    return f"{beginning}~{digest}"


def has_wildcard(segments: Sequence[str]) -> bool:
    """Return whether one of the segments is `*`."""
    return "*" in segments


@dataclass(frozen=True, slots=True)
class Change:
    """A difference at one path; None for the side that lacks it."""

    path: str
    before: Value | None
    after: Value | None


def diff(
    before: Iterable[tuple[str, Value]],
    after: Iterable[tuple[str, Value]],
    *,
    before_root: str = "",
    after_root: str = "",
) -> list[Change]:
    """Return the changes from one set of paths to another, in their order, without the roots."""
    old = {path[len(before_root) :].lstrip("/"): value for path, value in before}
    new = {path[len(after_root) :].lstrip("/"): value for path, value in after}
    return [
        Change(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if not _same(old.get(path), new.get(path))
    ]


def _same(one: Value | None, other: Value | None) -> bool:
    # A change of the kind counts, too: True is not 1, and 1 is not 1.0.
    return type(one) is type(other) and one == other

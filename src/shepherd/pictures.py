"""Pictures in messages: what is accepted as one, and where it stands in a text."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator, Sequence

from shepherd.errors import UsageError
from shepherd.types import Message, Picture

__all__ = [
    "LEFT_OUT",
    "MARK",
    "MOST_BYTES",
    "MOST_PICTURES",
    "check",
    "from_base64",
    "from_data_url",
    "has_pictures",
    "marked",
    "no_pictures",
    "picture_of",
    "size_of",
    "with_marks",
    "without_pictures",
]

# Stands in `composed` and `sent` for a picture; those without one precede the text.
MARK = "\ufffc"
# Stands for a picture that a model does not read.
LEFT_OUT = "[picture]"
MOST_PICTURES = 16  # of one request or message
MOST_BYTES = 20 << 20
_MOST_PIXELS = 40_000_000  # decoded, three bytes each
_MOST_SIDE = 16_384

_KINDS = "PNG, JPEG, GIF or BMP"
_DATA_URL = re.compile(r"data:([a-zA-Z0-9.+-]*/?[a-zA-Z0-9.+-]*)(;[^,]*)?,")
# Formats that people send and llama.cpp does not read.
_OTHERS = (
    (b"RIFF", "WebP"), (b"II*\0", "TIFF"), (b"MM\0*", "TIFF"), (b"<svg", "SVG"), (b"<?xml", "SVG"),
    (b"\0\0\0\x01JXL", "JPEG XL"), (b"\xff\x0a", "JPEG XL"), (b"%PDF", "PDF"), (b"8BPS", "PSD"),
)  # fmt: skip


def picture_of(data: bytes) -> Picture:
    """Return the picture in a file's bytes. Raises UsageError when it is none, or too large."""
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"the picture has {len(data) / 1e6:.1f} MB; at most {MOST_BYTES / 1e6:.0f} MB are read",
            hint="make it smaller",
        )
    width, height = size_of(data)
    if not width or not height:
        raise UsageError("the picture has no pixels", hint=f"use a {_KINDS} file")
    if width * height > _MOST_PIXELS or max(width, height) > _MOST_SIDE:
        raise UsageError(
            f"the picture has {width} x {height} pixels; at most {_MOST_PIXELS // 10**6} million are read,"
            f" and {_MOST_SIDE} on a side",
            hint="make it smaller: models scale pictures down",
        )
    return Picture(data)


def size_of(data: bytes) -> tuple[int, int]:
    """Return width and height by the file's header. Raises UsageError when it is no picture that is read."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 33:
        return struct.unpack_from(">II", data, 16)
    if data.startswith(b"\xff\xd8\xff") and (size := _size_of_jpeg(data)):
        return size
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 13:
        return struct.unpack_from("<HH", data, 6)
    if data.startswith(b"BM") and len(data) >= 26:
        width, height = struct.unpack_from("<ii", data, 18)
        return abs(width), abs(height)
    other = next((name for start, name in _OTHERS if data.startswith(start)), "")
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif"):
        other = "AVIF" if data[8:12] == b"avif" else "HEIC"
    if other:
        raise UsageError(
            f"the picture is a {other} file, which can't be read", hint=f"convert it to {_KINDS}"
        )
    raise UsageError("this is no picture", hint=f"use a {_KINDS} file")


def _size_of_jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return None


def from_base64(text: str) -> Picture:
    """Return the picture of base64 text. Raises UsageError."""
    # Whitespace aside, as clients break lines; then what is left must be base64 to its end.
    if len(text) > MOST_BYTES * 3 // 2:
        raise UsageError("the picture is too large", hint=f"at most {MOST_BYTES / 1e6:.0f} MB are read")
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("the picture is no valid base64", hint="encode the file's bytes as base64") from None
    return picture_of(data)


def from_data_url(url: str) -> Picture:
    """Return the picture of a data: URL. Raises UsageError."""
    match = _DATA_URL.match(url[:200])
    if match is None or "base64" not in (match[2] or ""):
        raise UsageError(
            "the picture's address is no data: URL with base64", hint="write data:image/png;base64,…"
        )
    return from_base64(url[match.end() :])


def marked(parts: Sequence[str | Picture]) -> tuple[str, tuple[Picture, ...]]:
    """Return the text of these parts with a mark for each picture, and the pictures."""
    text = "".join(MARK if isinstance(part, Picture) else part.replace(MARK, "") for part in parts)
    return text, tuple(part for part in parts if isinstance(part, Picture))


def no_pictures(problem: str = "") -> UsageError:
    """Return the error of a model that is sent a picture and reads none; `problem` says why."""
    return UsageError(
        f"the model reads text, no pictures{f': {problem}' if problem else ''}",
        hint="use a model with a projector (mmproj) file beside it, or name the file in the setting mmproj",
    )


def check(pictures: Sequence[Picture]) -> None:
    """Raise UsageError when these are more pictures than one request may have."""
    if len(pictures) > MOST_PICTURES:
        raise UsageError(
            f"there are {len(pictures)} pictures; at most {MOST_PICTURES} are read", hint="send fewer"
        )


def has_pictures(messages: Sequence[Message]) -> bool:
    """Return whether any message has a picture."""
    return any(message.pictures for message in messages)


def with_marks(message: Message) -> Message:
    """Return the message with as many marks as it has pictures: those that lack one precede the text."""
    n_marks, n_pictures = message.sent.count(MARK), len(message.pictures)
    if n_marks == n_pictures:
        return message
    copy = message.copy()
    pieces = message.sent.split(MARK, n_pictures)
    copy.sent = MARK * max(0, n_pictures - n_marks) + MARK.join([*pieces[:-1], pieces[-1].replace(MARK, "")])
    return copy


def without_pictures(message: Message) -> Message:
    """Return the message with a word in place of each picture, for a model that reads none."""
    if not message.pictures:
        return message
    copy = message.copy()
    copy.pictures = ()
    copy.sent = "".join(_replaced(message))
    return copy


def _replaced(message: Message) -> Iterator[str]:
    n_marks = message.sent.count(MARK)
    yield "".join(f"{LEFT_OUT}\n" for _ in message.pictures[n_marks:])
    yield message.sent.replace(MARK, LEFT_OUT)

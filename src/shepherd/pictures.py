"""Pictures in messages: what is accepted as one, and where it stands in a text."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Sequence
from itertools import zip_longest
from operator import attrgetter

from shepherd.errors import UsageError
from shepherd.types import Message, Picture

__all__ = [
    "KINDS",
    "LEFT_OUT",
    "MARK",
    "MOST_BYTES",
    "MOST_PICTURES",
    "base64_of",
    "from_base64",
    "from_data_url",
    "has_pictures",
    "looks_like_picture",
    "marked",
    "media_type_of",
    "no_pictures",
    "parts_of",
    "picture_of",
    "size_of",
    "with_marks",
    "without_pictures",
]

# Stands in `composed` and `sent` for a picture; those without one precede the text.
MARK = "\ufffc"
# Stands for a picture that a model does not read.
LEFT_OUT = "[picture]"
MOST_PICTURES = 64  # of one conversation
MOST_BYTES = 20 << 20
_MOST_PIXELS = 40_000_000  # decoded, three bytes each
_MOST_SIDE = 16_384
_MOST_SEGMENTS = 4096  # of a JPEG before its size

KINDS = "PNG, JPEG, GIF or BMP"
_DATA_URL = re.compile(r"data:([a-zA-Z0-9.+-]*/?[a-zA-Z0-9.+-]*)(;[^,]*)?,", re.IGNORECASE)
# Formats that people send and llama.cpp does not read.
_OTHERS = (
    (b"II*\0", "TIFF"), (b"MM\0*", "TIFF"), (b"<svg", "SVG"), (b"<?xml", "SVG"),
    (b"\0\0\0\x01JXL", "JPEG XL"), (b"\xff\x0a", "JPEG XL"), (b"%PDF", "PDF"), (b"8BPS", "PSD"),
)  # fmt: skip
_PICTURES = frozenset({"AVIF", "HEIC", "WebP", "TIFF", "JPEG XL", "PSD"})


def picture_of(data: bytes) -> Picture:
    """Return the picture in a file's bytes. Raises UsageError when it is none, or too large."""
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"the picture has {len(data) / 1e6:.1f} MB; at most {MOST_BYTES / 1e6:.0f} MB are read",
            hint="make it smaller",
        )
    width, height = size_of(data)
    if not width or not height:
        raise UsageError("the picture has no pixels", hint=f"use a {KINDS} file")
    if width * height > _MOST_PIXELS or max(width, height) > _MOST_SIDE:
        raise UsageError(
            f"the picture has {width} x {height} pixels; at most {_MOST_PIXELS // 10**6} million are read,"
            f" and {_MOST_SIDE} on a side",
            hint="make it smaller: models scale pictures down",
        )
    return Picture(data)


def looks_like_picture(beginning: bytes) -> bool:
    """Return whether a file that begins so is a picture, of any format that we know."""
    own = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM")
    return _name_of_other(beginning) in _PICTURES or (
        beginning.startswith(own) and (not beginning.startswith(b"BM") or beginning[6:10] == b"\0\0\0\0")
    )


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
    if data.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8")):
        raise UsageError("the picture is damaged or cut short", hint="save or send it again")
    if other := _name_of_other(data):
        raise UsageError(f"the picture is a {other} file, which can't be read", hint=f"convert it to {KINDS}")
    raise UsageError("this is not a picture", hint=f"use a {KINDS} file")


def _name_of_other(data: bytes) -> str:
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif"):
        return "AVIF" if data[8:12] == b"avif" else "HEIC"
    if data.startswith(b"RIFF"):
        return "WebP" if data[8:12] == b"WEBP" else "RIFF"
    return next((name for start, name in _OTHERS if data.startswith(start)), "")


def _size_of_jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if at + 9 > len(data) or data[at] != 0xFF:
            break
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
        raise UsageError(
            "the picture is not valid base64", hint="encode the file's bytes as base64"
        ) from None
    return picture_of(data)


def from_data_url(url: str) -> Picture:
    """Return the picture of a data: URL. Raises UsageError."""
    match = _DATA_URL.match(url[:200])
    if match is None or "base64" not in (match[2] or "").lower():
        raise UsageError(
            "the picture's address is not a data: URL with base64", hint="write data:image/png;base64,…"
        )
    return from_base64(url[match.end() :])


def marked(parts: Sequence[str | Picture]) -> tuple[str, tuple[Picture, ...]]:
    """Return the text of these parts with a mark for each picture, and the pictures."""
    text = "".join(MARK if isinstance(part, Picture) else part.replace(MARK, "") for part in parts)
    return text, tuple(part for part in parts if isinstance(part, Picture))


def no_pictures(problem: str = "") -> UsageError:
    """Return the error of a model that is sent a picture and reads none; `problem` says why."""
    return UsageError(
        f"the model reads only text, no pictures{f': {problem}' if problem else ''}",
        hint="use a model with a projector (mmproj) file beside it, or name the file in the setting mmproj",
    )


def media_type_of(picture: Picture) -> str:
    """Return the media type of a picture that `picture_of` accepted."""
    starts = {b"\x89PNG": "image/png", b"\xff\xd8": "image/jpeg", b"GIF8": "image/gif", b"BM": "image/bmp"}
    return next(kind for start, kind in starts.items() if picture.data.startswith(start))


def base64_of(picture: Picture) -> str:
    """Return the picture's file as base64 text."""
    return base64.b64encode(picture.data).decode("ascii")


def parts_of(message: Message) -> list[str | Picture]:
    """Return the text that is sent, with the pictures in it, in order and without empty texts."""
    if not message.pictures:
        return [message.sent] if message.sent else []
    parts: list[str | Picture] = []
    for text, picture in zip_longest(with_marks(message).sent.split(MARK), message.pictures):
        parts += [text.strip("\n")] if text and text.strip() else []
        parts += [picture] if picture is not None else []
    return parts


_pictures_of = attrgetter("pictures")


def has_pictures(messages: Sequence[Message]) -> bool:
    """Return whether any message has a picture."""
    return any(map(_pictures_of, messages))


def with_marks(message: Message) -> Message:
    """Return the message with as many marks as it has pictures: those that lack one precede the text."""
    n_marks, n_pictures = message.sent.count(MARK), len(message.pictures)
    if n_marks == n_pictures:
        return message
    copy = message.copy()
    pieces = message.sent.split(MARK, n_pictures)
    before = f"{MARK}\n" * max(0, n_pictures - n_marks)
    copy.sent = before + MARK.join([*pieces[:-1], pieces[-1].replace(MARK, "")])
    copy.composed = before + message.content
    return copy


def without_pictures(message: Message) -> Message:
    """Return the message with a word in place of each picture, for a model that reads none."""
    if not message.pictures:
        return message
    copy = with_marks(message)
    copy = copy.copy() if copy is message else copy
    copy.sent = copy.sent.replace(MARK, LEFT_OUT)
    copy.composed = copy.content.replace(MARK, LEFT_OUT)
    copy.pictures, copy.tokens = (), 0
    return copy

"""What is accepted as a picture, by its first bytes, and where pictures stand in a text."""

from __future__ import annotations

import base64
import struct

import pytest

from shepherd.errors import UsageError
from shepherd.pictures import (
    LEFT_OUT,
    MARK,
    from_base64,
    from_data_url,
    looks_like_picture,
    marked,
    media_type_of,
    parts_of,
    picture_of,
    size_of,
    with_marks,
    without_pictures,
)
from shepherd.types import Message, Picture
from tests.vision_models import png

# Red, 16 x 16, as a browser writes it; a GIF of one red pixel.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/4gHYSUNDX1BST0ZJTEUAAQEAAAHIAAAAAAQwAABtbnRyUkdCIFhZWiAH4AABAAEAAAAAAABh"
    "Y3NwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAA9tYAAQAAAADTLQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAlkZXNjAAAA8AAAACRyWFlaAAABFAAAABRnWFlaAAABKAAAABRiWFlaAAABPAAAABR3dHB0AAAB"
    "UAAAABRyVFJDAAABZAAAAChnVFJDAAABZAAAAChiVFJDAAABZAAAAChjcHJ0AAABjAAAADxtbHVjAAAAAAAAAAEAAAAMZW5VUwAA"
    "AAgAAAAcAHMAUgBHAEJYWVogAAAAAAAAb6IAADj1AAADkFhZWiAAAAAAAABimQAAt4UAABjaWFlaIAAAAAAAACSgAAAPhAAAts9Y"
    "WVogAAAAAAAA9tYAAQAAAADTLXBhcmEAAAAAAAQAAAACZmYAAPKnAAANWQAAE9AAAApbAAAAAAAAAABtbHVjAAAAAAAAAAEAAAAM"
    "ZW5VUwAAACAAAAAcAEcAbwBvAGcAbABlACAASQBuAGMALgAgADIAMAAxADb/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0o"
    "OjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2Nj"
    "Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAQABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAX/"
    "xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAABQb/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIR"
    "AxEAPwCKALXj/9k="
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==")
BMP = (
    struct.pack("<2sIHHI", b"BM", 54 + 16, 0, 0, 54)
    + struct.pack("<IiiHHIIiiII", 40, 2, -2, 1, 24, 0, 16, 0, 0, 0, 0)
    + (b"\0\0\xff" * 2 + b"\0\0") * 2
)
RED, BLUE = Picture(png("red")), Picture(png("blue"))


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (JPEG, "image/jpeg", (16, 16)),
        (GIF, "image/gif", (1, 1)),
        (BMP, "image/bmp", (2, 2)),
        (png("red", 5, height=7), "image/png", (5, 7)),
    ],
)
def test_formats_are_known_by_their_first_bytes(data, kind, size):
    assert size_of(data) == size
    assert media_type_of(picture_of(data)) == kind
    assert looks_like_picture(data[:64])
    assert from_base64(base64.encodebytes(data).decode()).data == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a picture"),
        (b"hello", "not a picture"),
        (b"ID3\3audio", "not a picture"),
        (b"RIFF\0\0\0\0WAVEfmt ", "RIFF file"),
        (b"\0\0\0\x18ftypheic", "HEIC file"),
        (b"\0\0\0\x18ftypavif", "AVIF file"),
        (b"<svg xmlns=", "SVG file"),
        (b"%PDF-1.4", "PDF file"),
        (JPEG[:20], "cut short"),
        (b"\xff\xd8" + b"\xff" * 9000 + JPEG[2:], "cut short"),
        (png("red")[:20], "cut short"),
        (struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 0, 9) + b"\0" * 9, "no pixels"),
        (struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 9000, 9000) + b"\0" * 9, "9000 x 9000"),
        (png("red") + b"\0" * (20 << 20), "21.0 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_picture_says_why(data, why):
    with pytest.raises(UsageError, match=why):
        picture_of(data)


def png_of(width, height, n_bytes=40):
    """A picture by its head alone, with so many bytes."""
    head = struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", width, height)
    return head + bytes(n_bytes - len(head))


@pytest.mark.parametrize(
    ("within", "beyond", "why"),
    [
        ((8000, 5000), (8000, 5001), "8000 x 5001 pixels; at most 40 million are read, and 16384 on a side"),
        ((16_384, 1), (16_385, 1), "16385 x 1 pixels"),
        ((1, 16_384), (1, 16_385), "1 x 16385 pixels"),
        ((1, 1, 20 << 20), (1, 1, (20 << 20) + 1), "21.0 MB; at most 21 MB are read"),
        ((1, 1), (0, 1), "no pixels"),
        ((1, 1), (1, 0), "no pixels"),
        ((1, 1, 33), (1, 1, 32), "cut short"),
    ],
)
def test_a_picture_can_be_as_large_as_its_limits(within, beyond, why):
    assert picture_of(png_of(*within)).data == png_of(*within)
    with pytest.raises(UsageError, match=why):
        picture_of(png_of(*beyond))


@pytest.mark.parametrize("data", [b"", b"BM is how it begins", b"%PDF-1.4", b"<svg", b"# A text\n"])
def test_texts_and_documents_do_not_look_like_pictures(data):
    assert not looks_like_picture(data)


def test_pictures_stand_where_their_marks_are():
    text, pictures = marked(["a", RED, "b" + MARK, BLUE])
    message = Message("user", "a\nb", composed=text, pictures=pictures)

    assert (text, pictures) == (f"a{MARK}b{MARK}", (RED, BLUE))
    assert parts_of(message) == ["a", RED, "b", BLUE]
    assert with_marks(message) is message
    assert without_pictures(message).sent == f"a{LEFT_OUT}b{LEFT_OUT}"
    assert (message.sent, message.pictures) == (text, (RED, BLUE))


def test_pictures_without_a_mark_precede_the_text_and_other_marks_go():
    message = Message("user", "what is it?", pictures=(RED, BLUE), tokens=9)
    message.sent += " (tail)"

    assert parts_of(message) == [RED, BLUE, "what is it? (tail)"]
    stored = without_pictures(message)
    assert (stored.raw, stored.pictures, stored.tokens) == ("what is it?", (), 0)
    assert stored.sent == f"{LEFT_OUT}\n{LEFT_OUT}\nwhat is it? (tail)"
    assert stored.sent.startswith(stored.composed)
    assert message.pictures == (RED, BLUE)
    many = Message("user", f"a{MARK}b{MARK}c", pictures=(RED,))
    assert parts_of(many) == ["a", RED, "bc"]


def test_a_picture_is_equal_by_its_contents_and_shows_none_of_them():
    assert Picture(png("red")) == RED != BLUE
    assert hash(Picture(png("red"))) == hash(RED)
    assert len(repr(RED)) < 200


def segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, 2 + len(payload)) + payload


# Bits, height, width, one component.
FRAME = struct.pack(">BHHB3s", 8, 7, 5, 1, b"\x01\x11\x00")


@pytest.mark.parametrize("marker", [0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC7, 0xC9, 0xCB, 0xCD, 0xCF])
def test_the_size_of_a_jpeg_is_in_the_head_of_its_frame(marker):
    before = segment(0xE0, bytes(14)) + segment(0xBF, bytes(20)) + segment(0xD0, bytes(20))
    # Tables, extensions and conditioning are no frames, though their markers lie between those of frames.
    tables = b"".join(segment(other, bytes(30)) for other in (0xC4, 0xC8, 0xCC))

    assert size_of(b"\xff\xd8" + before + tables + segment(marker, FRAME)) == (5, 7)
    assert size_of(b"\xff\xd8\xff\xff" + before + segment(marker, FRAME)) == (5, 7)
    with pytest.raises(UsageError, match="damaged or cut short"):
        size_of(b"\xff\xd8" + before + segment(marker, FRAME)[:8])
    with pytest.raises(UsageError, match="damaged or cut short"):
        size_of(b"\xff\xd8" + before + tables)


def test_a_picture_comes_as_base64_or_as_a_data_url():
    data = base64.b64encode(GIF).decode()

    for url in (
        f"data:image/gif;base64,{data}",
        f"DATA:image/gif;BASE64,{data}",
        f"data:;base64,{data}",
        f"data:image/gif;charset=x;base64,{data[:8]}\n {data[8:]}",
    ):
        assert from_data_url(url).data == GIF
    assert from_base64(f" {data}\n").data == GIF
    for url in (f"data:image/gif,{data}", f"http://x/{data}", f"x data:image/gif;base64,{data}", ""):
        with pytest.raises(UsageError, match="not a data: URL with base64"):
            from_data_url(url)
    with pytest.raises(UsageError, match="not valid base64"):
        from_base64(data[:-1])


def test_base64_of_more_than_a_picture_can_have_is_not_decoded():
    data = base64.b64encode(GIF).decode()
    most = (20 << 20) * 3 // 2

    assert from_base64(" " * (most - len(data)) + data).data == GIF
    with pytest.raises(UsageError, match="the picture is too large") as caught:
        from_base64(" " * (most + 1 - len(data)) + data)
    assert caught.value.hint == "at most 21 MB are read"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0\x18ftypheic", "HEIC"), (b"\0\0\0\x18ftypmif1", "HEIC"), (b"\0\0\0\x18ftypavif", "AVIF"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "WebP"), (b"RIFF\0\0\0\0WAVE", "RIFF"),
    ],
)  # fmt: skip
def test_other_pictures_are_called_by_their_names(data, name):
    with pytest.raises(UsageError, match=f"the picture is a {name} file, which can't be read"):
        size_of(data + bytes(20))


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (BMP[:26], (2, 2)),
        (BMP[:25], None),
        (GIF[:13], (1, 1)),
        (GIF[:12], None),
        (png("red", 5, height=7)[:33], (5, 7)),
        (png("red", 5, height=7)[:32], None),
        (b"\xff\xd8" + segment(0xC0, FRAME)[:9], (5, 7)),
        (b"\xff\xd8" + segment(0xC0, FRAME)[:8], None),
        (b"\xff\xd8\xff" + segment(0xC0, FRAME), (5, 7)),
        (b"\xff\xd8" + b"\xff" * 4095 + segment(0xC0, FRAME), (5, 7)),
        (b"\xff\xd8" + b"\xff" * 4096 + segment(0xC0, FRAME), None),
    ],
)
def test_a_picture_has_a_size_from_its_head_on(data, size):
    if size is not None:
        assert size_of(data) == size
    else:
        with pytest.raises(UsageError):
            size_of(data)

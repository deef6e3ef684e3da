"""Texts and pictures of messages, in the order in which they were sent."""

from __future__ import annotations

import base64

import pytest

from shepherd.pictures import LEFT_OUT, MOST_PICTURES, from_base64
from shepherd.server.contents import (
    Note,
    Part,
    check_pictures,
    kept_picture,
    message_of,
    noted,
    picture_from_base64,
    picture_from_url,
    stored_item,
)
from shepherd.server.errors import Denied
from shepherd.types import Message, Picture, ToolCall
from tests.vision_models import png

DATA = base64.b64encode(png(2, 2)).decode()
URL = f"data:image/png;base64,{DATA}"
CALL = ToolCall("1", "look", "{}")


@pytest.fixture
def picture() -> Picture:
    return from_base64(DATA)


def test_texts_and_pictures_keep_their_order(picture: Picture) -> None:
    content = ["before", picture, picture, "between", "behind"]

    message = message_of("user", content, tool_call_id="7")

    assert (message.raw, message.pictures, message.tool_call_id) == (
        "before\nbetween\nbehind", (picture, picture), "7",
    )  # fmt: skip
    assert message_of("user", [picture]).pictures == (picture,)


def test_texts_alone_are_lines_of_one() -> None:
    assert message_of("assistant", ["one", "two"], tool_calls=(CALL,)).raw == "one\ntwo"
    assert message_of("assistant", ["one"], tool_calls=(CALL,)).tool_calls == (CALL,)
    assert message_of("tool", "said", tool_call_id="3").tool_call_id == "3"
    assert not message_of("user", ["one", "two"]).pictures


def test_a_part_becomes_a_message_with_its_calls_and_its_thought() -> None:
    made = Part("assistant", ["a", "b"], (CALL,), thought="so").message()

    assert (made.role, made.raw, made.tool_calls, made.thought) == ("assistant", "a\nb", (CALL,), "so")
    assert Part("tool", ["found"], tool_call_id="1").message().tool_call_id == "1"


def test_the_model_reads_a_note_and_nobody_says_it() -> None:
    note = noted("<system-reminder>\nThe user is Zed.\n</system-reminder>")

    assert isinstance(note, Note)
    assert not isinstance(noted("I like <b-x>tea</b-x> most."), Note)
    message = message_of("user", [note, "Hello"])
    assert message.raw == "Hello"
    assert message.composed == f"{note}\nHello"


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        (5, "invalid_request", "it is not the address of a picture"),
        ("ftp://example.org/a.png", "unsupported_content", "as a data: URL"),
        ("data:image/png;base64,AAAA", "invalid_picture", ""),
    ],
)
def test_another_address_than_the_picture_itself_is_refused(url: object, code: str, said: str) -> None:
    with pytest.raises(Denied, match=r"^messages\.0: ") as caught:
        picture_from_url(url, "messages.0")

    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, "messages.0")
    assert said in str(caught.value)


def test_pictures_come_as_base64_or_as_an_address_in_any_case(picture: Picture) -> None:
    assert picture_from_base64(DATA, "x") == picture
    for url in (URL, f"DATA:image/PNG;BASE64,{DATA}"):
        assert picture_from_url(url, "x") == picture
    with pytest.raises(Denied, match="x: it is not base64 text"):
        picture_from_base64(None, "x")


def test_a_picture_of_a_stored_item_is_kept_beside_it(picture: Picture) -> None:
    text, seen = (
        {"type": "input_text", "text": "hi"},
        {"type": "input_image", "image_url": URL, "detail": "low"},
    )

    stored = stored_item({"id": "a", "content": [text, seen, "odd"], "output": "none"})

    address = stored["content"][1]["image_url"]
    assert stored == {
        "id": "a", "content": [text, {**seen, "image_url": address}, "odd"], "output": "none",
    }  # fmt: skip
    assert address.startswith("shepherd-picture:")
    assert DATA not in address
    assert kept_picture(address) == picture
    assert stored_item(stored) == stored
    assert stored_item({"output": [seen]})["output"][0]["image_url"] == address
    assert kept_picture("shepherd-picture:00") == LEFT_OUT
    assert kept_picture(None) is kept_picture(URL) is None
    other = {"type": "other", "image_url": URL}
    assert stored_item({"content": [other]}) == {"content": [other]}


class _Model:
    def __init__(self, *, reads_pictures: bool, problem: str = "") -> None:
        self.reads_pictures, self.picture_problem = reads_pictures, problem


def test_pictures_need_a_model_that_reads_them_and_are_not_too_many(picture: Picture) -> None:
    one, most = message_of("user", [picture]), message_of("user", [picture] * MOST_PICTURES)
    blind = _Model(reads_pictures=False, problem="no projector")

    check_pictures([Message("user", "hi")], blind)  # type: ignore[arg-type]
    check_pictures([most], _Model(reads_pictures=True))  # type: ignore[arg-type]
    with pytest.raises(Denied, match=r"reads only text, no pictures \(no projector\)") as caught:
        check_pictures([one], blind)  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.code) == (400, "unsupported_content")
    with pytest.raises(Denied, match=r"no pictures$"):
        check_pictures([one], _Model(reads_pictures=False))  # type: ignore[arg-type]
    with pytest.raises(Denied, match="more than") as caught:
        check_pictures([most, one], _Model(reads_pictures=True))  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")

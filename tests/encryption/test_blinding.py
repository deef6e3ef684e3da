"""Stored values of a blind memory: they come back unchanged, only with the right key, user and kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import PREFIX, Blinder, BlindError, Row
from shepherd.errors import StoreKeyError

SALT = b"s" * 16
BLINDER = Blinder(MemoryKey(b"k" * 32, SALT))
OTHER_KEY = Blinder(MemoryKey(b"l" * 32, SALT))
ANNA, BOB = BLINDER.tag("anna"), BLINDER.tag("bob")

ROW = (7, "a session", None)

texts = st.text(st.characters(codec="utf-8"))


@given(texts, st.booleans())
def test_text_comes_back_and_takes_as_many_bytes_as_was_said(text: str, is_random: bool) -> None:
    stored = BLINDER.text(text, ANNA, "kind", ROW, is_random=is_random)

    assert BLINDER.text_of(stored, ANNA, "kind", ROW, is_random=is_random) == text if text else stored == ""
    assert len(stored.encode()) == BLINDER.size_of(len(text.encode()), is_random=is_random)
    assert not text or (stored.startswith(PREFIX) and text not in stored[len(PREFIX) :]) or len(text) < 4


@given(st.binary())
def test_bytes_come_back(data: bytes) -> None:
    stored = BLINDER.data(data, ANNA, "kind", ROW)

    assert BLINDER.data_of(stored, ANNA, "kind", ROW) == data if data else stored == b""


def test_equal_texts_can_be_found_for_one_user_and_kind_alone() -> None:
    def stored(
        tag: bytes, kind: str, blinder: Blinder = BLINDER, row: Row | None = ROW, *, is_random: bool = False
    ) -> str:
        return blinder.text("Lisbon", tag, kind, row, is_random=is_random)

    same = stored(ANNA, "kind")
    assert stored(ANNA, "kind") == same
    others = [
        stored(BOB, "kind"),
        stored(ANNA, "other"),
        stored(ANNA, "kind", OTHER_KEY),
        *(stored(ANNA, "kind", row=row) for row in (None, (), (7, "a session"), ("7", "a session", None))),
        stored(ANNA, "kind", is_random=True),
        stored(ANNA, "kind", is_random=True),
    ]
    assert len({same, *others}) == 10
    # Not only the tag in front differs.
    assert len({one[20:44] for one in (same, *others)}) == 10


@pytest.mark.parametrize("is_random", [False, True])
def test_what_was_changed_cut_off_or_is_another_users_is_refused(is_random: bool) -> None:
    stored = BLINDER.text("a text of some length", ANNA, "kind", ROW, is_random=is_random)
    wrong: list[tuple[str, bytes | None, str, Row | None]] = [
        (stored, BOB, "kind", ROW),
        (stored, ANNA, "other", ROW),
        (stored, ANNA, "kind", (8, "a session", None)),
        (stored, ANNA, "kind", (7, "a session", "None")),
        (stored, ANNA, "kind", ()),
        # As of the first version, whose texts could be moved.
        (stored, ANNA, "kind", None),
        (BLINDER.text("x", ANNA, "kind", None, is_random=is_random), ANNA, "kind", ROW),
        (BLINDER.text("x", BOB, "kind", ROW, is_random=is_random), ANNA, "kind", ROW),
        (PREFIX, ANNA, "kind", ROW),
        (f"{PREFIX}not base64!", ANNA, "kind", ROW),
        *((stored[:length], None, "kind", ROW) for length in range(1, len(stored))),
    ]
    for place in range(len(PREFIX), len(stored) - 3):
        other = "A" if stored[place] != "A" else "B"
        wrong.append((stored[:place] + other + stored[place + 1 :], None, "kind", ROW))

    for value, tag, kind, row in wrong:
        with pytest.raises(BlindError):
            BLINDER.text_of(value, tag, kind, row, is_random=is_random)
    with pytest.raises(BlindError):
        OTHER_KEY.text_of(stored, None, "kind", ROW, is_random=is_random)
    with pytest.raises(BlindError):
        BLINDER.text_of(stored, ANNA, "kind", ROW, is_random=not is_random)


def test_values_of_the_first_version_are_read() -> None:
    # Made by it.
    same = "\ue0b1HlYuGmR8f1XOqdAoZea4PbZ1U3ncfpGqZO0u/UH5"
    random = "\ue0b1HlYuGmR8f1W5M5stGFHjZFfqR2CzBb/kW/DG/Pul9QnZ/y4ACpx959fKGRyebw=="

    assert BLINDER.text("Lisbon", ANNA, "key or question", None, is_random=False) == same
    assert BLINDER.text_of(same, ANNA, "key or question", None, is_random=False) == "Lisbon"
    assert BLINDER.text_of(random, ANNA, "title", None, is_random=True) == "Lisbon"


def test_the_user_need_not_be_known_to_read() -> None:
    stored = BLINDER.text("of anna", ANNA, "kind", ROW, is_random=True)

    assert BLINDER.text_of(stored, None, "kind", ROW, is_random=True) == "of anna"


def test_bytes_that_were_not_made_here_are_refused() -> None:
    with pytest.raises(BlindError):
        BLINDER.data_of(b"\x01\x02\x03", ANNA, "kind", ROW)
    with pytest.raises(BlindError):
        BLINDER.data_of(BLINDER.data(b"ids", ANNA, "kind", ROW), ANNA, "other", ROW)
    with pytest.raises(BlindError):
        BLINDER.data_of(BLINDER.data(b"ids", ANNA, "kind", ROW), ANNA, "kind", (8,))


def test_words_are_hashes_with_the_key() -> None:
    words = ["t1_zebra", "t2_zebra", "t1_apple"]

    hashes = BLINDER.words(words)

    assert BLINDER.words(words) == hashes
    assert len({*hashes, *OTHER_KEY.words(words)}) == 6
    assert {len(one) for one in hashes} == {16}


def test_nothing_is_made_with_a_key_that_was_wiped() -> None:
    key = MemoryKey(b"k" * 32, SALT)
    blinder = Blinder(key)
    key.wipe()

    for use in (
        lambda: blinder.tag("anna"),
        lambda: blinder.words(["t1_zebra"]),
        lambda: blinder.number(7),
        lambda: blinder.text("zebra", ANNA, "kind", ROW, is_random=False),
    ):
        with pytest.raises(StoreKeyError, match="was wiped"):
            use()


@given(st.integers(1, (1 << 31) - 1))
def test_numbers_are_permuted(number: int) -> None:
    stored = BLINDER.number(number)

    assert 0 < stored < 1 << 31
    assert BLINDER.number_of(stored) == number


def test_other_numbers_stay_and_another_key_permutes_otherwise() -> None:
    assert [BLINDER.number(n) for n in (0, -1, 1 << 31)] == [0, -1, 1 << 31]
    some = range(1, 200)
    permuted = [BLINDER.number(n) for n in some]
    assert len(set(permuted)) == len(permuted)
    assert sum(a == b for a, b in zip(permuted, some, strict=True)) < 3
    assert permuted != [OTHER_KEY.number(n) for n in some]

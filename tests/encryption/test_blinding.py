"""Stored values of a blind memory: they come back unchanged, only with the right key, user and kind."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import PREFIX, BlindError, DerivedKeys, Row, UserCipher, size_of, tag_of
from shepherd.encryption.user_keys import KeyWrap
from shepherd.errors import StoreKeyError

SALT = b"s" * 16
DERIVED = DerivedKeys(MemoryKey(b"k" * 32, SALT))
OTHER_KEY = DerivedKeys(MemoryKey(b"l" * 32, SALT))
ANNA, BOB = DERIVED.of_user("anna"), DERIVED.of_user("bob")

ROW = (7, "a session", None)

texts = st.text(st.characters(codec="utf-8"))


@given(texts, st.booleans())
def test_text_comes_back_and_takes_as_many_bytes_as_was_said(text: str, is_random: bool) -> None:
    stored = ANNA.text(text, "kind", ROW, is_random=is_random)

    assert ANNA.text_of(stored, "kind", ROW, is_random=is_random) == text if text else stored == ""
    assert len(stored.encode()) == size_of(len(text.encode()), is_random=is_random)
    assert not text or (stored.startswith(PREFIX) and text not in stored[len(PREFIX) :]) or len(text) < 4


@given(st.binary())
def test_bytes_come_back(data: bytes) -> None:
    stored = ANNA.data(data, "kind", ROW)

    assert ANNA.data_of(stored, "kind", ROW) == data if data else stored == b""


def test_equal_texts_can_be_found_for_one_user_and_kind_alone() -> None:
    def stored(cipher: UserCipher, kind: str, row: Row | None = ROW, *, is_random: bool = False) -> str:
        return cipher.text("Lisbon", kind, row, is_random=is_random)

    same = stored(ANNA, "kind")
    assert stored(ANNA, "kind") == same
    others = [
        stored(BOB, "kind"),
        stored(ANNA, "other"),
        stored(OTHER_KEY.of_user("anna"), "kind"),
        *(stored(ANNA, "kind", row=row) for row in (None, (), (7, "a session"), ("7", "a session", None))),
        stored(ANNA, "kind", is_random=True),
        stored(ANNA, "kind", is_random=True),
    ]
    assert len({same, *others}) == 10
    # Not only the tag in front differs.
    assert len({one[20:44] for one in (same, *others)}) == 10


@pytest.mark.parametrize("is_random", [False, True])
def test_what_was_changed_cut_off_or_is_another_users_is_refused(is_random: bool) -> None:
    stored = ANNA.text("a text of some length", "kind", ROW, is_random=is_random)
    wrong: list[tuple[str, UserCipher, str, Row | None]] = [
        (stored, BOB, "kind", ROW),
        (stored, ANNA, "other", ROW),
        (stored, ANNA, "kind", (8, "a session", None)),
        (stored, ANNA, "kind", (7, "a session", "None")),
        (stored, ANNA, "kind", ()),
        # As of the first version, whose texts could be moved.
        (stored, ANNA, "kind", None),
        (ANNA.text("x", "kind", None, is_random=is_random), ANNA, "kind", ROW),
        (BOB.text("x", "kind", ROW, is_random=is_random), ANNA, "kind", ROW),
        (PREFIX, ANNA, "kind", ROW),
        (f"{PREFIX}not base64!", ANNA, "kind", ROW),
        *((stored[:length], ANNA, "kind", ROW) for length in range(1, len(stored))),
    ]
    for place in range(len(PREFIX), len(stored) - 3):
        other = "A" if stored[place] != "A" else "B"
        wrong.append((stored[:place] + other + stored[place + 1 :], ANNA, "kind", ROW))

    for value, cipher, kind, row in wrong:
        with pytest.raises(BlindError):
            cipher.text_of(value, kind, row, is_random=is_random)
    with pytest.raises(BlindError):
        OTHER_KEY.of_tag(tag_of(stored)).text_of(stored, "kind", ROW, is_random=is_random)
    with pytest.raises(BlindError):
        ANNA.text_of(stored, "kind", ROW, is_random=not is_random)


def test_values_of_the_first_version_are_read() -> None:
    # Made by it.
    same = "\ue0b1HlYuGmR8f1XOqdAoZea4PbZ1U3ncfpGqZO0u/UH5"
    random = "\ue0b1HlYuGmR8f1W5M5stGFHjZFfqR2CzBb/kW/DG/Pul9QnZ/y4ACpx959fKGRyebw=="

    assert ANNA.text("Lisbon", "key or question", None, is_random=False) == same
    assert ANNA.text_of(same, "key or question", None, is_random=False) == "Lisbon"
    assert ANNA.text_of(random, "title", None, is_random=True) == "Lisbon"


def test_the_user_need_not_be_known_to_read() -> None:
    stored = ANNA.text("of anna", "kind", ROW, is_random=True)

    assert DERIVED.of_tag(tag_of(stored)).text_of(stored, "kind", ROW, is_random=True) == "of anna"
    data = ANNA.data(b"ids", "kind", ROW)
    assert DERIVED.of_tag(tag_of(data)).data_of(data, "kind", ROW) == b"ids"


def test_bytes_that_were_not_made_here_are_refused() -> None:
    with pytest.raises(BlindError):
        ANNA.data_of(b"\x01\x02\x03", "kind", ROW)
    with pytest.raises(BlindError):
        ANNA.data_of(ANNA.data(b"ids", "kind", ROW), "other", ROW)
    with pytest.raises(BlindError):
        ANNA.data_of(ANNA.data(b"ids", "kind", ROW), "kind", (8,))


def test_words_are_hashes_with_the_key() -> None:
    words = ["t1_zebra", "t2_zebra", "t1_apple"]

    hashes = ANNA.words(words)

    assert ANNA.words(words) == hashes
    assert len({*hashes, *OTHER_KEY.of_user("anna").words(words)}) == 6
    assert {len(one) for one in hashes} == {16}


def test_nothing_is_made_with_a_key_that_was_wiped() -> None:
    key = MemoryKey(b"k" * 32, SALT)
    derived = DerivedKeys(key)
    wrap = KeyWrap(key)
    ciphers = derived.of_user("anna"), wrap.new("anna")
    key.wipe()

    for use in (
        lambda: derived.of_user("bob"),
        lambda: wrap.new("bob"),
        lambda: wrap.opened("anna", ciphers[1].wrapped),
        *(partial(cipher.words, ["t1_zebra"]) for cipher in ciphers),
        *(partial(cipher.number, 7) for cipher in ciphers),
        *(partial(cipher.text, "zebra", "kind", ROW, is_random=False) for cipher in ciphers),
    ):
        with pytest.raises(StoreKeyError, match="was wiped"):
            use()


@given(st.integers(1, (1 << 31) - 1))
def test_numbers_are_permuted(number: int) -> None:
    stored = ANNA.number(number)

    assert 0 < stored < 1 << 31
    assert ANNA.number_of(stored) == number


def test_other_numbers_stay_and_another_key_permutes_otherwise() -> None:
    assert [ANNA.number(n) for n in (0, -1, 1 << 31)] == [0, -1, 1 << 31]
    some = range(1, 200)
    permuted = [ANNA.number(n) for n in some]
    assert len(set(permuted)) == len(permuted)
    assert sum(a == b for a, b in zip(permuted, some, strict=True)) < 3
    assert permuted != [OTHER_KEY.of_number(1).number(n) for n in some]


def test_the_key_of_a_user_is_random_and_opens_for_that_user_and_memory_alone() -> None:
    wrap, other = KeyWrap(MemoryKey(b"k" * 32, SALT)), KeyWrap(MemoryKey(b"l" * 32, SALT))
    first, second = wrap.new("anna"), wrap.new("anna")
    stored = first.text("Lisbon", "kind", ROW, is_random=False)

    again = wrap.opened("anna", first.wrapped)

    assert again.tag == first.tag == tag_of(stored)
    assert again.text_of(stored, "kind", ROW, is_random=False) == "Lisbon"
    assert (again.words(["t1_dog"]), again.number(7)) == (first.words(["t1_dog"]), first.number(7))
    for differ in (lambda one: one.tag, lambda one: one.words(["t1_dog"]), lambda one: one.number(7)):
        assert differ(first) != differ(second)
    wrong = [
        (wrap, "bob", first.wrapped),
        (other, "anna", first.wrapped),
        *((wrap, "anna", first.wrapped[:n]) for n in (0, 16, len(first.wrapped) - 1)),
        (wrap, "anna", bytes([first.wrapped[0] ^ 1]) + first.wrapped[1:]),
    ]
    for one, user, wrapped in wrong:
        with pytest.raises(BlindError):
            one.opened(user, wrapped)

"""Sealed files: what was sealed comes back whole, and nothing that was changed does."""

from __future__ import annotations

import io

import pytest

from shepherd.encryption import MemoryKey, SealedReader, SealedWriter, Sealer, SealError, new_salt

PIECE = 1 << 20


def sealer(master: int = 1) -> Sealer:
    return Sealer(MemoryKey(bytes([master]) * 32, b"s" * 16))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_what_was_sealed_comes_back(size: int) -> None:
    data = bytes(i % 251 for i in range(997)) * (size // 997 + 1)

    sealed = sealer().seal(data[:size], "test")

    assert sealer().open(sealed, "test") == data[:size]
    assert size < 100 or data[:50] not in sealed


def test_a_file_of_an_older_version_is_opened() -> None:
    sealed = "5348505345414c31a7efa25e7be3d6128f308cb1d569a728777352bd75cf4aaaa234817392b0b4a7714a3fb1bda7"
    of_then = Sealer(MemoryKey(b"a" * 32, b"s" * 16))

    assert of_then.open(bytes.fromhex(sealed), "test") == b"canary"


def test_the_same_bytes_are_sealed_differently_each_time() -> None:
    assert sealer().seal(b"canary", "test") != sealer().seal(b"canary", "test")


@pytest.mark.parametrize("place", [0, 9, 30, -1])
def test_a_changed_bit_is_noticed(place: int) -> None:
    sealed = bytearray(sealer().seal(b"canary" * 10, "test"))
    sealed[place] ^= 1

    with pytest.raises(SealError):
        sealer().open(bytes(sealed), "test")


def test_pieces_cannot_be_cut_off_or_exchanged() -> None:
    sealed = sealer().seal(b"a" * PIECE + b"b" * PIECE + b"c", "test")
    head, length = 24, PIECE + 16
    first, second, rest = sealed[head : head + length], sealed[head + length :][:length], sealed[head:]

    for forged in (first, first + second, second + first + rest[2 * length :], rest[: -len(first)]):
        with pytest.raises(SealError):
            sealer().open(sealed[:head] + forged, "test")


def test_another_key_and_another_purpose_open_nothing() -> None:
    sealed = sealer().seal(b"canary", "test")

    with pytest.raises(SealError):
        sealer(2).open(sealed, "test")
    with pytest.raises(SealError):
        sealer().open(sealed, "another")
    with pytest.raises(SealError, match="not a sealed file"):
        sealer().open(b"canary", "test")


def test_file_without_its_end_counts_as_damaged() -> None:
    file = io.BytesIO()
    writer = SealedWriter(file, sealer(), "test")
    writer.write(b"x" * (2 * PIECE))
    file.seek(0)

    reader = SealedReader(file, sealer(), "test")
    with pytest.raises(SealError):
        reader.read()


def test_reader_gives_as_many_bytes_as_are_wanted() -> None:
    data = bytes(range(256)) * 8192
    reader = SealedReader(io.BytesIO(sealer().seal(data, "test")), sealer(), "test")

    assert reader.read(10) == data[:10]
    assert reader.read(PIECE) == data[10 : PIECE + 10]
    assert reader.read() == data[PIECE + 10 :]
    assert reader.read(1) == b""


def test_salts_differ() -> None:
    assert len({new_salt() for _ in range(100)}) == 100

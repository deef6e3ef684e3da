"""Files of conversations' states: their size, and fronts that are whole but cannot be right."""

from __future__ import annotations

import hashlib
import io
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from shepherd._native import engine as native
from shepherd.inference.state_file import (
    StateFileError,
    identity_of,
    read_front,
    read_states,
    size_of,
    write_state,
)

IDENTITY = b"i" * 32


def parts_of(*lengths: int) -> list[tuple[array[int], memoryview, bool]]:
    """A sequence of so many tokens, and checkpoints of it; each state has as many bytes as it has tokens."""
    return [(array("i", range(n)), memoryview(bytes([n % 256]) * n), i > 0) for i, n in enumerate(lengths)]


def written(*lengths: int, head: int = 0) -> bytes:
    file = io.BytesIO()
    write_state(file, IDENTITY, head, parts_of(*lengths))
    return file.getvalue()


def front_of(
    parts: Sequence[tuple[int, int]], n_ids: int, *, n_parts: int | None = None, more: bytes = b""
) -> bytes:
    """A file whose front says this, with a checksum that is right, and states of as many bytes."""
    front = struct.pack("<32s32sII", IDENTITY, bytes(32), 0, len(parts) if n_parts is None else n_parts)
    front += b"".join(struct.pack("<IQ", *part) for part in parts) + bytes(array("i", range(n_ids))) + more
    start = struct.pack("<8s32sI", b"SHPCONV1", hashlib.sha256(front).digest(), len(front))
    return start + front + bytes(sum(size for _, size in parts))


def read(data: bytes, size_bytes: int | None = None) -> object:
    return read_front(io.BytesIO(data), len(data) if size_bytes is None else size_bytes)


def test_what_is_written_is_read_and_has_the_size_that_was_said() -> None:
    data = written(40, 30, 7, head=5)
    assert len(data) == size_of(parts_of(40, 30, 7))

    file = io.BytesIO(data)
    front = read_front(file, len(data))

    assert (front.identity, front.head, front.parts) == (IDENTITY, 5, ((40, 40), (30, 30), (7, 7)))
    assert front.ids == array("i", range(40))
    assert front.states_bytes == 77
    assert front.states_at == len(data) - 77
    found = []
    for ids, state, is_checkpoint in read_states(file, front):
        with state.view() as view:
            found.append((list(ids), bytes(view), is_checkpoint))
    assert found == [(list(ids), bytes(state), is_one) for ids, state, is_one in parts_of(40, 30, 7)]


def test_a_state_longer_than_a_piece_is_whole() -> None:
    n = (1 << 22) + 3
    state = bytes(range(256)) * (n // 256) + b"end"
    file = io.BytesIO()
    write_state(file, IDENTITY, 0, [(array("i", [1]), memoryview(state), False)])
    data = file.getvalue()

    [(_, read_state, _)] = read_states(file, read_front(io.BytesIO(data), len(data)))

    with read_state.view() as view:
        assert bytes(view) == state


@pytest.mark.parametrize(
    "parts",
    [
        [(1, 1)],
        [(9, 1), (9, 1)],  # a checkpoint of all of it
        [(9, 1), (8, 1), (7, 1)],
        [(99, 1), *((n, 1) for n in range(native.MOST_WRITTEN - 1, 0, -1))],
    ],
)
def test_fronts_that_can_be_right(parts: list[tuple[int, int]]) -> None:
    read(front_of(parts, parts[0][0]))


@pytest.mark.parametrize(
    "data",
    [
        front_of([], 0),
        front_of([(0, 1)], 0),
        front_of([(9, 0)], 9),
        front_of([(9, 1), (8, 0)], 9),
        front_of([(9, 1), (0, 1)], 9),
        front_of([(9, 1), (10, 1)], 9),
        front_of([(9, 1), (7, 1), (8, 1)], 9),
        front_of([(9, 1), (7, 1), (7, 1)], 9),
        front_of([(9, 1)], 8),
        front_of([(9, 1)], 10),
        front_of([(9, 1)], 9, more=b"x"),
        front_of([(9, 1)], 9, n_parts=2),
        front_of([(9, 1)], 9, n_parts=1000),
        front_of([(99, 1), *((n, 1) for n in range(native.MOST_WRITTEN, 0, -1))], 99),
        front_of([(9, 1)], 9) + b"x",
        front_of([(9, 1)], 9)[:-1],
        b"",
        front_of([(9, 1)], 9)[:43],
        front_of([(9, 1)], 9)[:60],
        front_of([(9, 1)], 9).replace(b"SHPCONV1", b"SHPCONV2"),
    ],
)
def test_fronts_that_cannot_be_right(data: bytes) -> None:
    with pytest.raises(StateFileError):
        read(data)


@pytest.mark.parametrize("length", [71, (1 << 26) + 1])
def test_lengths_that_no_front_has_are_not_read(length: int) -> None:
    start = struct.pack("<8s32sI", b"SHPCONV1", hashlib.sha256(bytes(length)).digest(), length)

    with pytest.raises(StateFileError):
        read(start + bytes(length))


def test_a_front_longer_than_its_file_is_not_read() -> None:
    data = front_of([(9, 1)], 9)

    with pytest.raises(StateFileError):
        read(data, 50)


def test_states_that_end_early_or_differ_are_noticed() -> None:
    data = written(40, 30)
    front = read_front(io.BytesIO(data), len(data))

    for bad in (data[:-1], data[:-31], data[:-1] + b"x"):
        with pytest.raises(StateFileError):
            read_states(io.BytesIO(bad), front)


def test_a_model_is_known_by_samples_from_all_over_its_file_and_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    data = bytearray(1 << 20)
    path.write_bytes(data)
    known = {identity_of(str(path)), identity_of(str(path), "f16"), identity_of(str(path), "f16", 1)}
    assert len(known) == 3
    assert identity_of(str(path)) in known

    # 64 samples of 4 KiB: the first and the last byte are in them, and the place of each is known.
    step = ((1 << 20) - 4096) / 63
    for at in (0, 4095, int(step) + 1, int(30 * step), (1 << 20) - 4096, (1 << 20) - 1):
        data[at] = 1
        path.write_bytes(data)
        assert identity_of(str(path)) not in known, at
        data[at] = 0
    data[4096] = 1
    path.write_bytes(data)
    assert identity_of(str(path)) in known
    data[4096] = 0
    path.write_bytes(data + b"\0")
    assert identity_of(str(path)) not in known

"""Which of the conversations on disk continues a prompt, which are passed over, and which make room."""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from shepherd import kept_files
from shepherd.inference import kept_conversations
from shepherd.inference.kept_conversations import KeptConversations, _is_older
from shepherd.inference.state_file import Front, StateFileError, read_front, size_of, write_state

OURS, ANNA, BEN = b"o" * 32, "a" * 32, "b" * 32
MB = 1 << 20


def ids(n: int, *, then: int = 0, other: int = 0) -> array[int]:
    """`n` ids that all prompts share, and `then` of its own."""
    return array("i", [*range(n), *([1000 + other] * then)])


@pytest.fixture
def kept(tmp_path: Path) -> KeptConversations:
    return KeptConversations(tmp_path / "kept", OURS, limit_bytes=MB, state_bytes=1000, window=512)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def put(
        tokens: array[int],
        *,
        owner: str = ANNA,
        identity: bytes = OURS,
        states: Sequence[bytes] = (b"state",),
    ) -> Path:
        parts = [(tokens[: len(tokens) - i], state, i > 0) for i, state in enumerate(states)]
        path = kept_files.put(
            tmp_path / "kept", owner, lambda file: write_state(file, identity, 0, parts), asked_at=1e12
        )
        assert path is not None
        return path

    return put


def found(kept: KeptConversations, prompt: array[int], owner: str = ANNA) -> int:
    return kept.find(owner, prompt)[1]


def test_a_file_is_found_from_32_tokens_on_and_for_a_quarter_of_its_own(kept, write) -> None:
    assert kept.find(ANNA, ids(200)) == (0, 0)
    write(ids(128))

    assert found(kept, ids(200)) == 128
    assert found(kept, ids(32, then=50)) == 32
    assert found(kept, ids(31, then=50)) == 0
    write(ids(132))
    assert found(kept, ids(32, then=50)) == 32  # of the shorter one
    assert found(kept, ids(33, then=50)) == 33
    assert found(kept, ids(128)) == 127  # the last token is computed, so that there is something to answer
    assert found(kept, ids(200), BEN) == 0


def test_the_file_with_most_of_a_prompt_is_found_and_of_several_the_shortest(kept, write) -> None:
    write(ids(60))
    long = write(ids(90, then=20, other=1))
    short = write(ids(90, then=10, other=2))

    def chosen(prompt: array[int]) -> Path | None:
        number, _ = kept.find(ANNA, prompt)
        return next((e.path for e in kept._scan(ANNA) if e.number == number), None)

    assert chosen(ids(90, then=50, other=3)) == short
    assert chosen(ids(90, then=50, other=1)) == long
    assert found(kept, ids(90, then=50, other=1)) == 110


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        ({}, True),
        ({"identity": b"x" * 32}, False),
        ({"states": [bytes(1000)]}, True),
        ({"states": [bytes(1001)]}, False),
        ({"states": [b"a", bytes(1001)]}, False),
        ({"tokens": ids(511)}, True),
        ({"tokens": ids(512)}, False),
    ],
)
def test_files_of_another_model_or_window_are_passed_over_and_stay(kept, write, change, is_found) -> None:
    path = write(change.get("tokens", ids(100)), **{k: v for k, v in change.items() if k != "tokens"})

    assert (found(kept, ids(600)) > 0) is is_found
    assert path.exists()
    assert kept.take_warnings() == []
    assert kept.counts().n_failed == 0


def test_a_file_is_read_once_it_is_found_and_is_then_the_one_used_last(kept, write) -> None:
    path = write(ids(100), states=[b"whole", b"check"])
    os.utime(path, (5, 5))
    number, _ = kept.find(ANNA, ids(200))

    whole, checkpoint = kept.read(number)

    assert (list(whole[0]), bytes(whole[1].view()), whole[2]) == (list(range(100)), b"whole", False)
    assert (len(checkpoint[0]), bytes(checkpoint[1].view()), checkpoint[2]) == (99, b"check", True)
    assert path.stat().st_mtime > 1e9
    assert kept.counts().n_read == 1
    assert kept.read(number + 1) == []
    path.unlink()
    assert kept.read(number) == []
    assert (kept.counts().n_read, kept.counts().n_failed, kept.take_warnings()) == (1, 0, [])


def test_a_damaged_file_is_deleted_with_one_warning(kept, write) -> None:
    for _ in range(2):
        path = write(ids(100))
        data = bytearray(path.read_bytes())
        data[50] ^= 1
        path.write_bytes(data)
    number = 0
    assert kept.find(ANNA, ids(200)) == (number, 0)

    assert kept_files.all_files(path.parent.parent) == []
    assert kept.counts().n_failed == 2
    assert kept.take_warnings() == [
        "a conversation kept on disk was damaged; it was deleted, and is read again"
    ]
    assert kept.take_warnings() == []


def test_a_state_that_changed_since_it_was_found_is_deleted(kept, write) -> None:
    path = write(ids(100))
    number, _ = kept.find(ANNA, ids(200))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    assert kept.read(number) == []
    assert not path.exists()
    assert kept.counts().n_failed == 1


def test_warnings_are_eight_at_most_and_no_two_are_the_same(kept) -> None:
    for n in (1, 1, *range(2, 12)):
        kept._warn(f"warning {n}")

    assert kept.take_warnings() == [f"warning {n}" for n in range(1, 9)]


def test_owners_have_numbers_of_their_own(kept) -> None:
    assert [kept.number_of(owner) for owner in (ANNA, BEN, ANNA)] == [1, 2, 1]


def test_files_that_come_and_go_are_seen(kept, write) -> None:
    path = write(ids(100))
    assert found(kept, ids(200)) == 100
    path.unlink()
    assert found(kept, ids(200)) == 0
    write(ids(150))
    assert found(kept, ids(200)) == 150


@pytest.mark.parametrize(
    ("before", "now", "head", "is_older"),
    [
        (ids(100), ids(200), 0, True),  # it goes on
        (ids(100), ids(100), 0, True),
        (ids(100), ids(50, then=100), 0, True),  # half of it is the same
        (ids(100), ids(49, then=100), 0, False),
        (ids(100), ids(60, then=100), 20, True),  # half of what follows the common head
        (ids(100), ids(59, then=100), 20, False),
        (ids(100), ids(20, then=100), 20, False),
        (ids(100), ids(20, then=100), 50, False),
        (ids(20), ids(20, then=100), 50, True),
        (ids(100), array("i", [7]), 0, False),
    ],
)
def test_an_earlier_state_of_a_conversation_is_replaced(before, now, head, is_older) -> None:
    assert _is_older(Front(OURS, OURS, 0, ((len(before), 1),), before, 0), now, head) is is_older


# ---- room


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The disk: `bytes` are free, and `now` is the time."""
    disk = SimpleNamespace(bytes=1 << 40, now=100.0)
    monkeypatch.setattr(kept_conversations, "disk_usage", lambda path: SimpleNamespace(free=disk.bytes))
    monkeypatch.setattr(kept_conversations.time, "monotonic", lambda: disk.now)
    return disk


def sized(root: Path, *used_at: int, size: int = 100_000) -> list[Path]:
    folder = root / "kept" / ANNA
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for second in used_at:
        path = folder / f"{second}.state"
        path.write_bytes(bytes(size))
        os.utime(path, (second, second))
        paths.append(path)
    return paths


def test_the_files_used_longest_ago_leave_until_a_tenth_is_free(kept, free, tmp_path) -> None:
    paths = sized(tmp_path, 5, 3, 1, 2, 4, 9, 8, 7, 6, 10)

    assert kept._make_room(40_000)
    assert all(path.exists() for path in paths)
    free.now += 20
    assert kept._make_room(100_000)
    left = sorted(int(path.stem) for path in paths if path.exists())
    assert left == [3, 4, 5, 6, 7, 8, 9, 10]  # 900,000 bytes with the new one, of at most 943,718


def test_a_file_that_never_fits_makes_nobody_leave(kept, free, tmp_path) -> None:
    paths = sized(tmp_path, 1, 2)

    assert not kept._make_room(MB + 1)
    assert kept._make_room(MB) is True
    assert not any(path.exists() for path in paths)


def test_all_files_take_a_quarter_of_what_would_be_free_without_them(kept, free, tmp_path) -> None:
    free.bytes = 400_000

    assert not kept._make_room(100_001)
    assert kept._make_room(100_000)


def test_sizes_are_counted_anew_after_20_seconds(kept, free, tmp_path) -> None:
    assert kept._make_room(500_000)
    sized(tmp_path, 1, size=600_000)
    assert kept._make_room(400_000)  # as far as is known, there is room
    assert (tmp_path / "kept" / ANNA / "1.state").exists()
    free.now += 20
    assert kept._make_room(500_000)
    assert not (tmp_path / "kept" / ANNA / "1.state").exists()


def test_what_was_written_since_the_files_were_listed_counts(kept, free, tmp_path) -> None:
    assert kept._make_room(500_000)
    [path] = sized(tmp_path, 1, size=900_000)
    assert kept._make_room(400_000)
    assert path.exists()
    assert kept._make_room(200_000)  # more than is left, as far as is known: they are listed anew
    assert not path.exists()


@pytest.mark.parametrize(
    ("lengths", "sizes", "is_sound"),
    [
        ((1,), (1,), True),
        ((0,), (1,), False),
        ((5,), (0,), False),
        ((5, 5), (1, 1), True),
        ((5, 6), (1, 1), False),
        ((5, 4, 3), (1, 1, 1), True),
        ((5, 3, 3), (1, 1, 1), False),
        ((5, 3, 4), (1, 1, 1), False),
        ((5, 3, 0), (1, 1, 1), False),
    ],
)
def test_the_front_of_a_file_has_states_of_fewer_and_fewer_tokens(lengths, sizes, is_sound) -> None:
    parts = [
        (array("i", range(n)), b"s" * size, i > 0)
        for i, (n, size) in enumerate(zip(lengths, sizes, strict=True))
    ]
    file = io.BytesIO()
    write_state(file, OURS, 0, parts)
    n_bytes = file.tell()
    file.seek(0)

    if is_sound:
        assert read_front(file, n_bytes).parts == tuple(zip(lengths, sizes, strict=True))
        file.seek(0)
        n_bytes += 1
    with pytest.raises(StateFileError):
        read_front(file, n_bytes)


def test_a_file_has_the_size_that_was_expected(write) -> None:
    path = write(ids(100), states=[b"whole", b"check"])
    parts = [(ids(100), b"whole", False), (ids(99), b"check", True)]

    assert path.stat().st_size == size_of(parts)
    with open(path, "rb") as file:
        front = read_front(file, path.stat().st_size)
    assert (front.identity, front.head, front.parts, front.ids) == (OURS, 0, ((100, 5), (99, 5)), ids(100))
    assert front.states_bytes == 10

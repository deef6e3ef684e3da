"""Which files of kept conversations are read, replaced and deleted: files and counts, without an engine."""

from __future__ import annotations

import os
import time
from array import array
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shepherd import kept_files
from shepherd.inference import kept_conversations
from shepherd.inference.kept_conversations import KeptConversations, KeptCounts, _is_older, _reason
from shepherd.inference.state_file import Front, read_front, write_state

ANNA, BERT = "anna", "bert"
IDENTITY = b"i" * 32
OLD = 1_000_000_000


@dataclass
class Unwritten:
    """A conversation of which the engine says that it is to be written."""

    owner: int
    ids: Sequence[int]
    state: bytes = b"state"
    head: int = 0
    asked_ms: int = field(default_factory=lambda: int(1000 * time.time()) + 1000)

    def parts(self) -> list[tuple[array[int], memoryview, bool]]:
        return [(array("i", self.ids), memoryview(self.state), False)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "conversations"


def kept_in(
    root: Path, *, limit: int = 1 << 20, state_bytes: int = 100, window: int = 1000
) -> KeptConversations:
    return KeptConversations(root, IDENTITY, limit_bytes=limit, state_bytes=state_bytes, window=window)


def put(
    root: Path, ids: Sequence[int], *, owner: str = ANNA, identity: bytes = IDENTITY, state: bytes = b"state"
) -> Path:
    parts = [(array("i", ids), memoryview(state), False)]
    path = kept_files.put(
        root, owner, lambda file: write_state(file, identity, 0, parts), asked_at=time.time() + 1
    )
    assert path is not None
    return path


def found(kept: KeptConversations, ids: Sequence[int], owner: str = ANNA) -> int:
    """How many tokens of a prompt a file has."""
    number, n = kept.find(owner, array("i", ids))
    assert (number > 0) == (n > 0)
    return n


def states(root: Path) -> set[Path]:
    return {file.path for file in kept_files.all_files(root)}


# ---- which file is read


def test_a_file_with_32_tokens_of_a_prompt_is_read_and_the_last_token_always_computed(root: Path) -> None:
    put(root, range(40))
    kept = kept_in(root)

    assert found(kept, [*range(32), 900, 901]) == 32
    assert found(kept, [*range(31), 900, 901]) == 0
    assert found(kept, range(33)) == 32
    assert found(kept, range(32)) == 0
    assert found(kept, range(40)) == 39
    assert found(kept, range(50)) == 40


def test_a_file_is_read_for_a_quarter_of_its_tokens_at_least(root: Path) -> None:
    put(root, range(129))
    kept = kept_in(root)

    assert found(kept, [*range(32), 900, 901]) == 0
    put(root, range(128))
    assert found(kept, [*range(32), 900, 901]) == 32
    assert found(kept, [*range(33), 900, 901]) == 33


def test_the_file_with_most_of_the_prompt_is_read_and_of_two_the_shorter(root: Path) -> None:
    for n in (60, 35, 50, 45):
        put(root, [*range(n), 990])
    short = put(root, [*range(60), *range(500, 520)])
    put(root, [*range(60), *range(500, 540)])
    kept = kept_in(root)

    number, n = kept.find(ANNA, array("i", [*range(60), *range(500, 510), 900]))
    assert n == 70
    assert kept._by_number[number].path == short
    number, n = kept.find(ANNA, array("i", [*range(60), 900]))
    assert n == 60
    assert len(kept._by_number[number].front.ids) == 61


def test_files_of_others_and_of_other_models_windows_and_memories_are_passed_over(root: Path) -> None:
    put(root, range(40), owner=BERT)
    put(root, range(40), identity=b"o" * 32)
    put(root, range(40), state=b"x" * 101)
    put(root, range(100))
    parts = [
        (array("i", range(40)), memoryview(b"x" * 101), False),
        (array("i", range(30)), memoryview(b"x"), True),
    ]
    kept_files.put(root, ANNA, lambda file: write_state(file, IDENTITY, 0, parts), asked_at=time.time() + 1)
    kept = kept_in(root, window=100)

    assert found(kept, range(50)) == 0
    assert kept.take_warnings() == []
    assert kept.counts().n_failed == 0

    put(root, range(99), state=b"x" * 100)
    assert found(kept, range(50)) == 49


def test_a_folder_is_listed_again_when_it_has_changed(root: Path) -> None:
    first = put(root, range(40))
    os.utime(first.parent, (OLD, OLD))
    kept = kept_in(root)
    assert found(kept, range(50)) == 40

    put(root, range(45))
    os.utime(first.parent, (OLD, OLD))
    assert found(kept, range(50)) == 40  # nothing says that it has changed
    os.utime(first.parent, (OLD, OLD + 1))
    assert found(kept, range(50)) == 45

    for path in states(root):
        path.unlink()
    os.utime(first.parent, (OLD, OLD + 2))
    assert found(kept, range(50)) == 0
    assert kept._by_number == {}


def test_a_folder_that_has_just_changed_is_listed_each_time(root: Path) -> None:
    soon = time.time() + 1000
    first = put(root, range(40))
    os.utime(first.parent, (soon, soon))
    kept = kept_in(root)
    assert found(kept, range(50)) == 40

    put(root, range(45))
    os.utime(first.parent, (soon, soon))

    assert found(kept, range(50)) == 45


def test_damaged_files_are_deleted_with_one_warning_and_others_stay(root: Path) -> None:
    damaged = [put(root, range(n)) for n in (40, 41)]
    for path in damaged:
        path.write_bytes(b"SHPCONV2" + path.read_bytes()[8:])
    folder = root / ANNA / "x.state"
    folder.mkdir()
    kept = kept_in(root)

    assert found(kept, range(50)) == 0

    assert kept.counts().n_failed == 3
    assert sorted(kept.take_warnings()) == [
        "a conversation kept on disk could not be read: Is a directory",
        "a conversation kept on disk was damaged; it was deleted, and is read again",
    ]
    assert kept.take_warnings() == []
    assert not any(path.exists() for path in damaged)
    assert folder.exists()


def test_eight_different_warnings_are_enough(root: Path) -> None:
    kept = kept_in(root)

    for i in range(10):
        kept._warn(f"{i}")

    assert kept.take_warnings() == [f"{i}" for i in range(8)]


def test_a_reason_is_that_of_the_system_or_the_errors_name() -> None:
    assert _reason(OSError(28, "No space left on device")) == "No space left on device"
    assert _reason(OSError("closed")) == "OSError"


# ---- reading


def test_what_was_read_is_what_was_written_and_counts_as_used(root: Path) -> None:
    path = put(root, range(40), state=b"some state")
    os.utime(path, (OLD, OLD))
    kept = kept_in(root)
    number, _ = kept.find(ANNA, array("i", range(50)))

    [(ids, state, is_checkpoint)] = kept.read(number)

    with state.view() as view:
        assert (list(ids), bytes(view), is_checkpoint) == (list(range(40)), b"some state", False)
    assert path.stat().st_mtime > OLD
    assert kept.counts().n_read == 1


def test_what_is_gone_or_was_never_there_is_not_read(root: Path) -> None:
    path = put(root, range(40))
    kept = kept_in(root)
    number, _ = kept.find(ANNA, array("i", range(50)))
    path.unlink()

    assert kept.read(number) == []
    assert kept.read(number + 1) == []

    counts = kept.counts()
    assert (counts.n_read, counts.n_failed, kept.take_warnings()) == (0, 0, [])


def test_damaged_states_are_deleted_with_a_warning(root: Path) -> None:
    path = put(root, range(40), state=b"some state")
    kept = kept_in(root)
    number, _ = kept.find(ANNA, array("i", range(50)))
    path.write_bytes(path.read_bytes()[:-1] + b"X")

    assert kept.read(number) == []

    assert "damaged" in kept.take_warnings()[0]
    assert (kept.counts().n_read, kept.counts().n_failed, path.exists()) == (0, 1, False)


# ---- writing


def test_owners_have_numbers_of_their_own(root: Path) -> None:
    kept = kept_in(root)

    assert [kept.number_of(name) for name in (ANNA, BERT, ANNA)] == [1, 2, 1]


def write(kept: KeptConversations, ids: Sequence[int], owner: str = ANNA, **options: object) -> None:
    kept.write(Unwritten(kept.number_of(owner), ids, **options))  # type: ignore[arg-type]


def test_a_conversation_that_went_on_takes_the_place_of_its_file(root: Path) -> None:
    kept = kept_in(root)

    write(kept, range(40))
    [first] = states(root)
    write(kept, range(500, 540))
    write(kept, range(60), state=b"newer", head=7)

    assert len(states(root)) == 2
    assert not first.exists()
    # It knows without listing the folder.
    assert kept._entries[ANNA].keys() == states(root)
    assert kept._changed_at[ANNA] == (root / ANNA).stat().st_mtime_ns
    assert found(kept, range(70)) == 60
    assert found(kept, range(500, 550)) == 40
    entry = next(one for one in kept._scan(ANNA) if len(one.front.ids) == 60)
    assert (entry.front.head, entry.front.identity) == (7, IDENTITY)
    with open(entry.path, "rb") as file:
        assert read_front(file, entry.path.stat().st_size).ids == array("i", range(60))
    assert len(kept._by_number) == 2
    size = sum(path.stat().st_size for path in states(root))
    assert kept.counts() == KeptCounts(2, size, 1 << 20, n_written=3, n_read=0, n_failed=0, n_lost=0)


def test_a_conversation_that_is_there_already_only_counts_as_used(root: Path) -> None:
    kept = kept_in(root)
    write(kept, range(40))
    [path] = states(root)
    before = path.read_bytes()
    os.utime(path, (OLD, OLD))

    write(kept, range(40), state=b"other")

    assert states(root) == {path}
    assert path.read_bytes() == before
    assert path.stat().st_mtime > OLD
    assert kept.counts().n_written == 1


def test_what_was_forgotten_since_is_not_written(root: Path) -> None:
    kept = kept_in(root)
    write(kept, range(40))
    [path] = states(root)
    kept_files.forget(ANNA, time.time() + 1000, root=root)

    write(kept, range(60), asked_ms=OLD * 1000)

    assert states(root) == {path}
    assert kept.counts().n_written == 1
    assert kept.take_warnings() == []
    write(kept, range(60))
    assert kept.counts().n_written == 2


def test_a_folder_in_the_way_is_a_warning(root: Path) -> None:
    root.mkdir(parents=True)
    (root / ANNA).write_text("a file")
    kept = kept_in(root)

    write(kept, range(40))

    [warning] = kept.take_warnings()
    assert warning == "a conversation could not be kept on disk: File exists"
    assert (kept.counts().n_failed, kept.counts().n_written) == (1, 0)


@pytest.mark.parametrize(
    ("there", "ids", "head", "is_older"),
    [
        (range(10), range(20), 0, True),  # it begins like it
        (range(20), range(10), 0, True),  # half of it
        (range(21), range(10), 0, False),
        (range(20), [*range(10), 99], 10, False),  # all that they share is the head
        (range(20), [*range(15), 99], 10, True),  # half of what follows the head
        (range(21), [*range(15), 99], 10, False),
        (range(10), [*range(10), 99], 10, True),
        ([1, 2], [3, 4], 0, False),
    ],
)
def test_a_file_of_the_same_conversation_is_told_by_half_of_it(
    there: Sequence[int], ids: Sequence[int], head: int, is_older: bool
) -> None:
    front = Front(IDENTITY, b"", 0, ((len(there), 1),), array("i", there), 0)

    assert _is_older(front, array("i", ids), head) == is_older


# ---- room


def fill(root: Path, n: int, size: int = 200) -> list[Path]:
    """Make files of this size, the least recently used first."""
    paths = []
    for i in range(n):
        path = kept_files.put(root, ANNA, lambda file: file.write(bytes(size)), asked_at=time.time() + 1)
        assert path is not None
        os.utime(path, (OLD + i, OLD + i))
        paths.append(path)
    return paths


def test_files_used_longest_ago_go_until_a_tenth_is_free(root: Path) -> None:
    paths = fill(root, 4)
    assert kept_in(root, limit=1000)._make_room(200)
    assert states(root) == set(paths)
    assert root.stat().st_mode & 0o777 == 0o700

    assert kept_in(root, limit=1000)._make_room(201)
    assert states(root) == set(paths[1:])

    assert kept_in(root, limit=1000)._make_room(1000)
    assert states(root) == set()


def test_a_file_of_exactly_nine_tenths_needs_no_more_room(root: Path) -> None:
    paths = fill(root, 5)

    assert kept_in(root, limit=1000)._make_room(100)

    assert states(root) == set(paths[1:])


def test_what_never_fits_deletes_nothing(root: Path) -> None:
    paths = fill(root, 4)

    assert not kept_in(root, limit=1000)._make_room(1001)

    assert states(root) == set(paths)


def test_files_take_a_quarter_of_the_disk_at_most(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    for free, has_room in ((4000, True), (3999, False)):
        monkeypatch.setattr(kept_conversations, "disk_usage", lambda _, free=free: usage(free))
        assert kept_in(root)._make_room(1000) == has_room
    # What they take already would be free without them.
    kept = kept_in(root)
    monkeypatch.setattr(kept_conversations, "disk_usage", lambda _: usage(4000))
    assert kept._make_room(1000)
    monkeypatch.setattr(kept_conversations, "disk_usage", lambda _: usage(3000))
    assert kept._make_room(1000)


def test_there_are_never_more_than_so_many_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_conversations, "_MOST_FILES", 10)
    paths = fill(root, 9)
    assert kept_in(root)._make_room(1)
    assert len(states(root)) == 9

    paths += fill(root, 1)
    os.utime(paths[-1], (OLD + 9, OLD + 9))
    assert kept_in(root)._make_room(1)
    assert states(root) == set(paths[2:])


def test_folders_are_not_listed_for_each_file(root: Path) -> None:
    kept = kept_in(root, limit=1000)
    assert kept._make_room(400)
    fill(root, 5)  # another process

    assert kept._make_room(600)  # 1000 as far as is known here
    assert len(states(root)) == 5
    assert kept._make_room(1)
    assert len(states(root)) == 4

    # The files that are to be written count with those that were listed.
    assert kept._make_room(199)
    assert len(states(root)) == 4
    assert kept._make_room(1)
    assert len(states(root)) == 4


def test_a_count_is_good_for_twenty_seconds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    kept = kept_in(root, limit=1000)
    assert kept._make_room(100)
    fill(root, 5)

    now = 119.9
    assert kept._make_room(100)
    assert len(states(root)) == 5
    now = 120.0
    assert kept._make_room(100)
    assert len(states(root)) == 4

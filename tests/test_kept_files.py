"""Files of conversations that engines keep: whose they are, and that nothing forgotten is written again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from shepherd.kept_files import (
    Usage,
    all_files,
    forget,
    owner_of,
    owners,
    paths_of,
    put,
    remove,
    touch,
    usage,
)

ANNA, BOB = owner_of("/data/memory.db", "anna"), owner_of("/data/memory.db", "bob")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "conversations"


def keep(root: Path, owner: str = ANNA, *, words: bytes = b"words", used_at: float = 1000.0) -> Path:
    path = put(root, owner, lambda file: file.write(words), asked_at=time.time())
    assert path is not None
    os.utime(path, (used_at, used_at))
    return path


def test_owners_differ_by_user_and_database_but_not_by_the_way_to_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    database = str(tmp_path / "memory.db")

    assert owner_of(database, "anna") == owner_of(str(tmp_path / "link" / "memory.db"), "anna")
    servers = ("postgresql://host/x", "postgresql://host/y")
    names = {owner_of(place, user) for place in (database, *servers) for user in ("anna", "bob")}
    assert len(names) == 6


def test_only_the_account_can_read_what_is_kept(root: Path) -> None:
    path = keep(root)

    assert path.read_bytes() == b"words"
    assert [part.stat().st_mode & 0o777 for part in (root, path.parent, path)] == [0o700, 0o700, 0o600]
    assert (owners(root), paths_of(root, ANNA), paths_of(root, BOB)) == ([ANNA], [path], [])


def test_the_least_recently_used_comes_first_whoever_owns_it(root: Path) -> None:
    paths = [keep(root, used_at=30), keep(root, BOB, words=b"more words", used_at=10), keep(root, used_at=20)]

    assert [file.path for file in all_files(root)] == [paths[1], paths[2], paths[0]]
    touch(paths[1])
    assert [file.path for file in all_files(root)][-1] == paths[1]
    assert usage(root) == Usage(3, 20)
    remove(paths[1])
    remove(paths[1])
    assert usage(root) == Usage(2, 10)


def test_unfinished_files_take_room_and_are_no_conversations(root: Path) -> None:
    part = keep(root).with_suffix(".part")
    part.write_bytes(b"half")

    assert usage(root) == Usage(1, 9)
    assert len(all_files(root)) == 2
    assert part not in paths_of(root, ANNA)


def test_where_nothing_is_kept_there_is_nothing_to_list_or_forget(root: Path) -> None:
    assert (owners(root), all_files(root), usage(root)) == ([], [], Usage(0, 0))

    assert forget(ANNA, root=root) == []
    assert not root.exists()


def test_forgetting_deletes_an_owners_files_since_the_words_were_there(root: Path) -> None:
    before, at, after = (keep(root, used_at=n) for n in (9, 10, 11))
    others = keep(root, BOB, used_at=11)
    part = after.with_suffix(".part")
    part.write_bytes(b"half")

    assert set(forget(ANNA, 10.0, root=root)) == {str(at), str(after), str(part)}

    assert paths_of(root, ANNA) == [before]
    assert not part.exists()
    assert others.exists()
    assert forget(ANNA, root=root) == [str(before)]


def test_what_was_read_before_something_was_forgotten_is_not_kept(root: Path) -> None:
    read_at = time.time()
    forget(ANNA, root=root)  # no folder yet, and nothing that could be forgotten
    keep(root)

    forget(ANNA, root=root)

    assert put(root, ANNA, lambda file: file.write(b"words"), asked_at=read_at) is None
    assert [file.path for file in all_files(root)] == []
    assert put(root, BOB, lambda file: file.write(b"words"), asked_at=read_at) is not None
    assert put(root, ANNA, lambda file: file.write(b"words"), asked_at=time.time() + 1) is not None


def test_what_is_forgotten_while_it_is_written_is_not_kept(root: Path) -> None:
    keep(root)

    def write(file: BinaryIO) -> None:
        file.write(b"words")
        forget(ANNA, root=root)

    # As if the clock had been set back since.
    assert put(root, ANNA, write, asked_at=time.time() + 3600) is None
    assert all_files(root) == []


def test_a_write_that_fails_leaves_nothing(root: Path) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"words")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        put(root, ANNA, write, asked_at=time.time())

    assert all_files(root) == []


def test_a_folder_that_cannot_be_written_is_logged(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    root.mkdir(parents=True)
    (root / ANNA).write_text("a file is in the way")

    assert forget(ANNA, root=root) == []

    assert "could not be deleted" in caplog.text

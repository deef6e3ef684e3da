"""The history file of the prompt: lines that are taken back leave it, all others stay as they are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from shepherd.commands.history import (
    LineHistory,
    adopt_copy,
    copy_history,
    count_foreign_lines,
    drop_copies,
    open_history,
    seal_history,
    sealed_lines,
)
from shepherd.encryption import MemoryKey, Sealer


def opened(path: Path, *, private: bool = False) -> LineHistory:
    return open_history(path, lambda: private, pytest.fail)


def lines(history: LineHistory) -> list[str]:
    async def load() -> list[str]:
        return [line async for line in history.load()]

    return asyncio.run(load())


def test_removed_lines_are_gone_from_this_run_and_from_the_file(tmp_path):
    path = tmp_path / "state" / "history"
    history = opened(path)
    assert lines(history) == []
    for line in ("one", "two\nof two rows", "three", "two", "one"):
        history.append_string(line)

    history.remove({"one", "two\nof two rows"})
    history.append_string("four")

    assert lines(history) == lines(opened(path)) == ["four", "two", "three"]
    assert "rows" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_else_is_in_the_file_stays(tmp_path):
    path = tmp_path / "history"
    before = b"by hand\n+kept \xff\r\n\n# 2026-01-01\n+gone\n\n# 2026-01-02\n+kept, too\n# the end\n"
    path.write_bytes(before)

    opened(path).remove({"gone"})

    assert path.read_bytes() == before.replace(b"\n# 2026-01-01\n+gone\n", b"")


def test_a_linked_file_is_still_linked(tmp_path):
    (tmp_path / "real").write_text("\n# 2026-01-01\n+gone\n")
    (tmp_path / "history").symlink_to("real")

    opened(tmp_path / "history").remove({"gone"})

    assert (tmp_path / "history").is_symlink()
    assert (tmp_path / "real").read_text() == ""


@pytest.mark.parametrize("has_path", [True, False])
def test_without_a_file_lines_are_kept_and_removed_in_this_run(tmp_path, has_path):
    (tmp_path / "file").touch()
    warned: list[str] = []
    path = tmp_path / "file" / "history" if has_path else None
    history = open_history(path, lambda: False, warned.append)
    assert lines(history) == []
    history.append_string("one")
    history.append_string("two")

    history.remove({"one"})

    assert lines(history) == ["two"]
    assert warned == ([f"{path}: the history is not saved: File exists"] if has_path else [])


def test_a_private_line_is_kept_in_this_run_alone(tmp_path):
    path = tmp_path / "history"
    history = opened(path, private=True)
    assert lines(history) == []

    history.append_string("secret")

    assert lines(history) == ["secret"]
    assert path.read_bytes() == b""


@pytest.fixture
def open_umask():
    """What a program makes can be read by everybody, unless it says otherwise."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_lines_are_sealed_opened_and_sealed_with_another_key_for_their_owner_alone(tmp_path, open_umask):
    plain, sealed = tmp_path / "history", tmp_path / "sealed"
    one, other = (Sealer(MemoryKey(bytes([n]) * 32, bytes(16))) for n in (1, 2))
    for line in ("one", "two\nof two rows"):
        opened(plain).append_string(line)

    def sealed_lines(sealer: Sealer) -> list[str]:
        return list(open_history(sealed, lambda: False, pytest.fail, sealer).load_history_strings())

    def mode(path: Path) -> int:
        return path.stat().st_mode & 0o777

    seal_history(plain, sealed, one)
    assert (plain.exists(), mode(sealed)) == (False, 0o600)
    assert sealed_lines(one) == ["two\nof two rows", "one"]
    assert b"two" not in sealed.read_bytes()

    copy_history(sealed, one, other)
    assert sealed_lines(one) == ["two\nof two rows", "one"]
    assert [mode(copy) for copy in tmp_path.glob("sealed.*")] == [0o600]
    adopt_copy(sealed, other, plain)
    assert (mode(sealed), sealed_lines(other)) == (0o600, ["two\nof two rows", "one"])
    assert list(tmp_path.glob("sealed.*")) == []

    copy_history(sealed, other, None)
    assert [mode(copy) for copy in tmp_path.glob("sealed.*")] == [0o600]
    adopt_copy(sealed, None, tmp_path / "new" / "history")
    assert list(tmp_path.glob("sealed*")) == []
    assert mode(tmp_path / "new" / "history") == 0o600
    assert lines(opened(tmp_path / "new" / "history")) == ["two\nof two rows", "one"]


def test_an_empty_history_leaves_no_file(tmp_path):
    sealer = Sealer(MemoryKey(bytes(32), bytes(16)))
    plain, sealed = tmp_path / "history", tmp_path / "sealed"

    seal_history(plain, sealed, sealer)
    assert not sealed.exists()
    for new in (sealer, None):
        sealed.touch()
        copy_history(sealed, sealer, new)
        adopt_copy(sealed, new, plain)
        assert list(tmp_path.iterdir()) == []


def test_a_copy_for_a_memory_that_stayed_as_it_was_is_not_adopted(tmp_path):
    one, other = (Sealer(MemoryKey(bytes([n]) * 32, bytes(16))) for n in (1, 2))
    plain, sealed = tmp_path / "history", tmp_path / "sealed"
    opened(plain).append_string("one")
    seal_history(plain, sealed, one)
    before = sealed.read_bytes()

    for new in (None, other):
        copy_history(sealed, one, new)
        adopt_copy(sealed, one, plain)

    assert sealed.read_bytes() == before
    assert not plain.exists()
    drop_copies(sealed)
    assert list(tmp_path.iterdir()) == [sealed]


def test_lines_that_a_killed_run_has_moved_are_not_moved_twice(tmp_path):
    sealer = Sealer(MemoryKey(bytes(32), bytes(16)))
    plain, sealed = tmp_path / "history", tmp_path / "sealed"
    for line in ("one", "two", "three"):
        opened(plain).append_string(line)
    copy = plain.read_bytes()

    seal_history(plain, sealed, sealer)
    plain.write_bytes(copy)
    seal_history(plain, sealed, sealer)

    copy_history(sealed, sealer, None)
    for line in ("zero", "one", "two"):
        opened(plain).append_string(line)
    adopt_copy(sealed, None, plain)
    assert lines(opened(plain)) == ["three", "two", "one", "zero"]


def test_lines_of_a_third_key_stay_when_the_memory_gets_another_one(tmp_path):
    older, one, new = (Sealer(MemoryKey(bytes([n]) * 32, bytes(16))) for n in (1, 2, 3))
    plain, sealed = tmp_path / "history", tmp_path / "sealed"
    for line, sealer in (("first", older), ("second", one), ("third", older)):
        opened(plain).append_string(line)
        seal_history(plain, sealed, sealer)

    copy_history(sealed, one, new)
    adopt_copy(sealed, new, plain)

    assert (sealed_lines(sealed, older), sealed_lines(sealed, new)) == (["first", "third"], ["second"])
    assert (count_foreign_lines(sealed, new), count_foreign_lines(sealed, None)) == (2, 3)
    copy_history(sealed, new, None)
    adopt_copy(sealed, None, plain)
    assert lines(opened(plain)) == ["second"]
    for key in (new, None):  # the memory has a key of which there is no line
        copy_history(sealed, one, key)
        adopt_copy(sealed, key, plain)
        assert sealed_lines(sealed, older) == ["first", "third"]

"""Bytes of deleted files are gone for those, too, who have a file open, as they are on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd import kept_files
from shepherd.overwriting import remove, remove_tree, replace, temporary_file
from shepherd.paths import replacing

WORDS = b"words " * 1000


def written(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(WORDS)
    return path


def replaced_by_shorter(path: Path) -> None:
    with replacing(path, overwrites=True) as file:
        file.write(b"less")


@pytest.mark.parametrize(
    "delete",
    [
        remove,
        lambda path: remove_tree(path.parent),
        lambda path: replace(written(path.with_name("new")), path),
        replaced_by_shorter,
        kept_files.remove,
    ],
)
def test_deleted_and_replaced_files_are_overwritten(tmp_path: Path, delete: Callable[[Path], object]) -> None:
    path = written(tmp_path / "folder" / "file")
    with path.open("rb") as opened:
        delete(path)

        assert opened.read() == bytes(len(WORDS))


def test_a_file_with_another_name_is_not_overwritten(tmp_path: Path) -> None:
    path, link = written(tmp_path / "file"), tmp_path / "link"
    os.link(path, link)
    (tmp_path / "symbolic").symlink_to(link)

    assert remove(path)
    assert remove(tmp_path / "symbolic")
    assert not remove(path)

    assert link.read_bytes() == WORDS


def test_a_file_that_is_deleted_while_it_is_written_is_overwritten_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with temporary_file(path) as file:
        file.write(WORDS)
        file.flush()
        opened = path.open("rb")
        remove(path)
        file.write(WORDS)

    with opened:
        assert opened.read() == bytes(2 * len(WORDS))


def test_a_conversation_that_is_forgotten_while_it_is_written_is_overwritten(tmp_path: Path) -> None:
    owner, opened = kept_files.owner_of("memory.db", "anna"), []

    def write(file: object) -> None:
        [part] = (tmp_path / owner).glob("*.part")
        opened.append(part.open("rb"))
        kept_files.forget(owner, root=tmp_path)
        file.write(WORDS)  # type: ignore[attr-defined]

    assert kept_files.put(tmp_path, owner, write, asked_at=time.time()) is None
    with opened[0] as file:
        assert file.read() == bytes(len(WORDS))

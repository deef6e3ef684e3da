"""Codes of SQLite and of the operating system, as errors that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shepherd._native.store import SQLiteError
from shepherd.errors import (
    InternalError,
    ShepherdError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
)
from shepherd.memory.failures import from_os_error, from_sqlite_error


@pytest.mark.parametrize(
    ("code", "error", "hint"),
    [
        (5, StoreLockedError, "wait for it to finish"),
        (6, StoreLockedError, "wait for it to finish"),
        (5 | 2 << 8, StoreLockedError, "wait for it to finish"),
        (13, StoreFullError, "free some disk space"),
        (8, StoreReadOnlyError, "write permission"),
        (3, StoreReadOnlyError, "write permission"),
        (11, StoreCorruptError, "shepherd memory check"),
        (26, StoreCorruptError, "shepherd memory restore"),
        (14, StoreError, "its folder exists"),
        (10 | 3 << 8, StoreError, "check the disk"),
        (21, StoreError, "open a new Memory"),
        (1, InternalError, "please report"),
    ],
)
def test_a_code_of_sqlite_is_an_error_with_its_remedy(
    tmp_path: Path, code: int, error: type[ShepherdError], hint: str
) -> None:
    path = str(tmp_path / "memory.db")

    found = from_sqlite_error(path, SQLiteError(code, "a message"))

    assert type(found) is error
    assert hint in found.hint
    assert str(found).startswith(f"{path}: ")


@pytest.mark.parametrize("code", [10, 14])
@pytest.mark.parametrize(("free_bytes", "is_full"), [(64 * 1024 - 1, True), (64 * 1024, False)])
def test_a_failure_of_a_full_disk_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, free_bytes: int, is_full: bool
) -> None:
    (tmp_path / "memory.db").write_bytes(b"x")
    usage = type("Usage", (), {"free": free_bytes})()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)

    found = from_sqlite_error(str(tmp_path / "memory.db"), SQLiteError(code, "disk I/O error"))

    assert isinstance(found, StoreFullError) is is_full


@pytest.mark.parametrize("end", ["", "-wal"])
@pytest.mark.parametrize(("limit", "is_full"), [(99 + 64 * 1024, True), (100 + 64 * 1024, False)])
def test_a_limit_of_file_sizes_is_told_as_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, limit: int, is_full: bool
) -> None:
    (tmp_path / "memory.db").write_bytes(b"x")
    (tmp_path / f"memory.db{end}").write_bytes(b"x" * 100)
    monkeypatch.setattr("resource.getrlimit", lambda which: (limit, limit))

    found = from_sqlite_error(str(tmp_path / "memory.db"), SQLiteError(10, "disk I/O error"))

    assert isinstance(found, StoreFullError) is is_full


@pytest.mark.parametrize(
    ("number", "error", "told"),
    [
        (errno.EACCES, StoreReadOnlyError, "cannot be written"),
        (errno.EPERM, StoreReadOnlyError, "cannot be written"),
        (errno.EROFS, StoreReadOnlyError, "cannot be written"),
        (errno.ENOSPC, StoreFullError, "no space left"),
        (errno.EDQUOT, StoreFullError, "no space left"),
        (errno.EFBIG, StoreFullError, "no space left"),
        (errno.EEXIST, StoreError, "a file is in the place of its folder"),
        (errno.ENOTDIR, StoreError, "a file is in the place of its folder"),
        (errno.ELOOP, StoreError, os.strerror(errno.ELOOP)),
    ],
)
def test_a_refusal_of_the_system_is_an_error_with_its_remedy(
    number: int, error: type[ShepherdError], told: str
) -> None:
    found = from_os_error("/data/memory.db", OSError(number, os.strerror(number)))

    assert type(found) is error
    assert str(found).startswith("/data/memory.db: ")
    assert told in str(found)
    assert found.hint

"""What is not ours is refused with a clear message, and every byte of it is as it was."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd._native.store import Connection
from shepherd.errors import ForeignDatabaseError, ShepherdError, StoreError, UsageError
from shepherd.memory import Memory
from shepherd.memory.schema import USER_VERSION

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def make(path: Path, script: str) -> None:
    with Connection(str(path)) as connection:
        connection.script(script)


def refusal(path: Path, *, read_only: bool = False) -> ShepherdError:
    """The error of opening `path`, after making sure that nothing in its folder has changed."""
    before = files(path.parent)
    with pytest.raises(ShepherdError) as caught:
        Memory(path, read_only=read_only)
    assert files(path.parent) == before
    assert str(path) in str(caught.value)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE notes(text)",
        "PRAGMA journal_mode = WAL; CREATE TABLE notes(text)",
        "PRAGMA application_id = 42",
        "PRAGMA application_id = 42; CREATE TABLE context(id)",
        "PRAGMA user_version = 3",
        "CREATE TABLE context(id)",
        "PRAGMA page_size = 512; BEGIN;" + "".join(f"CREATE TABLE t{n}(x);" for n in range(99)) + "COMMIT",
    ],
)
def test_database_of_another_program_is_refused(path: Path, script: str, read_only: bool) -> None:
    make(path, script)

    error = refusal(path, read_only=read_only)

    assert isinstance(error, ForeignDatabaseError)
    assert "another program" in str(error)


@pytest.mark.parametrize("version", [USER_VERSION + 1, 1000, 2**31 - 1])
def test_newer_shepherd_database_is_refused(path: Path, version: int) -> None:
    Memory(path).close()
    make(path, f"PRAGMA user_version = {version}")

    error = refusal(path)

    assert isinstance(error, ForeignDatabaseError)
    assert f"newer Shepherd: format {version}" in str(error)


def test_newer_version_that_is_still_in_the_log_is_refused(path: Path, run_python: RunPython) -> None:
    Memory(path).close()
    program = (
        "import os, sys; from shepherd._native.store import Connection;"
        "c = Connection(sys.argv[1]); c.execute('PRAGMA user_version = 9'); os._exit(0)"
    )
    assert run_python(program, path).returncode == 0
    kept = {name: path.with_name(name).read_bytes() for name in ("memory.db", "memory.db-wal")}

    with pytest.raises(ForeignDatabaseError, match="newer Shepherd: format 9"):
        Memory(path)

    assert {name: path.with_name(name).read_bytes() for name in kept} == kept


def test_log_of_another_program_is_neither_recovered_nor_copied(
    path: Path, run_python: RunPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, sys; from shepherd._native.store import Connection; c = Connection(sys.argv[1]);"
        "c.script('CREATE TABLE notes(text); PRAGMA journal_mode = WAL; INSERT INTO notes VALUES(1)');"
        "os._exit(0)"
    )
    assert run_python(program, path).returncode == 0
    path.with_name("memory.db-shm").unlink()
    monkeypatch.setattr("tempfile.tempdir", str(path.parent / "missing"))

    assert "another program" in str(refusal(path))
    assert path.with_name("memory.db-wal").stat().st_size > 0


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"hello, this is a letter, not a database. " * 10,
        b"SQLite format 3\0",
        b"\0" * 4096,
        b"GGUF" * 999,
    ],
)
def test_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    error = refusal(path)

    assert isinstance(error, ForeignDatabaseError)
    assert "not a database" in str(error)


def test_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    error = refusal(folder)

    assert isinstance(error, StoreError)
    assert "folder" in str(error)


def test_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(StoreError, match="in the place of its folder"):
        Memory(tmp_path / "file" / "memory.db")


def test_pipe_is_refused_without_waiting_for_it(path: Path) -> None:
    os.mkfifo(path)

    with pytest.raises(StoreError, match="not a regular file"):
        Memory(path)


def test_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()

    with Memory(path) as memory:
        assert memory.store_memory("q", "a")


def test_empty_database_becomes_ours(path: Path) -> None:
    make(path, "CREATE TABLE gone(x); DROP TABLE gone")

    with Memory(path) as memory:
        assert memory.store_memory("q", "a")


def test_missing_folders_are_made_and_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "memory.db"

    Memory(path).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_log_is_as_private_as_the_database(path: Path) -> None:
    with Memory(path) as memory:
        memory.store_memory("q", "a")

        assert stat.S_IMODE(Path(f"{path}-wal").stat().st_mode) == 0o600


def test_missing_database_cannot_be_opened_for_reading(path: Path) -> None:
    with pytest.raises(StoreError, match="no such database"):
        Memory(path, read_only=True)
    assert not path.exists()


@pytest.mark.parametrize(
    ("database", "message"), [("postgresql://host:x/db", "PostgreSQL"), (":memory:", "needs a file")]
)
def test_databases_that_this_build_cannot_open_are_named(database: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Memory(database)


def test_empty_path_is_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    Memory("").close()

    assert (tmp_path / "shepherd" / "memory.db").exists()


def test_second_memory_of_a_process_does_not_drop_the_locks_of_the_first(
    path: Path, run_python: RunPython
) -> None:
    # POSIX drops all locks of a process on a file when it closes any descriptor of it. Another process could
    # then take itself for the last, and move away the log that the first one still writes to.
    shared = (0x40000002, 510)  # the bytes that SQLite locks for shared use (os_unix.c)
    try_exclusive = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b');"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))"
    )
    with Memory(path) as first:
        first.store_memory("q", "a")
        assert "BlockingIOError" in run_python(try_exclusive, path, *shared).stderr

        Memory(path).close()

        assert "BlockingIOError" in run_python(try_exclusive, path, *shared).stderr
    assert run_python(try_exclusive, path, *shared).returncode == 0

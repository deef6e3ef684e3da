"""The list of all files that Shepherd keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd import kept_files
from shepherd.config import Config
from shepherd.stored_files import copies_of_database, database_file, stored_files


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in (
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "SHEPHERD_CONFIG",
    ):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def test_every_file_is_listed_once_with_what_it_is(home: Path) -> None:
    data, state = home / ".local/share/shepherd", home / ".local/state/shepherd"
    expected = {
        write(data / "memory.db"): "database",
        write(data / "memory.db-wal"): "log of the database",
        write(data / "memory.db-hot/1"): "saved search index",
        write(data / "memory.db.before-restore"): "copy of the database",
        write(data / "anything"): "data",
        write(state / "history"): "lines typed at the prompt",
        write(state / "mcp-files.log"): "log",
        write(state / "new/kind"): "state",
        write(home / ".config/shepherd/config.json"): "configuration",
        write(home / ".cache/shepherd/hot-indexes/ab/1"): "saved search index",
        write(home / ".cache/shepherd/trials/0"): "cache",
    }
    write(home / ".cache/huggingface/hub/model.gguf")

    listed = stored_files(Config())

    assert {file.path: file.what for file in listed} == expected
    assert len(listed) == len(expected)
    assert listed[0].path.name == "memory.db"
    assert copies_of_database(Config()) == [data / "memory.db.before-restore"]


def test_a_database_elsewhere_comes_with_the_files_beside_it(home: Path) -> None:
    beside = [write(home / "work" / f"mine.db{end}") for end in ("", "-wal", "-hot/3", ".before-migration-2")]
    write(home / "work" / "mine.database")
    config = Config(memory_database=str(home / "work" / "mine.db"))

    assert {file.path for file in stored_files(config)} == set(beside)
    assert not stored_files(Config(memory_database="postgresql://example/x"))
    assert copies_of_database(Config(memory_database="postgresql://example/x")) == []


def test_files_beside_a_database_elsewhere_are_told_apart(home: Path) -> None:
    kinds = {
        "": "database",
        "-wal": "log of the database",
        "-shm": "log of the database",
        "-history": "lines typed at the prompt",
        "-key": "where the key of the memory comes from",
        "-hot/3": "saved search index",
        ".before-restore": "copy of the database",
        ".before-migration-2": "copy of the database",
        ".before-restore-wal": "copy of the database",
        ".before-restore-key": "where the key of the memory comes from",
        "-2026-11-29": "copy of the database",
        ".bak": "copy of the database",
        ".converting": "copy of the database",
    }
    expected = {write(home / "notes" / f"mine[1].db{end}"): what for end, what in kinds.items()}
    config = Config(memory_database="~/notes/mine[1].db")
    # One that is not readable as a text.
    (home / "notes" / "mine[1].db.bak").write_bytes(bytes(8))

    assert {file.path: file.what for file in stored_files(config)} == expected
    assert [path.name for path in copies_of_database(config)] == [
        "mine[1].db.bak",
        "mine[1].db.before-migration-2",
        "mine[1].db.before-restore",
    ]
    assert database_file(config) == home / "notes" / "mine[1].db"
    assert database_file(Config(memory_database="postgresql://example/x")) is None


def test_kept_conversations_are_listed_as_such(home: Path) -> None:
    kept = write(kept_files.folder() / "0123abcd" / "4567.state")

    assert {file.path: file.what for file in stored_files(Config())}[kept] == "kept conversation"

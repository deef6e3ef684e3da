"""Settings that name something are checked before they are stored, and the memory's file is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shepherd.config import Config
from shepherd.errors import (
    ConfigError,
    ShepherdError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreMissingError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.factory import _retry_interval_s
from shepherd.memory_factory import (
    is_memory_encrypted,
    memory_file,
    open_memory_or_read_only,
    open_memory_or_warn,
    open_memory_to_read,
)
from shepherd.setting_checks import check_setting


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SHEPHERD_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    folder = tmp_path / ".config" / "shepherd"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"providers": {"work": {"kind": "openai"}}}))
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"files": {"command": "x"}}}))
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"provider": "work"}, "provider"),
        ({"provider": ""}, "provider"),
        ({"mcp_servers": "files"}, "mcp_servers"),
        ({"mcp_servers": ""}, "mcp_servers"),
        ({"memory_database": ""}, "memory_database"),
        ({"memory_database": "~/new.db"}, "memory_database"),
        ({"memory_database": "postgresql://host/db"}, "memory_database"),
        ({"memory_database": "postgres://host/db"}, "memory_database"),
        ({"memory_vectors": "off"}, "memory_vectors"),
        ({"memory_vectors": "http://127.0.0.1:1/v1"}, "memory_vectors"),
        ({"memory_vectors": "~/model.gguf"}, "memory_vectors"),
        ({"knowledge_reranker": "hf:some/model"}, "knowledge_reranker"),
        (
            {"memory_extraction_model": "gpt", "memory_extraction_endpoint": "http://127.0.0.1:1"},
            "memory_extraction_model",
        ),
        ({"model": "~/model.gguf"}, "model"),
    ],
)
def test_what_is_there_can_be_set(settings: dict[str, str], key: str) -> None:
    check_setting(Config(**settings), key)


@pytest.mark.parametrize(
    ("key", "value", "told", "hint"),
    [
        ("provider", "wrok", "provider", "work"),
        ("mcp_servers", "fils", "no server 'fils'", "there are: files"),
        ("memory_database", "mysql://host/db", "only postgresql", ""),
        ("memory_database", "~/.config", "is a folder", "memory.db"),
        ("memory_database", "~/none/memory.db", "there is no folder", "created when something is remembered"),
        ("memory_vectors", "http://", "memory_vectors is not an HTTP address", "http://127.0.0.1"),
        (
            "memory_vectors",
            "~/none.gguf",
            "there is no such file",
            "name a GGUF file or a server in memory_vectors",
        ),
        (
            "knowledge_reranker",
            "~/none.gguf",
            "there is no such file",
            "name a GGUF file in knowledge_reranker",
        ),
        ("memory_extraction_model", "~/none.gguf", "there is no such file", "or unset it"),
        ("server_embeddings", "~/none.gguf", "there is no such file", "made for embeddings"),
        ("model", "~/none.gguf", "there is no such file", "-m or the setting 'model'"),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(key: str, value: str, told: str, hint: str) -> None:
    with pytest.raises(ShepherdError, match=told) as caught:
        check_setting(Config(**{key: value}), key)

    assert isinstance(caught.value, (UsageError, ConfigError))
    assert hint in caught.value.hint


def test_the_memory_of_the_settings_is_found(home: Path) -> None:
    assert memory_file(Config()) == home / ".local/share/shepherd/memory.db"
    assert memory_file(Config(memory_database="~/mine.db")) == home / "mine.db"
    assert memory_file(Config(memory_database="postgresql://host/db")) is None
    assert not is_memory_encrypted(Config())


def test_a_command_that_only_reads_creates_no_memory(home: Path) -> None:
    with pytest.raises(StoreMissingError, match=f"{home}/mine.db"):
        open_memory_to_read(Config(memory_database="~/mine.db"))

    assert not (home / "mine.db").exists()


def test_a_command_that_only_reads_opens_what_is_there_and_a_lasting_process_makes_it(home: Path) -> None:
    with open_memory_to_read(Config(user_id="steve")) as memory:
        assert memory.get_all_facts() == []
    assert not memory_file(Config()).exists()
    with open_memory_to_read(Config(user_id="steve"), creates=True) as memory:
        memory.set_fact("name", "Steve")

    with open_memory_to_read(Config(user_id="steve", memory_database=str(memory_file(Config())))) as memory:
        assert memory.get_fact("name") == "Steve"


@pytest.mark.parametrize(
    "error", [StoreLockedError("busy", hint="wait"), StoreFullError("full", hint="wait")]
)
def test_a_conversation_goes_on_without_a_memory_that_is_busy_or_full(error, monkeypatch):
    warnings: list[tuple[str, str]] = []

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("shepherd.memory_factory.open_memory", fails)
    opened = open_memory_or_warn(Config(), lambda message, hint: warnings.append((message, hint)))

    assert opened == (None, False)
    assert warnings == [(f"no memory: {error}", "wait")]


@pytest.mark.parametrize(
    ("hint", "told"),
    [("", "--nomemory chats without it"), ("repair it", "repair it; --nomemory chats without it")],
)
def test_a_damaged_memory_ends_the_start_with_the_way_around_it(hint, told, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise StoreCorruptError("damaged", hint=hint)

    monkeypatch.setattr("shepherd.memory_factory.open_memory", fails)
    with pytest.raises(StoreCorruptError, match="damaged") as caught:
        open_memory_or_warn(Config(), lambda message, hint: None)

    assert caught.value.hint == told


def test_a_memory_that_cannot_be_written_is_read(monkeypatch):
    warnings: list[tuple[str, str]] = []
    opened = object()

    def opens(config: Config, *, read_only: bool = False, warn: object = None) -> object:
        if read_only:
            return opened
        raise StoreReadOnlyError("no right to write", hint="chmod")

    monkeypatch.setattr("shepherd.memory_factory.open_memory", opens)

    assert open_memory_or_read_only(Config(), lambda *told: warnings.append(told)) == (opened, False)
    assert warnings == [("the memory is read-only, so nothing new is stored: no right to write", "chmod")]


def test_a_memory_that_cannot_be_read_either_has_the_first_reason(monkeypatch):
    def fails(config: Config, *, read_only: bool = False, warn: object = None) -> None:
        raise StoreError("cannot be read") if read_only else StoreReadOnlyError("no right to write")

    monkeypatch.setattr("shepherd.memory_factory.open_memory", fails)
    with pytest.raises(StoreReadOnlyError, match="no right to write"):
        open_memory_or_read_only(Config(), lambda message, hint: None)


def test_the_interval_of_retries_is_that_of_the_file_as_long_as_it_can_be_read(home):
    file = home / ".config" / "shepherd" / "config.json"
    before = Config(memory_extraction_retry_interval=7)

    file.write_text('{"memory_extraction_retry_interval": 5}')
    assert _retry_interval_s(before) == 5
    file.write_text("{")
    assert _retry_interval_s(before) == 7

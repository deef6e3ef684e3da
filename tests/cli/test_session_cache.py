"""--session-cache: a chat that is started again reads nothing twice; files that do not fit cost a warning."""

from __future__ import annotations

import json

import pytest

from shepherd.factory import persistent_kv_cache
from shepherd.inference import Engine
from shepherd.memory import Memory
from shepherd.types import Message

REQUEST = json.dumps({"prompt": "My dog is called Rex"}) + "\n"


def stats(done):
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return next(line["stats"] for line in lines if "stats" in line)


def test_a_second_start_reads_what_is_new_only(shepherd, model, tmp_path):
    options = ("chat", "-m", model, "--json", "--nomemory", "--session-cache", tmp_path / "session")
    first = stats(shepherd(*options, input=REQUEST))

    second = shepherd(*options, input=REQUEST)

    assert first["reused_tokens"] == 0
    # One token is always decoded, for what comes after it.
    assert stats(second)["decoded_tokens"] == 1
    assert second.stderr == ""


def test_a_damaged_file_is_said_and_written_anew(shepherd, model, tmp_path):
    path = tmp_path / "session"
    options = ("-m", model, "-e", "hello", "--nomemory", "--session-cache", path)
    shepherd(*options)
    path.write_bytes(path.read_bytes()[:-5])

    damaged, repaired = shepherd(*options), shepherd(*options)

    assert damaged.returncode == 0
    assert "is damaged" in damaged.stderr
    assert repaired.stderr == ""


def test_a_file_that_is_none_is_left_alone(shepherd, model, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes")

    done = shepherd("-m", model, "-e", "hello", "--nomemory", "--session-cache", path)

    assert done.returncode == 0
    assert "not a session cache" in done.stderr
    assert path.read_text() == "my notes"


def test_what_was_forgotten_is_not_in_the_file(shepherd, model, tmp_path):
    path = tmp_path / "session"
    shepherd("-m", model, "--session-cache", path, "-e", "hello")
    interrupted, notes = tmp_path / ".session.abcdefgh", tmp_path / ".session.swp"
    interrupted.write_bytes(path.read_bytes())
    notes.write_text("another program's")
    memory_id = shepherd("memory", "add", "a?", "b").stdout.strip()
    assert path.exists()

    done = shepherd("memory", "forget", memory_id, "--receipt")

    assert f"deleted      {path}\n" in done.stdout
    assert not path.exists()
    assert not interrupted.exists()
    assert notes.exists()
    path.write_text("my notes")
    memory_id = shepherd("memory", "add", "a?", "b").stdout.strip()
    assert shepherd("memory", "forget", memory_id).returncode == 0
    assert path.read_text() == "my notes"


@pytest.mark.parametrize("forgets", [True, False])
def test_a_chat_in_which_something_was_forgotten_saves_no_file(model, tmp_path, monkeypatch, forgets):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, warned = tmp_path / "session", []
    with (
        Memory(tmp_path / "memory.db") as memory,
        Memory(tmp_path / "memory.db") as other,
        Engine(model) as engine,
        persistent_kv_cache(engine, path, lambda *warning: warned.append(warning), memory),
        engine.generate([Message("user", "hello")], max_tokens=4) as reply,
    ):
        assert "".join(reply)
        other.set_fact("pet", "Rex")
        other.clear_fact("pet", with_history=forgets)

    assert path.exists() != forgets
    assert not warned

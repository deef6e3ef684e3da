"""Where the lines typed at the prompt are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.commands import history_place as places
from shepherd.commands.history_place import history_place, sealed_history_file
from shepherd.config import Config
from shepherd.encryption import Sealer
from shepherd.paths import history_file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SHEPHERD_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_history_is_the_users_own_file_beside_a_plain_memory():
    assert history_place(Config(), with_memory=True) == (history_file(), None)
    assert history_place(Config(memory_database="postgresql://host/db"), with_memory=True) == (
        history_file(),
        None,
    )


def test_history_is_sealed_beside_an_encrypted_memory(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(places, "is_memory_encrypted", lambda config: True)
    file = home / ".local/share/shepherd/memory.db"
    monkeypatch.setattr(places, "key_of_file", lambda path: bytes(32) if path == str(file) else None)
    config = Config(user_id="anna")

    path, sealer = history_place(config, with_memory=True)

    assert path == sealed_history_file(file) == Path(f"{file}-history")
    assert isinstance(sealer, Sealer)
    assert history_place(config, with_memory=False) == (None, None)
    assert history_place(replace(config, memory_database="~/other.db"), with_memory=True) == (None, None)

"""`shepherd encrypt` that ends too early: no key is lost, and no line of the history."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd import kept_files, system_keyring
from shepherd._native.store import HAS_CIPHERS
from shepherd.cli.main import main
from shepherd.commands.history import open_history
from shepherd.memory import conversion
from tests.memory.blind import forget_keys

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A keyring of the system, by the names of its keys."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(system_keyring, "is_usable", lambda: True)
    monkeypatch.setattr(system_keyring, "store", lambda name, value, instead: kept.update({name: value}))
    monkeypatch.setattr(system_keyring, "lookup", lambda name: kept.get(name, ""))
    monkeypatch.setattr(system_keyring, "forget", lambda name: kept.pop(name, None))
    return kept


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    path = tmp_path / "memory.db"
    assert main(["memory", "add", "Which bird?", "a finch", "--memory-db", str(path)]) == 0
    yield path
    forget_keys()


def interrupted(monkeypatch: pytest.MonkeyPatch, path: Path, *arguments: str) -> int:
    """Encrypt, and press Ctrl-C while the bytes of the old database are overwritten."""

    overwrite = conversion._overwrite

    def overwrite_until_replaced(descriptor: int) -> bool:
        if Path(f"{path}-key").exists():  # written when the new database is in its place
            raise KeyboardInterrupt
        return overwrite(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_overwrite", overwrite_until_replaced)
        code = main(["encrypt", "-y", "--memory-db", str(path), *arguments])
    forget_keys()  # the next command is another process
    return code


def test_the_key_of_an_encrypted_memory_stays_in_the_keyring(database, keyring, monkeypatch, capsys):
    assert interrupted(monkeypatch, database, "--keyring") == 130
    assert len(keyring) == 1

    assert main(["memory", "list", "--memory-db", str(database)]) == 0
    assert "a finch" in capsys.readouterr().out


def test_a_key_that_no_memory_has_is_removed_from_the_keyring(database, keyring, monkeypatch, capsys):
    monkeypatch.setattr(conversion, "convert", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))

    assert main(["encrypt", "-y", "--memory-db", str(database), "--keyring"]) == 130
    assert keyring == {}
    assert main(["memory", "list", "--memory-db", str(database)]) == 0


def test_the_next_run_deletes_conversations_that_were_left(database, monkeypatch, tmp_path):
    left = kept_files.folder() / "owner" / "1.state"
    left.parent.mkdir(parents=True)
    left.write_text("what was said")
    assert interrupted(monkeypatch, database, "--key-file", str(tmp_path / "key")) == 130

    assert main(["encrypt", "-y", "--memory-db", str(database), "--key-file", str(tmp_path / "key")]) == 0

    assert not left.exists()


def test_lines_that_the_disk_has_no_room_for_stay_in_the_plain_file(database, monkeypatch, tmp_path):
    from shepherd.paths import history_file

    open_history(history_file(), lambda: False, print).store_string("my line")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: len(data) // 2]))
        code = main(["encrypt", "-y", "--memory-db", str(database), "--key-file", str(tmp_path / "key")])

    assert code == 1

    assert "my line" in history_file().read_text()

"""`shepherd encrypt` and `decrypt` that end too early: no key is lost, and no line of the history."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd import kept_files, system_keyring
from shepherd._native.store import HAS_CIPHERS
from shepherd.cli.main import main
from shepherd.commands.history import open_history
from shepherd.commands.history_place import history_place
from shepherd.config import Config
from shepherd.memory import conversion
from shepherd.memory_factory import open_memory
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

    overwrite = conversion.overwrite

    def overwrite_until_replaced(descriptor: int) -> bool:
        if Path(f"{path}-key").exists():  # written when the new database is in its place
            raise KeyboardInterrupt
        return overwrite(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "overwrite", overwrite_until_replaced)
        code = main(["encrypt", "-y", "--memory-db", str(path), *arguments])
    forget_keys()  # the next command is another process
    return code


def test_the_key_of_an_encrypted_memory_stays_in_the_keyring(database, keyring, monkeypatch, capsys):
    assert interrupted(monkeypatch, database, "--keyring") == 130
    assert len(keyring) == 1

    assert main(["memory", "list", "--memory-db", str(database)]) == 0
    assert "a finch" in capsys.readouterr().out


def test_a_key_that_no_memory_has_is_removed_from_the_keyring(database, keyring, monkeypatch, capsys):
    monkeypatch.setattr(conversion, "convert", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))

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


_CHANGES = ("write", "fsync", "replace", "rename", "unlink", "remove")


def killed(at: int, *arguments: str) -> bool:
    """Run a command in a process that is killed before its nth change of a file; return whether it was."""
    pid = os.fork()
    if pid == 0:
        left = at

        def dying(call: Callable[..., object]) -> Callable[..., object]:
            def change(*given: object, **named: object) -> object:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **named)

            return change

        for name in _CHANGES:
            setattr(os, name, dying(getattr(os, name)))
        os._exit(main(list(arguments)))
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


def lines_at_the_prompt(database: Path) -> list[str]:
    """Return the lines that a chat with this memory has, the oldest first."""
    config = Config(memory_database=str(database), memory_vectors="off")
    with open_memory(config):
        lines = list(open_history(*_place(config)).load_history_strings())
        assert list(database.parent.glob("memory.db-history.*")) == []
    forget_keys()
    return lines[::-1]


def _place(config: Config) -> tuple[object, ...]:
    path, sealer = history_place(config, with_memory=True)
    return path, lambda: False, pytest.fail, sealer


@pytest.mark.parametrize("command", ["decrypt", "rekey", "encrypt"])
def test_a_kill_at_any_moment_leaves_each_line_of_the_history(database, tmp_path, command, capsys):
    from shepherd.paths import history_file

    arguments = ["-y", "--memory-db", str(database)]
    for line in ("my line", "two\nrows"):
        open_history(history_file(), lambda: False, pytest.fail).store_string(line)
    if command == "encrypt":
        arguments = ["encrypt", *arguments, "--key-file", str(tmp_path / "new.key")]
    else:
        assert main(["encrypt", *arguments, "--key-file", str(tmp_path / "old.key")]) == 0
        forget_keys()
        rekeyed = ["encrypt", *arguments, "--rekey", "--key-file", str(tmp_path / "new.key")]
        arguments = ["decrypt", *arguments] if command == "decrypt" else rekeyed
    before = tmp_path.parent / f"{tmp_path.name}-before"
    shutil.copytree(tmp_path, before)
    at = 1
    while killed(at, *arguments):
        # A chat begins, or the command is run again, or both.
        if at % 3 and command != "encrypt":
            assert lines_at_the_prompt(database) == ["my line", "two\nrows"], at
        if at % 3 != 1:
            # A new key needs another file than the one that the killed run may have made.
            again = (
                [one.replace("new.key", "newer.key") for one in arguments]
                if command == "rekey"
                else arguments
            )
            assert main(again) == 0
            forget_keys()
            assert lines_at_the_prompt(database) == ["my line", "two\nrows"], at
        shutil.rmtree(tmp_path)
        shutil.copytree(before, tmp_path)
        at += 1
    assert at > 10

"""What can be read beside a memory that became encrypted, in this process, with a key in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd._native.store import HAS_CIPHERS
from shepherd.cli.main import main
from shepherd.commands.history import sealed_lines
from shepherd.commands.history_place import history_place, sealed_history_file
from shepherd.config import Config
from shepherd.encryption import Sealer, set_when_made
from shepherd.memory import Memory
from shepherd.memory.database import key_of_file
from shepherd.paths import cache_dir, default_database, history_file
from tests.memory.blind import forget_keys

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")

WORD = "Quixlemont"
LINE = f"My cat is {WORD}"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Iterator[Path]:
    """The home folder of user steve, with a key, and with the word in what is beside a memory."""
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    (tmp_path / "key").write_text("ab" * 32)
    kept = cache_dir() / "conversations" / "owner" / "1.state"
    logs = [history_file().with_name(name) for name in ("mcp-files.log", "crash-20261129-101112-7.log")]
    for file in (kept, *logs):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(WORD)
    history_file().write_text(f"\n# 1\n+{LINE}\n\n# 2\n+hello\n")
    yield tmp_path
    set_when_made(None)
    forget_keys()


@pytest.fixture
def work(home) -> str:
    """Path of another memory, with the word in it until it is encrypted."""
    path = home / "work.db"
    with Memory(path, user_id="steve") as memory:
        memory.store_memory(LINE, "I see.")
    return str(path)


def files_with_word(home: Path) -> list[str]:
    return sorted(
        file.name for file in home.rglob("*") if file.is_file() and WORD.encode() in file.read_bytes()
    )


def sealed(database: Path) -> list[str]:
    key = key_of_file(str(database))
    assert key is not None
    return sealed_lines(sealed_history_file(database), Sealer(key))


def said(capsys) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_an_encrypted_backup_leaves_nothing_readable_of_a_plain_memory(home, capsys):
    elsewhere, backup = str(home / "old.db"), str(home / "copy.db")
    with Memory(elsewhere, user_id="steve") as memory:
        memory.set_fact("bird", "a finch")
    with Memory(user_id="steve") as memory:
        memory.set_fact("bird", "an owl")
    assert main(["encrypt", "--memory-db", elsewhere, "--key-file", str(home / "key"), "-y"]) == 0
    assert main(["memory", "backup", "--memory-db", elsewhere, backup]) == 0
    (cache_dir() / "conversations" / "owner" / "1.state").write_text(WORD)
    history_file().with_name("mcp-files.log").write_text(WORD)
    capsys.readouterr()

    assert main(["memory", "restore", backup, "-y"]) == 0

    assert files_with_word(home) == []
    assert sealed(default_database()) == [LINE, "hello"]
    assert "memory.db.before-restore is an older copy of this memory, and not encrypted" in said(capsys)


def test_a_new_blind_memory_leaves_nothing_readable(home, monkeypatch, capsys):
    monkeypatch.setenv("SHEPHERD_MEMORY_BLIND", "true")
    monkeypatch.setenv("SHEPHERD_MEMORY_KEY_FILE", str(home / "key"))

    assert main(["facts", "set", "bird", "finch"]) == 0

    assert files_with_word(home) == []
    assert sealed(default_database()) == [LINE, "hello"]
    # A history that comes later, as from another computer, is sealed by what uses it next.
    history_file().write_text("\n# 3\n+bye\n")
    history_place(Config(), with_memory=True)
    assert sealed(default_database()) == [LINE, "hello", "bye"]
    assert not history_file().exists()


def test_encrypting_another_memory_leaves_the_usual_one_alone(home, work, capsys):
    with Memory(user_id="steve") as memory:
        memory.set_fact("bird", "an owl")

    assert main(["encrypt", "--memory-db", work, "--key-file", str(home / "key"), "-y"]) == 0

    err = said(capsys)
    assert f"{default_database()} is another memory, and not encrypted shepherd encrypt encrypts it" in err
    assert f"{history_file()} has the lines typed in all memories that are not encrypted" in err
    assert files_with_word(home) == ["history"]


def test_a_memory_that_the_environment_names_takes_the_history_where_there_is_no_usual_one(
    home, work, monkeypatch
):
    monkeypatch.setenv("SHEPHERD_MEMORY_DATABASE", work)

    assert main(["encrypt", "--key-file", str(home / "key"), "-y"]) == 0

    assert files_with_word(home) == []
    assert sealed(Path(work)) == [LINE, "hello"]


def test_forgetting_in_an_encrypted_memory_reaches_the_plain_history(home, work):
    with Memory(user_id="steve") as memory:
        memory.set_fact("bird", "an owl")
    assert main(["encrypt", "--memory-db", work, "--key-file", str(home / "key"), "-y"]) == 0
    history_place(Config(memory_database=work), with_memory=True)
    assert files_with_word(home) == ["history"]

    assert main(["memory", "forget", "1", "--memory-db", work]) == 0
    assert main(["memory", "forget", "--everything", "--yes", "--memory-db", work]) == 0

    assert files_with_word(home) == []
    assert "+hello" in history_file().read_text()  # typed for the usual memory

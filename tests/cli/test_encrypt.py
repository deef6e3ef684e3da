"""`shepherd encrypt` and `decrypt`; a search of all files finds nothing while the memory is encrypted."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from shepherd._native.store import HAS_CIPHERS
from shepherd.cli import memory as memory_command
from shepherd.cli.main import main
from shepherd.encryption import MemoryKey
from shepherd.encryption.unlocking import remember
from shepherd.memory.database import key_of_file
from tests.cli.test_terminal import TURN_ENDED, start
from tests.memory.blind import forget_keys

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")

# As numbers in words that nothing else has; the first ones are stored by commands, the others are said.
WORDS = [f"canary{i:04}z" for i in range(200)]
PASSPHRASE = "correct horse battery"


def found_in(home) -> dict[str, set[str]]:
    """The canary words in all files of the home, by file."""
    found = {}
    for file in home.path.rglob("*"):
        if file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            words = {word for word in WORDS if word.encode() in data or word.encode("utf-16-le") in data}
            if words:
                found[str(file.relative_to(home.path))] = words
    return found


def use_everything(home, shepherd, model: Path) -> dict[str, set[str]]:
    """Store each word through a feature, and kill a chat; returns where they were found before that."""
    lines = "".join(f'{{"question": "{word}", "answer": "bird {word}"}}\n' for word in WORDS[:150])
    assert shepherd("memory", "import", input=lines).returncode == 0
    assert shepherd("facts", "set", "bird", WORDS[150]).returncode == 0
    assert shepherd("memory", "add", WORDS[151], WORDS[152]).returncode == 0
    document = home.path.parent / "document.md"
    document.write_text(f"# {WORDS[153]}\n\nThe bird {WORDS[154]} sings.\n")
    assert shepherd("knowledge", "import", str(document)).returncode == 0
    said = f"My birds are {' '.join(WORDS[155:170])}"
    assert shepherd("-m", model, "-e", said).returncode == 0
    chat = start(home, "-m", model)
    try:
        chat.prompt()
        for first in range(170, 200, 15):
            chat.type(f"My birds are {' '.join(WORDS[first : first + 15])}")
            chat.expect(TURN_ENDED)
            chat.prompt()
        during = found_in(home)
        os.kill(chat.child.pid, signal.SIGKILL)
    finally:
        chat.child.close(force=True)
    return during


def test_a_search_of_all_files_finds_nothing_while_the_memory_is_encrypted(home, shepherd, model):
    during = use_everything(home, shepherd, model)
    assert set().union(*during.values()) == set(WORDS)  # so the search works
    assert any("history" in name for name in during)

    assert list(home.path.rglob("*.state"))
    done = shepherd("encrypt", "--key-file", home.path / "key", "-y")
    assert done.returncode == 0, done.stderr
    assert found_in(home) == {}

    assert use_everything(home, shepherd, model) == {}
    assert found_in(home) == {}
    # What a model has read of a conversation has no words, but their tokens.
    assert not list(home.path.rglob("*.state"))
    copied = shepherd("memory", "backup", home.path / "copy.db")
    assert copied.returncode == 0
    assert f"the backup is encrypted. Keep {home.path / 'copy.db'}-key together with it." in copied.stderr
    assert f"you need the key file {home.path / 'key'}. Keep a copy of" in copied.stderr
    assert (home.path / "copy.db-key").exists()
    assert found_in(home) == {}
    exported = shepherd("memory", "export", home.path.parent / "mine.jsonl")
    assert "the file is not encrypted, and the memory is" in exported.stderr
    assert shepherd("facts", "get", "bird").stdout == f"{WORDS[150]}\n"

    assert shepherd("decrypt", "-y").returncode == 0
    assert set().union(*found_in(home).values()) == set(WORDS)
    assert not home.database.with_name("memory.db-history").exists()
    # Typed once before, and once while the memory was encrypted.
    assert home.history.read_text().count(WORDS[170]) == 2


def test_without_the_memory_nothing_that_is_said_is_written(home, shepherd, model):
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    assert shepherd("encrypt", "--key-file", home.path / "key", "-y").returncode == 0

    assert shepherd("-m", model, "--nomemory", "-e", f"I like {WORDS[0]}").returncode == 0
    chat = start(home, "-m", model, "--nomemory")
    chat.prompt()
    chat.type(f"I like {WORDS[1]}")
    chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type("/quit")
    chat.end()

    assert found_in(home) == {}


def test_a_passphrase_is_asked_for_once_in_a_chat(home, shepherd, model):
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    terminal = start(home, "encrypt", "--passphrase")
    for question in ("Nobody can read it without that.*New passphrase", "Repeat the passphrase"):
        terminal.expect(question)
        terminal.type(PASSPHRASE)
    assert "Nothing can replace the passphrase" in terminal.expect("forget it")
    assert terminal.end() == 0

    chat = start(home, "-m", model)
    chat.expect("Passphrase of .*memory.db: ")
    chat.type("not the one")
    chat.expect("That is not the passphrase")
    chat.type(PASSPHRASE)
    assert "1 memory" in chat.prompt()
    chat.type("/stats")
    chat.expect("memory  encrypted")
    chat.prompt()
    chat.type("/quit")
    assert chat.end() == 0

    for command in (("memory", "list"), ("mcp",), ("serve", "-m", str(model), "--port", "0")):
        done = shepherd(*command)
        assert done.returncode == 1
        assert "is encrypted, and its key is missing" in done.stderr
        assert "memory_key_command or memory_key_file" in done.stderr
    listed = shepherd("memory", "list", SHEPHERD_MEMORY_KEY_COMMAND=f"echo '{PASSPHRASE}'")
    assert "a finch" in listed.stdout


def test_doctor_and_stats_say_whether_the_memory_is_encrypted(home, shepherd, model):
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    assert "encryption     off" in shepherd("memory", "stats").stdout
    assert "; not encrypted" in shepherd("doctor", "-m", model).stdout

    assert shepherd("encrypt", "--key-file", home.path / "key", "-y").returncode == 0

    assert "encryption     on" in shepherd("memory", "stats").stdout
    assert "; encrypted" in shepherd("doctor", "-m", model).stdout
    (home.path / "key").rename(home.path / "moved")
    done = shepherd("doctor", "-m", model)
    assert done.returncode == 1
    assert "its key is missing" in done.stdout


def test_doctor_says_when_the_key_is_not_locked(home, shepherd, monkeypatch, capsys):
    key_file = home.path / "key"
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    assert shepherd("encrypt", "--key-file", key_file, "-y").returncode == 0
    for name, value in home.environment.items():
        monkeypatch.setenv(name, value)
    try:
        key = key_of_file(str(home.database))
        # As where RLIMIT_MEMLOCK is 0, which says nothing to root.
        key.is_locked = False
        main(["doctor"])
    finally:
        forget_keys()

    said = " ".join(capsys.readouterr().out.split())
    assert "its key can get into swap space" in said
    assert "ulimit -l" in said


@pytest.mark.parametrize("memory", ["plain", "open", "closed", "named"])  # all but the first encrypted
def test_a_crash_log_has_no_message_while_a_memory_is_encrypted(tmp_path, monkeypatch, memory):
    for kind in ("STATE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path))
    options = []
    database = tmp_path / "shepherd" / "memory.db"
    if memory == "open":
        remember(MemoryKey(b"k" * 32, b"s" * 16))
    elif memory == "named":
        database = tmp_path / "work.db"
        options = ["--memory-db", str(database)]
    if memory in ("closed", "named"):  # as with --nomemory, or before it is opened
        database.parent.mkdir(exist_ok=True)
        database.write_bytes(b"s" * 16 + bytes([16, 0, 2, 2, 64, 64, 32, 32]) + bytes(4072))

    def quote(arguments, screen) -> int:
        raise ValueError(WORDS[0])

    monkeypatch.setattr(memory_command, "execute", quote)
    try:
        assert main(["memory", "list", *options]) == 1
    finally:
        forget_keys()

    [written] = [file.read_text() for file in (tmp_path / "shepherd").glob("crash-*.log")]
    assert "in quote" in written
    assert "ValueError" in written
    assert (WORDS[0] in written) is (memory == "plain")


def test_what_is_still_readable_is_named(home, shepherd):
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    assert "encrypted" not in shepherd("memory", "backup", home.path / "copy.db").stderr
    assert shepherd("memory", "restore", home.path / "copy.db", "-y").returncode == 0

    done = shepherd("encrypt", "--key-file", home.path / "key", "-y")

    assert "memory.db.before-restore is an older copy of this memory, and not encrypted" in done.stderr
    again = shepherd("memory", "restore", home.path / "copy.db", "-y")
    assert "the memory is no longer encrypted" in again.stderr


def test_logs_and_leftovers_are_deleted_and_backups_are_named(home, shepherd):
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    backup = home.database.with_name("january.db")
    assert shepherd("memory", "backup", backup).returncode == 0
    home.history.parent.mkdir(parents=True, exist_ok=True)
    # Of an MCP server, of a crash, of a write of the history and of a restore that were killed.
    names = ("mcp-files.log", "crash-20261129-101112-7.log", ".history.x1y2z3_a")
    leftovers = [home.history.with_name(name) for name in names]
    for file in leftovers:
        file.write_text(WORDS[0])
    part = home.database.with_name("memory.db.part")
    part.write_bytes(backup.read_bytes())
    opened = leftovers[0].open()

    done = shepherd("encrypt", "--key-file", home.path / "key", "-y")

    said = " ".join(done.stderr.split())
    assert "january.db is a database of Shepherd, such as a backup, and not encrypted" in said
    assert not [file for file in (*leftovers, part) if file.exists()]
    with opened:
        assert WORDS[0] not in opened.read()
    # A restore that is killed later: the next one that writes removes what it has left.
    part.write_bytes(backup.read_bytes())
    assert "january.db" in shepherd("encrypt").stderr
    part.write_bytes(backup.read_bytes())
    assert shepherd("facts", "set", "bird", "finch").returncode == 0
    assert not part.exists()


def test_another_key_needs_another_file(home, shepherd):
    key, other = home.path / "key", home.path / "other"
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    assert shepherd("encrypt", "--rekey", "--key-file", key, "-y").returncode == 2
    assert not key.exists()
    assert shepherd("encrypt", "--key-file", key, "-y").returncode == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert "is encrypted already" in shepherd("encrypt", "--key-file", key, "-y").stderr

    assert "a new key needs a new file" in shepherd("encrypt", "--rekey", "--key-file", key, "-y").stderr
    before = home.database.read_bytes()[:16]
    assert shepherd("encrypt", "--rekey", "--key-file", other, "-y").returncode == 0

    key.unlink()
    assert home.database.read_bytes()[:16] != before
    assert "a finch" in shepherd("memory", "list").stdout


def test_history_that_a_crash_left_is_sealed_by_the_next_run(home, shepherd):
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    assert shepherd("encrypt", "--key-file", home.path / "key", "-y").returncode == 0
    home.history.parent.mkdir(parents=True, exist_ok=True)
    home.history.write_text(f"\n# 2026-11-27\n+I like {WORDS[0]}\n")

    assert shepherd("encrypt").returncode == 0

    assert found_in(home) == {}
    assert shepherd("decrypt", "-y").returncode == 0
    assert f"+I like {WORDS[0]}" in home.history.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("encrypt", "--passphrase"), "a passphrase can only be asked for at a terminal"),
        (("encrypt", "--key-file", "/dev/null"), "the file is empty, and should have the key"),
        (("encrypt", "--key-file", "short", "-y"), "the key is shorter than 8 characters"),
        (
            ("encrypt", "--memory-db", "postgresql://host/name"),
            "PostgreSQL, whose tables Shepherd cannot convert",
        ),
        (("encrypt", "--memory-db", "none.db"), "there is no such database"),
        (("decrypt",), "is not encrypted"),
    ],
)
def test_mistakes_change_nothing(home, shepherd, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("sesame\n")
    assert shepherd("memory", "add", "Which bird?", "a finch").returncode == 0
    before = home.database.read_bytes()

    assert message in re.sub(r"\s+", " ", shepherd(*arguments).stderr)

    assert home.database.read_bytes() == before


def test_a_blind_memory_in_a_file_is_encrypted_from_the_first_word_on(home, shepherd):
    key = home.path / "key"
    key.write_text("ab" * 32)
    assert shepherd("memory", "add", WORDS[0], WORDS[1]).returncode == 0
    assert shepherd("memory", "backup", home.path / "readable.db").returncode == 0
    blind = {"SHEPHERD_MEMORY_BLIND": "true", "SHEPHERD_MEMORY_KEY_FILE": str(key)}
    refused = shepherd("facts", "list", **blind)
    assert "the memory isn't encrypted, and memory_blind is on" in " ".join(refused.stderr.split())
    home.database.unlink()

    assert shepherd("facts", "set", "bird", WORDS[2], **blind).returncode == 0
    for command in (("decrypt", "-y"), ("memory", "restore", home.path / "readable.db", "-y")):
        done = shepherd(*command, **blind)
        assert done.returncode == 2
        assert "memory_blind is on" in " ".join(done.stderr.split())

    assert shepherd("facts", "get", "bird", **blind).stdout == f"{WORDS[2]}\n"
    assert not any(WORDS[2] in words for words in found_in(home).values())

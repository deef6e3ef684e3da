"""What `shepherd encrypt` and `decrypt` say and return, in this process, with a key in a file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd._native.store import HAS_CIPHERS
from shepherd.cli import decrypt, encrypt
from shepherd.cli.passphrases import ask_passphrase
from shepherd.commands.screen import Screen
from shepherd.encryption import use_settings
from shepherd.encryption.unlocking import forget_all
from shepherd.errors import ShepherdError, StoreFullError
from shepherd.memory import Memory
from shepherd.memory.database import is_encrypted

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Iterator[Path]:
    """The home folder of user steve, whose memory has one fact."""
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    with Memory(user_id="steve") as memory:
        memory.set_fact("bird", "a finch")
    yield tmp_path
    use_settings("", "")
    forget_all()


@pytest.fixture
def database(home) -> Path:
    return home / ".local" / "share" / "shepherd" / "memory.db"


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; an error is told as the program tells it."""
    screen = Screen(io.StringIO(), io.StringIO())
    command = {"encrypt": encrypt, "decrypt": decrypt}[words[0]]
    arguments = command.build_parser().parse_args(list(words[1:]))
    screen.as_json = arguments.json
    try:
        code = command.execute(arguments, screen)
    except ShepherdError as error:
        return error.exit_code, "", f"{error} | {error.hint}"
    return code, screen.out.getvalue(), screen.err.getvalue()


def fact() -> str | None:
    with Memory(user_id="steve") as memory:
        return memory.get_fact("bird")


def test_a_memory_is_encrypted_and_decrypted_with_the_key_in_a_file(home, database):
    key = home / "key"
    plain = f"{database}: the memory is not encrypted | shepherd encrypt encrypts it"
    assert run("encrypt", "--rekey", "-y") == (2, "", plain)
    assert run("decrypt") == (0, "", f"{database} is not encrypted\n")
    assert json.loads(run("decrypt", "--json")[1]) == {"file": str(database), "encrypted": False}

    assert run("encrypt", "--key-file", str(key), "-y") == (
        0,
        "",
        f"encrypted: {database}, with the key in {key}. Keep a copy of that file elsewhere: the memory and"
        " its backups cannot be read without it.\n",
    )
    assert is_encrypted(str(database))
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_text().splitlines()) == 1
    assert fact() == "a finch"

    again = "is encrypted already; shepherd encrypt --rekey gives it another key\n"
    assert run("encrypt", "--key-file", str(key)) == (0, "", f"{database} {again}")
    assert json.loads(run("encrypt", "--json")[1]) == {"file": str(database), "encrypted": True}
    exists = f"{key} already exists, and a new key needs a new file | --key-file names another file"
    assert run("encrypt", "--rekey", "--key-file", str(key), "-y") == (2, "", exists)
    other = home / "other"
    code, out, _ = run("encrypt", "--rekey", "--key-file", str(other), "-y", "--json")
    assert (code, json.loads(out)) == (
        0,
        {"file": str(database), "encrypted": True, "key": "file", "place": str(other)},
    )
    assert other.read_text() != key.read_text()
    key.unlink()
    forget_all()
    assert fact() == "a finch"

    assert run("decrypt", "-y") == (0, "", f"decrypted: {database}\n")
    assert not is_encrypted(str(database))
    assert fact() == "a finch"


def test_a_key_that_is_there_is_used(home, database):
    key = home / "key"
    key.write_text("ab" * 32 + "\n")
    key.chmod(0o600)
    use_settings("", "")

    assert run("encrypt", "--key-file", "~/key", "-y")[0] == 0

    assert key.read_text() == "ab" * 32 + "\n"
    assert is_encrypted(str(database))


def test_nothing_changes_without_a_yes(home, database, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def at_terminal(answer: str, *words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
        screen = Screen(io.StringIO(), Terminal())
        command = {"encrypt": encrypt, "decrypt": decrypt}[words[0]]
        code = command.execute(command.build_parser().parse_args(list(words[1:])), screen)
        return code, screen.err.getvalue()

    key = str(home / "key")
    code, said = at_terminal("n", "encrypt", "--key-file", key)
    assert code == 1
    assert f"Encrypt {database} (" in said
    assert "with the key in" in said
    assert "nothing was changed" in said
    assert not is_encrypted(str(database))
    assert not Path(key).exists()
    code, said = at_terminal("y", "encrypt", "--key-file", key)
    assert (code, is_encrypted(str(database))) == (0, True)
    code, said = at_terminal("n", "decrypt")
    assert code == 1
    assert f"Decrypt {database}? Then anyone who can read the file can read the memory." in said
    assert "nothing was changed" in said
    assert is_encrypted(str(database))


def test_what_is_still_readable_is_named(home, database):
    os.link(database, home / "link")
    copy = database.with_name("memory.db.before-restore")
    copy.write_bytes(database.read_bytes())
    database.with_name("memory.db.before-a-key").write_bytes(b"x")
    key = str(home / "key")

    err = run("encrypt", "--key-file", key, "-y")[2]

    assert "before-a-key" not in err
    assert "the bytes of the old database could not be overwritten: the file has another name" in err
    assert "delete hard links and snapshots of the file" in err
    assert f"{copy} is an older copy of this memory, and not encrypted" in err


def test_an_encrypted_memory_names_nothing_readable(home, database):
    err = run("encrypt", "--key-file", str(home / "key"), "-y")[2]

    assert "overwritten" not in err
    assert "older copy" not in err


def test_a_passphrase_is_asked_for_at_a_terminal_alone(monkeypatch):
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        if len(asked) == 2:
            raise EOFError
        return "" if len(asked) == 3 else "words"

    monkeypatch.setattr("getpass.getpass", answer)
    for stream in (None, io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        assert ask_passphrase("Which?") is None
    assert asked == []
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    assert [ask_passphrase("Which?") for _ in range(3)] == ["words", None, None]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["7 chars"], "the passphrase is shorter than 8 characters | use four words or more"),
        (["8 chars.", "8 chars"], "the two passphrases differ; nothing was changed | run the command"
                                          " again"),
        ([None], "a passphrase can only be asked for at a terminal | run this at a terminal, or name a file"
                 " with --key-file; --keyring uses the keyring"),
    ],
)  # fmt: skip
def test_a_passphrase_that_cannot_be_used_changes_nothing(database, monkeypatch, typed, words):
    monkeypatch.setattr("shepherd.cli.passphrases.ask_passphrase", lambda question: typed.pop(0))

    assert run("encrypt", "--passphrase") == (2, "", words)
    assert not is_encrypted(str(database))


def test_an_empty_passphrase_is_called_empty(database, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("getpass.getpass", lambda question: "")

    assert run("encrypt", "--passphrase") == (
        2,
        "",
        "the passphrase is empty; nothing was changed | run the command again, and type four words or more",
    )
    assert not is_encrypted(str(database))


def test_nothing_is_asked_while_another_program_has_the_memory_open(home, database, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr("shepherd.cli.passphrases.ask_passphrase", asked.append)
    monkeypatch.setattr("shepherd.cli.encrypt.agreed", lambda question, *_, **__: asked.append(question))
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM facts').fetchall()"
    )
    program += "; print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"open\n"
        before = database.read_bytes()
        code, _, said = run("encrypt", "--passphrase")
        other.stdin.write(b"\n")

    assert "another program has the memory open" in said
    assert (code != 0, asked) == (True, [])
    run("encrypt", "--passphrase")
    assert len(asked) == 1
    assert database.read_bytes() == before
    assert fact() == "a finch"


@pytest.mark.parametrize(
    "name", ["memory.db", "memory.db-key", "memory.db-wal", "memory.db.converting", "memory.db-hot/1"]
)
def test_a_key_is_not_kept_where_shepherd_writes(database, name):
    """It would be overwritten, and nobody could read the memory again."""
    place = database.parent / name
    there = place.exists()

    code, out, err = run("encrypt", "--key-file", str(place), "-y")

    assert (code, out) == (2, "")
    would = "Shepherd writes its own files there, and would lose the key"
    assert err == f"{place}: {would} | name a file in another folder"
    assert (place.exists(), is_encrypted(str(database)), fact()) == (there, False, "a finch")


def test_a_key_is_not_kept_in_the_folders_of_caches_and_states(database, home):
    for folder in (".local/state/shepherd", ".cache/shepherd/conversations"):
        assert run("encrypt", "--key-file", str(home / folder / "key"), "-y")[0] == 2
    assert not is_encrypted(str(database))


def test_a_new_key_file_goes_when_nothing_was_encrypted_with_it(home, database, monkeypatch):
    def convert(*arguments, **options):
        raise StoreFullError("no space left on the disk")

    monkeypatch.setattr("shepherd.memory.conversion.convert", convert)

    assert run("encrypt", "--key-file", str(home / "key"), "-y") == (1, "", "no space left on the disk | ")
    assert not (home / "key").exists()
    (home / "key").write_text("four words of mine")
    assert run("encrypt", "--key-file", str(home / "key"), "-y")[0] == 1
    assert (home / "key").exists()


def test_a_key_that_others_can_read_is_told(home, database):
    (home / "key").write_text("0123456789abcdef" * 4)
    (home / "key").chmod(0o644)

    code, _, err = run("encrypt", "--key-file", str(home / "key"), "-y")

    assert code == 0
    assert f"other users of this machine can use {home / 'key'}" in err


def test_a_key_is_not_kept_beside_a_link_to_the_memory_nor_in_the_settings(database, home, monkeypatch):
    linked = home / "linked" / "memory.db"
    (home / "linked" / "memory.db-hot").mkdir(parents=True)
    linked.symlink_to(database)
    places = [linked.parent / "memory.db-hot" / "key", database.parent / "memory.db.part"]
    places += [home / ".config" / "shepherd" / name for name in ("config.json", "mcp.json")]

    for place in places:
        code, out, err = run("encrypt", "--memory-db", str(linked), "--key-file", str(place), "-y")
        assert (code, out, place.exists()) == (2, "", False)
        assert "would lose the key" in err
